"""What a Queue's status says: how many of its groups are in which state, and what the queue holds.

The fields are Volcano's, for `kubectl get queue` and whatever else reads them. A report, never an input. May know the
conclusions of a pass.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from policy.rules import quantity
from policy.rules.conclusions import Decision, Outcome
from policy.rules.lifecycle import State
from policy.rules.membership.identity import POD
from policy.rules.model import QueueFacts

_COUNTED: Final = {
    State.LIFTING: "inqueue",
    State.BINDING: "inqueue",
    State.RUNNING: "running",
    State.DEGRADED: "unknown",
    State.FINISHED: "completed",
}
_COUNTS: Final = ("pending", "inqueue", "running", "unknown", "completed")


class QueueStatus(msgspec.Struct, frozen=True):
    """Of one queue; amounts are quantities as text. Its groups are its own, not those below it.

    The state is not written: it is what people decide.
    """

    counts: tuple[tuple[str, int], ...]
    allocated: tuple[tuple[str, str], ...]

    @property
    def body(self) -> dict[str, object]:
        """As the API has it."""
        return {**dict(self.counts), "allocated": dict(self.allocated)}


def statuses(outcome: Outcome, queues: Mapping[str, QueueFacts]) -> dict[str, QueueStatus]:
    """Of every queue that exists, after a pass."""
    counts: dict[str, Counter[str]] = {}
    for decision in outcome.decisions:
        group = outcome.groups[decision.group]
        if group.identity.kind != POD:  # PodGroups are counted
            counts.setdefault(group.queue, Counter())[_kind(decision)] += 1
    return {name: _status(outcome, name, counts.get(name, Counter())) for name in sorted(queues)}


def _kind(decision: Decision) -> str:
    return "inqueue" if decision.called else _COUNTED.get(decision.state, "pending")


def _status(outcome: Outcome, name: str, counts: Counter[str]) -> QueueStatus:
    held = outcome.allocated.get(name, {})
    amounts = tuple((resource, quantity.text(held[resource], resource)) for resource in sorted(held))
    return QueueStatus(tuple((count, counts[count]) for count in _COUNTS), amounts)
