"""How a begun group stands that is not whole on nodes -> one line with numbers, as policy.rules.explain words the rest.

May know the model, explain and binding; decides nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from policy import names
from policy.rules import explain
from policy.rules.binding import Standing
from policy.rules.conclusions import Group
from policy.rules.explain import Told
from policy.rules.model import PodFacts

Reason = names.Reason
OUTSIDER: Final = "bind/outsider"  # limiter: pods that we do not hold took the place
_MOST_NAMED: Final = 3


def unbound(group: Group, found: Standing, late: float | None, stuck: str) -> Told:
    """Not bound, and not to be given back by us."""
    _, _, text, numbers = explain.settled(group)
    text = f"{text}{_why(found, late)}; not given back, since {stuck}" if stuck else f"{text}{_why(found, late)}"
    return Reason.BIND_TIMEOUT, "node" if found.adrift else "bind", text, numbers


def giving_back(group: Group, found: Standing, late: float | None) -> Told:
    """What the pods say before they go, and their owner afterwards."""
    _, _, text, numbers = explain.settled(group)
    text += f"{_why(found, late)}: given back whole, tries again in its old place when all {group.minimum} fit"
    return Reason.GIVEN_BACK, OUTSIDER if found.taken else "bind", text, numbers | {"lost": len(found.unbound)}


def _why(found: Standing, late: float | None) -> str:
    if found.adrift:
        first, *others = found.adrift
        return f"; pod {first.pod.name} can never be bound: {first.why}" + (f" ({len(others)} more)" if others else "")
    text = f" after {late or 0.0:.0f} s: see their FailedScheduling events"
    return text + (f"; pods that ganggate does not hold took {found.taken} of their places" if found.taken else "")


def going(group: Group) -> Told:
    """Suspended as torn, its pods still there."""
    _, _, text, numbers = explain.settled(group)
    return Reason.GIVEN_BACK, "bind", f"{text}; its pods are on their way out", numbers


def pausing(group: Group, seconds: float) -> Told:
    """Given back, and not to be tried again at once."""
    _, _, text, numbers = explain.forming(group)
    text = f"suspended by ganggate, since it could not be bound; next try in {seconds:.0f} s; {text}"
    return Reason.GIVEN_BACK, "bind", text, numbers


def degraded(group: Group) -> Told:
    """It may have run whole and does not now."""
    _, _, text, numbers = explain.settled(group)
    lacking = group.need - group.bound
    text += f": {lacking} fewer than must run together; ganggate tears no group that ran, its owner makes members anew"
    return Reason.DEGRADED, "members", text, numbers | {"lacking": lacking}


def preempted(group: Group, fallen: Sequence[PodFacts], favoured: Mapping[str, str], waits: Told | None) -> Told:
    """Which members the scheduler took, and for whom, as far as its events tell."""
    named = [f"{p.name} for {favoured.get(p.uid, 'a pod of higher priority')}" for p in fallen[:_MOST_NAMED]]
    rest = f" and {len(fallen) - _MOST_NAMED} more" if len(fallen) > _MOST_NAMED else ""
    text = f"preempted by the scheduler: {', '.join(named)}{rest}; {group.bound} of {group.need} run"
    text += f"; {waits[2]}" if waits else ""
    limiter = ",".join(sorted(p.name for p in fallen))
    if favoured:  # another event than before anything was known of them
        limiter += f"/{len(favoured)}"
    return Reason.PREEMPTED, limiter, text, explain.settled(group)[3] | {"preempted": len(fallen)}


def idling(group: Group, what: Told) -> Told:
    """The rest of a preempted group, given back so that it does not idle."""
    text = f"{what[2]}: the rest is given back, and starts again in its old place when all {group.minimum} fit"
    return Reason.GIVEN_BACK, "preempted", text, what[3]
