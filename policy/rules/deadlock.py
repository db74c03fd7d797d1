"""Who keeps a quota that several incomplete groups hold parts of, and who gives back.

Kubernetes charges a pod when it is created. Two groups whose members were created in turn can each hold what the other
lacks, for ever. Per quota one of them keeps its charge, the first in order, and the others give theirs back until the
whole of them fits. The order is total and the same for all quotas, so the first group of all never gives back, and a
group gives back only to one before it, or to one that cannot: no two groups give back to each other. May know the
model and templates; decides nothing about order or room.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from policy.rules.conclusions import Group, Pull
from policy.rules.model import Claim, OwnerFacts, Snapshot, Why
from policy.rules.template import digest

MOST_TIMES: Final = 3  # that a group gives back to end a deadlock
OF_BEGUN: Final = frozenset({"bind", "preempted"})  # why a group is given back although members of it may run
FORGOTTEN_SECONDS: Final = 3600.0  # after which a group that failed to be bound begins to count anew


class Contender(msgspec.Struct, frozen=True):
    """An incomplete group that its quota keeps from being completed."""

    group: Group
    short: frozenset[str]  # names of quotas
    holds: frozenset[str]  # names of quotas that its members charge
    never: bool  # not even an empty quota would do
    stuck: str  # why it cannot give back; "" when it can


class Cure(msgspec.Struct, frozen=True):
    """A group stands in the way of another in a quota."""

    quota: str
    keeper: str  # key of the group that keeps its charge
    stuck: str  # why this one cannot give back either


def cures(contenders: Sequence[Contender]) -> dict[str, Cure]:
    """By key, the groups that hold part of a quota that another keeps; contenders come in order."""
    found: dict[str, Cure] = {}
    for quota in sorted({name for one in contenders for name in one.short}):
        rivals = [one for one in contenders if quota in one.short]
        keeper = _keeper(quota, rivals)
        for one in rivals:
            if one is not keeper and quota in one.holds:
                found.setdefault(one.group.key, Cure(quota, keeper.group.key, one.stuck))
    return found


def _keeper(quota: str, rivals: Sequence[Contender]) -> Contender:
    """One that cannot give back keeps what it holds whatever we say; else the first that could ever be complete."""
    fixed = (one for one in rivals if one.stuck and quota in one.holds)
    able = (one for one in rivals if not one.never)
    return next(fixed, None) or next(able, None) or rivals[0]


def stuck(snapshot: Snapshot, group: Group, why: Why) -> str:
    """Why this group must not, or cannot, be told to give its pods back; "" when it can."""
    namespace = snapshot.namespaces.get(group.identity.namespace)
    if why == "deadlock" and namespace is not None and namespace.report_deadlocks:
        return "its namespace wants deadlocks reported only"
    running = next((m for m in group.members if m.node), None)
    if running is not None and not group.suspended and why not in OF_BEGUN:  # suspending its owner would end it
        return f"pod {running.name} runs already"
    known = {owner.uid for owner in group.owners}
    stray = next((m for m in group.members if m.owner not in known), None)
    if stray is not None or not group.owners:
        return f"pod {stray.name} has no owner that would make it again" if stray else "nobody would make it again"
    return next(filter(None, (_stuck(snapshot, owner, why) for owner in group.owners)), "")


def _stuck(snapshot: Snapshot, owner: OwnerFacts, why: Why) -> str:
    what = owner.called
    if owner.ours:  # given back already: its count is not held against the rest of its group
        return ""
    if not owner.lever:
        return f"{what} cannot be suspended by us"
    if owner.claim is not None and owner.claim.foreign:
        return f"somebody else resumed {what}"
    if owner.uid in snapshot.stuck:
        return f"suspending {what} was refused"
    if why == "deadlock" and owner.claim is not None and owner.claim.times >= MOST_TIMES:
        return f"{what} has given back {MOST_TIMES} times"
    return ""


def give_back(group: Group, why: Why, now: float) -> tuple[Pull, ...]:
    """Suspend every owner that nobody has suspended yet: after a crash between two of them, the rest."""
    owners = (owner for owner in group.owners if not owner.held and not owner.over)
    return tuple(Pull(o.uid, suspend=True, claim=_claim(group, o, why, now)) for o in owners)


def _claim(group: Group, owner: OwnerFacts, why: Why, now: float) -> Claim:
    """With the size of its members, where all are alike."""
    before, part = owner.claim, owner.part
    sibling = next((m for m in group.members if m.owner == owner.uid), None) if part else None
    return Claim(
        group=group.key,
        why=why,
        times=(before.times if before else 0) + (why == "deadlock"),
        tries=(before.tries if before else 0) + (why == "deadline"),
        fails=_fails(before, now) + (why in OF_BEGUN),
        at=now,
        requests=sibling.shape.requests if sibling else before.requests if before else {},
        limits=sibling.shape.limits if sibling else before.limits if before else {},
        template=digest(part.template) if part and sibling else before.template if before else "",
    )


def _fails(before: Claim | None, now: float) -> int:
    """Of late: one that ran for long in between is none that cannot be bound."""
    recent = before is not None and now - (before.ended or now) < FORGOTTEN_SECONDS
    return before.fails if before and recent else 0


def why_of(group: Group) -> Why:
    """Why its owners are suspended by us."""
    return next(owner.claim.why for owner in group.suspended if owner.claim)


def resume(group: Group, now: float) -> tuple[Pull, ...]:
    """Let every owner that we suspended go on."""
    return tuple(
        Pull(owner.uid, suspend=False, claim=msgspec.structs.replace(owner.claim, ended=now))
        for owner in group.suspended
        if owner.claim is not None
    )


def lost(group: Group, now: float) -> tuple[Pull, ...]:
    """Records of suspensions that somebody else ended, closed for good; nothing else is touched."""
    return tuple(
        Pull(owner.uid, suspend=None, claim=msgspec.structs.replace(owner.claim, ended=now, foreign=True))
        for owner in group.owners
        if owner.claim is not None and not owner.claim.ended and not owner.ours
    )
