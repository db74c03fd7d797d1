"""An Explanation as text for people: facts first, then the sum that stops the group, then what would help.

Pure: returns lines, prints nothing. Only the sums that matter are shown; all of them are in the JSON.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from policy import names
from policy.cli.explanation import Explanation, Level, Member, Quota
from policy.cli.rows import REPORTED, UNSTARTED
from policy.cli.wording import age_text, count, table
from policy.rules.facts import epoch

LABEL_WIDTH: Final = 13
NOTHING: Final = "0"
MOST_PODS: Final = 20  # listed one by one; the JSON has all
_QUOTA: Final = ("QUOTA", "KEY", "HARD", "USED", "COUNTED", "PROMISED", "MISSING x EACH = NEEDED", "SHORT BY")
_LEVELS: Final = ("QUEUE", "RESOURCE", "CAPABILITY", "ALLOCATED", "FREE", "NEEDED", "SHORT BY")
_REPORT_SHOWN_FOR: Final = frozenset(
    {names.Reason.ADMITTED, names.Reason.LIFTED, names.Reason.BIND_TIMEOUT, names.Reason.DEGRADED}
)


def told(found: Explanation, now: float, silence: str = "") -> Iterator[str]:
    """The whole answer, line by line; `silence` is why nobody lifts the gates of a group that fits."""
    yield from _facts(found, now)
    yield ""
    yield from _answer(found, silence)
    yield from _sums(found)
    if found.would_help:
        yield ""
        yield "What would help:"
        yield from (f"  - {text}" for text in found.would_help)
    yield from _report(found, now)
    yield from _pods(found)


def _line(label: str, text: str) -> str:
    return f"{label + ':':<{LABEL_WIDTH}}{text}"


def _facts(found: Explanation, now: float) -> Iterator[str]:
    group, size, members = found.group, found.size, found.members
    yield _line("Group", f"{group.title} in namespace {group.namespace}")
    yield _line("Recognised", f"by {found.recognised_by}" + (f"; {found.note}" if found.note else ""))
    most = "" if size.possible is None else f", of {size.possible} that its owner makes at once"
    told = "not known" if size.source == "unknown" else f"{size.min_member} start together{most} (from {size.source})"
    yield _line("Size", told)
    gone = [f"{n} {what}" for n, what in ((members.leaving, "terminating"), (members.succeeded, "succeeded")) if n]
    parts = [
        f"{members.present} present",
        f"{members.gated} held by our gate",
        f"{members.lifted} lifted",
        f"{members.bound} bound",
        f"{members.missing} missing",
    ]
    yield _line("Members", ", ".join([*parts, *gone]))
    if found.later is not None:
        what = ", ".join(f"{count} {role}".rstrip() for role, count in found.later.roles.items())
        yield _line("Later", f"{what}, waiting for {found.later.waits_for}")
    place = f", position {group.position}" if group.position else ""
    yield _line("Queue", f"{found.queue} ({found.queue_from}), priority {group.priority}{place}")
    if group.created_at:
        yield _line("Age", age_text(now - epoch(group.created_at)))


def _answer(found: Explanation, silence: str) -> Iterator[str]:
    group = found.group
    hearsay = group.basis == REPORTED and group.state in UNSTARTED
    known = f"{group.reason}, as last reported" if hearsay else group.reason
    yield _line(group.state, known if group.reason else "nothing reported")
    yield f"  {group.message}"
    if found.cannot_verify:
        yield f"  Placement cannot be verified: {', '.join(found.cannot_verify)}."
    if silence:
        yield f"  But {silence}: nothing is lifted until one does."


def _sums(found: Explanation) -> Iterator[str]:
    """The sum behind the reason, then those that are short too and would be the next obstacle."""
    if found.group.state not in UNSTARTED and not found.group.waiting:
        return
    sums = {"quota": _quota_sum(found), "queue": _queue_sum(found), "nodes": _nodes_sum(found)}
    reason = found.group.limiter.partition("/")[0]
    for kind, lines in sorted(sums.items(), key=lambda item: item[0] != reason):
        if lines:
            yield ""
            if kind != reason and reason in sums:
                yield "  Short as well:"
            yield from lines


def _quota_sum(found: Explanation) -> list[str]:
    rows = [q for q in found.quota if q.short_by != NOTHING or q.unstated or _is_about(found, "quota", q.quota)]
    return [table(_QUOTA, [_quota_cells(q) for q in rows], "  ")] if rows else []


def _queue_sum(found: Explanation) -> list[str]:
    limited = [lv for lv in found.capability if lv.capability is not None]
    rows = [lv for lv in limited if lv.short_by != NOTHING or _is_about(found, "queue", lv.queue)]
    return [table(_LEVELS, [_level_cells(lv) for lv in rows], "  ")] if rows else []


def _nodes_sum(found: Explanation) -> list[str]:
    nodes = found.nodes
    if nodes is None:
        return []
    if not nodes.reasons:
        return ["  There are no nodes."]
    ranked = Counter(nodes.reasons).most_common()
    return [
        f"  Of {count(nodes.wanted, 'pod')} of {nodes.each}, {nodes.fit} fit now and {nodes.fit_if_empty} would if",
        "  every node were empty and up. Nodes that take none of them:",
        table(("NODES", "WHY"), [(str(n), why) for why, n in ranked], "  "),
    ]


def _is_about(found: Explanation, kind: str, name: str) -> bool:
    return found.group.limiter.startswith(f"{kind}/{name}/")


def _quota_cells(q: Quota) -> tuple[str, ...]:
    if q.unstated:
        return (q.quota, q.key, q.hard, q.used, q.counted, q.promised, "not stated by the pods", "-")
    each = f"{q.missing} x {q.each}" if q.each is not None else f"{q.missing} pods"
    return (q.quota, q.key, q.hard, q.used, q.counted, q.promised, f"{each} = {q.needed}", q.short_by)


def _level_cells(lv: Level) -> tuple[str, ...]:
    return (lv.queue, lv.resource, lv.capability or "", lv.allocated, lv.free or "", lv.needed, lv.short_by)


def _report(found: Explanation, now: float) -> Iterator[str]:
    """What the gatekeeper said last, where it says more than this command can know."""
    report = found.last_report
    if report is None or found.group.basis == REPORTED or report.reason == found.group.reason:
        return
    if found.group.waiting or found.group.reason in _REPORT_SHOWN_FOR:
        yield ""
        yield f"The gatekeeper last said ({report.source}, {age_text(now - report.at)} ago): {report.reason}"
        yield f"  {report.message}"


def _pods(found: Explanation) -> Iterator[str]:
    if not found.pods:
        return
    yield ""
    yield table(("POD", "PHASE", "NODE", "GATES"), [_pod_cells(p) for p in found.pods[:MOST_PODS]], "  ")
    if len(found.pods) > MOST_PODS:
        yield f"  and {count(len(found.pods) - MOST_PODS, 'more pod')}, listed by -o json"


def _pod_cells(pod: Member) -> tuple[str, ...]:
    gates = [*([names.GATE] if pod.gated else []), *pod.other_gates]
    node = pod.node or (f"(pinned to {pod.pin})" if pod.pin else "-")
    return (pod.name, pod.phase, node, ", ".join(gates) or "-")
