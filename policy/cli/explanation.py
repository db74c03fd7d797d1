"""All that `why` knows of one group, as a structure: the JSON of `-o json`, and what the text is written from.

Built from a View; the sums are asked of the ledger (policy.rules.account), never made here. Pure. Field names are
those of the JSON and stay; amounts are Kubernetes quantities as text.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from policy import names
from policy.cli import books, helps
from policy.cli.reports import Report
from policy.cli.rows import Row
from policy.cli.view import View
from policy.cli.wording import amount
from policy.rules import account, words
from policy.rules.account import LevelLine, QuotaLine
from policy.rules.conclusions import Group
from policy.rules.ledger import Ledger
from policy.rules.model import PodFacts, Snapshot
from policy.rules.shortage import NodesShort
from policy.rules.verdict import unverifiable


class Counts(msgspec.Struct, frozen=True, rename="camel"):
    """Members by what they are doing."""

    present: int
    missing: int
    gated: int
    lifted: int
    bound: int
    leaving: int
    succeeded: int


class Member(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One pod of the group."""

    name: str
    phase: str
    gated: bool
    node: str = ""
    pin: str = ""
    other_gates: tuple[str, ...] = ()


class Size(msgspec.Struct, frozen=True, rename="camel"):
    """How many start together, how many there can be, and where that stands."""

    min_member: int
    possible: int | None
    source: str


class Later(msgspec.Struct, frozen=True, rename="camel"):
    """Members that their owner makes once others have come far enough; by role, "" where they have none."""

    count: int
    roles: dict[str, int]
    waits_for: str


class Quota(msgspec.Struct, frozen=True, rename="camel"):
    """One key of a ResourceQuota against the members that are missing."""

    quota: str
    key: str
    hard: str
    used: str
    counted: str
    promised: str
    missing: int
    each: str | None
    needed: str
    short_by: str
    unstated: bool


class Level(msgspec.Struct, frozen=True, rename="camel"):
    """One resource at one level of the queue; capability and free are null where unlimited."""

    queue: str
    resource: str
    capability: str | None
    allocated: str
    free: str | None
    needed: str
    short_by: str


class Nodes(msgspec.Struct, frozen=True, rename="camel"):
    """Why the nodes do not take the members: nodes by reason."""

    wanted: int
    fit: int
    fit_if_empty: int
    each: str
    reasons: dict[str, int]


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to `why`."""

    group: Row
    recognised_by: str
    size: Size
    members: Counts
    pods: tuple[Member, ...]
    queue: str
    queue_from: str
    note: str = ""  # of how it was recognised
    later: Later | None = None
    quota: tuple[Quota, ...] = ()
    capability: tuple[Level, ...] = ()
    nodes: Nodes | None = None
    cannot_verify: tuple[str, ...] = ()
    would_help: tuple[str, ...] = ()
    last_report: Report | None = None


def of(view: View, group: Group, report: Report | None) -> Explanation:
    """Explain one group of the view."""
    row = next(r for r in view.rows if r.key == group.key)
    quota, levels, nodes = _sums(view, group)
    return Explanation(
        group=row,
        recognised_by=group.identity.how,
        size=Size(group.need, group.possible, group.source),
        members=_counts(row, group),
        pods=tuple(_member(m) for m in group.members),
        queue=group.queue,
        queue_from=queue_from(view.snapshot, group),
        note=group.note,
        later=_later(group),
        quota=tuple(_quota(line) for line in quota),
        capability=tuple(_level(line) for line in levels),
        nodes=_nodes(nodes) if nodes else None,
        cannot_verify=unverifiable(group.members, view.snapshot.devices),
        would_help=tuple(helps.of(helps.Case(view.snapshot, group, row, quota, levels, nodes))),
        last_report=report,
    )


def _later(group: Group) -> Later | None:
    roles: Counter[str] = Counter()
    for absent in group.later:
        roles[absent.role] += absent.count
    return Later(sum(roles.values()), dict(sorted(roles.items())), group.waits) if roles else None


def _sums(view: View, group: Group) -> tuple[list[QuotaLine], list[LevelLine], NodesShort | None]:
    """The lines of the books, as far as the caller sees enough for a sum."""
    if view.outcome is None:  # of a namespace alone its quotas can be summed, what is promised to others left out
        return account.quota_lines(Ledger(view.snapshot, dict(view.groups), view.now), group), [], None
    ledger = books.before(view.snapshot, view.outcome, group.key, view.now)
    starting = _starting(group)
    placeable = starting and not group.missing and not unverifiable(starting, view.snapshot.devices)
    nodes = account.nodes_short(ledger, starting) if placeable else None
    return account.quota_lines(ledger, group), account.level_lines(ledger, group, starting), nodes


def _starting(group: Group) -> Sequence[PodFacts]:
    """The gated members that are to start together next."""
    return group.gated[: max(1, group.need - sum(1 for m in group.members if not m.gated))]


def _counts(row: Row, group: Group) -> Counts:
    gated = len(group.gated)
    return Counts(row.present, row.missing, gated, row.lifted, row.bound, group.leaving, group.succeeded)


def _member(pod: PodFacts) -> Member:
    return Member(pod.name, pod.phase, pod.gated, pod.node, pod.pin, pod.foreign_gates)


def _quota(line: QuotaLine) -> Quota:
    def text(nano: int) -> str:
        return amount(nano, line.key)

    return Quota(
        line.quota,
        line.key,
        text(line.hard),
        text(line.used),
        text(line.counted),
        text(line.promised),
        line.missing,
        None if line.each is None else text(line.each),
        text(line.need),
        text(line.short),
        line.unstated,
    )


def _level(line: LevelLine) -> Level:
    def text(nano: int) -> str:
        return amount(nano, line.resource)

    return Level(
        line.queue,
        line.resource,
        None if line.capability is None else text(line.capability),
        text(line.allocated),
        None if line.free is None else text(line.free),
        text(line.need),
        text(line.short),
    )


def _nodes(short: NodesShort) -> Nodes:
    return Nodes(
        short.wanted, short.fit, min(short.empty_fit, short.wanted), words.request_text(short.shape), short.reasons
    )


_DEFAULTED: Final = "nobody names one"
_AT_LIFT: Final = "as when its members were lifted"  # the lift writes the queue on the pods: no choice of theirs


def queue_from(snapshot: Snapshot, group: Group) -> str:
    """Who chose the group's queue: the first of those that may, in the order of policy.rules.grouping."""
    podgroup, owner = group.podgroup, group.owner
    namespace = snapshot.namespaces.get(group.identity.namespace)
    said = [
        (podgroup.queue, f"spec.queue of PodGroup {podgroup.name}") if podgroup and not podgroup.ours else ("", ""),
        *((m.queue, f"named by pod {m.name}") for m in group.members if m.queue and not m.lifted),
        (owner.queue, f"named in the template of {owner.kind} {owner.name}") if owner else ("", ""),
        (namespace.queues[0], f"annotation {names.ANNOTATION_QUEUES} of the namespace")
        if namespace and namespace.queues
        else ("", ""),
    ]
    chosen = (where for name, where in said if name == group.queue)
    return next(chosen, _DEFAULTED if group.queue == names.DEFAULT_QUEUE else _AT_LIFT)
