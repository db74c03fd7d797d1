"""What is short -> one line with numbers, as a person reads it in `kubectl describe`.

Count, rank, then word: the limiter first, then the need, then what is free. The texts carry what helps where something
does. May know the model and the shortages of the questions; decides nothing.
"""

from typing import NamedTuple

from policy import names
from policy.rules import quantity
from policy.rules.conclusions import Group, Problem
from policy.rules.deadlock import Cure
from policy.rules.model import RefusalFacts
from policy.rules.namespace_quota import QuotaShort, QuotaUnstated, resource_of
from policy.rules.shortage import NodesShort
from policy.rules.words import (
    MOST_REASONS,
    called,
    count,
    members,
    plural,
    pods_need,
    reasons_text,
    request_text,
    unknown,
)

Reason = names.Reason
Told = tuple[Reason, str, str, dict[str, int]]  # reason, limiter, message, numbers


def forming(group: Group) -> Told:
    have, need = len(group.members), group.minimum
    roles = ", ".join(f"{a.count} {a.role}" for a in group.absent if a.role)
    what = f"{group.missing} more: {roles}" if roles else f"{group.missing} more"
    text = f"{have} of {need} pods exist; waiting for {what} ({group.source})"
    text += _later(group)
    if group.leaving:
        text += f"; {group.leaving} terminating do not count"
    return Reason.FORMING, "members", text, members(group)


def _later(group: Group) -> str:
    count = sum(a.count for a in group.later)
    return f"; {count} more {'comes' if count == 1 else 'come'} later, waiting for {group.waits}" if count else ""


def quota(group: Group, short: QuotaShort) -> Told:
    resource = resource_of(short.key)
    need, free, hard = (quantity.text(n, resource) for n in (short.need, short.free, short.hard))
    what = f"the {short.missing} missing need{plural(short.missing)} {need} {short.key}"
    numbers = members(group) | {"needNano": short.need, "freeNano": short.free, "hardNano": short.hard}
    if short.never:
        whole = quantity.text(max(short.whole, short.need), resource)
        text = f"can never fit: {pods_need(group.minimum)} {whole} {short.key}, quota {short.quota} allows {hard} "
        text += "in all; starts by itself if the quota is raised"
        return Reason.NEVER_FITS, f"quota/{short.quota}/{short.key}", text, numbers
    text = f"{len(group.members)} of {group.minimum} created; {what}, quota {short.quota} has {free} of {hard} left"
    if short.promised:
        text += f" ({quantity.text(short.promised, resource)} promised to groups ahead)"
    return Reason.NAMESPACE_QUOTA_SHORT, f"quota/{short.quota}/{short.key}", text, numbers


def unstated(group: Group, short: QuotaUnstated) -> Told:
    text = (
        f"quota {short.quota} demands that every container states {short.key}; the pods do not, so waiting won't help"
    )
    return Reason.REQUESTS_MISSING, f"quota/{short.quota}/{short.key}", text, members(group)


def create_refused(group: Group, refusal: RefusalFacts) -> Told:
    """Something other than a shortage that we count keeps the owner from making its pods."""
    text = f"{len(group.members)} of {group.minimum} created; the API server refuses the rest: {refusal.message}"
    reason = Reason.REQUESTS_MISSING if refusal.unstated else Reason.CREATE_REFUSED
    return reason, f"create/{refusal.quota}", text, members(group)


def giving_back(group: Group, cure: Cure, keeper: Group, told: Told) -> Told:
    """What the pods say before they go, and their owner afterwards."""
    text = f"{count(len(group.members), 'pod')} given back, since {called(keeper)} goes first in quota {cure.quota}; "
    text += f"starts again, in its old place, when all {group.minimum} fit"
    return Reason.GIVEN_BACK, f"quota/{cure.quota}", text, told[3]


def saving_deadline(group: Group, told: Told) -> Told:
    text = f"suspended so that waiting burns nothing of activeDeadlineSeconds, resumed when all {group.minimum} fit; "
    return Reason.GIVEN_BACK, told[1], text + told[2], told[3]


def given_back(group: Group, told: Told) -> Told:
    """A group whose owners we suspended, and what it waits for."""
    text = f"{_suspended(group)} suspended by ganggate until all {count(group.minimum, 'pod')} fit: {told[2]}"
    return Reason.GIVEN_BACK, told[1], text, told[3]


def going_back(group: Group) -> Told:
    return Reason.GIVEN_BACK, "pods", "pods that were given back to end a deadlock are not gone yet", members(group)


def resumed(group: Group, why: str) -> Told:
    return Reason.RESUMED, "", f"{_suspended(group)} resumed: {why}", members(group)


def taken_over(group: Group, owners: list[str]) -> Told:
    """Somebody else ended our suspension: no fight."""
    text = f"{', '.join(owners)} resumed by somebody else: ganggate will not suspend it again"
    return Reason.RESUMED, "foreign", text, members(group)


def deadlocked(cure: Cure, keeper: Group, told: Told) -> Told:
    text = f"{told[2]}; holds part of quota {cure.quota}, which {called(keeper)} needs first, "
    text += f"and keeps it: {cure.stuck}"
    return Reason.QUOTA_DEADLOCK, told[1], text, told[3]


