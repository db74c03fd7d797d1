"""From a Snapshot to its groups: whose members they are, how many there must be, their queue, priority and age.

Membership is by verified owner uids and by names that the pod itself gives; labels of ours are never read here. A
group exists once its owner does, even if quota refused its first pod. May know the model and families.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from policy import names
from policy.rules import group_size, notes, order
from policy.rules.conclusions import Absent, Group, Problem
from policy.rules.makers import Makers
from policy.rules.membership.identity import LITE, NATIVE, POD, PODGROUP, Identity, of_owner_named
from policy.rules.model import NamespaceFacts, OwnerFacts, PodFacts, PodGroupFacts, Snapshot
from policy.rules.roots import Roots, gone
from policy.rules.template import Sizes

GANG_POLICIES = frozenset({names.Policy.GANG, names.Policy.HYBRID})
NAMED = frozenset({PODGROUP, LITE, NATIVE})  # kinds of identities that a pod gives by name
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
        self.sizes = Sizes(snapshot)
        self.podgroups: dict[tuple[str, str], list[PodGroupFacts]] = {}
        for podgroup in snapshot.podgroups:
            self.podgroups.setdefault((podgroup.namespace, podgroup.name), []).append(podgroup)
        self.roots = Roots(snapshot)
        self.makers = Makers(snapshot, self.roots)
        self.identities: dict[str, Identity] = {}
        self.members: dict[str, list[PodFacts]] = {}
        self._elsewhere: set[tuple[str, str]] = set()  # owners, and which of their groups, whose pods name another
        for owner in (*self.makers.own.values(), *chain.from_iterable(self.makers.naming.values())):
            self._expect(owner)
        self._add_pods(snapshot.pods)
        self._drop_ghosts()

    def _expect(self, owner: OwnerFacts) -> None:
        """A group exists once its owner does."""
        makes_any = owner.size.possible > 0 and not owner.over and not owner.held
        in_gangs = makes_any and managed(self.snapshot.namespaces.get(owner.namespace))
        if in_gangs or (owner.ours and not owner.over):  # whatever we suspended is ours to resume
            for identity in _identities_of_owner(owner):
                self.identities.setdefault(identity.key, identity)

    def _drop_ghosts(self) -> None:
        """A group of an owner none of whose pods is in it, since all of them name another."""
        ghosts = [
            key
            for key, identity in self.identities.items()
            if (identity.uid, identity.part) in self._elsewhere and key not in self.members
        ]
        for key in ghosts:
            del self.identities[key]

    def _add_pods(self, pods: Iterable[PodFacts]) -> None:
        """Pods may give one name in several places: the first in order is told, whatever pod comes first."""
        gangs = {name for name, namespace in self.snapshot.namespaces.items() if managed(namespace)}
        told: dict[str, Identity] = {}
        for found in pods:
            if not (found.gated or found.lifted or found.namespace in gangs):
                continue
            pod, identity = self._placed(found)
            if identity is None or (identity.kind == POD and not pod.live):
                continue
            key = identity.key
            self.members.setdefault(key, []).append(pod)
            known = told.get(key)
            if pod.live and (known is None or (identity.name, identity.how) < (known.name, known.how)):
                told[key] = identity
        self.identities = told | self.identities

    def _placed(self, pod: PodFacts) -> tuple[PodFacts, Identity | None]:
        """The pod as a member, its owner being the one that makes the group; and that group."""
        root = self.roots.of_pod(pod) if pod.above is not None else None
        if root is None:
            return pod, _identity_of_pod(pod)
        family, uid, told = root.family, root.ref.uid, self.makers.own.get(root.ref.uid)
        if family.plain and pod.owner == uid and pod.group is not None and (told is None or told.group is None):
            return pod, pod.group  # nearly every pod of most clusters: its Job, or the name that it gives
        labels = pod.labels
        role, unit = family.role(labels) or pod.role, family.unit(labels)
        if (pod.owner, pod.role, pod.unit) != (uid, role, unit):
            pod = msgspec.structs.replace(pod, owner=uid, role=role, unit=unit)
        if pod.group is not None and pod.group.kind in NAMED:
            self._elsewhere.add((uid, family.slice(labels)))
            return pod, pod.group
        if pod.problem:
            return pod, _identity_of_pod(pod)
        if told is not None and told.group is not None:
            return pod, told.group
        part = family.slice(labels)
        if pod.group is not None and pod.group.uid == uid and not part:
            return pod, pod.group
        return pod, of_owner_named(root.ref.kind, pod.namespace, root.ref.name, uid, part)

    def owner_of(self, identity: Identity) -> OwnerFacts | None:
        """The controller that the pods name by uid: a tenant may write any uid, also one of another namespace."""
        owner = self.makers.own.get(identity.uid)
        known = owner is not None and (owner.kind, owner.namespace) == (identity.kind, identity.namespace)
        return owner if known else None

    def over(self, uid: str) -> bool:
        owner = self.snapshot.owners.get(uid)
        return owner is not None and owner.over

    def podgroup_of(self, owner: OwnerFacts, part: str) -> PodGroupFacts | None:
        """Our own PodGroup of that owner; one of its name that somebody else controls is not the group's."""
        found = self.podgroups.get((owner.namespace, own_podgroup(owner.uid, part)), [])
        return next((p for p in _by_dialect(found, _VOLCANO_FIRST) if p.controller == owner.uid), None)


