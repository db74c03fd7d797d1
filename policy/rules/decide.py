"""Snapshot, Config, now -> one decision for every group. Pure and total; the order of the steps is the policy.

The only caller of the questions about quota, capability, placement and order (through the ledger). May know all of
policy.rules; may know no clock, no cluster and no memory of earlier passes.
"""

from collections.abc import Sequence

from policy.rules import (
    begun,
    deadlock,
    explain,
    explain_queues,
    group_size,
    namespace_quota,
    order,
    promise,
    recovery,
    suspension,
    verdict,
)
from policy.rules import desk as desks
from policy.rules.conclusions import Decision, Group, Outcome
from policy.rules.desk import Desk
from policy.rules.explain import Told
from policy.rules.ledger import Ledger
from policy.rules.model import Config, PodFacts, Snapshot
from policy.rules.recall import Recall
from policy.rules.resources import scale, total

_LATE_OWNERS_SECONDS = 5.0  # in which further owners of one PodGroup may come


def decide(snapshot: Snapshot, config: Config, now: float, recall: Recall | None = None) -> Outcome:
    """Exactly one decision per group, in the order in which they were taken.

    `recall`, of the passes before, saves time and changes no answer.
    """
    recall = recall or Recall()
    recall.look(snapshot)
    groups = recall.groups  # 1. who belongs together, in order of priority, age and identity
    desk = Desk(Ledger(snapshot, groups, now, recall.taken), config, now)  # 2. what is taken already
    ends = {name for name, namespace in snapshot.namespaces.items() if namespace.deleted}
    going = [g for g in groups.values() if g.identity.namespace in ends]
    left = [g for g in groups.values() if g.identity.namespace not in ends]
    resting = [g for g in left if g.rests]
    active = [g for g in left if not g.rests]
    desk.going_back = suspension.all_going_back(active)
    lifting = sorted((g for g in active if g.begun and desk.ledger.managed(g)), key=lambda g: not g.short)
    for group in lifting:
        if group.short:
            desk.ledger.keep(group)  # 3. what was promised when their lift began
        if group.awaited:
            desk.ledger.await_later(group)
    growing = {g.key: g for g in lifting if desks.only_grows(desk, g)}
    decisions = [_go_on(desk, g) for g in lifting if g.key not in growing]  # 4. finish what was begun
    decisions += [recall.settled.get(g.key) or _rest(recall, g) for g in resting]
    decisions += [verdict.of(g, "none", explain.ended(g)) for g in going]
    known = {group.key for group in lifting}
    waiting = [g for g in active if g.key not in known]
    decisions += [_judge(desk, g) for g in desks.line(desk, waiting)]  # 5. the waiting ones, whose turn it is first
    decisions += [_go_on(desk, g) for g in growing.values()]
    decisions = _settled_deadlocks(desk, decisions, groups)  # 6. of those that hold one another up, one goes first
    answers = tuple(verdict.positioned(decisions, groups))
    return Outcome(answers, groups, again=desk.again, ahead=desk.ahead, allocated=desk.ledger.allocated)


def _rest(recall: Recall, group: Group) -> Decision:
    """Whatever room there is, this is the answer until something about the group itself changes."""
    found = recall.settled[group.key] = verdict.of(group, "none", explain.settled(group))
    return found


def _go_on(desk: Desk, group: Group) -> Decision:
    """A group whose lift has begun: whole ones may take in extra members; one that cannot be whole is not kept."""
    if group.suspended:
        return _moved(desk, group, recovery.begun(desk.ledger.snapshot, group, desk.now))
    decision = _finish(desk, group) if group.short else _settle(desk, group)
    begun.keep_places(desk, group)
    found = begun.recovered(desk, group, decision)
    return found if isinstance(found, Decision) else _moved(desk, group, found)


def _finish(desk: Desk, group: Group) -> Decision:
    """A lift that a crash interrupted, or members made anew: they need a place, and no new decision."""
    members = group.gated[: group.owed]
    if not members:
        waits = explain.settled(group)
        return _hold(desk, group, waits) if group.gated else begun.settled(desk, group)
    beyond = promise.beyond(group, members)
    short = desk.ledger.capability_shortage(group, beyond)
    if short:
        return _hold(desk, group, explain_queues.beyond(group, short, len(members)))
    desk.ledger.charge_queue(group.queue, beyond)
    return _lift(desk, group, members)


