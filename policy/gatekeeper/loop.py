"""One pass after another: take a snapshot, decide, act. The only place where the three meet.

A pass runs only while this process leads and every cache is fresh. Passes follow changes (bursts gathered) and at
least every ten seconds, so that whatever was missed is looked at again within a minute (promise I7).
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from policy import names
from policy.gatekeeper.announce import Announcer, Transition
from policy.gatekeeper.changes import Changes
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.flights import Flights
from policy.gatekeeper.levers import Levers
from policy.gatekeeper.lift import Leader, Lift, Lifter
from policy.gatekeeper.podgroups import PodGroups
from policy.gatekeeper.queue_status import QueueStatuses
from policy.gatekeeper.snapshot import Stores, take
from policy.gatekeeper.threads import repeat
from policy.gatekeeper.usage import Usage
from policy.gatekeeper.witness import Witness
from policy.rules import explain
from policy.rules.conclusions import Decision, Group, Outcome
from policy.rules.decide import decide
from policy.rules.lifecycle import State
from policy.rules.lift_plan import plan, terms
from policy.rules.model import Config, Snapshot
from policy.rules.queue_report import statuses
from policy.rules.recall import Recall
from policy.rules.recovery import fallen_of
from policy.rules.verdict import finished

PASS_SECONDS: Final = 10.0  # the longest time without a pass
REST_PER_PASS: Final = 2.0  # passes take a third of one core, as long as they are short
LONGEST_REST_SECONDS: Final = 0.5
SOON_SECONDS: Final = 0.25  # the shortest wait for what is due
STUCK_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 1.0  # after leadership begins: the previous leader's last patches reach our watch
FIRST_RETRY_SECONDS: Final = 5.0  # after a refused patch; doubles
LAST_RETRY_SECONDS: Final = 300.0
_EMPTY: Final = Outcome((), {})
Observe = Callable[[Outcome, Snapshot, list[Transition], float, float], None]


@dataclass
class Refusal:
    """Patches of a group that were refused, and when to try again (monotonic seconds)."""

    texts: list[str] = field(default_factory=list)
    until: float = 0.0
    delay: float = FIRST_RETRY_SECONDS


class Loop:
    """Owns no thread: `run` is called by one."""

    def __init__(
        self,
        stores: Stores,
        flights: Flights,
        leader: Leader,
        changes: Changes,
        clock: Clock,
        config: Config,
        announcer: Announcer,
        podgroups: PodGroups,
        observe: Observe,
        witness: Witness,
    ) -> None:
        self._stores, self._flights, self._leader, self._changes = stores, flights, leader, changes
        self._clock, self._config = clock, config
        self._announcer, self._podgroups, self._observe = announcer, podgroups, observe
        self._witness = witness
        self._usage = Usage(config.usage_half_life_seconds)
        self._recall = Recall()
        self._due = math.inf  # monotonic seconds: when a decision wants another look
        self._refusals: dict[str, Refusal] = {}
        self._led_since: float | None = None
        self._passed = clock.monotonic()
        self.lifter: Lifter | None = None
        self.levers: Levers | None = None
        self.queues: QueueStatuses | None = None
        self.last: Outcome = _EMPTY
        self.snapshot = Snapshot()

    def run(self, stop: threading.Event) -> None:
        """Pass after pass until `stop` is set. A pass that fails by a mistake of ours is logged and tried again."""
        repeat(self._turn, self._failed, self._clock, stop)

    def _turn(self) -> float:
        self._changes.wait(self._patience())
        if not self._settled() or self._stores.not_ready():
            self._passed = self._clock.monotonic()
            return 0.0
        started = self._clock.monotonic()
        self.step()
        self._passed = self._clock.monotonic()
        return min(REST_PER_PASS * (self._passed - started), LONGEST_REST_SECONDS)

    def _failed(self, _problem: str) -> float:
        return SETTLE_SECONDS

    def stuck(self) -> list[str]:
        """Why this process should be restarted: it may decide, and has not for a minute."""
        silent = self._clock.monotonic() - self._passed
        return [f"no pass for {silent:.0f} s"] if silent > STUCK_SECONDS else []

    def _patience(self) -> float:
        """Seconds to wait for a change: less where a hold will have lasted, or refused patches may be tried again."""
        if not self._settled():
            return SETTLE_SECONDS
        now = self._clock.monotonic()
        tries = [refusal.until - now for refusal in tuple(self._refusals.values()) if refusal.until > now]
        return min(PASS_SECONDS, max(SOON_SECONDS, min(self._announcer.due, self._due) - now), *tries)

    def _settled(self) -> bool:
        """Leading, and for long enough to have seen what the previous leader did last."""
        if not self._leader.valid():
            self._led_since = None
            return False
        now = self._clock.monotonic()
        if self._led_since is None:
            self._led_since = now
        return now - self._led_since >= SETTLE_SECONDS

    def step(self) -> Outcome:
        """One pass."""
        started = self._clock.monotonic()
        stuck = self.levers.stuck() if self.levers else ()
        refused = tuple(sorted(self._refusals))  # at one go: the lifter's threads write there
        self.snapshot = take(self._stores, self._flights, stuck, self._usage.all(), self.last.ahead, refused)
        now = self._clock.now().timestamp()
        outcome = decide(self.snapshot, self._config, now, self._recall)
        self._usage.take(outcome.allocated, started)
        self._due = started + max(0.0, outcome.again - now) if outcome.again else math.inf
        held_back = tuple(self._held_back(outcome, d) for d in outcome.decisions)
        outcome = msgspec.structs.replace(outcome, decisions=held_back)
        self.last = outcome
        transitions = self._act(outcome)
        self._observe(outcome, self.snapshot, transitions, now, self._clock.monotonic() - started)
        self._witness.look(self.snapshot, now, self._clock.monotonic())
        return outcome

    def _act(self, outcome: Outcome) -> list[Transition]:
        for decision in outcome.decisions:
            if decision.action == "lift":
                self._lift(outcome.groups[decision.group], decision)
        if self.levers is not None:
            for decision in outcome.decisions:
                self.levers.pull(self.snapshot.owners, decision.pulls)
            self.levers.keep(self.snapshot.owners)
        for decision in outcome.decisions:
            self._podgroups.report(outcome.groups[decision.group], decision)
        self._podgroups.keep(outcome.groups)
        if self.queues is not None:
            self.queues.report(statuses(outcome, self.snapshot.queues))
        self._forget(outcome)
        transitions = self._announcer.tell(outcome, self._clock.monotonic())
        for transition in transitions:
            if transition.to is State.FINISHED:
                self._podgroups.report(transition.group, finished(transition.group))
        return transitions

    def _forget(self, outcome: Outcome) -> None:
        """Refusals of groups that are gone, and who was taken from groups that are whole again."""
        for key in self._refusals.keys() - outcome.groups.keys():
            del self._refusals[key]
        if self.snapshot.fallen:
            whole = (g for g in outcome.groups.values() if g.begun and g.bound >= g.need)
            self._stores.fallen.forget(pod.uid for group in whole for pod in fallen_of(self.snapshot, group))

    def _lift(self, group: Group, decision: Decision) -> None:
        now = self._clock.now().timestamp()
        writes = list(plan(group, decision, now, pin=self._config.pin))
        if self.lifter is not None:
            self.lifter.start(group.key, writes, terms(group, decision, now))

    def _held_back(self, outcome: Outcome, decision: Decision) -> Decision:
        """A lift whose patches were refused a moment ago waits, and says why."""
        refusal = self._refusals.get(decision.group)
        if refusal is None or decision.action != "lift":
            return decision
        left = refusal.until - self._clock.monotonic()
        if left <= 0:
            return decision
        reason, limiter, message, numbers = explain.refused(outcome.groups[decision.group], refusal.texts, left)
        return msgspec.structs.replace(
            decision, action="hold", reason=reason, limiter=limiter, message=message, numbers=numbers, places={}
        )

    def lifted(self, lift: Lift) -> None:
        """Called by the lifter, on its thread, when every patch of a plan has been answered."""
        if lift.refused and self._leader.valid():
            refusal = self._refusals.setdefault(lift.group, Refusal())
            refusal.texts = lift.refused
            refusal.until = self._clock.monotonic() + refusal.delay
            refusal.delay = min(refusal.delay * 2, LAST_RETRY_SECONDS)
        else:
            self._refusals.pop(lift.group, None)
        self._changes.notify()

    def reported(self, key: str) -> None:
        """Called by the lifter before the first patch of a plan: the decision goes onto the PodGroup."""
        decision = next((d for d in self.last.decisions if d.group == key), None)
        if decision is not None and decision.reason is names.Reason.ADMITTED:
            self._podgroups.report(self.last.groups[key], decision)
