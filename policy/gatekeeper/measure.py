"""What each pass and each lift mean for the metrics. Turns outcomes into figures; sets no policy.

Amounts become base units (floats) here and only here: metrics are for graphs, never for decisions.
"""

from collections import Counter

from policy import names
from policy.gatekeeper.announce import Transition
from policy.gatekeeper.lift import Lift
from policy.gatekeeper.metrics import Metrics
from policy.rules.conclusions import Decision, Group, Outcome
from policy.rules.explain_bind import OUTSIDER
from policy.rules.lifecycle import State
from policy.rules.model import Snapshot
from policy.rules.quantity import NANO


class Measures:
    """Feeds one Metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lost: set[str] = set()  # groups that are being given back since pods of others took their places

    def passed(
        self, outcome: Outcome, snapshot: Snapshot, transitions: list[Transition], now: float, took: float
    ) -> None:
        """One pass; `now` is seconds since the epoch, `took` seconds."""
        self._metrics.passed(took)
        self._metrics.groups(Counter((str(d.state), str(d.reason)) for d in outcome.decisions))
        self._metrics.shortfalls(dict(_shortfall(outcome.groups[d.group], d) for d in outcome.decisions if _short(d)))
        self._queues(outcome, snapshot)
        for decision in outcome.decisions:
            if decision.action == "lift" and decision.state == State.WAITING:
                self._metrics.decided(max(0.0, now - _completed(outcome.groups[decision.group])))
        self._lost_to_outsiders(outcome)
        for transition in transitions:
            if transition.to == State.RUNNING and transition.came_from != State.DEGRADED:
                group = transition.group
                self._metrics.waited(group.queue, group.need, max(0.0, now - group.created))

    def _lost_to_outsiders(self, outcome: Outcome) -> None:
        """Each give-back counts once, over however many passes its levers take."""
        lost = {d.group for d in outcome.decisions if d.action == "give-back" and d.limiter == OUTSIDER}
        for _ in lost - self._lost:
            self._metrics.lost_to_outsider()
        self._lost = lost

    def _queues(self, outcome: Outcome, snapshot: Snapshot) -> None:
        allocated = {(q, r): n / NANO for q, book in outcome.allocated.items() for r, n in book.items()}
        capability = {(q.name, r): n / NANO for q in snapshot.queues.values() for r, n in q.capability.items()}
        self._metrics.queues(allocated, capability)

    def lifted(self, lift: Lift) -> None:
        if not lift.dry:
            self._metrics.lifted(lift.ended - lift.started, lift.ended - lift.first)


def _short(decision: Decision) -> bool:
    return decision.reason is names.Reason.NAMESPACE_QUOTA_SHORT


def _shortfall(group: Group, decision: Decision) -> tuple[tuple[str, str, str], float]:
    _, quota, key = decision.limiter.split("/", 2)
    lacking = decision.numbers["needNano"] - decision.numbers["freeNano"]
    return (group.identity.namespace, quota, key), lacking / NANO


def _completed(group: Group) -> float:
    """When the member that made the group complete was created."""
    times = sorted(m.created for m in group.members)
    return times[min(group.minimum, len(times)) - 1]
