"""Snapshot, Config, now -> one decision for every group. Pure and total; the order of the steps is the policy.

The only caller of the questions about quota, capability, placement and order (through the ledger). May know all of
policy.rules; may know no clock, no cluster and no memory of earlier passes.
"""

from collections import Counter
from collections.abc import Sequence

from policy.rules import (
    deadlock,
    explain,
    group_size,
    namespace_quota,
    placement,
    promise,
    queue_capacity,
    suspension,
    verdict,
)
from policy.rules.conclusions import Decision, Group, Outcome
from policy.rules.explain import Told
from policy.rules.grouping import groups_of
from policy.rules.ledger import Ledger
from policy.rules.model import Config, PodFacts, Snapshot
from policy.rules.resources import scale, total

_LATE_OWNERS_SECONDS = 5.0  # in which further owners of one PodGroup may come


def decide(snapshot: Snapshot, config: Config, now: float) -> Outcome:
    """Exactly one decision per group, in the order in which they were taken."""
    groups = groups_of(snapshot)  # 1. who belongs together, in order of priority, age and identity
    desk = _Desk(Ledger(snapshot, groups, now), config, now)  # 2. what is taken already
    begun = sorted((g for g in groups.values() if g.begun and desk.ledger.managed(g)), key=lambda g: not g.short)
    for group in begun:
        if group.short:
            desk.ledger.keep(group)  # 3. what was promised when their lift began
    decisions = [_go_on(desk, g) for g in begun]  # 4. finish what was begun, before anything new
    known = {decision.group for decision in decisions}
    decisions += [_judge(desk, g) for g in groups.values() if g.key not in known]  # 5. the waiting ones, in order
    decisions = _settled_deadlocks(desk, decisions, groups)  # 6. of those that hold one another up, one goes first
    return Outcome(tuple(verdict.positioned(decisions, groups)), groups, again=desk.again)


class _Desk:
    """What every step of one pass works with."""

    def __init__(self, ledger: Ledger, config: Config, now: float) -> None:
        self.ledger = ledger
        self.config = config
        self.now = now
        self.waiting: Counter[str] = Counter()  # groups held so far, by namespace
        self.contenders: dict[str, list[deadlock.Contender]] = {}  # by namespace
        self.again = 0.0

    def ask_again(self, at: float) -> None:
        """Something is due at that moment; 0 for nothing."""
        if at:
            self.again = min(at, self.again or at)


def _go_on(desk: _Desk, group: Group) -> Decision:
    """A group whose lift has begun: whole ones may take in extra members."""
    if group.suspended:
        return _moved(desk, group, suspension.begun(group, desk.now))
    return _finish(desk, group) if group.short else _settle(desk, group)


def _finish(desk: _Desk, group: Group) -> Decision:
    """A lift that a crash interrupted, or members made anew: they need a place, and no new decision."""
    members = group.gated[: group.owed]
    if not members:
        waits = explain.settled(group, len(group.started), group.bound, None)
        return _hold(desk, group, waits) if group.gated else _settled(desk, group)
    beyond = promise.beyond(group, members)
    short = desk.ledger.capability_shortage(group, beyond)
    if short:
        return _hold(desk, group, explain.beyond(group, short, len(members)))
    desk.ledger.charge_queue(group.queue, beyond)
    return _lift(desk, group, members)


def _settle(desk: _Desk, group: Group) -> Decision:
    """A group whose minMember are lifted: wait for them to bind, then let extra members in as room allows."""
    if group.bound < group.need:
        return _settled(desk, group)
    places, told = _extras(desk, group, group.gated)
    if places:
        return verdict.of(group, "lift", _admission(group, places), places)
    return _hold(desk, group, told) if told else _settled(desk, group)


def _settled(desk: _Desk, group: Group) -> Decision:
    lifted = group.started
    since = desk.now - max((m.lifted.at for m in lifted if m.lifted), default=desk.now)
    late = since if group.bound < len(lifted) and since > desk.config.bind_timeout_seconds else None
    return verdict.of(group, "none", explain.settled(group, len(lifted), group.bound, late))


