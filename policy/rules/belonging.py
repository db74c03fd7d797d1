"""Whose members pods are: the snapshot by the keys that grouping asks for.

Membership is by verified owner uids and by names that the pod itself gives; labels of ours are never read here. A
group exists once its owner does, even if quota refused its first pod. May know the model, roots, makers and families.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec

from policy import names
from policy.rules.makers import Makers
from policy.rules.membership.identity import LITE, NATIVE, POD, PODGROUP, Identity, of_owner_named
from policy.rules.model import NamespaceFacts, OwnerFacts, PodFacts, PodGroupFacts, Snapshot
from policy.rules.roots import Roots
from policy.rules.template import Sizes

GANG_POLICIES: Final = frozenset({names.Policy.GANG, names.Policy.HYBRID})
NAMED: Final = frozenset({PODGROUP, LITE, NATIVE})  # kinds of identities that a pod gives by name
VOLCANO_FIRST: Final = (names.VOLCANO_API, names.COSCHEDULING_API, names.COSCHEDULING_OLD_API)
COSCHEDULING_FIRST: Final = (names.COSCHEDULING_API, names.COSCHEDULING_OLD_API, names.VOLCANO_API)


def managed(namespace: NamespaceFacts | None) -> bool:
    """Whether the namespace's label puts its pods into gangs."""
    return namespace is not None and namespace.policy in GANG_POLICIES


class Surroundings:
    """What grouping asks of the whole snapshot, whichever pods and owners it looks at."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.sizes = Sizes(snapshot)
        self.gangs = frozenset(name for name, found in snapshot.namespaces.items() if managed(found))


class Index:
    """The snapshot by the keys that grouping asks for."""

    def __init__(self, snapshot: Snapshot, around: Surroundings) -> None:
        self.snapshot = snapshot
        self.around = around
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
        in_gangs = makes_any and owner.namespace in self.around.gangs
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
        told: dict[str, Identity] = {}
        for found in pods:
            if not (found.gated or found.lifted or found.namespace in self.around.gangs):
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
        return next((p for p in by_dialect(found, VOLCANO_FIRST) if p.controller == owner.uid), None)


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


def by_dialect(found: Iterable[PodGroupFacts], preferred: tuple[str, ...]) -> Iterator[PodGroupFacts]:
    by_api = {podgroup.api: podgroup for podgroup in found}
    return (by_api[api] for api in preferred if api in by_api)


def own_podgroup(uid: str, part: str = "") -> str:
    """Name of the PodGroup that we make for a root owner, or for one of the equal groups that it makes."""
    return f"{names.OWN_PODGROUP_PREFIX}{uid}-{part}" if part else names.OWN_PODGROUP_PREFIX + uid