def _settle(desk: Desk, group: Group) -> Decision:
    """A group whose minMember are lifted: wait for them to bind, then let extra members in as room allows."""
    members = group.gated if group.bound >= group.need else begun.stand_ins(desk, group)
    if not members:
        return begun.settled(desk, group)
    places, told = desks.extras(desk, group, members)
    if places:
        return verdict.of(group, "lift", desks.admission(desk, group, places), places)
    return _hold(desk, group, told) if told else begun.settled(desk, group)


def _judge(desk: Desk, group: Group) -> Decision:
    """A group of which nothing is lifted: the first answer that stops it, or its lift."""
    if not desk.ledger.managed(group):
        return _moved(desk, group, suspension.released(group, desk.now)) if group.suspended else _freed(desk, group)
    move = suspension.taken_over(group, desk.now)
    if move is not None:
        return _moved(desk, group, move)
    if group.suspended:
        return _moved(desk, group, _coming_back(desk, group))
    if group.commanded and not group.members:
        return _call(desk, group)
    if not group.gated and not group.missing:
        return verdict.of(group, "none", explain.bypassed(group, group.bound))
    told = _stopped(desk, group) or _impossible(desk, group) or _quota_short(desk, group)
    if told is None and group.missing:
        return _forming(desk, group)
    told = told or desks.closed(desk, group) or desks.capability_short(desk, group, [*group.first, *desks.later(group)])
    decision = _waits(desk, group, told) if told else _admit(desk, group)
    return _with_extras(desk, group, decision) if decision.action == "lift" else decision


def _call(desk: Desk, group: Group) -> Decision:
    """Its operator waits for our word before it makes pods: given when all of them have room, which is kept."""
    told = _short(desk, group)
    if told:
        return _waits(desk, group, told)
    return _hold(desk, group, explain.forming(group), called=True)


def _forming(desk: Desk, group: Group) -> Decision:
    """Members are still missing, and the quota has room for them: it is kept, and an owner that backs off is woken."""
    snapshot = desk.ledger.snapshot
    desk.ledger.promise_quota(group)
    if group.continues or group.commanded or suspension.comes_back(group, desk.now):
        desk.ledger.reserve(group)
    pulls, again = suspension.wakes(snapshot, group, desk.now)
    desk.ask_again(again)
    refusal = group_size.refusal(snapshot, group)
    told = explain.create_refused(group, refusal) if refusal else explain.forming(group)
    return _moved(desk, group, suspension.Move("hold", told, pulls))


def _coming_back(desk: Desk, group: Group) -> suspension.Move:
    """What is done about a group whose owners we suspended, be it all of them or what is left of them."""
    told = begun.pausing(desk, group) or _short(desk, group)
    due = suspension.half_resumed(group, desk.now) if told else 0.0
    if told and due:
        desk.ask_again(due)
        desk.ledger.reserve(group)
        return suspension.Move("hold", told)
    due = desk.going_back.get(group.identity.namespace, 0.0)
    if told is None and desk.now < due:
        desk.ask_again(due)
        told = explain.going_back(group)
    return suspension.answer(desk.ledger.snapshot, group, told, desk.now)


def _short(desk: Desk, group: Group) -> Told | None:
    """What keeps the whole of a suspended group from starting; when nothing does, its room is taken."""
    told = _stopped(desk, group) or _impossible(desk, group) or _quota_short(desk, group) or desks.closed(desk, group)
    members = [*group.members, *group_size.phantoms(group, group.coming)]
    told = told or desks.capability_short(desk, group, members)
    if told:
        return told
    found = desks.placed(desk, group, members)
    if not isinstance(found, dict):
        return found
    desk.ledger.charge_group(group, members)
    desk.ledger.promise_quota(group)
    return None


def _waits(desk: Desk, group: Group, told: Told) -> Decision:
    """Held for want of room; suspended meanwhile where its owners' deadlines would run."""
    told = desks.reserve(desk, group, told)
    move, again = suspension.save_deadline(desk.ledger.snapshot, group, told, desk.now)
    desk.ask_again(again)
    return _moved(desk, group, move)


def _moved(desk: Desk, group: Group, move: suspension.Move) -> Decision:
    if move.action != "resume":
        desk.waiting[group.identity.namespace] += 1
    return verdict.of(group, move.action, move.told, pulls=move.pulls)


