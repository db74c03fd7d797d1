"""What every step of one pass works with, and the questions that several of them ask: is there room, and where.

May know the ledger, placement, queues and the words; decides nothing about order.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from policy import names
from policy.rules import (
    autoscaling,
    deadlock,
    explain,
    explain_queues,
    group_size,
    order,
    placement,
    queue_capacity,
    shares,
    verdict,
)
from policy.rules.conclusions import Group
from policy.rules.explain import Told
from policy.rules.ledger import Ledger
from policy.rules.model import Config, PodFacts
from policy.rules.reservation import Reservation, Reservations
from policy.rules.resources import total
from policy.rules.shape import shapes_of
from policy.rules.shortage import NodesShort


class Desk:
    """What every step of one pass works with."""

    def __init__(self, ledger: Ledger, config: Config, now: float) -> None:
        self.ledger = ledger
        self.config = config
        self.now = now
        self.waiting: Counter[str] = Counter()  # groups held so far, by namespace
        self.contenders: dict[str, list[deadlock.Contender]] = {}  # by namespace
        self.going_back: dict[str, float] = {}  # by namespace: until when pods are waited for that are given back
        self.again = 0.0
        self.ahead: dict[str, tuple[str, ...]] = {}  # groups for which room is kept: key -> nodes
        self.reservations = Reservations(ledger, now, config.drain_after_seconds)

    def ask_again(self, at: float) -> None:
        """Something is due at that moment; 0 for nothing."""
        if at:
            self.again = min(at, self.again or at)


def line(desk: Desk, waiting: Sequence[Group]) -> Iterator[Group]:
    """Those between two stages first; then queue by queue as shares say, in each by priority, age and identity."""
    yield from (group for group in waiting if group.continues)
    rest = [group for group in waiting if not group.continues]
    place = {key: number for number, key in enumerate(desk.ledger.snapshot.ahead)}
    ahead = sorted((group for group in rest if group.key in place), key=lambda g: (-g.priority, place[g.key]))
    for holder in ahead:  # shares turn with every lift: who was told a moment is passed by higher priority only
        yield from _by_turns(desk, [g for g in rest if g.priority > holder.priority])
        yield holder
        rest = [g for g in rest if g.priority <= holder.priority and g.key != holder.key]
    yield from _by_turns(desk, rest)


def only_grows(desk: Desk, group: Group) -> bool:
    """Whole and running: further members must not delay a group for which room is kept, so they come after it."""
    whole = not group.short and not group.suspended and group.bound >= group.need
    return whole and bool(desk.ledger.snapshot.ahead and group.gated)


def _by_turns(desk: Desk, rest: list[Group]) -> Iterator[Group]:
    if desk.config.ageing_points_per_hour:
        rest.sort(key=lambda group: order.aged(group, desk.now, desk.config.ageing_points_per_hour))
    if len({group.queue for group in rest}) < 2:
        yield from rest
        return
    ledger = desk.ledger
    used: shares.Used = ledger.allocated
    if desk.config.usage_half_life_seconds:
        used = shares.Remembered(ledger.snapshot.usage, ledger.allocated)
    yield from shares.Line(ledger.snapshot.queues, ledger.pool.offered(), used, rest)


def later(group: Group) -> list[PodFacts]:
    """Stand-ins for the members that are made once the first have come far enough: they need room now."""
    return group_size.phantoms(group, group.later)


def foreign(group: Group, members: Sequence[PodFacts]) -> Told | None:
    return explain.foreign_gates(group) if any(m.foreign_gates for m in members) else None


def capability_short(desk: Desk, group: Group, members: Sequence[PodFacts]) -> Told | None:
    need = total(m.shape.requests for m in members)
    short = desk.ledger.capability_shortage(group, need)
    if short or not desk.config.placement:
        return explain_queues.capability(group, short, len(members)) if short else None
    ahead = desk.reservations.over(group, members, need)
    if ahead is not None:
        return explain_queues.behind(group, ahead, desk.now)
    kept = desk.ledger.guarantee_shortage(group, need)
    return explain_queues.guarantee(group, kept, len(members)) if kept else None


def closed(desk: Desk, group: Group) -> Told | None:
    namespace = desk.ledger.snapshot.namespaces.get(group.identity.namespace)
    allowed = namespace.queues if namespace else ()
    found = queue_capacity.problem(desk.ledger.snapshot.queues, group.queue, allowed)
    return explain.problem(group, found) if found else None


def placed(desk: Desk, group: Group, members: Sequence[PodFacts]) -> dict[str, str] | Told:
    """A node for each member, "" for each where placement is off or cannot be known."""
    if not desk.config.placement or _unverified(desk, members):
        desk.ledger.charge_anywhere(members)
        return {m.uid: "" for m in members}
    late = desk.reservations.hindered(group, members)
    pool = desk.ledger.pool
    found = placement.place(pool, members, frozenset().union(*(made.rows for made in late)))
    if isinstance(found, dict):
        return found
    found = placement.place(pool, members) if late else found  # would they fit, if nobody were ahead?
    if isinstance(found, NodesShort):
        return _awaited(desk, group, members, late) or explain.nodes(group, found)
    placement.withdraw(pool, members, found)
    return explain_queues.behind(group, late[0], desk.now)


def _unverified(desk: Desk, members: Sequence[PodFacts]) -> tuple[str, ...]:
    return verdict.unverifiable(members, desk.ledger.snapshot.devices)


def _awaited(
    desk: Desk, group: Group, members: Sequence[PodFacts], late: Sequence[Reservation]
) -> dict[str, str] | Told | None:
    """Those whose nodes an autoscaler is to make go without one, if the others find theirs.

    Not where they could be bound to nodes that are kept for a group ahead.
    """
    free = autoscaling.awaited(desk.config, members)
    known = {m.uid for m in free}
    rest = [m for m in members if m.uid not in known]
    if not known or (rest and any(m.shape.beside or m.shape.spread for m in members)):
        return None  # nobody knows where those would go that the others must join
    open_to = desk.ledger.pool.rows_for(shapes_of(free))
    kept = next((made for made in late if any(open_to[row] for row in made.rows)), None)
    if kept is not None:
        return explain_queues.behind(group, kept, desk.now)
    found = placed(desk, group, rest) if rest else {}
    if isinstance(found, dict):
        desk.ledger.charge_anywhere(free)
        return found | dict.fromkeys(known, "")
    return found


def reserve(desk: Desk, group: Group, told: Told) -> Told:
    """Keep room for a whole group that does not fit, and say from when, where that can be known."""
    reason, limiter, text, numbers = told
    kind, _, rest = limiter.partition("/")
    blocked = reason is names.Reason.NODES_SHORT or (reason is names.Reason.QUEUE_CAPABILITY_SHORT and kind == "queue")
    members = [*group.first, *later(group)]
    if not (desk.config.reservations and desk.config.placement and blocked) or _unverified(desk, members):
        return told
    made = desk.reservations.make(group, members, rest.partition("/")[0] if kind == "queue" else "")
    if made is None:
        return told
    desk.ahead[group.key] = desk.reservations.nodes(made)
    numbers = numbers | explain_queues.starts_in(made, desk.now)
    return reason, f"{limiter}/reserved", text + explain_queues.reserved(made), numbers  # news, so told once more


def extras(desk: Desk, group: Group, members: Sequence[PodFacts]) -> tuple[dict[str, str], Told | None]:
    """Members above minMember, unit by unit, as capability and nodes allow; and what stopped the first that may not."""
    places: dict[str, str] = {}
    for unit in group_size.units(group, members):
        told = foreign(group, unit) or capability_short(desk, group, unit)
        found = told or placed(desk, group, unit)
        if not isinstance(found, dict):
            return places, found
        places.update(found)
        desk.ledger.charge_group(group, unit)
        desk.reservations.lifted(group, unit, places)
    return places, None


def admission(desk: Desk, group: Group, places: dict[str, str]) -> Told:
    pinned = len({node for node in places.values() if node})
    unverified = _unverified(desk, group.members)
    free = [m for m in group.members if places.get(m.uid) == ""] if desk.config.placement and not unverified else []
    pools = [pool.name for pool in autoscaling.pools(desk.config, free)]
    return explain.admitted(group, len(places), pinned, unverified, explain.Coming(len(free), tuple(pools)))
