"""Begun groups of which fewer than minMember are on nodes: waited for, given back as a whole, or reported.

Given back is a group that cannot be bound (a node is gone, or time ran out) and that never ran whole; one that may have
run is only reported, since what is left of it may be at work. The one exception is asked for by the operator of the
cluster: what the scheduler's preemption has torn (Config.preempted_give_back). The record beside the suspension says
why, so that after a crash between the levers of one group the next pass goes on. May know the model, binding and the
texts; asks nothing about room.
"""

from typing import Final

from policy.rules import binding, deadlock, explain_bind, suspension
from policy.rules.binding import Standing
from policy.rules.conclusions import Action, Group
from policy.rules.explain import Told
from policy.rules.model import Config, PodFacts, Snapshot
from policy.rules.suspension import Move

EVENT_SECONDS: Final = 2.0  # that the scheduler's event may come after the deletion that it tells of


def answer(
    snapshot: Snapshot, group: Group, found: Standing, told: Told, config: Config, now: float
) -> tuple[Move, float]:
    """What to do about the group, `told` being what it waits for otherwise; and when to ask again (0: no need)."""
    fallen = fallen_of(snapshot, group)
    if fallen:
        return _torn(snapshot, group, fallen, told, config, now)
    if binding.may_have_run(group):
        return Move(_idle(group), told if group.gated else explain_bind.degraded(group)), 0.0
    late = now - found.since if now >= found.due else None
    if late is None and not binding.lacks(group, found, late=False):
        return Move(_idle(group), told), found.due
    taken = suspension.taken_over(group, now)
    if taken is not None:
        return taken, 0.0
    stuck = deadlock.stuck(snapshot, group, "bind")
    if stuck:
        return Move(_idle(group), explain_bind.unbound(group, found, late, stuck)), 0.0
    pulls = deadlock.give_back(group, "bind", now)
    return Move("give-back", explain_bind.giving_back(group, found, late), pulls), 0.0


def _torn(
    snapshot: Snapshot, group: Group, fallen: tuple[PodFacts, ...], told: Told, config: Config, now: float
) -> tuple[Move, float]:
    """The scheduler took members away for pods of higher priority; for which ones, its events tell a moment later."""
    what = explain_bind.preempted(group, fallen, _favoured(snapshot, fallen), told if group.gated else None)
    if not config.preempted_give_back or deadlock.stuck(snapshot, group, "preempted"):
        return Move(_idle(group), what), 0.0
    unknown = [p.deleted or 0.0 for p in fallen if p.uid not in snapshot.preemptors]
    due = max(unknown, default=0.0) + EVENT_SECONDS
    if unknown and now < due:
        return Move(_idle(group), what), due
    return Move("give-back", explain_bind.idling(group, what), deadlock.give_back(group, "preempted", now)), 0.0


def _favoured(snapshot: Snapshot, fallen: tuple[PodFacts, ...]) -> dict[str, str]:
    """By uid of a preempted pod, the one that takes its place; other tenants' names are not told."""
    takers = {p.uid: by for p in fallen if (by := snapshot.preemptors.get(p.uid))}
    names_of = {p.uid: p for p in snapshot.pods if p.uid in takers.values()}
    return {p.uid: _named(names_of[by], p) for p in fallen if (by := takers.get(p.uid)) in names_of and by}


def _named(taker: PodFacts, victim: PodFacts) -> str:
    known = taker.namespace == victim.namespace
    return f"pod {taker.name}" if known else f"a pod of another namespace (uid {taker.uid})"


def _idle(group: Group) -> Action:
    return "hold" if group.gated else "none"


def begun(snapshot: Snapshot, group: Group, now: float) -> Move:
    """Of a group that has begun, an owner is suspended by us: it goes on, unless it is being given back as torn."""
    why = deadlock.why_of(group)
    if why not in deadlock.OF_BEGUN or group.bound >= group.need:
        return suspension.begun(group, now)
    return suspension.answer(snapshot, group, explain_bind.going(group), now)


def fallen_of(snapshot: Snapshot, group: Group) -> tuple[PodFacts, ...]:
    """Members that were preempted: those that still terminate, then those that are over or gone."""
    going = [m for m in group.going if m.preempted]
    known = {m.uid for m in (*going, *group.members)}  # one that is marked only is a member still
    gone = (p for p in snapshot.fallen if p.uid not in known and _was_member(group, p))
    return (*going, *gone)


def _was_member(group: Group, pod: PodFacts) -> bool:
    """By the name that it gave, or by its controller where that makes one group only."""
    named = pod.group is not None and pod.group.key == group.key
    return named or (not group.identity.part and pod.owner in group.makers)
