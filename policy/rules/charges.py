"""What pods take as they stand, gated by us or not: of queues, and of nodes.

Everything that runs, is lifted or is to go is charged. May know the model, groups and whom a namespace's label means;
decides nothing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from policy.rules.belonging import managed
from policy.rules.conclusions import Group
from policy.rules.model import PodFacts, Shape, Snapshot


class Charges(NamedTuple):
    """Of a snapshot, or of a part of it."""

    asked: dict[tuple[str, int], list[PodFacts]]  # by queue and id() of the shape: thousands of pods are alike
    fixed: dict[int, tuple[list[str], list[PodFacts]]]  # nodes that pods are on, or promised to, by id() of the shape
    adrift: list[PodFacts]  # let go without a place: the scheduler may bind them anywhere
    wanted: dict[int, Shape]  # of whoever is on no node yet, by id()
    ending: list[tuple[str, PodFacts]]  # of those charged the ones that somebody will end, each with its queue


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
