"""Room kept for a group that waits at the head, so that those behind it cannot delay it (EASY backfill).

Lifka, The ANL/IBM SP Scheduling System, JSSPP 1995. When a group does not fit, the deadlines that somebody enforces
(of pods, or of their owners) tell by when what runs is gone: at the first moment at which the group fits, it holds its
nodes and its part of every queue above it. Others go ahead if they end before, or use none of that. Without such a
moment nothing is kept: nodes that are held blindly idle, and waits get longer. A group that has waited for `drainAfter`
holds the nodes that are nearest to free, whatever runs there. May know the ledger's pool, placement, queues and groups.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from policy import names
from policy.rules import placement, queue_capacity
from policy.rules.conclusions import Group
from policy.rules.ledger import Ledger
from policy.rules.model import OwnerFacts, PodFacts, Resources
from policy.rules.pool import Mask
from policy.rules.resources import total
from policy.rules.shape import shapes_of

_OWNER_GRACE: Final = names.DEFAULT_GRACE_SECONDS  # after an owner's deadline, before its pods are gone


class Reservation(msgspec.Struct, frozen=True):
    """What a group holds from a moment on. `spare` is what queues above it can lend beyond that moment."""

    group: Group
    at: float  # seconds since the epoch; infinite where it drains its nodes
    rows: frozenset[int]  # of the pool
    spare: dict[str, Resources]  # by queue, of what that limits; shrinks as others are lifted
    need: Resources


class _Running(msgspec.Struct, frozen=True):
    """A pod that holds something, and when it is gone at the latest."""

    end: float
    pod: PodFacts
    row: int  # -1: on no node that we know
    queue: str


def end_of(pod: PodFacts, owners: Iterable[OwnerFacts], now: float) -> float:
    """When the pod is gone at the latest, infinite where nobody sees to that; one that waits would start now."""
    if pod.deleted is not None:
        return pod.deleted
    ends = [(pod.started or now) + pod.lasts] if pod.lasts else []
    for owner in owners:
        if owner.deadline is not None:
            began = 0.0 if owner.held else owner.started
            ends.append((began or now) + owner.deadline + _OWNER_GRACE)
    return min(ends, default=math.inf)


class Reservations:
    """Those of one pass. One for each part of the cluster: no two groups wait at the head of the same nodes."""

    def __init__(self, ledger: Ledger, now: float, drain_after: float) -> None:
        self._ledger, self._now, self._drain_after = ledger, now, drain_after
        self._made: list[Reservation] = []
        self._rows = np.zeros(len(ledger.pool.nodes), dtype=np.bool_)  # of pools that have a head
        self._levels: set[str] = set()  # queues that have a head
        self._lifted: list[_Running] = []  # by this pass
        self._ends: list[_Running] | None = None  # of what held something when the pass began, what will be gone
        self._before: list[_Running] | None = None  # all of it

    # --- who is behind ---------------------------------------------------------------------------------------

    def hindered(self, group: Group, members: Sequence[PodFacts]) -> list[Reservation]:
        """The reservations that these members, lifted now, would outlast."""
        if not self._made:
            return []
        end = max((end_of(m, group.owners, self._now) for m in members), default=math.inf)
        return [made for made in self._made if made.group.key != group.key and end > made.at]

    def over(self, group: Group, members: Sequence[PodFacts], need: Resources) -> Reservation | None:
        """The first of them whose queues could not lend so much beyond its moment."""
        for made in self.hindered(group, members):
            for level in self._chain(group.queue):
                if any(need.get(resource, 0) > left for resource, left in made.spare.get(level, {}).items()):
                    return made
        return None

    def lifted(self, group: Group, members: Sequence[PodFacts], places: Mapping[str, str]) -> None:
        """Members were placed: what they hold counts in what is estimated next."""
        rows, need = self._ledger.pool.row_of, total(m.shape.requests for m in members)
        for m in members:
            end = end_of(m, group.owners, self._now)
            self._lifted.append(_Running(end, m, rows.get(places.get(m.uid, ""), -1), group.queue))
        for made in self.hindered(group, members):
            for level in self._chain(group.queue):
                for resource in made.spare.get(level, {}):
                    made.spare[level][resource] -= need.get(resource, 0)

    def nodes(self, made: Reservation) -> tuple[str, ...]:
        """Names of those that it holds."""
        return tuple(sorted(self._ledger.pool.nodes[row].name for row in made.rows))

    # --- who is ahead ----------------------------------------------------------------------------------------

    def make(self, group: Group, members: Sequence[PodFacts], level: str = "") -> Reservation | None:
        """Keep room for a group that does not fit: on its nodes, or, where `level` names one, into that queue.

        None where another is at the head there, or where no end is known by which it would fit.
        """
        mine = self._ledger.pool.rows_for(shapes_of(members))
        if not mine.any() or (level in self._levels if level else (mine & self._rows).any()):
            return None
        if level:
            self._levels.add(level)
        else:
            self._rows |= mine
        made = self._earliest(group, members) or (None if level else self._drained(group, members, mine))
        if made is not None:
            self._made.append(made)
        return made

    def _earliest(self, group: Group, members: Sequence[PodFacts]) -> Reservation | None:
        """By halves: the later the moment, the more is gone, the more fits."""
        if self._ends is None:
            self._ends = self._known(self._ledger.taken.ending())
        running = [one for one in (*self._ends, *self._lifted) if one.end < math.inf]
        ends = sorted({one.end for one in running})
        found: Reservation | None = None
        low, high = 0, len(ends)
        while low < high:
            middle = (low + high) // 2
            made = self._at(ends[middle], group, members, [one for one in running if one.end <= ends[middle]])
            found, low, high = (made, low, middle) if made else (found, middle + 1, high)
        return found

    def _at(
        self, moment: float, group: Group, members: Sequence[PodFacts], gone: Sequence[_Running]
    ) -> Reservation | None:
        need = total(m.shape.requests for m in members)
        spare = self._spare(group, need, gone)
        if any(left < 0 for amounts in spare.values() for left in amounts.values()):
            return None
        rows = self._placed(members, gone, self._ledger.snapshot.ahead.get(group.key, ()))
        return Reservation(group, moment, rows, spare, need) if rows is not None else None

    def _placed(
        self, members: Sequence[PodFacts], gone: Sequence[_Running], before: Sequence[str] = ()
    ) -> frozenset[int] | None:
        """Where the members would go once those are gone; the pool is left as it was.

        To the nodes held for them before, where that can be: others were told their moments by what was left.
        """
        pool = self._ledger.pool
        leaving = [(one.row, one.pod) for one in gone if one.row >= 0]
        pool.lend(leaving)
        ahead = frozenset().union(*(made.rows for made in self._made))  # theirs for however long
        held = {row for name in before if (row := pool.row_of.get(name)) is not None}
        found = placement.place(pool, members, ahead.union(range(len(pool.nodes))) - held) if held - ahead else None
        found = found if isinstance(found, dict) else placement.place(pool, members, ahead)
        rows: frozenset[int] | None = None
        if isinstance(found, dict):
            rows = frozenset(pool.row_of[node] for node in found.values())
            placement.withdraw(pool, members, found)
        pool.lend(leaving, back=True)
        return rows

    def _spare(self, group: Group, need: Resources, gone: Sequence[_Running]) -> dict[str, Resources]:
        """By queue, what is left of its limits beside the group and all that are not gone by then."""
        queues, allocated = self._ledger.snapshot.queues, self._ledger.allocated
        by_queue: dict[str, list[PodFacts]] = {}
        for one in gone:
            by_queue.setdefault(one.queue, []).append(one.pod)
        freed: dict[str, Resources] = {}
        for queue, pods in by_queue.items():
            queue_capacity.charge(queues, queue, total(p.shape.requests for p in pods), freed)
        found: dict[str, Resources] = {}
        for level in queue_capacity.chain(queues, group.queue):
            taken, given = allocated.get(level.name, {}), freed.get(level.name, {})
            limits = {r: limit for r in need if need[r] and (limit := queue_capacity.limit(level, r)) is not None}
            if limits:
                ahead = total(made.need for made in self._made if level.name in self._chain(made.group.queue))
                used = {r: taken.get(r, 0) - given.get(r, 0) + ahead.get(r, 0) for r in limits}
                found[level.name] = {r: limit - used[r] - need[r] for r, limit in limits.items()}
        return found

    def _drained(self, group: Group, members: Sequence[PodFacts], mine: Mask) -> Reservation | None:
        """The fewest of the nodes that are nearest to free, on which it would fit if they were empty."""
        if not self._drain_after or self._now - group.created < self._drain_after:
            return None
        order = self._ledger.pool.nearest_to_free(mine)
        low, high = 1, len(order) + 1
        found: frozenset[int] | None = None
        while low < high:
            middle = (low + high) // 2
            chosen = set(order[:middle])
            rows = self._placed(members, [one for one in self._running() if one.row in chosen])
            found, low, high = (rows, low, middle) if rows is not None else (found, middle + 1, high)
        need = total(m.shape.requests for m in members)
        return Reservation(group, math.inf, found, {}, need) if found is not None else None

    # --- what runs -------------------------------------------------------------------------------------------

    def _running(self) -> list[_Running]:
        """All that hold nodes or queues now, those among them that this pass has lifted."""
        if self._before is None:
            self._before = self._known(self._ledger.taken.holders())
        return self._before + self._lifted

    def _known(self, holders: Iterable[tuple[str, PodFacts]]) -> list[_Running]:
        owners, rows = self._ledger.snapshot.owners, self._ledger.pool.row_of
        return [
            _Running(
                end_of(pod, (owners[pod.owner],) if pod.owner in owners else (), self._now),
                pod,
                rows.get(pod.node or (pod.pin if pod.lifted else ""), -1),
                queue,
            )
            for queue, pod in holders
        ]

    def _chain(self, queue: str) -> list[str]:
        return [level.name for level in queue_capacity.chain(self._ledger.snapshot.queues, queue)]
