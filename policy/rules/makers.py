"""Owners as their groups see them: who makes which members of which group, and who works for whom.

An owner is at the top of its chain, or works for the one that is. Its pods form one group, unless the templates of some
parts name another; then each group sees only its own parts, and nobody may suspend the owner for one of them alone.
May know the model, roots and families.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from policy.rules.membership import families
from policy.rules.membership.family import Size
from policy.rules.membership.identity import PODGROUP, Identity
from policy.rules.model import OwnerFacts, PodGroupFacts, Snapshot
from policy.rules.roots import Roots

_VOLCANO_OWN: Final = "podgroup-"  # of one that Volcano itself makes for pods without a group: a gang of one


class Makers:
    """The owners of one snapshot."""

    def __init__(self, snapshot: Snapshot, roots: Roots) -> None:
        self._roots = roots
        self._kinds = families.kinds(snapshot.kinds)
        self._given = dict(_given(snapshot.podgroups))
        self.below: dict[str, list[OwnerFacts]] = {}  # those that work for an owner, by its uid
        self.own: dict[str, OwnerFacts] = {}  # with the parts that name no other group, by uid
        self.naming: dict[str, list[OwnerFacts]] = {}  # with the parts that name a group, by its key
        owners = sorted(snapshot.owners.values(), key=lambda o: (o.created, o.uid))
        for owner in [owner for owner in owners if not self._is_below(owner)]:
            self._add(self._told(owner))

    def of(self, owners: Iterable[OwnerFacts]) -> tuple[str, ...]:
        """Uids of these owners and of all that work for them."""
        return tuple(uid for o in owners for uid in (o.uid, *(below.uid for below in self.below.get(o.uid, ()))))

    def _is_below(self, owner: OwnerFacts) -> bool:
        root = self._roots.of_owner(owner) if owner.above is not None else None
        if root is None or root.ref.uid == owner.uid:
            return False
        self.below.setdefault(root.ref.uid, []).append(owner)
        return True

    def _told(self, owner: OwnerFacts) -> OwnerFacts:
        """With the parts that an owner below it knows better, and the PodGroup that its operator made for it."""
        family = self._kinds.of(owner.api, owner.kind)
        kind = family.delegates if family else ""
        below = self.below.get(owner.uid, ())
        known = next((o for o in below if kind and o.kind == kind), None)
        if known is not None:
            owner = msgspec.structs.replace(owner, parts=known.parts, size=known.size)
        uids = (owner.uid, *(o.uid for o in below))
        given = next((g for uid in uids if (g := self._given.get((owner.namespace, uid)))), None)
        if given is None or owner.group is not None:
            return owner
        how = f"PodGroup of {owner.called}"
        return msgspec.structs.replace(owner, group=Identity(PODGROUP, owner.namespace, given.name, how=how))

    def _add(self, owner: OwnerFacts) -> None:
        for view in _views(owner):
            if view.group is None or view is owner:
                self.own[owner.uid] = view
            if view.group is not None and not owner.over:
                self.naming.setdefault(view.group.key, []).append(view)


def _given(podgroups: Iterable[PodGroupFacts]) -> Iterator[tuple[tuple[str, str], PodGroupFacts]]:
    """By namespace and uid of the controller, PodGroups that operators made; of several the first by name."""
    for one in sorted(podgroups, key=lambda p: (p.name, p.api), reverse=True):
        if one.controller and not one.ours and not one.name.startswith(_VOLCANO_OWN):
            yield (one.namespace, one.controller), one


def _views(owner: OwnerFacts) -> Iterator[OwnerFacts]:
    groups = {part.group.key if part.group else "": part.group for part in owner.parts}
    if owner.group is not None or len(groups) < 2:
        yield owner
        return
    for key, group in groups.items():
        parts = tuple(p for p in owner.parts if (p.group.key if p.group else "") == key)
        size = Size(sum(p.minimum for p in parts), sum(p.count for p in parts), owner.size.source)
        yield msgspec.structs.replace(owner, parts=parts, size=size, group=group, lever=())