def _settled_deadlocks(desk: Desk, decisions: list[Decision], groups: dict[str, Group]) -> list[Decision]:
    if not desk.contenders:
        return decisions
    held = {decision.group: decision for decision in decisions}
    moves: dict[str, suspension.Move] = {}
    for contenders in desk.contenders.values():
        contenders.sort(key=lambda one: order.key(one.group))  # shares change, and who keeps a quota must not
        found, again = suspension.settle(groups, contenders, held, desk.config, desk.now)
        desk.ask_again(again)
        moves |= found
    changed = {key: verdict.of(groups[key], move.action, move.told, pulls=move.pulls) for key, move in moves.items()}
    return [changed.get(decision.group, decision) for decision in decisions]


def _freed(desk: Desk, group: Group) -> Decision:
    """Where gangs are asked for no more: nobody is held, and those that were are told of no further."""
    if group.gated:
        return verdict.of(group, "lift", explain.released(group), {m.uid: "" for m in group.gated})
    return begun.settled(desk, group)


def _stopped(desk: Desk, group: Group) -> Told | None:
    limit = desk.config.max_waiting_groups_per_namespace
    if desk.waiting[group.identity.namespace] >= limit:
        return explain.too_many(group, limit)
    return explain.problem(group, group.problem) if group.problem else None


def _impossible(desk: Desk, group: Group) -> Told | None:
    """What waiting cannot help."""
    complete = group.identity.uid or desk.now - group.touched > _LATE_OWNERS_SECONDS
    if group.possible is not None and group.minimum > max(group.possible, len(group.members)) and complete:
        return explain.too_large(group)
    members = group.members[: group.minimum]
    asked = [m.shape.requests for m in members] + [scale(a.shape.requests, a.count) for a in group.coming]
    short = desk.ledger.capability_never(group, total(asked))
    pods = len(members) + sum(a.count for a in group.coming)
    return explain_queues.capability(group, short, pods) if short else None


def _quota_short(desk: Desk, group: Group) -> Told | None:
    stops = desk.ledger.quota_stops(group)
    if not stops:
        return None
    shorts = [stop for stop in stops if isinstance(stop, namespace_quota.QuotaShort)]
    if shorts:
        _contend(desk, group, shorts)
    if suspension.comes_back(group, desk.now):
        desk.ledger.promise_quota(group)  # the quota may tell of pods that we have not seen yet
    first = stops[0]
    if isinstance(first, namespace_quota.QuotaShort):
        return explain.quota(group, first)
    return explain.unstated(group, first)


def _contend(desk: Desk, group: Group, shorts: Sequence[namespace_quota.QuotaShort]) -> None:
    contender = deadlock.Contender(
        group=group,
        short=frozenset(stop.quota for stop in shorts),
        holds=desk.ledger.quotas_held(group),
        never=any(stop.never for stop in shorts),
        stuck=deadlock.stuck(desk.ledger.snapshot, group, "deadlock"),
    )
    desk.contenders.setdefault(group.identity.namespace, []).append(contender)


def _admit(desk: Desk, group: Group) -> Decision:
    """Lift the first members and charge their queue, for those that come later too."""
    members, later = group.first, desks.later(group)
    decision = _lift(desk, group, members, later)
    if decision.action == "lift":
        desk.ledger.charge_group(group, [*members, *later])
        desk.reservations.lifted(group, [*members, *later], decision.places)
        desk.ledger.promise_quota(group)
    return decision


def _lift(desk: Desk, group: Group, members: Sequence[PodFacts], later: Sequence[PodFacts] = ()) -> Decision:
    """Place the members; held by name where nodes or foreign gates stop them."""
    found = desks.foreign(group, members) or desks.placed(desk, group, [*members, *later])
    if not isinstance(found, dict):
        return _waits(desk, group, found)
    places = {m.uid: found[m.uid] for m in members}
    return verdict.of(group, "lift", desks.admission(desk, group, places), places)


def _with_extras(desk: Desk, group: Group, decision: Decision) -> Decision:
    """Members above minMember join the lift while room allows."""
    more, _ = desks.extras(desk, group, group.gated[len(decision.places) :])
    if not more:
        return decision
    places = {**decision.places, **more}
    return verdict.of(group, "lift", desks.admission(desk, group, places), places)


def _hold(desk: Desk, group: Group, told: Told, *, called: bool = False) -> Decision:
    desk.waiting[group.identity.namespace] += 1
    return verdict.of(group, "hold", told, called=called)