def _extras(desk: _Desk, group: Group, members: Sequence[PodFacts]) -> tuple[dict[str, str], Told | None]:
    """Members above minMember, one by one, as capability and nodes allow; and what stopped the first that may not."""
    places: dict[str, str] = {}
    for member in members:
        told = _foreign(group, [member]) or _capability_short(desk, group, [member])
        found = told or _placed(desk, group, [member])
        if not isinstance(found, dict):
            return places, found
        places.update(found)
        desk.ledger.charge_group(group, [member])
    return places, None


def _judge(desk: _Desk, group: Group) -> Decision:
    """A group of which nothing is lifted: the first answer that stops it, or its lift."""
    if not desk.ledger.managed(group):
        return _moved(desk, group, suspension.released(group, desk.now)) if group.suspended else _freed(desk, group)
    move = suspension.taken_over(group, desk.now)
    if move is not None:
        return _moved(desk, group, move)
    if group.suspended:
        return _moved(desk, group, suspension.answer(desk.ledger.snapshot, group, _short(desk, group), desk.now))
    if not group.gated and not group.missing:
        return verdict.of(group, "none", explain.bypassed(group, group.bound))
    told = _stopped(desk, group) or _impossible(desk, group) or _quota_short(desk, group)
    if told is None and group.missing:
        return _forming(desk, group)
    told = told or _closed(desk, group) or _capability_short(desk, group, group.first)
    decision = _waits(desk, group, told) if told else _admit(desk, group)
    return _with_extras(desk, group, decision) if decision.action == "lift" else decision


def _forming(desk: _Desk, group: Group) -> Decision:
    """Members are still missing, and the quota has room for them: it is kept, and an owner that backs off is woken."""
    snapshot = desk.ledger.snapshot
    desk.ledger.promise_quota(group)
    if suspension.comes_back(group, desk.now):
        desk.ledger.reserve(group)
    pulls, again = suspension.wakes(snapshot, group, desk.now)
    desk.ask_again(again)
    refusal = group_size.refusal(snapshot, group)
    told = explain.create_refused(group, refusal) if refusal else explain.forming(group)
    return _moved(desk, group, suspension.Move("hold", told, pulls))


def _short(desk: _Desk, group: Group) -> Told | None:
    """What keeps the whole of a suspended group from starting; when nothing does, its room is taken."""
    told = _stopped(desk, group) or _impossible(desk, group) or _quota_short(desk, group) or _closed(desk, group)
    members = [*group.members, *group_size.phantoms(group)]
    told = told or _capability_short(desk, group, members)
    if told:
        return told
    found = _placed(desk, group, members)
    if not isinstance(found, dict):
        return found
    desk.ledger.charge_group(group, members)
    desk.ledger.promise_quota(group)
    return None


def _waits(desk: _Desk, group: Group, told: Told) -> Decision:
    """Held for want of room; suspended meanwhile where its owners' deadlines would run."""
    move, again = suspension.save_deadline(desk.ledger.snapshot, group, told, desk.now)
    desk.ask_again(again)
    return _moved(desk, group, move)


def _moved(desk: _Desk, group: Group, move: suspension.Move) -> Decision:
    if move.action != "resume":
        desk.waiting[group.identity.namespace] += 1
    return verdict.of(group, move.action, move.told, pulls=move.pulls)


def _settled_deadlocks(desk: _Desk, decisions: list[Decision], groups: dict[str, Group]) -> list[Decision]:
    if not desk.contenders:
        return decisions
    held = {decision.group: decision for decision in decisions}
    moves: dict[str, suspension.Move] = {}
    for contenders in desk.contenders.values():
        found, again = suspension.settle(groups, contenders, held, desk.config, desk.now)
        desk.ask_again(again)
        moves |= found
    changed = {key: verdict.of(groups[key], move.action, move.told, pulls=move.pulls) for key, move in moves.items()}
    return [changed.get(decision.group, decision) for decision in decisions]


def _freed(desk: _Desk, group: Group) -> Decision:
    """Where gangs are asked for no more: nobody is held, and those that were are told of no further."""
    if group.gated:
        return verdict.of(group, "lift", explain.released(group), {m.uid: "" for m in group.gated})
    return _settled(desk, group)


def _stopped(desk: _Desk, group: Group) -> Told | None:
    limit = desk.config.max_waiting_groups_per_namespace
    if desk.waiting[group.identity.namespace] >= limit:
        return explain.too_many(group, limit)
    return explain.problem(group, group.problem) if group.problem else None


