"""The ledger as it stood when one group was judged, so that the sums that `why` prints are those of the decision.

decide() keeps its ledger to itself; its decisions, in the order in which they were taken, say what each promised and
placed. What was placed before is shown to a new ledger as lifted already. Pure.
"""

from collections.abc import Iterator

import msgspec

from policy import names
from policy.rules.conclusions import Decision, Outcome
from policy.rules.ledger import Ledger
from policy.rules.model import Lifted, PodFacts, Snapshot

Reason = names.Reason


def before(snapshot: Snapshot, outcome: Outcome, key: str, now: float) -> Ledger:
    """Everything charged, and what this pass had promised and placed before it came to the group `key`."""
    earlier = list(_earlier(outcome, key))
    lifts = [d for d in earlier if d.action == "lift" and d.reason is not Reason.RELEASED]
    placed = {uid: (node, Lifted(min=d.need, at=now)) for d in lifts for uid, node in d.places.items()}
    pods = tuple(_lifted(p, *placed[p.uid]) if p.uid in placed else p for p in snapshot.pods)
    ledger = Ledger(msgspec.structs.replace(snapshot, pods=pods), outcome.groups, now)
    for decision in earlier:
        if decision.reason is Reason.FORMING:
            ledger.promise_quota(outcome.groups[decision.group])
    return ledger


def charged(snapshot: Snapshot, outcome: Outcome, now: float) -> Ledger:
    """What is charged already, nothing promised."""
    return Ledger(snapshot, outcome.groups, now)


def _earlier(outcome: Outcome, key: str) -> Iterator[Decision]:
    """Groups already begun are settled before anything new; the rest in order (policy.rules.decide)."""
    for decision in sorted(outcome.decisions, key=lambda d: not outcome.groups[d.group].begun):
        if decision.group == key:
            return
        yield decision


def _lifted(pod: PodFacts, node: str, lifted: Lifted) -> PodFacts:
    return msgspec.structs.replace(pod, gated=False, lifted=lifted, pin=node)
