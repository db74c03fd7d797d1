"""What is taken, and what this pass has promised: the books that the questions are asked against.

Everything that runs, is lifted or is promised is charged, gated by us or not. A Ledger lives for one pass; its trial
is undone as a whole. May know the model and the five questions' own books; decides nothing.
"""

from collections.abc import Iterable

import msgspec

from policy.rules import namespace_quota, placement, queue_capacity
from policy.rules.grouping import managed
from policy.rules.model import Group, PodFacts, QuotaFacts, Resources, Shape, Snapshot
from policy.rules.resources import total


class Ledger:
    """Books of one pass over one snapshot."""

    def __init__(self, snapshot: Snapshot, groups: dict[str, Group], now: float) -> None:
        self.snapshot = snapshot
        self.now = now
        self.allocated: dict[str, Resources] = {}
        self.promised: dict[tuple[str, str], Resources] = {}  # (namespace, quota) -> key -> nano units
        self._counts: dict[tuple[str, str], Resources] = {}
        self._by_namespace: dict[str, list[PodFacts]] = {}
        self.quotas: dict[str, list[QuotaFacts]] = {}
        for quota in sorted(snapshot.quotas, key=lambda q: q.name):
            self.quotas.setdefault(quota.namespace, []).append(quota)
        shapes = {id(p.shape): p.shape for p in snapshot.pods if p.gated or p.lifted or not p.node}
        self.pool = placement.Pool(snapshot.nodes, placement.columns_of(s.requests for s in shapes.values()))
        self._charge_pods(groups)

    def _charge_pods(self, groups: dict[str, Group]) -> None:
        queue_of = {m.uid: g.queue for g in groups.values() for m in g.members}
        adrift: list[PodFacts] = []
        for pod in self.snapshot.pods:
            if pod.namespace in self.quotas:
                self._by_namespace.setdefault(pod.namespace, []).append(pod)
            if pod.over or (pod.gated and not pod.node):
                continue
            queue = queue_of.get(pod.uid) or self._queue_of_outsider(pod)
            if queue:
                self.charge_queue(queue, pod.shape.requests)
            if pod.node or pod.pin:
                self.pool.charge(pod.node or pod.pin, pod)
            elif not pod.foreign_gates and pod.deleted is None:
                adrift.append(pod)
        self._charge_adrift(adrift)

    def _charge_adrift(self, pods: list[PodFacts]) -> None:
        """Pods that the scheduler may bind at any moment, and nobody knows where: where we would put them."""
        for pod in sorted(pods, key=lambda p: (-p.shape.priority, p.created, p.uid)):
            placement.place(self.pool, [pod])

    def _queue_of_outsider(self, pod: PodFacts) -> str:
        """A pod outside our groups is charged where it, or its namespace, names a queue."""
        if pod.queue:
            return pod.queue
        namespace = self.snapshot.namespaces.get(pod.namespace)
        return namespace.queues[0] if namespace and namespace.policy and namespace.queues else ""

    def charge_queue(self, queue: str, requests: Resources) -> None:
        queue_capacity.charge(self.snapshot.queues, queue, requests, self.allocated)

    def charge_group(self, group: Group, pods: Iterable[PodFacts]) -> None:
        self.charge_queue(group.queue, total(p.shape.requests for p in pods))

    def quota_shortage(self, group: Group) -> namespace_quota.QuotaShort | namespace_quota.QuotaUnstated | None:
        """The first quota key that cannot take the members that do not exist yet."""
        for quota in self.quotas.get(group.identity.namespace, []):
            key = (quota.namespace, quota.name)
            promised = dict(self.promised.get(key, {}))
            for absent in group.absent:
                found = namespace_quota.shortage(quota, absent.shape, absent.count, self._count(quota), promised)
                if isinstance(found, namespace_quota.QuotaShort):
                    return msgspec.structs.replace(found, whole=self._whole(group, quota, found.key))
                if found is not None:
                    return found
                self._book(promised, quota, absent.shape, absent.count)
        return None

    def _whole(self, group: Group, quota: QuotaFacts, key: str) -> int:
        shapes = [(m.shape, 1) for m in group.members] + [(a.shape, a.count) for a in group.absent]
        counted = ((shape, count) for shape, count in shapes if namespace_quota.matches(quota, shape))
        return sum(namespace_quota.cost(shape).get(key, 0) * count for shape, count in counted)

    def promise_quota(self, group: Group) -> None:
        """Keep room for the missing members, so that a group behind does not count on it."""
        for quota in self.quotas.get(group.identity.namespace, []):
            book = self.promised.setdefault((quota.namespace, quota.name), {})
            for absent in group.absent:
                self._book(book, quota, absent.shape, absent.count)

    def _book(self, book: Resources, quota: QuotaFacts, shape: Shape, count: int) -> None:
        if namespace_quota.matches(quota, shape):
            for key, amount in namespace_quota.cost(shape).items():
                if key in quota.hard:
                    book[key] = book.get(key, 0) + amount * count

    def _count(self, quota: QuotaFacts) -> Resources:
        key = (quota.namespace, quota.name)
        found = self._counts.get(key)
        if found is None:
            pods = self._by_namespace.get(quota.namespace, [])
            found = self._counts[key] = namespace_quota.counted(quota, pods, self.now)
        return found

    def capability_shortage(self, group: Group, shapes: Iterable[Shape]) -> queue_capacity.CapabilityShort | None:
        need = total(s.requests for s in shapes)
        return queue_capacity.shortage(self.snapshot.queues, group.queue, need, self.allocated)

    def managed(self, group: Group) -> bool:
        return managed(self.snapshot.namespaces.get(group.identity.namespace))
