"""A node for every member, or which nodes fall short and why.

Pods of one shape are one class, and for one class the answer is exact. Of several, the one that fewest nodes take goes
first, each onto the fullest nodes that take it, so that whole nodes stay free for whole gangs; a class that falls short
is put first and tried again. So a yes is always true, and a no seldom false (tests/property/test_rules_placement.py).
A trial that fails leaves the pool as it was. May know the pool and the model.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from policy.rules.company import likes, repelling
from policy.rules.domains import Rows
from policy.rules.model import PodFacts, Shape
from policy.rules.objects import PodAffinityTerm
from policy.rules.pool import Pool
from policy.rules.room import Room, fullest_first, room_for
from policy.rules.shape import shapes_of
from policy.rules.shortage import NodesShort, known, shortage

_TRIES = 3  # orders of the classes

_Placed = list[tuple[int, Sequence[PodFacts]]]  # rows of the pool, and who goes there


def place(pool: Pool, pods: Sequence[PodFacts], shut: frozenset[int] = frozenset()) -> dict[str, str] | NodesShort:
    """A node for each pod, on none of the rows that are shut, charged in the pool; or the shortage, and nothing is."""
    pool.shut = shut
    try:
        return _place(pool, pods)
    finally:
        pool.shut = frozenset()


def withdraw(pool: Pool, pods: Iterable[PodFacts], places: Mapping[str, str]) -> None:
    """Take back what `place` charged: it was a trial."""
    for pod in pods:
        pool.refund(pool.row_of[places[pod.uid]], pod)


def _place(pool: Pool, pods: Sequence[PodFacts]) -> dict[str, str] | NodesShort:
    short = _known(pool, pods)
    if short is not None:
        return short
    classes = _pickiest_first(pool, _classes(pool, pods))
    placed = _gathered(pool, classes)
    shortages: list[NodesShort] = []
    while not placed and len(shortages) < 2 * _TRIES:
        placed, fallen = _try(pool, classes, roomiest=len(shortages) >= _TRIES)
        if fallen is not None:
            shortages.append(fallen[1])
            classes.insert(0, classes.pop(fallen[0]))
            if fallen[0] == 0:
                break
    return {pod.uid: pool.nodes[row].name for row, those in placed for pod in those} if placed else shortages[0]


def _known(pool: Pool, pods: Sequence[PodFacts]) -> NodesShort | None:
    """Many gangs ask for the same, and often nothing was booked in between."""
    shape = pods[0].shape if pods else None
    if shape is None or pool.shut or not pool.company.indifferent or not _alike(pods):
        return None
    minds = shape.host_ports or shape.beside or shape.spread or repelling(shape)
    return None if minds else known(pool, shape, len(pods))


def _gathered(pool: Pool, classes: list[list[PodFacts]]) -> _Placed:
    """Where pods of several classes want each other beside them: all of these on one node that takes the whole."""
    beside = [members for members in classes if members[0].shape.beside]
    if len(beside) < 2:
        return []
    whole = np.zeros(len(pool.columns), dtype=np.int64)
    for members in beside:
        whole += pool.vector(members[0].shape) * len(members)
    return _try(pool, beside + [members for members in classes if not members[0].shape.beside], whole)[0]


def _try(
    pool: Pool, classes: list[list[PodFacts]], bundle: Rows | None = None, *, roomiest: bool = False
) -> tuple[_Placed, tuple[int, NodesShort] | None]:
    """Where all members go; or nothing, and the class that fell short. `bundle` goes where the first class goes."""
    placed: _Placed = []
    for index, members in enumerate(classes):
        room = room_for(pool, members[0], len(members), None if index else bundle)
        short = shortage(pool, len(members), room)
        if short is not None:
            for row, pod in [(row, pod) for row, those in placed for pod in those]:
                pool.refund(row, pod)
            return [], (index, short)
        placed += _fill(pool, members, room, roomiest=roomiest)
    return placed, None


def scatter(pool: Pool, pods: Iterable[PodFacts]) -> None:
    """Charge each pod where we would put it, as many as fit: the scheduler may bind them anywhere, at any moment."""
    classes = _classes(pool, sorted(pods, key=lambda p: (p.created, p.uid)))
    for members in sorted(classes, key=lambda members: -members[0].shape.priority):
        _fill(pool, members, room_for(pool, members[0], len(members)))


def _classes(pool: Pool, pods: Iterable[PodFacts]) -> list[list[PodFacts]]:
    """Pods by shape, the most demanding first: extended resources, then the rest."""
    by_shape: dict[tuple[bytes, str, tuple[bool, ...]], list[PodFacts]] = {}
    pods = list(pods)
    terms = _own_terms(pods)
    if pool.company.indifferent and not terms and _alike(pods):
        return [pods] if pods else []
    for pod in pods:
        outlook = pool.company.outlook(pod) + tuple(likes(each, pod) for each in terms)
        by_shape.setdefault((pool.key(pod.shape), pod.namespace, outlook), []).append(pod)
    return sorted(by_shape.values(), key=lambda members: _demand(members[0].shape), reverse=True)


def _alike(pods: Sequence[PodFacts]) -> bool:
    return all(pod.shape is pods[0].shape and pod.namespace == pods[0].namespace for pod in pods)


def _pickiest_first(pool: Pool, classes: list[list[PodFacts]]) -> list[list[PodFacts]]:
    if len(classes) == 1:
        return classes
    return sorted(classes, key=lambda members: int(np.count_nonzero(room_for(pool, members[0], len(members)).takes)))


def _own_terms(pods: list[PodFacts]) -> list[tuple[PodAffinityTerm, ...]]:
    """Terms of these pods that may tell some of them apart by their labels."""
    shapes = shapes_of(pods)
    return [each for s in shapes for each in (*((t,) for t in repelling(s)), s.beside) if each]


def _demand(shape: Shape) -> tuple[int, int, int]:
    extended = sum(amount for name, amount in shape.requests.items() if "/" in name)
    return (extended, shape.requests.get("cpu", 0), shape.requests.get("memory", 0))


def _fill(pool: Pool, members: Sequence[PodFacts], room: Room, *, roomiest: bool = False) -> _Placed:
    """Fullest node first, or last; as many as the counts allow."""
    placed: _Placed = []
    done = 0
    for row in fullest_first(pool, room, len(members), reverse=roomiest):
        those = members[done : done + int(room.counts[row])]
        placed.append((row, those))
        done += len(those)
        if done == len(members):
            break
    for row, those in placed:
        pool.book(row, those)
    return placed
