"""Snapshot, Config, now -> one decision for every group. Pure and total; the order of the steps is the policy.

The only caller of the questions about quota, capability, placement and order (through the ledger). May know all of
policy.rules; may know no clock, no cluster and no memory of earlier passes.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from policy import names
from policy.rules import explain, lifecycle, namespace_quota, placement, promise, queue_capacity
from policy.rules.explain import Told
from policy.rules.grouping import groups_of
from policy.rules.ledger import Ledger
from policy.rules.model import Action, Config, Decision, Group, Outcome, PodFacts, Snapshot
from policy.rules.resources import scale, total


def decide(snapshot: Snapshot, config: Config, now: float) -> Outcome:
    """Exactly one decision per group, in the order in which they were taken."""
    groups = groups_of(snapshot)  # 1. who belongs together, in order of priority, age and identity
    desk = _Desk(Ledger(snapshot, groups, now), config, now)  # 2. what is taken already
    begun = [g for g in groups.values() if g.begun and desk.ledger.managed(g)]
    short = [g for g in begun if g.short]
    for group in short:
        desk.ledger.keep(group)  # 3. what was promised when their lift began
    decisions = [_finish(desk, g) for g in short]  # 4. finish what was begun, before anything new
    decisions += [_settle(desk, g) for g in begun if not g.short]  # 5. those that are whole: extra members
    known = {decision.group for decision in decisions}
    decisions += [_judge(desk, g) for g in groups.values() if g.key not in known]  # 6. the waiting ones, in order
    return Outcome(tuple(_positioned(decisions, groups)), groups)


def finished(group: Group) -> Decision:
    """What is left to say of a group that had started, once no later snapshot shows anything of it."""
    reason, limiter, message, numbers = explain.finished(group)
    seen = lifecycle.Seen.GONE
    state = lifecycle.advance(lifecycle.State.NEW, seen).to
    return Decision(group.key, "none", state, seen, reason, message, limiter, numbers)


class _Desk:
    """What every step of one pass works with."""

    def __init__(self, ledger: Ledger, config: Config, now: float) -> None:
        self.ledger = ledger
        self.config = config
        self.now = now
        self.waiting: Counter[str] = Counter()  # groups held so far, by namespace


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
        return _decision(group, "lift", _admission(group, places), places)
    return _hold(desk, group, told) if told else _settled(desk, group)


def _settled(desk: _Desk, group: Group) -> Decision:
    lifted = group.started
    since = desk.now - max((m.lifted.at for m in lifted if m.lifted), default=desk.now)
    late = since if group.bound < len(lifted) and since > desk.config.bind_timeout_seconds else None
    return _decision(group, "none", explain.settled(group, len(lifted), group.bound, late))


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
        return _freed(desk, group)
    if not group.gated and not group.missing:
        return _decision(group, "none", explain.bypassed(group, group.bound))
    told = _stopped(desk, group) or _impossible(desk, group) or _quota_short(desk, group)
    if told is None and group.missing:
        desk.ledger.promise_quota(group)
        told = explain.forming(group)
    told = told or _closed(desk, group) or _capability_short(desk, group, group.first)
    decision = _hold(desk, group, told) if told else _admit(desk, group)
    return _with_extras(desk, group, decision) if decision.action == "lift" else decision


def _freed(desk: _Desk, group: Group) -> Decision:
    """Where gangs are asked for no more: nobody is held, and those that were are told of no further."""
    if group.gated:
        return _decision(group, "lift", explain.released(group), {m.uid: "" for m in group.gated})
    return _settled(desk, group)


def _stopped(desk: _Desk, group: Group) -> Told | None:
    limit = desk.config.max_waiting_groups_per_namespace
    if desk.waiting[group.identity.namespace] >= limit:
        return explain.too_many(group, limit)
    return explain.problem(group, group.problem) if group.problem else None


def _impossible(desk: _Desk, group: Group) -> Told | None:
    """What waiting cannot help."""
    if group.possible is not None and group.minimum > max(group.possible, len(group.members)):
        return explain.too_large(group)
    members = group.members[: group.minimum]
    asked = [m.shape.requests for m in members] + [scale(a.shape.requests, a.count) for a in group.absent]
    short = desk.ledger.capability_never(group, total(asked))
    pods = len(members) + sum(a.count for a in group.absent)
    return explain.capability(group, short, pods) if short else None


def _quota_short(desk: _Desk, group: Group) -> Told | None:
    short = desk.ledger.quota_shortage(group)
    if isinstance(short, namespace_quota.QuotaShort):
        return explain.quota(group, short)
    return explain.unstated(group, short) if short else None


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
        return _hold(desk, group, found)
    return _decision(group, "lift", _admission(group, found), found)


def _placed(desk: _Desk, group: Group, members: Sequence[PodFacts]) -> dict[str, str] | Told:
    """A node for each member, "" for each where placement is off or cannot be known."""
    if not desk.config.placement or unverifiable(members):
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
    return _decision(group, "lift", _admission(group, places), places)


def _admission(group: Group, places: dict[str, str]) -> Told:
    pinned = len({node for node in places.values() if node})
    return explain.admitted(group, len(places), pinned, unverifiable(group.members))


def unverifiable(members: Sequence[PodFacts]) -> tuple[str, ...]:
    """By name, what no snapshot can tell about where these pods may run."""
    return tuple(sorted({what for m in members for what in m.shape.unverifiable}))


def _hold(desk: _Desk, group: Group, told: Told) -> Decision:
    desk.waiting[group.identity.namespace] += 1
    return _decision(group, "hold", told)


def _lifted(group: Group) -> int:
    """Members without our gate; those that came round it are no beginning while others still wait behind it."""
    return len(group.started) if group.begun or not group.gated else 0


def _decision(group: Group, action: Action, told: Told, places: dict[str, str] | None = None) -> Decision:
    reason, limiter, message, numbers = told
    seen = lifecycle.observe(
        need=group.need, present=len(group.members), lifted=_lifted(group), bound=group.bound, owner_makes_more=True
    )
    return Decision(
        group=group.key,
        action=action,
        state=lifecycle.advance(lifecycle.State.NEW, seen).to,
        seen=seen,
        reason=reason,
        message=message,
        limiter=limiter,
        numbers=numbers,
        places=places or {},
        need=group.need,
    )


def _positioned(decisions: list[Decision], groups: dict[str, Group]) -> list[Decision]:
    """Number the waiting groups of each queue, and say so where there is more than one."""
    counters: Counter[str] = Counter()
    numbered: list[Decision] = []
    for decision in decisions:
        if decision.action == "hold" and decision.reason is not names.Reason.NEVER_FITS:
            queue = groups[decision.group].queue
            counters[queue] += 1
            numbered.append(msgspec.structs.replace(decision, position=counters[queue]))
        else:
            numbered.append(decision)
    return numbered
