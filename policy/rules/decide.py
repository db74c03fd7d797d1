"""Snapshot, Config, now -> one decision for every group. Pure and total; the order of the steps is the policy.

The only caller of the questions about quota, capability, placement and order (through the ledger). May know all of
policy.rules; may know no clock, no cluster and no memory of earlier passes.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from policy import names
from policy.rules import explain, lifecycle, namespace_quota, placement, queue_capacity
from policy.rules.explain import Told
from policy.rules.grouping import groups_of
from policy.rules.ledger import Ledger
from policy.rules.model import Action, Config, Decision, Group, Outcome, PodFacts, Snapshot


def decide(snapshot: Snapshot, config: Config, now: float) -> Outcome:
    """Exactly one decision per group, in the order in which they were taken."""
    groups = groups_of(snapshot)  # 1. who belongs together, in order of priority, age and identity
    desk = _Desk(Ledger(snapshot, groups, now), config, now)  # 2. what is taken already
    begun = [g for g in groups.values() if g.begun and desk.ledger.managed(g)]
    settled = {g.key: _settle(desk, g) for g in begun}  # 3. finish what was begun, before anything new
    decisions = [settled.get(g.key) or _judge(desk, g) for g in groups.values()]  # 4. the waiting ones, in order
    return Outcome(tuple(_positioned(decisions, groups)), groups, desk.ledger.allocated)


class _Desk:
    """What every step of one pass works with."""

    def __init__(self, ledger: Ledger, config: Config, now: float) -> None:
        self.ledger = ledger
        self.config = config
        self.now = now
        self.waiting: Counter[str] = Counter()  # groups held so far, by namespace


def _settle(desk: _Desk, group: Group) -> Decision:
    """A group whose lift has begun: complete it, wait for it to bind, or let replacements and extra members in."""
    lifted = [m for m in group.members if not m.gated]
    bound = sum(1 for m in lifted if m.node)
    short = group.need - len(lifted)
    if short > 0 and group.gated:
        return _lift(desk, group, group.gated[:short])
    if bound >= group.need and group.gated:
        return _grow(desk, group)
    since = desk.now - max((m.lifted.at for m in lifted if m.lifted), default=desk.now)
    late = since if bound < group.need and since > desk.config.bind_timeout_seconds else None
    return _decision(group, "none", explain.settled(group, len(lifted), bound, late))


def _grow(desk: _Desk, group: Group) -> Decision:
    """Members above minMember, one by one, as capability and nodes allow."""
    places: dict[str, str] = {}
    told: Told | None = None
    for member in group.gated:
        told = _capability_short(desk, group, [member])
        found = told or _placed(desk, group, [member])
        if not isinstance(found, dict):
            told = found
            break
        places.update(found)
        desk.ledger.charge_group(group, [member])
    if places:
        return _decision(group, "lift", _admission(group, places), places)
    return _decision(group, "hold", told or explain.settled(group, len(group.members), 0, None))


def _judge(desk: _Desk, group: Group) -> Decision:
    """A group of which nothing is lifted: the first answer that stops it, or its lift."""
    if not desk.ledger.managed(group):
        return _decision(group, "lift", explain.released(group), {m.uid: "" for m in group.gated})
    told = _stopped(desk, group) or _impossible(desk, group) or _quota_short(desk, group)
    if told is None and group.missing:
        desk.ledger.promise_quota(group)
        told = explain.forming(group)
    if told is None and not group.gated:
        return _decision(group, "none", explain.settled(group, len(group.members), _bound(group), None))
    told = told or _closed(desk, group) or _capability_short(desk, group, _first(group))
    decision = _hold(desk, group, told) if told else _lift(desk, group, _first(group))
    return _with_extras(desk, group, decision) if decision.action == "lift" else decision


def _first(group: Group) -> list[PodFacts]:
    """The gated members that start together; members that came round us count as started."""
    around = sum(1 for m in group.members if not m.gated)
    return list(group.gated[: max(1, group.minimum - around)])


def _stopped(desk: _Desk, group: Group) -> Told | None:
    limit = desk.config.max_waiting_groups_per_namespace
    if desk.waiting[group.identity.namespace] >= limit:
        return explain.too_many(group, limit)
    return explain.problem(group, group.problem) if group.problem else None


def _impossible(desk: _Desk, group: Group) -> Told | None:
    """What waiting cannot help."""
    if group.possible is not None and group.minimum > max(group.possible, len(group.members)):
        return explain.too_large(group)
    shapes = [m.shape for m in group.members][: group.minimum]
    shapes += [a.shape for a in group.absent for _ in range(a.count)]
    capability = desk.ledger.capability_shortage(group, shapes)
    if isinstance(capability, queue_capacity.CapabilityShort) and capability.never:
        return explain.capability(group, capability)
    return None


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
    short = desk.ledger.capability_shortage(group, [m.shape for m in members])
    return explain.capability(group, short) if short else None


def _lift(desk: _Desk, group: Group, members: Sequence[PodFacts]) -> Decision:
    """Place the members and charge them; held by name where nodes or foreign gates stop them."""
    if any(m.foreign_gates for m in members):
        return _hold(desk, group, explain.foreign_gates(group))
    found = _placed(desk, group, members)
    if not isinstance(found, dict):
        return _hold(desk, group, found)
    desk.ledger.charge_group(group, members)
    return _decision(group, "lift", _admission(group, found), found)


def _placed(desk: _Desk, group: Group, members: Sequence[PodFacts]) -> dict[str, str] | Told:
    """A node for each member, "" for each where placement is off or cannot be known."""
    if not desk.config.placement or unverifiable(members):
        return {m.uid: "" for m in members}
    found = placement.place(desk.ledger.pool, members)
    return explain.nodes(group, found) if isinstance(found, placement.NodesShort) else found


def _with_extras(desk: _Desk, group: Group, decision: Decision) -> Decision:
    """Members above minMember join the lift while room allows."""
    places = dict(decision.places)
    for member in group.gated[len(places) :]:
        if member.foreign_gates or _capability_short(desk, group, [member]):
            break
        found = _placed(desk, group, [member])
        if not isinstance(found, dict):
            break
        places.update(found)
        desk.ledger.charge_group(group, [member])
    if len(places) == len(decision.places):
        return decision
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


def _bound(group: Group) -> int:
    return sum(1 for m in group.members if m.node)


def _decision(group: Group, action: Action, told: Told, places: dict[str, str] | None = None) -> Decision:
    reason, limiter, message, numbers = told
    lifted = sum(1 for m in group.members if not m.gated)
    seen = lifecycle.observe(
        need=group.need, present=len(group.members), lifted=lifted, bound=_bound(group), owner_makes_more=True
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
