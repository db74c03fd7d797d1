"""How an answer about a group is put into a Decision, and the decisions of a pass into an order that people see.

May know the model, explain and the lifecycle; decides nothing.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from policy import names
from policy.rules import binding, explain, lifecycle
from policy.rules.conclusions import Action, Decision, Group, Pull
from policy.rules.explain import Told
from policy.rules.model import PodFacts, Shape
from policy.rules.objects import PodAffinityTerm
from policy.rules.shape import of_device_class, selects, shapes_of

HOPELESS = frozenset({names.Reason.NEVER_FITS, names.Reason.REQUESTS_MISSING})  # waiting does not help


def finished(group: Group) -> Decision:
    """What is left to say of a group that had started, once no later snapshot shows anything of it."""
    reason, limiter, message, numbers = explain.finished(group)
    seen = lifecycle.Seen.GONE
    state = lifecycle.advance(lifecycle.State.NEW, seen).to
    return Decision(group.key, "none", state, seen, reason, message, limiter, numbers)


def unverifiable(members: Sequence[PodFacts], devices: Sequence[str] = ()) -> tuple[str, ...]:
    """By name, what no snapshot can tell about where these pods may run, or no plan can keep for all of them.

    `devices` are extended resources that a DeviceClass provides: what nodes say of them is not all.
    """
    found = {what for m in members for what in m.shape.unverifiable}
    shapes = shapes_of(members)
    found |= {of_device_class(name) for name in devices if any(s.requests.get(name) for s in shapes)}
    if len(shapes) > 1 and any(s.spread or s.beside for s in shapes):
        found |= {
            f"hard topology spread by {s.spread.topology_key} of pods that differ" for s in _unlike(shapes) if s.spread
        }
        if any(_followed(s.beside, members) for s in shapes if s.beside):
            found.add(f"pod affinity by {names.HOSTNAME_LABEL} to pods that do not have it")
    return tuple(sorted(found))


def _unlike(shapes: list[Shape]) -> list[Shape]:
    """None where all are equal: a snapshot that was written and read back has an object for each pod."""
    return shapes if any(s != shapes[0] for s in shapes) else []


def _followed(terms: tuple[PodAffinityTerm, ...], members: Sequence[PodFacts]) -> bool:
    """Members are meant that do not follow in turn: one bound elsewhere, early, would part the others from it."""
    return any(m.shape.beside != terms and all(selects(t, m.labels) for t in terms) for m in members)


def _lifted(group: Group) -> int:
    """Members without our gate; those that came round it are no beginning while others still wait behind it."""
    return len(group.started) if group.begun or not group.gated else 0


def _ran(group: Group) -> bool:
    return group.begun and group.bound < group.need and binding.may_have_run(group)


def of(
    group: Group,
    action: Action,
    told: Told,
    places: dict[str, str] | None = None,
    pulls: tuple[Pull, ...] = (),
    *,
    called: bool = False,
) -> Decision:
    reason, limiter, message, numbers = told
    if action == "hold" and group.note:
        message = f"{message}; {group.note}"
    seen = lifecycle.observe(
        need=group.need,
        present=len(group.members),
        lifted=_lifted(group),
        bound=group.bound,
        owner_makes_more=True,
        suspended=bool(group.suspended),
    )
    return Decision(
        group=group.key,
        action=action,
        state=lifecycle.seen_first(seen, ran=_ran(group)),
        seen=seen,
        reason=reason,
        message=message,
        limiter=limiter,
        numbers=numbers,
        places=places or {},
        need=group.need,
        pulls=pulls,
        called=called or (group.commanded and bool(group.members)),
    )


def positioned(decisions: list[Decision], groups: dict[str, Group]) -> list[Decision]:
    """Number the waiting groups of each queue, and say so where there is more than one."""
    counters: Counter[str] = Counter()
    numbered: list[Decision] = []
    for decision in decisions:
        if decision.action == "hold" and decision.reason not in HOPELESS:
            queue = groups[decision.group].queue
            counters[queue] += 1
            numbered.append(msgspec.structs.replace(decision, position=counters[queue]))
        else:
            numbered.append(decision)
    return numbered
