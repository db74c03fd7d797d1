"""Whose turn it is: the queue that is furthest below what it is entitled to, down the tree of queues.

At every level those below their guarantee come first, then the higher priority, then the smaller dominant share
(Ghodsi et al., Dominant Resource Fairness, NSDI 2011): the largest part that a queue uses or is promised of anything it
is entitled to. Entitled is what `deserved` states, else the part of the parent's that the weights give. Nothing is
forbidden here: an idle queue's part is lent. Exact fractions; ties are broken by name. May know the model, groups and
the tree of queues.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from heapq import heapify, heappop, heapreplace
from typing import Final, Protocol

from policy import names
from policy.rules import queue_capacity
from policy.rules.conclusions import Group
from policy.rules.model import QueueFacts, Resources

TOP: Final = names.ROOT_QUEUE
_NOTHING: Final[Resources] = {}


class Share:
    """What part of `whole` is used, exactly. For comparing alone, at every turn: so nobody looks for divisors."""

    __slots__ = ("part", "whole")

    def __init__(self, part: int, whole: int) -> None:
        self.part, self.whole = part, whole

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Share) and self.part * other.whole == other.part * self.whole

    def __lt__(self, other: "Share") -> bool:
        return self.part * other.whole < other.part * self.whole

    def __hash__(self) -> int:
        return hash(Fraction(self.part, self.whole))


_Rank = tuple[bool, int, Share, str]


class Used(Protocol):
    """By queue, what counts as used."""

    def get(self, name: str, default: Resources, /) -> Resources: ...


class Remembered:
    """What queues used over time, and what this pass has charged since it began."""

    def __init__(self, usage: Mapping[str, Resources], allocated: Mapping[str, Resources]) -> None:
        self._usage, self._allocated = usage, allocated
        self._before = {name: dict(amounts) for name, amounts in allocated.items()}

    def get(self, name: str, default: Resources, /) -> Resources:
        now, before = self._allocated.get(name, default), self._before.get(name, default)
        past = self._usage.get(name, default)
        return {r: past.get(r, 0) + now.get(r, 0) - before.get(r, 0) for r in {*past, *now}}


class Line:
    """The waiting groups of one pass. `used` is read anew at every turn: what a lift charges counts at once."""

    def __init__(
        self,
        queues: Mapping[str, QueueFacts],
        totals: Resources,
        used: Used,
        groups: Iterable[Group],
    ) -> None:
        """`groups` stand in their order within a queue; `totals` is what the nodes offer."""
        self._queues, self._totals, self._used = queues, totals, used
        self._own: dict[str, deque[Group]] = {}  # by queue
        self._asked: dict[str, set[str]] = {}  # resources that groups of a queue, or below it, ask for
        self._below: dict[str, list[str]] = {}  # children of a queue that have groups, or such children
        self._left: dict[str, int] = {}  # groups of a queue and below it
        self._paths: dict[str, list[str]] = {}
        for group in groups:
            self._add(group)
        self._siblings = siblings(queues)
        self._entitled: dict[str, dict[str, Fraction]] = {}
        self._ranks: dict[str, _Rank] = {}
        self._heaps: dict[str, list[_Rank]] = {}  # of the children of a queue; what is used only grows, so ranks do too

    def __iter__(self) -> Iterator[Group]:
        """Each group once. Who asks may charge `used` in between."""
        while self._left.get(TOP):
            queue = self._next()
            before = dict(self._used.get(queue, _NOTHING))
            yield self._take(queue)
            if self._used.get(queue, _NOTHING) != before:  # nobody else's was charged meanwhile
                for name in self._path(queue):
                    self._ranks.pop(name, None)

    def _add(self, group: Group) -> None:
        self._own.setdefault(group.queue, deque()).append(group)
        shapes = (*(m.shape for m in group.members), *(a.shape for a in group.coming))
        asked = {name for shape in shapes for name in shape.requests}
        below = ""
        for name in self._path(group.queue):
            self._asked.setdefault(name, set()).update(asked)
            self._left[name] = self._left.get(name, 0) + 1
            children = self._below.setdefault(name, [])
            if below and below not in children:
                children.append(below)
            below = name

    def _path(self, queue: str) -> list[str]:
        """The queue and its ancestors, the root last, whether somebody wrote it or not."""
        path = self._paths.get(queue)
        if path is None:
            above = [q.name for q in queue_capacity.chain(self._queues, queue)]
            if queue_capacity.circle(self._queues, queue):  # nothing starts there; it must not lead us round either
                above = above[:1]
            path = self._paths[queue] = above if above[-1:] == [TOP] else [*above, TOP]
        return path

    def _take(self, queue: str) -> Group:
        for name in self._path(queue):
            self._left[name] -= 1
        return self._own[queue].popleft()

    def _next(self) -> str:
        """From the root downwards; a queue's own groups come where those of its children would, all together."""
        name = TOP
        while True:
            first = self._first_below(name)
            own = self._own.get(name)
            if first is None or (own and self._own_first(name, first)):
                return name
            name = first[-1]

    def _first_below(self, name: str) -> _Rank | None:
        """The least rank of its children that have groups left; what a heap holds may be older, and then is less."""
        heap = self._heaps.get(name)
        if heap is None:
            heap = self._heaps[name] = [self._rank(child) for child in self._below[name]]
            heapify(heap)
        while heap:
            child = heap[0][-1]
            if not self._left[child]:
                heappop(heap)
            elif heap[0] is self._rank(child):
                return heap[0]
            else:
                heapreplace(heap, self._rank(child))
        return None

    def _own_first(self, name: str, first: _Rank) -> bool:
        """Groups of an inner queue stand beside its children, as a child of weight 1 would."""
        used = dict(self._used.get(name, _NOTHING))
        for child in self._siblings.get(name, ()):
            for resource, amount in self._used.get(child, _NOTHING).items():
                used[resource] = used.get(resource, 0) - amount
        entitled = {r: part / self._weights(name) for r, part in self._of(name).items()}
        mine = (True, 0, _dominant(used, entitled), "")
        return mine < first  # equal they cannot be: every child has a name

    def _rank(self, name: str) -> _Rank:
        found = self._ranks.get(name)
        if found is None:
            found = self._ranks[name] = self._ranked(name)
        return found

    def _ranked(self, name: str) -> _Rank:
        queue = self._queues.get(name)
        used = self._used.get(name, _NOTHING)
        below = queue is not None and any(
            used.get(resource, 0) < amount
            for resource, amount in queue.guarantee.items()
            if resource in self._asked[name]
        )
        return (not below, -queue.priority if queue else 0, _dominant(used, self._of(name)), name)

    def _of(self, name: str) -> dict[str, Fraction]:
        """What a queue is entitled to, of everything that the nodes offer."""
        found = self._entitled.get(name)
        if found is None:
            found = self._entitled[name] = self._work_out(name)
        return found

    def _work_out(self, name: str) -> dict[str, Fraction]:
        if name == TOP:
            return {resource: Fraction(amount) for resource, amount in self._totals.items()}
        queue = self._queues.get(name) or QueueFacts(name)
        path = self._path(name)
        parent = path[1]
        part = Fraction(queue.weight, self._weights(parent))
        found = {resource: whole * part for resource, whole in self._of(parent).items()}
        return found | {resource: Fraction(amount) for resource, amount in queue.deserved.items()}

    def _weights(self, parent: str) -> int:
        """Of all children, whether they want something or not: what an idle one leaves is lent in the same measure."""
        return max(1, sum(queue.weight for queue in self._siblings.get(parent, {}).values()))


def siblings(queues: Mapping[str, QueueFacts]) -> dict[str, dict[str, QueueFacts]]:
    """By parent, its children; TOP is the parent of those that name none."""
    found: dict[str, dict[str, QueueFacts]] = {}
    for name in {*queues, names.DEFAULT_QUEUE} - {TOP}:
        queue = queues.get(name) or QueueFacts(name)
        found.setdefault(queue.parent or TOP, {})[name] = queue
    return found


def _dominant(used: Resources, entitled: Mapping[str, Fraction]) -> Share:
    """The largest part used of anything; of what nobody offers or is entitled to, any use is more than all."""
    most = Share(0, 1)
    for resource, amount in used.items():
        if amount > 0:
            whole = entitled.get(resource)
            share = Share(amount * whole.denominator, whole.numerator) if whole else Share(amount, 1)
            most = max(most, share)
    return most
