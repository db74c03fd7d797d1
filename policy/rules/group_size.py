"""How many members a group must have, may have and still lacks; what of it is done and never comes back.

PodGroup, owner or labels say how many start together; a minimum is lowered only by members that succeeded under a
controller that still exists, so a name used again is a new group. May know the model and names.
"""

from collections.abc import Callable, Sequence

from policy import names
from policy.rules.conclusions import Absent, Group, Problem
from policy.rules.membership.identity import LITE, NATIVE, Identity
from policy.rules.model import OwnerFacts, PodFacts, PodGroupFacts, RefusalFacts, Shape, Snapshot


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


def absent(
    owners: Sequence[OwnerFacts], live: Sequence[PodFacts], missing: int, size: Callable[[OwnerFacts], Shape]
) -> tuple[Absent, ...]:
    """The missing members, owner by owner, sized from a sibling of the same owner, else as `size` says."""
    found: list[Absent] = []
    for owner in owners if missing > 0 else ():
        siblings = [p for p in live if p.owner == owner.uid]
        count = min(missing, max(0, owner.size.possible - len(siblings)))
        if count:
            found.append(Absent(siblings[0].shape if siblings else size(owner), count))
            missing -= count
    if missing > 0 and live:
        found.append(Absent(live[0].shape, missing))
    return tuple(found)


def phantoms(group: Group) -> list[PodFacts]:
    """Stand-ins for the members that do not exist yet, to be placed like pods."""
    found: list[PodFacts] = []
    for absent in group.absent:
        for _ in range(absent.count):
            name = f"{group.key}/absent-{len(found)}"
            found.append(PodFacts(name, group.identity.namespace, name, absent.shape))
    return found


def refusal(snapshot: Snapshot, group: Group) -> RefusalFacts | None:
    """The last refused create of an owner whose pods are still missing; one that a later pod disproves is none."""
    found = (snapshot.refusals.get(owner.uid) for owner in group.owners)
    newest = max((m.created for m in group.members), default=0.0)
    told = [one for one in found if one is not None and one.at > newest and not one.requested]
    return max(told, key=lambda one: one.at, default=None)
