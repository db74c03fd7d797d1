"""What the caller may see: the whole cluster and a decision on it, or one namespace and what was reported there.

The one place that knows both ways, so that each command is written once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from policy.cli import reports, rows
from policy.cli.options import Flags
from policy.cli.reports import Report
from policy.cli.rows import Row
from policy.cli.world import Denied, World
from policy.rules.conclusions import Group, Outcome
from policy.rules.decide import decide
from policy.rules.grouping import groups_of
from policy.rules.model import Snapshot


@dataclass(frozen=True)
class View:
    """Facts, groups, and one row for each; `outcome` is None where nothing could be decided."""

    snapshot: Snapshot
    groups: Mapping[str, Group]
    rows: list[Row]
    now: float
    outcome: Outcome | None = None
    told: Mapping[str, Report] | None = None
    notes: tuple[str, ...] = ()


def look(world: World, flags: Flags, namespace: str = "") -> View:
    """Everything where that is allowed, else one namespace: the given one, or the caller's own.

    Raises Denied where neither may be seen, or where all namespaces were asked for and may not.
    """
    try:
        snapshot = world.snapshot()
    except Denied as denied:
        if flags.all_namespaces:
            raise
        return _tenant(world, namespace or world.namespace, denied)
    now = world.now()
    outcome = decide(snapshot, world.settings.deciding(), now)
    return View(snapshot, outcome.groups, rows.decided(outcome), now, outcome)


def _tenant(world: World, namespace: str, denied: Denied) -> View:
    partial, told = world.partial(namespace)
    groups = groups_of(partial.snapshot)
    notes = [f"{denied.lack}; shown is what the gatekeeper last reported in namespace {namespace}"]
    if partial.unseen:
        notes.append(f"not seen, for you may not list it there: {', '.join(partial.unseen)}")
    return View(
        partial.snapshot,
        groups,
        rows.reported(groups.values(), told),
        world.now(),
        told=told,
        notes=tuple(notes),
    )


def report(world: World, view: View, group: Group) -> Report | None:
    """The last report on a group, from what was listed already or by asking for it."""
    return world.last_report(group) if view.told is None else reports.of_group(view.told, group)
