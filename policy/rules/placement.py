"""A node for every member, or which nodes fall short and why.

Pods of one shape are one class, and for one class the answer is exact. Of several, the one that fewest nodes take goes
first, each onto the fullest nodes that take it, so that whole nodes stay free for whole gangs; a class that falls short
is put first and tried again. So a yes is always true, and a no seldom false (tests/property/test_rules_placement.py).
A trial that fails leaves the pool as it was. May know the pool and the model.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from policy.rules.model import PodFacts, Shape
from policy.rules.pool import Matrix, Pool

_TRIES = 3  # orders of the classes


class NodesShort(msgspec.Struct, frozen=True):
    """Members that no node takes. `reasons` counts nodes; `empty_fit` is how many would fit if nothing ran."""

    wanted: int
    fit: int
    empty_fit: int
    shape: Shape
    reasons: dict[str, int]
    on: int = 0  # nodes that take at least one
    up_fit: int = 0  # how many would fit if, besides, every node were ready and uncordoned

    @property
    def never(self) -> bool:
        """Not even one member would fit on any node, were it up and empty."""
        return self.up_fit == 0


_Placed = list[tuple[int, PodFacts]]  # rows of the pool


def place(pool: Pool, pods: Sequence[PodFacts]) -> dict[str, str] | NodesShort:
    """A node for each pod, charged in the pool; or the shortage, with the pool as it was."""
    classes = _pickiest_first(pool, _classes(pool, pods))
    shortages: list[NodesShort] = []
    for _ in range(_TRIES):
        placed, fallen = _try(pool, classes)
        if fallen is None:
            return {pod.uid: pool.nodes[row].name for row, pod in placed}
        shortages.append(fallen[1])
        classes.insert(0, classes.pop(fallen[0]))
        if fallen[0] == 0:
            break
    return shortages[0]


def _try(pool: Pool, classes: list[list[PodFacts]]) -> tuple[_Placed, tuple[int, NodesShort] | None]:
    """Where all members go; or nothing, and the class that fell short."""
    placed: _Placed = []
    for index, members in enumerate(classes):
        counts, closed = _room(pool, members[0])
        fit = int(np.minimum(counts, len(members)).sum())
        if fit < len(members):
            for row, pod in placed:
                pool.refund(row, pod)
            return [], (index, _short(pool, members, fit, counts, closed))
        placed += _fill(pool, members, counts)
    return placed, None


def scatter(pool: Pool, pods: Iterable[PodFacts]) -> None:
    """Charge each pod where we would put it, as many as fit: the scheduler may bind them anywhere, at any moment."""
    classes = _classes(pool, sorted(pods, key=lambda p: (p.created, p.uid)))
    for members in sorted(classes, key=lambda members: -members[0].shape.priority):
        _fill(pool, members, _room(pool, members[0])[0])


def _classes(pool: Pool, pods: Iterable[PodFacts]) -> list[list[PodFacts]]:
    """Pods by shape, the most demanding first: extended resources, then the rest."""
    by_shape: dict[tuple[bytes, str, tuple[bool, ...]], list[PodFacts]] = {}
    for pod in pods:
        key = (pool.key(pod.shape), pod.namespace, pool.company.outlook(pod))
        by_shape.setdefault(key, []).append(pod)
    return sorted(by_shape.values(), key=lambda members: _demand(members[0].shape), reverse=True)


def _pickiest_first(pool: Pool, classes: list[list[PodFacts]]) -> list[list[PodFacts]]:
    if len(classes) == 1:
        return classes
    return sorted(classes, key=lambda members: int(np.count_nonzero(_room(pool, members[0])[0])))


def _demand(shape: Shape) -> tuple[int, int, int]:
    extended = sum(amount for name, amount in shape.requests.items() if "/" in name)
    return (extended, shape.requests.get("cpu", 0), shape.requests.get("memory", 0))


def _room(pool: Pool, pod: PodFacts) -> tuple[Matrix, set[int]]:
    """How many pods like this one each node takes, and the rows that are closed to it by pods already there."""
    counts = pool.capacity(pod.shape, pool.free, pool.refusals(pod.shape).now)
    closed = pool.company.closed_to(pod)
    counts[list(closed)] = 0
    return counts, closed


def _fill(pool: Pool, members: Sequence[PodFacts], counts: Matrix) -> _Placed:
    """Fullest node first; as many as the counts allow."""
    placed: _Placed = []
    for row in _fullest_first(pool, members[0].shape, counts):
        for pod in members[len(placed) : len(placed) + int(counts[row])]:
            pool.book(row, pod)
            placed.append((row, pod))
        if len(placed) == len(members):
            break
    return placed


def _fullest_first(pool: Pool, shape: Shape, counts: Matrix) -> list[int]:
    """Rows that take the shape, by what is free of the scarcest thing it asks for, then by name."""
    request = pool.vector(shape)
    extended = [i for i, c in enumerate(pool.columns) if "/" in c and request[i]]
    columns = extended or [i for i, c in enumerate(pool.columns) if c != "pods" and request[i]] or [0]
    rows = np.flatnonzero(counts)
    keys = (pool.rank[rows], *(pool.free[rows, c] for c in reversed(columns)))  # the last key is the first to sort by
    return [int(row) for row in rows[np.lexsort(keys)]]


def _short(pool: Pool, members: Sequence[PodFacts], fit: int, counts: Matrix, closed: set[int]) -> NodesShort:
    shape = members[0].shape
    refusals = pool.refusals(shape)
    empty, up = (pool.capacity(shape, pool.total, refused) for refused in (refusals.now, refusals.lasting))
    reasons = Counter(_why(pool, shape, int(row), closed) for row in np.flatnonzero(counts == 0))
    return NodesShort(
        wanted=len(members),
        fit=fit,
        empty_fit=int(np.minimum(empty, len(members)).sum()),
        shape=shape,
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        on=int(np.count_nonzero(counts)),
        up_fit=int(np.minimum(up, len(members)).sum()),
    )


def _why(pool: Pool, shape: Shape, row: int, closed: set[int]) -> str:
    static = pool.refusals(shape).text(row)
    if static:
        return static
    if row in closed:
        return "taken by a pod with the same port or anti-affinity"
    request = pool.vector(shape)
    lacking = [c for i, c in enumerate(pool.columns) if request[i] and pool.free[row, i] < request[i]]
    main = next((c for c in lacking if "/" in c), lacking[0] if lacking else "room")
    return "without enough " + ("places for pods" if main == "pods" else main)
