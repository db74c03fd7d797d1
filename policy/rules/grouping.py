"""From a Snapshot to its groups: whose members they are, how many there must be, their queue, priority and age.

Membership is by verified owner uids and by names that the pod itself gives; labels of ours are never read here. A
group exists once its owner does, even if quota refused its first pod. May know the model and families.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from policy import names
from policy.rules import order
from policy.rules.membership.identity import LITE, NATIVE, POD, PODGROUP, Identity
from policy.rules.model import Absent, Group, NamespaceFacts, OwnerFacts, PodFacts, PodGroupFacts, Problem, Snapshot

GANG_POLICIES = frozenset({names.Policy.GANG, names.Policy.HYBRID})
_VOLCANO_FIRST = (names.VOLCANO_API, names.COSCHEDULING_API, names.COSCHEDULING_OLD_API)
_COSCHEDULING_FIRST = (names.COSCHEDULING_API, names.COSCHEDULING_OLD_API, names.VOLCANO_API)


def groups_of(snapshot: Snapshot) -> dict[str, Group]:
    """Every group of the snapshot by key, in a stable order."""
    index = _Index(snapshot)
    built = (_build(index, identity, index.members.get(key, [])) for key, identity in index.identities.items())
    return {group.key: group for group in sorted(built, key=order.key)}


def managed(namespace: NamespaceFacts | None) -> bool:
    """Whether the namespace's label puts its pods into gangs."""
    return namespace is not None and namespace.policy in GANG_POLICIES


class _Index:
    """The snapshot by the keys that grouping asks for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.podgroups: dict[tuple[str, str], list[PodGroupFacts]] = {}
        for podgroup in snapshot.podgroups:
            self.podgroups.setdefault((podgroup.namespace, podgroup.name), []).append(podgroup)
        self.naming: dict[str, list[OwnerFacts]] = {}  # by the key of the group that their pods will name
        self.identities: dict[str, Identity] = {}
        self.members: dict[str, list[PodFacts]] = {}
        self._add_owners(snapshot.owners.values())
        self._add_pods(snapshot.pods)

    def _add_owners(self, owners: Iterable[OwnerFacts]) -> None:
        for owner in owners:
            if owner.group:
                self.naming.setdefault(owner.group.key, []).append(owner)
            if managed(self.snapshot.namespaces.get(owner.namespace)) and not owner.over and not owner.held:
                self._add(_identity_of_owner(owner))

    def _add_pods(self, pods: Iterable[PodFacts]) -> None:
        for pod in pods:
            if pod.gated or pod.lifted or managed(self.snapshot.namespaces.get(pod.namespace)):
                identity = _identity_of_pod(pod)
                if identity is not None and (pod.live or pod.group):
                    self.members.setdefault(identity.key, []).append(pod)
                    if pod.live:
                        self._add(identity)

    def _add(self, identity: Identity) -> None:
        self.identities.setdefault(identity.key, identity)


def _identity_of_owner(owner: OwnerFacts) -> Identity:
    if owner.group:
        return owner.group
    return Identity(owner.kind, owner.namespace, owner.name, owner.uid, how=f"controller {owner.kind} {owner.name}")


def _identity_of_pod(pod: PodFacts) -> Identity | None:
    if pod.group is not None:
        return pod.group
    return Identity(POD, pod.namespace, pod.name, pod.uid, how="the pod alone") if pod.gated or pod.lifted else None


def _build(index: _Index, identity: Identity, pods: list[PodFacts]) -> Group:
    live = sorted((p for p in pods if p.live), key=lambda p: order.member_key(p.created, p.index, p.name))
    if identity.kind == POD:
        return _alone(index, identity, live)
    if identity.kind in (PODGROUP, LITE, NATIVE):
        return _named(index, identity, pods, live)
    return _owned(index, identity, pods, live)


def _alone(index: _Index, identity: Identity, live: list[PodFacts]) -> Group:
    pod = live[0]
    problem = Problem(names.Reason.PODGROUP_INVALID, pod.problem) if pod.problem else None
    return _finish(index, Group(identity, pod.uid, 1, 1, "the pod alone", tuple(live), problem=problem))


def _owned(index: _Index, identity: Identity, pods: list[PodFacts], live: list[PodFacts]) -> Group:
    """A group whose identity is its controller."""
    owner = index.snapshot.owners.get(identity.uid)
    succeeded = sum(1 for p in pods if p.phase == "Succeeded" and p.owner == identity.uid)
    if owner is None:
        gone = Problem(
            names.Reason.OWNER_GONE, f"{identity.kind} {identity.name!r} (uid {identity.uid}) does not exist"
        )
        return _finish(index, Group(identity, identity.uid, 1, None, "unknown", tuple(live), problem=gone))
    own = [p for p in index.podgroups.get((owner.namespace, own_podgroup(owner.uid)), []) if p.controller == owner.uid]
    minimum = owner.min_member or max(1, owner.size.minimum)
    source = f"annotation {names.GROUP_MIN_MEMBER}" if owner.min_member else owner.size.source
    group = Group(
        identity,
        owner.uid,
        minimum,
        owner.size.possible,
        f"{source} of {owner.kind} {owner.name}",
        tuple(live),
        leaving=_leaving(pods),
        succeeded=succeeded,
        podgroup=own[0] if own else None,
        owner=owner,
        problem=Problem(names.Reason.PODGROUP_INVALID, owner.problem) if owner.problem else None,
    )
    return _finish(index, msgspec.structs.replace(group, absent=_absent([owner], live, group.missing)))


def own_podgroup(uid: str) -> str:
    """Name of the PodGroup that we make for a root owner."""
    return names.OWN_PODGROUP_PREFIX + uid


def _named(index: _Index, identity: Identity, pods: list[PodFacts], live: list[PodFacts]) -> Group:
    """A group whose identity is a name that its pods give."""
    owners = index.naming.get(identity.key, [])
    podgroup = _find(index, identity)
    minimum, source, problem = _named_size(identity, podgroup, live)
    group = Group(
        identity,
        podgroup.uid if podgroup else "",
        minimum,
        _possible(owners, live, index.snapshot.owners),
        source,
        tuple(live),
        leaving=_leaving(pods),
        podgroup=podgroup,
        owner=owners[0] if owners else None,
        problem=problem,
    )
    return _finish(index, msgspec.structs.replace(group, absent=_absent(owners, live, group.missing)))


def _find(index: _Index, identity: Identity) -> PodGroupFacts | None:
    found = {p.api: p for p in index.podgroups.get((identity.namespace, identity.name), [])}
    preferred = _COSCHEDULING_FIRST if identity.how.startswith("label ") else _VOLCANO_FIRST
    return next((found[api] for api in preferred if api in found), None)


def _named_size(
    identity: Identity, podgroup: PodGroupFacts | None, live: list[PodFacts]
) -> tuple[int, str, Problem | None]:
    if podgroup is not None:
        problem = Problem(names.Reason.PODGROUP_INVALID, podgroup.problem) if podgroup.problem else None
        return podgroup.min_member, f"spec.minMember of {podgroup.api} PodGroup {podgroup.name}", problem
    if identity.kind == LITE:
        return max((p.task_min for p in live), default=1), f"label {names.COSCHEDULING_LITE_MIN}", None
    if identity.kind == NATIVE:
        return 1, "scheduling.k8s.io PodGroup: the scheduler starts it whole", None
    text = f"PodGroup {identity.name!r} (named by {identity.how}) does not exist in namespace {identity.namespace!r}"
    return 1, "unknown", Problem(names.Reason.PODGROUP_MISSING, text)


def _possible(owners: list[OwnerFacts], live: list[PodFacts], known: Mapping[str, OwnerFacts]) -> int | None:
    """What the named group's owners make at once; None when any member comes from elsewhere, or nobody says."""
    if not owners or any(p.owner not in known for p in live):
        return None
    return sum(owner.size.possible for owner in owners if not owner.over)


