"""A node for every member, or which nodes fall short and why.

Pods of one shape are one class, and for one class the answer is exact. Of several, the one that fewest nodes take goes
first, each onto the fullest nodes that take it, so that whole nodes stay free for whole gangs; a class that falls short
is put first and tried again. So a yes is always true, and a no seldom false (tests/property/test_rules_placement.py).
A trial that fails leaves the pool as it was. May know the pool and the model.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from policy.rules.model import PodFacts, Shape
from policy.rules.pool import Counts, Kind, Matrix, Pool

_TRIES = 3  # orders of the classes
_FEW = 16  # members, whose nodes are picked one by one


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


_Placed = list[tuple[int, Sequence[PodFacts]]]  # rows of the pool, and who goes there


def place(pool: Pool, pods: Sequence[PodFacts]) -> dict[str, str] | NodesShort:
    """A node for each pod, charged in the pool; or the shortage, with the pool as it was."""
    classes = _pickiest_first(pool, _classes(pool, pods))
    shortages: list[NodesShort] = []
    for _ in range(_TRIES):
        placed, fallen = _try(pool, classes)
        if fallen is None:
            return {pod.uid: pool.nodes[row].name for row, those in placed for pod in those}
        shortages.append(fallen[1])
        classes.insert(0, classes.pop(fallen[0]))
        if fallen[0] == 0:
            break
    return shortages[0]


def _try(pool: Pool, classes: list[list[PodFacts]]) -> tuple[_Placed, tuple[int, NodesShort] | None]:
    """Where all members go; or nothing, and the class that fell short."""
    placed: _Placed = []
    for index, members in enumerate(classes):
        room = _room(pool, members[0])
        short = _shortage(pool, members, room)
        if short is not None:
            for row, pod in [(row, pod) for row, those in placed for pod in those]:
                pool.refund(row, pod)
            return [], (index, short)
        placed += _fill(pool, members, room)
    return placed, None


def scatter(pool: Pool, pods: Iterable[PodFacts]) -> None:
    """Charge each pod where we would put it, as many as fit: the scheduler may bind them anywhere, at any moment."""
    classes = _classes(pool, sorted(pods, key=lambda p: (p.created, p.uid)))
    for members in sorted(classes, key=lambda members: -members[0].shape.priority):
        _fill(pool, members, _room(pool, members[0]))


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
    return sorted(classes, key=lambda members: int(np.count_nonzero(_room(pool, members[0]).counts)))


def _demand(shape: Shape) -> tuple[int, int, int]:
    extended = sum(amount for name, amount in shape.requests.items() if "/" in name)
    return (extended, shape.requests.get("cpu", 0), shape.requests.get("memory", 0))


class _Room(msgspec.Struct, frozen=True):
    """How many pods like one each node takes, and the rows that are closed to it by pods already there."""

    kind: Kind
    counts: Counts
    closed: set[int]


def _room(pool: Pool, pod: PodFacts) -> _Room:
    kind = pool.kind(pod.shape)
    counts, closed = pool.counts(kind), pool.company.closed_to(pod) | pool.shut
    if closed:
        counts = counts.copy()
        counts[list(closed)] = 0
    return _Room(kind, counts, closed)


def _fill(pool: Pool, members: Sequence[PodFacts], room: _Room) -> _Placed:
    """Fullest node first; as many as the counts allow."""
    placed: _Placed = []
    done = 0
    for row in _fullest_first(pool, room, len(members)):
        those = members[done : done + int(room.counts[row])]
        placed.append((row, those))
        done += len(those)
        if done == len(members):
            break
    for row, those in placed:
        pool.book(row, those)
    return placed


def _fullest_first(pool: Pool, room: _Room, wanted: int) -> Iterator[int]:
    """Rows that take the shape, by what is free of the scarcest thing it asks for, then by name."""
    rows = np.flatnonzero(room.counts)
    keys = [pool.free[rows, column] for column in _scarce(pool, room.kind)] + [pool.rank[rows]]
    if wanted <= _FEW:  # the first few are found without sorting thousands
        for _ in range(min(wanted, len(rows))):
            first = _first(keys)
            yield int(rows[first])
            keys[0][first] = np.iinfo(np.int64).max
    else:
        yield from map(int, rows[np.lexsort(keys[::-1])])  # its last key is the first to sort by


def _first(keys: list[Matrix]) -> int:
    """Where the smallest stands, by the first key, then by the next; the last tells all apart."""
    left = np.arange(len(keys[0]))
    for key in keys:
        values = key[left]
        left = left[values == values.min()]
        if len(left) == 1:
            break
    return int(left[0])


def _scarce(pool: Pool, kind: Kind) -> list[int]:
    """Columns of extended resources that the kind asks for; else of any but the number of pods."""
    asked = [int(c) for c in np.flatnonzero(kind.request)]
    extended = [c for c in asked if "/" in pool.columns[c]]
    return extended or [c for c in asked if pool.columns[c] != "pods"] or [0]


def _shortage(pool: Pool, members: Sequence[PodFacts], room: _Room) -> NodesShort | None:
    kind, wanted = room.kind, len(members)
    fit = int(np.minimum(room.counts, wanted).sum())
    if fit >= wanted:
        return None
    empty, up = (int(np.minimum(counts, wanted).sum()) for counts in (kind.empty, kind.up))
    reasons = sorted(_reasons(pool, room).items(), key=lambda item: (-item[1], item[0]))
    return NodesShort(wanted, fit, empty, kind.shape, dict(reasons), on=int(np.count_nonzero(room.counts)), up_fit=up)


def _reasons(pool: Pool, room: _Room) -> Counter[str]:
    """Nodes that take none, by why: refused, closed by company, or without enough of something."""
    found = Counter(room.kind.refusals)
    free = ~room.kind.refused
    if room.closed:
        closed = np.zeros(len(pool.nodes), dtype=np.bool_)
        closed[list(room.closed)] = True
        found["taken by a pod with the same port or anti-affinity"] = int(np.count_nonzero(closed & free))
        free &= ~closed
    lacking = np.bincount(room.kind.lacking[free] + 1, minlength=len(pool.columns) + 1)[1:]
    for name, count in zip(pool.columns, lacking, strict=True):
        found["without enough " + ("places for pods" if name == "pods" else name)] = int(count)
    return +found