def burning(told: Told, seconds_left: float) -> Told:
    """A deadline that we cannot stop."""
    text = f"{told[2]}; its activeDeadlineSeconds runs meanwhile, {max(0.0, seconds_left):.0f} s are left"
    return told[0], told[1], text, told[3]


def _suspended(group: Group) -> str:
    return ", ".join(owner.called for owner in group.suspended[:MOST_REASONS])


def nodes(group: Group, short: NodesShort) -> Told:
    numbers = members(group) | {"wanted": short.wanted, "fit": short.fit, "emptyFit": short.empty_fit}
    each = f"{pods_need(short.wanted)} {request_text(short.shape, each=short.wanted > 1)}"
    seen = reasons_text(short.reasons)
    if short.unknown:
        text = f"can never fit: {each}, and {unknown(short.unknown)}"
        return Reason.NEVER_FITS, f"nodes/{short.unknown.key}", text, numbers
    if short.never:
        why = f"no node could take even one were it up and empty: {seen}" if seen else "there are no nodes"
        text = f"can never fit: {each}, and {why}"
        return Reason.NEVER_FITS, "nodes", text, numbers
    text = f"{each}: {short.fit} fit; {seen}" if seen else f"{each}: {short.fit} fit on {count(short.on, 'node')}"
    if short.up_fit < short.wanted:
        text += f"; even with all nodes up and empty only {short.up_fit} would fit"
    return Reason.NODES_SHORT, "nodes", text, numbers


def problem(group: Group, found: Problem) -> Told:
    return found.reason, "", found.message, members(group)


def too_large(group: Group) -> Told:
    text = f"can never fit: minMember is {group.minimum}, but only {group.possible} pods will ever be made"
    text += f" ({group.source})"
    return Reason.NEVER_FITS, "minMember", text, members(group) | {"possible": group.possible or 0}


def foreign_gates(group: Group) -> Told:
    gates = sorted({gate for member in group.members for gate in member.foreign_gates})
    held = sum(1 for member in group.members if member.foreign_gates)
    text = f"{count(held, 'pod')} behind gates that are not ours: {', '.join(gates)}; ours is lifted last"
    return Reason.FOREIGN_GATE, ",".join(gates), text, members(group) | {"held": held}


class Coming(NamedTuple):
    """Members that go without a node, and the pools of which an autoscaler is to make it."""

    pods: int = 0
    pools: tuple[str, ...] = ()


def admitted(
    group: Group, lifting: int, pinned: int, unverified: tuple[str, ...], coming: Coming | None = None
) -> Told:
    text = (
        f"{lifting} of {len(group.members)} pods (minMember {group.need}) fit: lifting their gates, queue {group.queue}"
    )
    if pinned:
        text += f", placed on {count(pinned, 'node')}"
    if unverified:
        text += f"; placement cannot be verified ({', '.join(unverified)}): admitted by quota and capability"
    if coming and coming.pools:
        text += (
            f"; {count(coming.pods, 'pod')} without a node yet: an autoscaler is to make it ({', '.join(coming.pools)})"
        )
    if group.later:
        text += f"{_later(group)}: their room is kept"
    return Reason.ADMITTED, "", text, members(group) | {"lifting": lifting, "nodes": pinned}


def settled(group: Group) -> Told:
    lifted, bound = len(group.started), group.bound
    numbers = members(group) | {"lifted": lifted, "bound": bound}
    text = f"{lifted} of {group.need} pods lifted, {bound} bound"
    if group.going and group.short:
        text += f"; {len(group.going)} terminating, whose room is free when they are gone"
    text += _later(group)
    return (Reason.RUNNING if bound >= group.need else Reason.LIFTED), "", text, numbers


def finished(group: Group) -> Told:
    """`group` as it was seen last; some members may have ended before the others."""
    together = max((m.lifted.min for m in group.members if m.lifted), default=group.need)
    return _over(group, f"no pod is left of {together} that started together")


def ended(group: Group) -> Told:
    """Its namespace goes, with whoever is left in it."""
    name = group.identity.namespace
    return _over(group, f"namespace {name} is being deleted: nothing of it is started, kept or given back")


def _over(group: Group, text: str) -> Told:
    return Reason.FINISHED, "", text, members(group)


def bypassed(group: Group, bound: int) -> Told:
    """Members that never stood behind our gate: from before the namespace's label, or freed by somebody else."""
    text = f"{len(group.members)} pods run without having been held by ganggate, {bound} bound; they are charged"
    return Reason.BYPASSED, "", text, members(group) | {"bound": bound}


def released(group: Group) -> Told:
    text = f"namespace {group.identity.namespace} asks for no gangs any more: {len(group.gated)} gates lifted"
    return Reason.RELEASED, "", text, members(group)


def refused(group: Group, refusals: list[str], seconds: float) -> Told:
    """The API server, or admission that is not ours, refused the patch that lifts."""
    what = "1 patch" if len(refusals) == 1 else f"{len(refusals)} patches"
    text = f"{what} refused, next try in {seconds:.0f} s: {refusals[0]}"
    return Reason.LIFT_REFUSED, "patch", text, members(group) | {"refused": len(refusals)}


def too_many(group: Group, limit: int) -> Told:
    text = (
        f"{limit} groups of namespace {group.identity.namespace} wait already; this one is judged when one has started"
    )
    return Reason.TOO_MANY_GROUPS, "groups", text, members(group) | {"limit": limit}