def _absent(owners: list[OwnerFacts], live: list[PodFacts], missing: int) -> tuple[Absent, ...]:
    """The missing members, owner by owner, sized from a sibling of the same owner, else from its template."""
    found: list[Absent] = []
    for owner in sorted(owners, key=lambda o: (o.created, o.uid)):
        siblings = [p for p in live if p.owner == owner.uid]
        count = min(missing, max(0, owner.size.possible - len(siblings)))
        if count:
            found.append(Absent(siblings[0].shape if siblings else owner.shape, count))
            missing -= count
    if missing and live:
        found.append(Absent(live[0].shape, missing))
    return tuple(found)


def _leaving(pods: Iterable[PodFacts]) -> int:
    return sum(1 for p in pods if p.deleted is not None and not p.over)


def _finish(index: _Index, group: Group) -> Group:
    """Queue, priority and age, which every kind of group has."""
    return msgspec.structs.replace(
        group, queue=_queue(index, group), priority=_priority(index, group), created=_created(group)
    )


def _queue(index: _Index, group: Group) -> str:
    return next(filter(None, _queue_candidates(index, group)), names.DEFAULT_QUEUE)


def _queue_candidates(index: _Index, group: Group) -> Iterator[str]:
    podgroup = group.podgroup
    if podgroup and not podgroup.ours and podgroup.queue != names.DEFAULT_QUEUE:
        yield podgroup.queue
    yield from (m.queue for m in group.members)
    yield group.owner.queue if group.owner else ""
    namespace = index.snapshot.namespaces.get(group.identity.namespace)
    yield from namespace.queues[:1] if namespace else ()


def _priority(index: _Index, group: Group) -> int:
    """The PodGroup's class, else the lowest member's, else what the template's class says."""
    classes = index.snapshot.priority_classes
    if group.podgroup and group.podgroup.priority_class in classes:
        return classes[group.podgroup.priority_class]
    if group.members:
        return min(m.shape.priority for m in group.members)
    return min((classes.get(a.shape.priority_class, 0) for a in group.absent), default=0)


def _created(group: Group) -> float:
    """Age counts from the owner; a PodGroup lives longer than its runs, so there from the oldest live member."""
    if group.owner is not None and group.owner.uid == group.uid:
        return group.owner.created
    if group.members:
        return min(m.created for m in group.members)
    return group.podgroup.created if group.podgroup else 0.0
