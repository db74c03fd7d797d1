"""What is taken, and what this pass has promised: the books that the questions are asked against.

Everything that runs, is lifted or is promised is charged, gated by us or not. A Ledger lives for one pass; its trial
is undone as a whole. May know the model and the five questions' own books; decides nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import msgspec

from policy.rules import charges, group_size, guarantee, namespace_quota, placement, pool, promise, queue_capacity
from policy.rules.belonging import managed
from policy.rules.charges import Taken
from policy.rules.conclusions import Group
from policy.rules.model import PodFacts, QuotaFacts, Resources, Shape, Snapshot
from policy.rules.resources import scale, total
from policy.rules.shape import shapes_of


class Ledger:
    """Books of one pass over one snapshot."""

    def __init__(self, snapshot: Snapshot, groups: Mapping[str, Group], now: float, taken: Taken | None = None) -> None:
        """`taken` are the charges of the snapshot's pods, where somebody has them already."""
        self.snapshot = snapshot
        self.now = now
        self.allocated: dict[str, Resources] = {}
        self.promised: dict[tuple[str, str], Resources] = {}  # (namespace, quota) -> key -> nano units
        self._price = namespace_quota.Prices()
        self._counts: dict[tuple[str, str], Resources] = {}
        self._tallies: dict[str, list[namespace_quota.Tally]] = {}  # by namespace
        self.quotas: dict[str, list[QuotaFacts]] = {}
        for quota in sorted(snapshot.quotas, key=lambda q: q.name):
            self.quotas.setdefault(quota.namespace, []).append(quota)
        self.taken = Taken([charges.of_pods(snapshot, snapshot.pods, groups)]) if taken is None else taken
        self.pool = pool.Pool(snapshot.nodes, pool.columns_of(s.requests for s in self.taken.wanted().values()))
        for queue, shape, count in self.taken.asked():
            self.charge_queue(queue, scale(shape.requests, count))
        self.pool.charge_all(self.taken.fixed())
        placement.scatter(self.pool, self.taken.adrift())

    @cached_property
    def _by_namespace(self) -> dict[str, list[PodFacts]]:
        """Pods of the namespaces that have quotas: of no use where nothing is missing."""
        found: dict[str, list[PodFacts]] = {name: [] for name in self.quotas}
        for pod in self.snapshot.pods:
            if pod.namespace in found:
                found[pod.namespace].append(pod)
        return found

    def charge_queue(self, queue: str, requests: Resources) -> None:
        """Book the requests at the queue and its ancestors; no name is no queue."""
        queue_capacity.charge(self.snapshot.queues, queue, requests, self.allocated)

    def charge_group(self, group: Group, pods: Iterable[PodFacts]) -> None:
        self.charge_queue(group.queue, total(p.shape.requests for p in pods))

    def keep(self, group: Group) -> None:
        """Charge the room in the queue that a begun group has been promised and does not use yet."""
        self.charge_queue(group.queue, promise.kept(group))

    def charge_anywhere(self, pods: Iterable[PodFacts]) -> None:
        """Charge the nodes for pods that are lifted without a place of their own."""
        placement.scatter(self.pool, pods)

    def quota_stops(self, group: Group) -> list[namespace_quota.QuotaStop]:
        """All that stops the members that do not exist yet, what waiting cannot help before the rest."""
        found = [stop for quota in self.quotas.get(group.identity.namespace, []) for stop in self._stops(group, quota)]
        return sorted(found, key=lambda f: not (isinstance(f, namespace_quota.QuotaUnstated) or f.never))

    def quotas_held(self, group: Group) -> frozenset[str]:
        """Names of the quotas that the group's members charge."""
        shapes = shapes_of(group.members)
        return frozenset(
            quota.name
            for quota in self.quotas.get(group.identity.namespace, [])
            if any(namespace_quota.charges(quota, shape, self._price) for shape in shapes)
        )

    def reserve(self, group: Group) -> None:
        """Keep queue and nodes for a group whose members are being made again, so that it need not give back twice."""
        coming = [*group.gated, *group_size.phantoms(group, group.coming)]
        self.charge_group(group, coming)
        self.charge_anywhere(coming)

    def await_later(self, group: Group) -> None:
        """Keep queue, nodes and quota for members that a group which has begun makes later, or anew."""
        coming = group_size.phantoms(group, group.awaited)
        self.charge_group(group, coming)
        self.charge_anywhere(coming)
        self.promise_quota(group)

    def _stops(self, group: Group, quota: QuotaFacts) -> Iterator[namespace_quota.QuotaStop]:
        promised = self.promised.get((quota.namespace, quota.name), {})
        count = self.count(quota) if group.coming else {}
        whole: Resources | None = None
        for stop in namespace_quota.shortages(quota, group.coming, count, promised, self._price):
            if isinstance(stop, namespace_quota.QuotaShort):
                whole = self._whole(group, quota) if whole is None else whole
                yield msgspec.structs.replace(stop, whole=whole.get(stop.key, 0))
            else:
                yield stop

    def _whole(self, group: Group, quota: QuotaFacts) -> Resources:
        """What the group charges once it is complete."""
        lines = [(line.shape, line.charged) for line in namespace_quota.tally(group.members, self.now)]
        lines += [(absent.shape, absent.count) for absent in group.coming]
        return total(scale(self._price(s), n) for s, n in lines if namespace_quota.matches(quota, s))

    def promise_quota(self, group: Group) -> None:
        """Keep room for the missing members, so that a group behind does not count on it."""
        for quota in self.quotas.get(group.identity.namespace, []):
            book = self.promised.setdefault((quota.namespace, quota.name), {})
            for absent in group.coming:
                self._book(book, quota, absent.shape, absent.count)

    def _book(self, book: Resources, quota: QuotaFacts, shape: Shape, count: int) -> None:
        if namespace_quota.matches(quota, shape):
            for key, amount in self._price(shape).items():
                if key in quota.hard:
                    book[key] = book.get(key, 0) + amount * count

    def count(self, quota: QuotaFacts) -> Resources:
        """What the pods of the quota's namespace charge now, by our own count."""
        key = (quota.namespace, quota.name)
        found = self._counts.get(key)
        if found is None:
            lines = self._tallies.get(quota.namespace)
            if lines is None:
                pods = self._by_namespace.get(quota.namespace, [])
                lines = self._tallies[quota.namespace] = namespace_quota.tally(pods, self.now)
            found = self._counts[key] = namespace_quota.counted(quota, lines, self._price)
        return found

    def capability_shortage(self, group: Group, need: Resources) -> queue_capacity.CapabilityShort | None:
        return queue_capacity.shortage(self.snapshot.queues, group.queue, need, self.allocated)

    def guarantee_shortage(self, group: Group, need: Resources) -> guarantee.GuaranteeShort | None:
        """What queues are guaranteed is kept of what is free; unknown, so not kept, where nothing is placed."""
        queues = self.snapshot.queues
        if not any(queue.guarantee for queue in queues.values()):
            return None
        return guarantee.shortage(queues, group.queue, need, self.allocated, self.pool.left())

    def capability_never(self, group: Group, need: Resources) -> queue_capacity.CapabilityShort | None:
        """The first level that could not take so much even if it were empty."""
        found = queue_capacity.shortage(self.snapshot.queues, group.queue, need, {})
        if found is None:
            return None
        return msgspec.structs.replace(found, allocated=self.allocated.get(found.queue, {}).get(found.resource, 0))

    def managed(self, group: Group) -> bool:
        return managed(self.snapshot.namespaces.get(group.identity.namespace))
