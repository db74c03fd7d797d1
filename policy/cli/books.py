"""The ledger as it stood when one group was judged, so that the sums that `why` prints are those of the decision.

decide() keeps its ledger to itself; its decisions, in the order in which they were taken, say what each promised and
placed. Pure.
"""

from collections.abc import Iterator

from policy import names
from policy.rules.ledger import Ledger
from policy.rules.model import Decision, Group, Outcome, Snapshot

Reason = names.Reason


def before(snapshot: Snapshot, outcome: Outcome, key: str, now: float) -> Ledger:
    """Everything charged, and what this pass had promised and placed before it came to the group `key`."""
    ledger = Ledger(snapshot, outcome.groups, now)
    for decision in _earlier(outcome, key):
        _repeat(ledger, outcome.groups[decision.group], decision)
    return ledger


def charged(snapshot: Snapshot, outcome: Outcome, now: float) -> Ledger:
    """What is charged already, nothing promised."""
    return Ledger(snapshot, outcome.groups, now)


def _earlier(outcome: Outcome, key: str) -> Iterator[Decision]:
    """Groups already begun are settled before anything new; the rest in order (policy.rules.decide)."""
    taken = sorted(outcome.decisions, key=lambda d: not _begun(outcome, d))
    for decision in taken:
        if decision.group == key:
            return
        yield decision


def _begun(outcome: Outcome, decision: Decision) -> bool:
    return outcome.groups[decision.group].begun


def _repeat(ledger: Ledger, group: Group, decision: Decision) -> None:
    if decision.reason is Reason.FORMING:
        ledger.promise_quota(group)
    if decision.action == "lift" and decision.reason is not Reason.RELEASED:
        members = [m for m in group.members if m.uid in decision.places]
        ledger.charge_group(group, members)
        for member in members:
            ledger.pool.charge(decision.places[member.uid], member)
