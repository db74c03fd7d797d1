"""What pods take as they stand, gated by us or not: of queues, and of nodes.

Everything that runs, is lifted or is to go is charged. May know the model, groups and whom a namespace's label means;
decides nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from policy.rules.belonging import managed
from policy.rules.conclusions import Group
from policy.rules.model import PodFacts, Shape, Snapshot


class Charges(NamedTuple):
    """Of a part of a snapshot."""

    asked: dict[tuple[str, int], list[PodFacts]]  # by queue and id() of the shape: thousands of pods are alike
    fixed: dict[int, tuple[list[str], list[PodFacts]]]  # nodes that pods are on, or promised to, by id() of the shape
    adrift: list[PodFacts]  # let go without a place: the scheduler may bind them anywhere
    wanted: dict[int, Shape]  # of whoever is on no node yet, by id()
    ending: list[tuple[str, PodFacts]]  # of those charged the ones that somebody will end, each with its queue


class Taken:
    """What all parts of a snapshot take, summed as they come and go: most of them stand from pass to pass."""

    def __init__(self, parts: Iterable[Charges] = ()) -> None:
        self._parts: dict[int, Charges] = {}  # by id()
        self._unsettled: dict[int, Charges] = {}  # those of them that have pods without a node, or that will end
        self._asked: dict[tuple[str, int], _Alike] = {}
        self._fixed: dict[int, dict[int, tuple[list[str], list[PodFacts]]]] = {}  # by id() of the shape and of the part
        for part in parts:
            self.add(part)

    def add(self, part: Charges) -> None:
        self._parts[id(part)] = part
        if part.adrift or part.wanted or part.ending:
            self._unsettled[id(part)] = part
        for key, pods in part.asked.items():
            before = self._asked.get(key)
            self._asked[key] = _Alike(pods[0].shape, len(pods) + (before.pods if before else 0))
        for shape, placed in part.fixed.items():
            self._fixed.setdefault(shape, {})[id(part)] = placed

    def remove(self, part: Charges) -> None:
        del self._parts[id(part)]
        self._unsettled.pop(id(part), None)
        for key, pods in part.asked.items():
            shape, count = self._asked.pop(key)
            if count > len(pods):
                self._asked[key] = _Alike(shape, count - len(pods))
        for shape_id in part.fixed:
            there = self._fixed[shape_id]
            del there[id(part)]
            if not there:
                del self._fixed[shape_id]

    def asked(self) -> Iterator[tuple[str, Shape, int]]:
        """Queues, and how many pods of a shape are charged there."""
        for (queue, _), alike in self._asked.items():
            yield queue, alike.shape, alike.pods

    def fixed(self) -> Iterator[tuple[list[str], list[PodFacts]]]:
        """Nodes and the pods on them, each time of one shape."""
        for parts in self._fixed.values():
            nodes, pods = zip(*parts.values(), strict=True)
            yield list(chain.from_iterable(nodes)), list(chain.from_iterable(pods))

    def adrift(self) -> Iterator[PodFacts]:
        return chain.from_iterable(part.adrift for part in self._unsettled.values())

    def wanted(self) -> dict[int, Shape]:
        """Shapes of whoever is on no node yet, by id()."""
        return {key: shape for part in self._unsettled.values() for key, shape in part.wanted.items()}

    def ending(self) -> Iterator[tuple[str, PodFacts]]:
        """Those of the holders that somebody will end."""
        return chain.from_iterable(part.ending for part in self._unsettled.values())

    def holders(self) -> Iterator[tuple[str, PodFacts]]:
        """Every pod that is charged, with its queue."""
        for part in self._parts.values():
            for (queue, _), pods in part.asked.items():
                for pod in pods:
                    yield queue, pod


class _Alike(NamedTuple):
    shape: Shape
    pods: int


def of_pods(snapshot: Snapshot, pods: Sequence[PodFacts], groups: Mapping[str, Group]) -> Charges:
    """Of pods of the snapshot; `groups` by key are at least those that they are in."""
    queue_of = {m.uid: g.queue for g in groups.values() for m in g.members}
    found = Charges({}, {}, [], {id(p.shape): p.shape for p in pods if not p.node}, [])
    found.wanted.update((id(a.shape), a.shape) for g in groups.values() for a in g.coming)
    limited = {owner.uid for owner in snapshot.owners.values() if owner.deadline is not None}
    for pod in pods:
        if pod.over or (pod.gated and managed(snapshot.namespaces.get(pod.namespace))):
            continue  # one of ours stays behind its gate; where gangs are asked for no more this pass lets it go
        queue = queue_of.get(pod.uid) or _queue_of(snapshot, pod, groups)
        found.asked.setdefault((queue, id(pod.shape)), []).append(pod)
        if pod.lasts or pod.deleted is not None or pod.owner in limited:
            found.ending.append((queue, pod))
        at = pod.node or (pod.pin if pod.lifted else "")  # a pin that a user wrote promises nothing
        at = at or ("" if pod.deleted else pod.nominated)  # preemption makes room there, for nobody else
        if at:
            nodes, those = found.fixed.setdefault(id(pod.shape), ([], []))
            nodes.append(at)
            those.append(pod)
        elif not pod.foreign_gates and pod.deleted is None:
            found.adrift.append(pod)
    return found


def _queue_of(snapshot: Snapshot, pod: PodFacts, groups: Mapping[str, Group]) -> str:
    """Of a pod that is no live member: the queue that its lift named, its group's, or an outsider's."""
    if pod.lifted and pod.lifted.queue:
        return pod.lifted.queue
    group = groups.get(pod.group.key) if pod.group else None
    return group.queue if group else _queue_of_outsider(snapshot, pod)


def _queue_of_outsider(snapshot: Snapshot, pod: PodFacts) -> str:
    """A pod outside our groups is charged where it, or its namespace, names a queue."""
    if pod.queue:
        return pod.queue
    namespace = snapshot.namespaces.get(pod.namespace)
    return namespace.queues[0] if namespace and namespace.policy and namespace.queues else ""
