"""How many members a group must have, may have and still lacks; what of it is done and never comes back.

PodGroup, owner or labels say how many start together; a minimum is lowered only by members that succeeded under a
controller that still exists, so a name used again is a new group. May know the model and names.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from policy import names
from policy.rules.conclusions import Absent, Group, Problem
from policy.rules.membership.identity import LITE, NATIVE, Identity
from policy.rules.model import OwnerFacts, PartFacts, PodFacts, PodGroupFacts, RefusalFacts, Shape, Snapshot

MOST_PHANTOMS = 20_000  # stand-ins of one group: a tenant may ask for two thousand million members in one line
Sized = Callable[[OwnerFacts, PartFacts], Shape]


def left(minimum: int, at_once: int | None, owners: Sequence[OwnerFacts], others: Sequence[PodFacts]) -> int:
    """The minimum, less members of these owners that succeeded (among pods not live) and will not be made again."""
    if at_once is None or minimum <= at_once or not others:
        return minimum
    uids = {owner.uid for owner in owners}
    succeeded = sum(1 for p in others if p.phase == "Succeeded" and p.owner in uids)
    return max(1, at_once, minimum - succeeded) if succeeded else minimum


def succeeded_since_lift(others: Sequence[PodFacts], live: Sequence[PodFacts]) -> int:
    """Members lifted together with live ones, and done: those of an earlier run of the same name are older."""
    since = min((p.lifted.at for p in live if p.lifted and not p.gated), default=None)
    if since is None:
        return 0
    return sum(1 for p in others if p.phase == "Succeeded" and p.lifted and p.lifted.at >= since)


def continues(owners: Sequence[OwnerFacts], others: Sequence[PodFacts]) -> bool:
    """Whether members of an earlier stage have started and are done, so that the next one's room is promised."""
    staged = {owner.uid for owner in owners if len({part.stage for part in owner.parts}) > 1}
    return any(p.lifted and p.phase == "Succeeded" and p.owner in staged for p in others)


def named_size(
    identity: Identity, podgroup: PodGroupFacts | None, owners: Sequence[OwnerFacts], live: Sequence[PodFacts]
) -> tuple[int, str, Problem | None]:
    if podgroup is not None:
        problem = Problem(names.Reason.PODGROUP_INVALID, podgroup.problem) if podgroup.problem else None
        return podgroup.min_member, f"spec.minMember of {podgroup.api} PodGroup {podgroup.name}", problem
    if identity.kind == LITE:
        return _labelled_size([*(p.task_min for p in live), *(o.task_min for o in owners)])
    if identity.kind == NATIVE:
        return 1, "scheduling.k8s.io PodGroup: the scheduler starts it whole", None
    text = f"PodGroup {identity.name!r} (named by {identity.how}) does not exist in namespace {identity.namespace!r}"
    return 1, "unknown", Problem(names.Reason.PODGROUP_MISSING, text)


def _labelled_size(told: list[int]) -> tuple[int, str, Problem | None]:
    """The largest of what the members say; a label that is no whole number is a problem, not a gang of one."""
    source = f"label {names.COSCHEDULING_LITE_MIN}"
    wrong = f"{source} of {told.count(0)} members is no whole number from 1"
    return max(1, *told), source, Problem(names.Reason.PODGROUP_INVALID, wrong) if 0 in told else None


def possible(owners: Sequence[OwnerFacts], live: Sequence[PodFacts]) -> int | None:
    """What the named group's owners make at once; None when any member comes from elsewhere, or nobody says."""
    uids = {owner.uid for owner in owners}
    if not owners or any(p.owner not in uids for p in live):
        return None
    return sum(owner.size.possible for owner in owners)


class Due(NamedTuple):
    """Who must be there before anything starts, and who is made afterwards."""

    minimum: int
    absent: tuple[Absent, ...] = ()
    later: tuple[Absent, ...] = ()
    waits: str = ""
    order: tuple[PodFacts, ...] = ()  # the live members, in the order of release


def due(owners: Sequence[OwnerFacts], live: Sequence[PodFacts], minimum: int, size: Sized) -> Due:
    """Split the group by what its owners make first. `live` is in order of release where all are alike."""
    making = [owner for owner in owners if not owner.over]
    roles = [_Role.of(owner, part, live) for owner in making for part in owner.parts if part.count]
    stage = min((r.part.stage for r in roles), default=0)
    first = [r for r in roles if r.part.stage == stage]
    at_first = sum(r.at_first for r in first)
    follow = len(first) < len(roles) or any(r.at_first < r.part.minimum for r in first)
    staged = follow and at_first <= minimum <= sum(r.part.count for r in roles)
    least = at_first if staged else minimum
    if len(roles) < 2 and not staged:
        return Due(least, _absent(roles, live, least - len(live), size), order=tuple(live))
    members = _ordered(roles, live)
    whole = staged or sum(r.part.minimum for r in roles) == minimum
    wanted = _short(first if staged else roles, size) if whole else _absent(roles, live, least - len(live), size)
    later = (r.missing(r.part.minimum - max(len(r.live), r.at_first if r in first else 0), size) for r in roles)
    rest = tuple(a for a in later if a.count) if staged else ()
    waits = next((r.part.waits for r in roles if r.part.waits), "") if staged else ""
    return Due(least, wanted, rest, waits, members)


