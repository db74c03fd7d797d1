"""What every step of one pass works with, and the questions that several of them ask: is there room, and where.

May know the ledger, placement, queues and the words; decides nothing about order.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from policy.rules import deadlock, explain, group_size, order, placement, queue_capacity, shares, verdict
from policy.rules.conclusions import Group
from policy.rules.explain import Told
from policy.rules.ledger import Ledger
from policy.rules.model import Config, PodFacts
from policy.rules.resources import total


class Desk:
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


def line(desk: Desk, waiting: Sequence[Group]) -> Iterator[Group]:
    """Those between two stages first; then queue by queue as shares say, in each by priority, age and identity."""
    yield from (group for group in waiting if group.continues)
    rest = [group for group in waiting if not group.continues]
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
        return explain.capability(group, short, len(members)) if short else None
    kept = desk.ledger.guarantee_shortage(group, need)
    return explain.guarantee(group, kept, len(members)) if kept else None


def closed(desk: Desk, group: Group) -> Told | None:
    namespace = desk.ledger.snapshot.namespaces.get(group.identity.namespace)
    allowed = namespace.queues if namespace else ()
    found = queue_capacity.problem(desk.ledger.snapshot.queues, group.queue, allowed)
    return explain.problem(group, found) if found else None


def placed(desk: Desk, group: Group, members: Sequence[PodFacts]) -> dict[str, str] | Told:
    """A node for each member, "" for each where placement is off or cannot be known."""
    if not desk.config.placement or verdict.unverifiable(members):
        desk.ledger.charge_anywhere(members)
        return {m.uid: "" for m in members}
    found = placement.place(desk.ledger.pool, members)
    return explain.nodes(group, found) if isinstance(found, placement.NodesShort) else found


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
    return places, None


def admission(group: Group, places: dict[str, str]) -> Told:
    pinned = len({node for node in places.values() if node})
    return explain.admitted(group, len(places), pinned, verdict.unverifiable(group.members))