def _identities_of_owner(owner: OwnerFacts) -> Iterator[Identity]:
    if owner.group:
        yield owner.group
        return
    for part in ("",) if owner.slices is None else map(str, range(owner.slices)):
        yield of_owner_named(owner.kind, owner.namespace, owner.name, owner.uid, part)


def _identity_of_pod(pod: PodFacts) -> Identity | None:
    if pod.group is not None:
        return pod.group
    return Identity(POD, pod.namespace, pod.name, pod.uid, how="the pod alone") if pod.gated or pod.lifted else None


class _Basis(NamedTuple):
    """What a group rests on: who makes it, how large it must be, and what is wrong with that."""

    uid: str
    minimum: int
    possible: int | None
    source: str
    owners: Sequence[OwnerFacts] = ()
    podgroup: PodGroupFacts | None = None
    problem: Problem | None = None
    note: str = ""


def _build(index: _Index, identity: Identity, pods: list[PodFacts]) -> Group:
    live = sorted([p for p in pods if p.live], key=order.member_key)
    others = [p for p in pods if not p.live] if len(live) < len(pods) else []
    basis = _basis(index, identity, live)
    minimum = group_size.left(basis.minimum, basis.possible, basis.owners, others)
    due = group_size.due(basis.owners, live, minimum, index.sizes.of)
    if basis.podgroup is not None and basis.podgroup.min_task_member:
        due = group_size.by_task(due, live, basis.podgroup.min_task_member)
    queue = next(filter(None, _queue_candidates(index, identity, basis, live)), names.DEFAULT_QUEUE)
    singly = queue in index.snapshot.queues and index.snapshot.queues[queue].policy == names.Policy.BINPACK
    if singly:
        due = due._replace(minimum=1, absent=(), later=())
    leaving = [p for p in others if not p.over]
    return Group(
        identity,
        basis.uid,
        due.minimum,
        basis.possible,
        f"annotation {names.ANNOTATION_POLICY} of queue {queue}" if singly else basis.source,
        due.order,
        leaving=len(leaving),
        going=tuple(sorted((p for p in leaving if not p.gated), key=order.member_key)),
        succeeded=group_size.succeeded_since_lift(others, live) if others else 0,
        queue=queue,
        priority=_priority(index, basis, live, due.absent),
        created=_created(basis, live),
        absent=due.absent,
        later=due.later,
        waits=due.waits,
        continues=group_size.continues(basis.owners, others),
        makers=index.makers.of(basis.owners),
        podgroup=basis.podgroup,
        owners=tuple(basis.owners),
        problem=basis.problem,
        note=basis.note,
    )


def _basis(index: _Index, identity: Identity, live: list[PodFacts]) -> _Basis:
    if identity.kind == POD:
        return _alone(index, live[0])
    if identity.kind in NAMED:
        return _named(index, identity, live)
    return _owned(index, identity, live)


def _alone(index: _Index, pod: PodFacts) -> _Basis:
    problem = Problem(names.Reason.PODGROUP_INVALID, pod.problem) if pod.problem else None
    why = index.snapshot.unsized.get(pod.above.uid, "") if pod.above else notes.claimed(pod)
    note = f"it stands alone, since {why}" if why else ""
    return _Basis(pod.uid, 1, 1, "the pod alone", problem=problem, note=note)