def by_task(found: Due, live: Sequence[PodFacts], least: Mapping[str, int]) -> Due:
    """What a PodGroup asks of single roles (its minTaskMember), beside what its owners tell."""
    if found.later:
        return found
    have = Counter(p.role for p in live)
    told = {absent.role: absent.count for absent in found.absent if absent.role}
    lack = {role: n - have[role] for role, n in sorted(least.items()) if n - have[role] > told.get(role, 0)}
    shape = next((p.shape for p in live), Shape())
    added = [Absent(_of_role(found, live, role, shape), count, role) for role, count in lack.items()]
    kept = [a for a in found.absent if a.role and a.role not in lack]
    others = max(0, found.minimum - len(live) - sum(a.count for a in (*added, *kept)))
    plain = [msgspec.structs.replace(a, count=min(a.count, others)) for a in found.absent if not a.role]
    left = Counter(dict(least))
    needed = set()
    for pod in found.order:
        if left[pod.role] > 0:
            left[pod.role] -= 1
            needed.add(pod.uid)
    absent = (*kept, *added, *(a for a in plain if a.count))
    return found._replace(absent=absent, order=_needed_first(found.order, needed))


def _of_role(found: Due, live: Sequence[PodFacts], role: str, usual: Shape) -> Shape:
    """The size of a member of that role: a sibling's, else what its owner's template tells, else any member's."""
    sibling = next((p.shape for p in live if p.role == role), None)
    return sibling or next((a.shape for a in found.absent if a.role == role), usual)


class _Role(NamedTuple):
    """One part of one owner, and its members."""

    owner: OwnerFacts
    part: PartFacts
    live: tuple[PodFacts, ...]

    @classmethod
    def of(cls, owner: OwnerFacts, part: PartFacts, live: Sequence[PodFacts]) -> "_Role":
        alone = len(owner.parts) == 1
        return cls(owner, part, tuple(p for p in live if p.owner == owner.uid and (alone or p.role == part.role)))

    @property
    def at_first(self) -> int:
        """Without which nothing of its stage starts."""
        return min(self.part.first or self.part.count, self.part.minimum)

    def missing(self, wanted: int, size: Sized) -> Absent:
        shape = self.live[0].shape if self.live else size(self.owner, self.part)
        return Absent(shape, max(0, wanted), self.part.role)


def _short(roles: Sequence[_Role], size: Sized) -> tuple[Absent, ...]:
    """Of each role what it lacks itself: no worker stands in for the head."""
    found = (r.missing(r.at_first - len(r.live), size) for r in roles)
    return tuple(a for a in found if a.count)


def _absent(roles: Sequence[_Role], live: Sequence[PodFacts], missing: int, size: Sized) -> tuple[Absent, ...]:
    """The missing members, role by role, sized from a sibling, else as `size` says."""
    found: list[Absent] = []
    for role in roles if missing > 0 else ():
        one = role.missing(min(missing, role.part.count - len(role.live)), size)
        if one.count:
            found.append(one)
            missing -= one.count
    if missing > 0 and live:
        found.append(Absent(live[0].shape, missing))
    return tuple(found)


def _ordered(roles: Sequence[_Role], live: Sequence[PodFacts]) -> tuple[PodFacts, ...]:
    """Those first without which nothing starts, of every role; then the rest, as they stand."""
    return _needed_first(live, {p.uid for r in roles for p in r.live[: r.part.minimum]})


def _needed_first(pods: Sequence[PodFacts], needed: set[str]) -> tuple[PodFacts, ...]:
    return (*(p for p in pods if p.uid in needed), *(p for p in pods if p.uid not in needed))


def units(group: Group, members: Sequence[PodFacts]) -> list[list[PodFacts]]:
    """What is released together: a pod, or a whole replica where a replica has several; one that is not whole waits."""
    sizes = {part.role: part.unit for owner in group.owners for part in owner.parts if part.unit > 1}
    if not sizes:
        return [[member] for member in members]
    found: dict[tuple[str, str], list[PodFacts]] = {}
    for member in members:
        found.setdefault((member.role, member.unit or member.uid), []).append(member)
    there = Counter((m.role, m.unit) for m in group.members)
    return [unit for (role, name), unit in found.items() if there[role, name] >= sizes.get(role, 1) or not unit[0].unit]


def phantoms(group: Group, absent: Sequence[Absent]) -> list[PodFacts]:
    """Stand-ins for members that do not exist yet, to be placed like pods; of more than MOST_PHANTOMS, so many."""
    found: list[PodFacts] = []
    for one in absent:
        for _ in range(min(one.count, MOST_PHANTOMS - len(found))):
            name = f"{group.key}/absent-{len(found)}"
            found.append(PodFacts(name, group.identity.namespace, name, one.shape))
    return found


def refusal(snapshot: Snapshot, group: Group) -> RefusalFacts | None:
    """The last refused create of an owner whose pods are still missing; one that a later pod disproves is none."""
    found = (snapshot.refusals.get(uid) for uid in group.makers)
    newest = max((m.created for m in group.members), default=0.0)
    told = [one for one in found if one is not None and one.at > newest and not one.requested]
    return max(told, key=lambda one: one.at, default=None)
