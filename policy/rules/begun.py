"""What decide() asks about groups whose lift has begun, beside room: how they stand, and whether they are kept.

May know the desk, binding and recovery; decides nothing about order.
"""

from collections.abc import Sequence

from policy.rules import binding, explain, explain_bind, group_size, recovery, suspension, verdict
from policy.rules.conclusions import Decision, Group
from policy.rules.desk import Desk
from policy.rules.explain import Told
from policy.rules.model import PodFacts
from policy.rules.suspension import Move


def settled(desk: Desk, group: Group) -> Decision:
    """Nothing to do. Of those above minMember that are not bound in time, it is only told."""
    found = binding.standing(group, desk.ledger.pool, desk.config)
    if group.bound < group.need or not found.unbound or not group.begun:
        return verdict.of(group, "none", explain.settled(group))
    if desk.now >= found.due:
        return verdict.of(group, "none", explain_bind.unbound(group, found, desk.now - found.since, ""))
    desk.ask_again(found.due)
    return verdict.of(group, "none", explain.settled(group))


def keep_places(desk: Desk, group: Group) -> None:
    """Nodes for members that are to be made anew: until the limit of the last lift nobody else takes their places."""
    lacking = group.owed - len(group.gated)
    if lacking <= 0:
        return
    due = binding.since(group) + binding.limit(group, desk.config)
    if desk.now < due:
        desk.ask_again(due)
        desk.ledger.charge_anywhere(group_size.phantoms(group, group.absent)[:lacking])


def stand_ins(desk: Desk, group: Group) -> Sequence[PodFacts]:
    """Members still gated in place of lifted ones that cannot be bound where they were planned."""
    found = binding.standing(group, desk.ledger.pool, desk.config)
    return () if binding.may_have_run(group) else binding.stand_ins(group, found, late=desk.now >= found.due)


def recovered(desk: Desk, group: Group, decision: Decision) -> Decision | Move:
    """The decision, or what is done instead where fewer than minMember are bound: back with all of it, or a report.

    A lift is given up only where the API server refuses it.
    """
    snapshot = desk.ledger.snapshot
    lifts = decision.action == "lift"
    if group.bound >= group.need or (lifts and group.key not in snapshot.refused):
        return decision
    found = binding.standing(group, desk.ledger.pool, desk.config)
    told = (decision.reason, decision.limiter, decision.message, decision.numbers)
    move, again = recovery.answer(snapshot, group, found, told, desk.config, desk.now)
    desk.ask_again(again)
    if move.action in ("give-back", "resume"):
        return move
    return decision if lifts or move.told is told else verdict.of(group, move.action, move.told)


def pausing(desk: Desk, group: Group) -> Told | None:
    """Suspended by us after a lift that failed: it is not tried again at once."""
    until = suspension.pause(group)
    if desk.now >= until:
        return None
    desk.ask_again(until)
    return explain_bind.pausing(group, until - desk.now)
