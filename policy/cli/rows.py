"""One row for each group: what `status` prints, from a decision or, for a tenant, from what was reported.

Pure. The field names are those of the JSON and stay; times are seconds since the epoch, amounts in `numbers` are as
the decision has them (nano units where the name says so).
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from policy import names
from policy.cli import reports
from policy.cli.failures import Exit
from policy.cli.reports import Report
from policy.rules import explain, lifecycle
from policy.rules.conclusions import Decision, Group, Outcome
from policy.rules.lifecycle import State
from policy.rules.verdict import HOPELESS

UNSTARTED: Final = frozenset({State.NEW, State.FORMING, State.WAITING})
DECIDED: Final = "decided"  # anew, by this command
REPORTED: Final = "reported"  # by the gatekeeper, some time ago


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """A group as of now."""

    key: str
    namespace: str
    kind: str
    name: str
    state: str
    reason: str
    message: str
    limiter: str
    waiting: bool  # held: nothing starts until something changes
    present: int
    min_member: int
    possible: int | None
    missing: int
    lifted: int
    bound: int
    queue: str
    position: int  # among the waiting groups of its queue, from 1; 0 when it does not wait
    priority: int
    created_at: str | None  # RFC 3339
    numbers: dict[str, int]
    basis: str  # "decided" or "reported"

    @property
    def title(self) -> str:
        return f"{self.kind.lower()}/{self.name}"

    @property
    def verdict(self) -> Exit:
        """The exit code that says how the group is."""
        if self.state == State.RUNNING or not self.waiting:
            return Exit.OK
        return Exit.NEVER_FITS if self.reason in HOPELESS else Exit.WAITS


def decided(outcome: Outcome) -> list[Row]:
    """All groups, in the order in which they are considered."""
    return [row(outcome.groups[d.group], d) for d in outcome.decisions]


def row(group: Group, decision: Decision) -> Row:
    """A group with the answer that it got."""
    return _row(
        group,
        state=decision.state,
        reason=decision.reason,
        message=decision.message,
        limiter=decision.limiter,
        waiting=decision.action == "hold",
        position=decision.position,
        numbers=decision.numbers,
        basis=DECIDED,
    )


def reported(groups: Iterable[Group], told: Mapping[str, Report]) -> list[Row]:
    """Groups of one namespace, each with what the gatekeeper last said of it."""
    return [row_told(group, reports.of_group(told, group)) for group in groups]


def row_told(group: Group, report: Report | None) -> Row:
    """State and counts are those of the members themselves; only why an unstarted group waits is hearsay."""
    lifted, bound = _lifted(group), _bound(group)
    seen = lifecycle.observe(
        need=group.need, present=len(group.members), lifted=lifted, bound=bound, owner_makes_more=True
    )
    state = lifecycle.advance(State.NEW, seen).to
    settled, _, message, numbers = explain.settled(group)
    reason = str(settled)
    if state in UNSTARTED:
        reason, message = (report.reason, report.message) if report else ("", "the gatekeeper has reported nothing yet")
    waiting = state in UNSTARTED and reason != names.Reason.ADMITTED
    return _row(group, state=state, reason=reason, message=message, waiting=waiting, numbers=numbers, basis=REPORTED)


def _row(group: Group, *, limiter: str = "", position: int = 0, **rest: Any) -> Row:
    """The part that the group itself tells, and the rest."""
    return Row(
        key=group.key,
        namespace=group.identity.namespace,
        kind=group.identity.kind,
        name=group.identity.name,
        limiter=limiter,
        present=len(group.members),
        min_member=group.need,
        possible=group.possible,
        missing=group.missing,
        lifted=_lifted(group),
        bound=_bound(group),
        queue=group.queue,
        position=position,
        priority=group.priority,
        created_at=stamp(group.created),
        **rest,
    )


def _lifted(group: Group) -> int:
    return sum(1 for m in group.members if not m.gated)


def _bound(group: Group) -> int:
    return sum(1 for m in group.members if m.node)


def chosen(rows: Iterable[Row], namespace: str | None, *, waiting: bool) -> list[Row]:
    """Those of a namespace (None: of all), and of them those that have not started."""
    return [r for r in rows if namespace in (None, r.namespace) and (not waiting or r.state in UNSTARTED)]


def stamp(epoch: float) -> str | None:
    """RFC 3339, in UTC, whole seconds."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if epoch else None