def _impossible(desk: _Desk, group: Group) -> Told | None:
    """What waiting cannot help."""
    complete = group.identity.uid or desk.now - group.touched > _LATE_OWNERS_SECONDS
    if group.possible is not None and group.minimum > max(group.possible, len(group.members)) and complete:
        return explain.too_large(group)
    members = group.members[: group.minimum]
    asked = [m.shape.requests for m in members] + [scale(a.shape.requests, a.count) for a in group.absent]
    short = desk.ledger.capability_never(group, total(asked))
    pods = len(members) + sum(a.count for a in group.absent)
    return explain.capability(group, short, pods) if short else None


def _quota_short(desk: _Desk, group: Group) -> Told | None:
    stops = desk.ledger.quota_stops(group)
    if not stops:
        return None
    shorts = [stop for stop in stops if isinstance(stop, namespace_quota.QuotaShort)]
    if shorts:
        _contend(desk, group, shorts)
    first = stops[0]
    if isinstance(first, namespace_quota.QuotaShort):
        return explain.quota(group, first)
    return explain.unstated(group, first)


def _contend(desk: _Desk, group: Group, shorts: Sequence[namespace_quota.QuotaShort]) -> None:
    contender = deadlock.Contender(
        group=group,
        short=frozenset(stop.quota for stop in shorts),
        holds=desk.ledger.quotas_held(group),
        never=any(stop.never for stop in shorts),
        stuck=deadlock.stuck(desk.ledger.snapshot, group, "deadlock"),
    )
    desk.contenders.setdefault(group.identity.namespace, []).append(contender)


def _closed(desk: _Desk, group: Group) -> Told | None:
    namespace = desk.ledger.snapshot.namespaces.get(group.identity.namespace)
    allowed = namespace.queues if namespace else ()
    found = queue_capacity.problem(desk.ledger.snapshot.queues, group.queue, allowed)
    return explain.problem(group, found) if found else None


def _capability_short(desk: _Desk, group: Group, members: Sequence[PodFacts]) -> Told | None:
    short = desk.ledger.capability_shortage(group, total(m.shape.requests for m in members))
    return explain.capability(group, short, len(members)) if short else None


def _foreign(group: Group, members: Sequence[PodFacts]) -> Told | None:
    return explain.foreign_gates(group) if any(m.foreign_gates for m in members) else None


def _admit(desk: _Desk, group: Group) -> Decision:
    """Lift the first members and charge their queue."""
    members = group.first
    decision = _lift(desk, group, members)
    if decision.action == "lift":
        desk.ledger.charge_group(group, members)
    return decision


def _lift(desk: _Desk, group: Group, members: Sequence[PodFacts]) -> Decision:
    """Place the members; held by name where nodes or foreign gates stop them."""
    found = _foreign(group, members) or _placed(desk, group, members)
    if not isinstance(found, dict):
        return _waits(desk, group, found)
    return verdict.of(group, "lift", _admission(group, found), found)


def _placed(desk: _Desk, group: Group, members: Sequence[PodFacts]) -> dict[str, str] | Told:
    """A node for each member, "" for each where placement is off or cannot be known."""
    if not desk.config.placement or verdict.unverifiable(members):
        desk.ledger.charge_anywhere(members)
        return {m.uid: "" for m in members}
    found = placement.place(desk.ledger.pool, members)
    return explain.nodes(group, found) if isinstance(found, placement.NodesShort) else found


def _with_extras(desk: _Desk, group: Group, decision: Decision) -> Decision:
    """Members above minMember join the lift while room allows."""
    more, _ = _extras(desk, group, group.gated[len(decision.places) :])
    if not more:
        return decision
    places = {**decision.places, **more}
    return verdict.of(group, "lift", _admission(group, places), places)


def _admission(group: Group, places: dict[str, str]) -> Told:
    pinned = len({node for node in places.values() if node})
    return explain.admitted(group, len(places), pinned, verdict.unverifiable(group.members))


def _hold(desk: _Desk, group: Group, told: Told) -> Decision:
    desk.waiting[group.identity.namespace] += 1
    return verdict.of(group, "hold", told)