def _owned(index: _Index, identity: Identity, live: list[PodFacts]) -> _Basis:
    """A group whose identity is its controller."""
    owner = index.owner_of(identity)
    if owner is None:
        root = index.roots.of_pod(live[0]) if live else None
        missing = gone(identity.kind, identity.name, identity.uid, identity.namespace)
        return _Basis(identity.uid, 1, None, "unknown", problem=(root and root.problem) or missing)
    minimum = owner.min_member or max(1, owner.size.minimum)
    source = f"annotation {names.GROUP_MIN_MEMBER}" if owner.min_member else owner.size.source
    problem = Problem(names.Reason.PODGROUP_INVALID, owner.problem) if owner.problem else None
    told, podgroup = f"{source} of {owner.called}", index.podgroup_of(owner, identity.part)
    possible = len(live) if owner.over else owner.size.possible  # one that is over makes nobody anew
    note = index.roots.beyond(owner)
    return _Basis(owner.uid, minimum, possible, told, (owner,), podgroup, problem, note)


def _named(index: _Index, identity: Identity, live: list[PodFacts]) -> _Basis:
    """A group whose identity is a name that its pods give."""
    owners = index.makers.naming.get(identity.key, [])
    podgroup = _find(index, identity)
    minimum, source, problem = group_size.named_size(identity, podgroup, owners, live)
    uid, note = (
        podgroup.uid if podgroup else "",
        notes.several(index.podgroups.get((identity.namespace, identity.name), []), podgroup),
    )
    done = bool(live) and not owners and all(index.over(p.owner) for p in live)
    possible = len(live) if done else group_size.possible(owners, live)
    return _Basis(uid, minimum, possible, source, owners, podgroup, problem, note)


def _find(index: _Index, identity: Identity) -> PodGroupFacts | None:
    if identity.kind == NATIVE:
        return None
    preferred = _COSCHEDULING_FIRST if identity.how.startswith("label ") else _VOLCANO_FIRST
    found = index.podgroups.get((identity.namespace, identity.name), [])
    return next(_by_dialect(found, preferred), None)


def _by_dialect(found: Iterable[PodGroupFacts], preferred: tuple[str, ...]) -> Iterator[PodGroupFacts]:
    by_api = {podgroup.api: podgroup for podgroup in found}
    return (by_api[api] for api in preferred if api in by_api)


def own_podgroup(uid: str, part: str = "") -> str:
    """Name of the PodGroup that we make for a root owner, or for one of the equal groups that it makes."""
    return f"{names.OWN_PODGROUP_PREFIX}{uid}-{part}" if part else names.OWN_PODGROUP_PREFIX + uid


def _queue_candidates(index: _Index, identity: Identity, basis: _Basis, live: list[PodFacts]) -> Iterator[str]:
    yield from (m.lifted.queue for m in live if m.lifted and not m.gated)  # charged there
    podgroup = basis.podgroup
    if podgroup and not podgroup.ours and podgroup.queue != names.DEFAULT_QUEUE:
        yield podgroup.queue
    yield from (m.queue for m in live)
    yield from (owner.queue for owner in basis.owners[:1])
    namespace = index.snapshot.namespaces.get(identity.namespace)
    yield from namespace.queues[:1] if namespace else ()


def _priority(index: _Index, basis: _Basis, live: list[PodFacts], absent: Iterable[Absent]) -> int:
    """The PodGroup's class, else the lowest member's, else what the template's class says."""
    classes = index.snapshot.priority_classes
    if basis.podgroup and basis.podgroup.priority_class in classes:
        return classes[basis.podgroup.priority_class]
    if live:
        return min(m.shape.priority for m in live)
    return min((classes.get(a.shape.priority_class, 0) for a in absent), default=0)


def _created(basis: _Basis, live: list[PodFacts]) -> float:
    """Age counts from the oldest owner that is not over, whether it has pods now or gave them back.

    A PodGroup lives longer than its runs: without owners, from the oldest live member.
    """
    if basis.owners:
        return basis.owners[0].created
    if live:
        return min(m.created for m in live)
    return basis.podgroup.created if basis.podgroup else 0.0
