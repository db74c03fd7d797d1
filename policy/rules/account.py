"""One group's lines in the books: every quota key, queue level and kind of node, not only the first that stops it.

Asks the same questions as decide(), with the same arithmetic, of a ledger that stands as it stood when the group was
judged. For people who want to see the sum; decides nothing, so nothing that lifts may call it. May know the ledger and
the questions of quota, capability and placement.
"""

from collections.abc import Iterator, Sequence

import msgspec

from policy import names
from policy.rules import namespace_quota, placement, queue_capacity
from policy.rules.conclusions import Absent, Group
from policy.rules.ledger import Ledger
from policy.rules.model import PodFacts, QueueFacts, QuotaFacts, Resources
from policy.rules.resources import scale, total
from policy.rules.shortage import NodesShort


class QuotaLine(msgspec.Struct, frozen=True):
    """One key of one quota against the members that do not exist yet. Amounts in nano units.

    `used` is what the quota's status says, `counted` our own count of the same pods; the larger is charged.
    """

    quota: str
    key: str
    hard: int
    used: int
    counted: int
    promised: int  # to groups ahead
    missing: int
    need: int
    whole: int  # what the whole group charges, members that exist included
    unstated: bool = False  # the quota demands an amount that the pods do not state: no room would help

    @property
    def free(self) -> int:
        return max(0, self.hard - max(self.used, self.counted) - self.promised)

    @property
    def short(self) -> int:
        return max(0, max(self.used, self.counted) + self.promised + self.need - self.hard) if self.need else 0

    @property
    def each(self) -> int | None:
        """What one missing member costs; None where they differ."""
        return self.need // self.missing if self.missing and self.need % self.missing == 0 else None


class LevelLine(msgspec.Struct, frozen=True):
    """One resource at one level of the group's queue. Nano units; no capability means unlimited."""

    queue: str
    resource: str
    capability: int | None
    allocated: int
    need: int = 0

    @property
    def free(self) -> int | None:
        return None if self.capability is None else max(0, self.capability - self.allocated)

    @property
    def short(self) -> int:
        return 0 if self.capability is None else max(0, self.allocated + self.need - self.capability)


def quota_lines(ledger: Ledger, group: Group) -> list[QuotaLine]:
    """Every key that a missing member charges or fails to state, in the order in which decide() looks at them."""
    quotas = ledger.quotas.get(group.identity.namespace, [])
    return [line for quota in quotas for line in _lines_of(ledger, quota, group)]


def _lines_of(ledger: Ledger, quota: QuotaFacts, group: Group) -> Iterator[QuotaLine]:
    absent = [a for a in group.absent if namespace_quota.matches(quota, a.shape)]
    present = [Absent(m.shape, 1) for m in group.members if namespace_quota.matches(quota, m.shape)]
    count = ledger.count(quota)
    promised = ledger.promised.get((quota.namespace, quota.name), {})
    for key in sorted(quota.hard):
        unstated = any(namespace_quota.demands(key, a.shape) for a in absent)
        need = _charge(key, absent)
        if need or unstated:
            yield QuotaLine(
                quota.name,
                key,
                quota.hard[key],
                quota.used.get(key, 0),
                count.get(key, 0),
                promised.get(key, 0),
                sum(a.count for a in absent),
                need,
                need + _charge(key, present),
                unstated,
            )


def _charge(key: str, pods: Sequence[Absent]) -> int:
    return sum(namespace_quota.cost(p.shape).get(key, 0) * p.count for p in pods)


def level_lines(ledger: Ledger, group: Group, members: Sequence[PodFacts]) -> list[LevelLine]:
    """What these members and those that do not exist yet ask for, at the group's queue and at every ancestor."""
    need = total([*(m.shape.requests for m in members), *(scale(a.shape.requests, a.count) for a in group.absent)])
    levels = queue_capacity.chain(ledger.snapshot.queues, group.queue)
    return [line for queue in levels for line in _level(ledger, queue, need) if line.need]


def _level(ledger: Ledger, queue: QueueFacts, need: Resources) -> Iterator[LevelLine]:
    allocated = ledger.allocated.get(queue.name, {})
    for resource in sorted({*need, *allocated, *queue.capability}):
        limit = queue_capacity.limit(queue, resource)
        yield LevelLine(queue.name, resource, limit, allocated.get(resource, 0), need.get(resource, 0))


def queue_lines(ledger: Ledger, name: str) -> list[LevelLine]:
    """Every resource that the queue limits or has in use."""
    queue = ledger.snapshot.queues.get(name) or QueueFacts(name=name)
    return [line for line in _level(ledger, queue, {}) if line.allocated or line.capability is not None]


def queue_state(ledger: Ledger, name: str) -> str:
    """As Volcano names it, an empty one being Open; Missing where nobody wrote the queue."""
    queue = ledger.snapshot.queues.get(name)
    if queue is None:
        return "Open" if name in (names.DEFAULT_QUEUE, names.ROOT_QUEUE) else "Missing"
    return queue.state or "Open"


def nodes_short(ledger: Ledger, members: Sequence[PodFacts]) -> NodesShort | None:
    """Why the nodes do not take these members together, or None; charges them in the ledger's pool where they do."""
    found = placement.place(ledger.pool, members)
    return found if isinstance(found, NodesShort) else None
