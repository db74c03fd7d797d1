"""What is told of each group, and when: transitions at once, a hold once it has lasted, and again before it expires.

Keeps the lifecycle state of every group between passes. The recorder writes and drops repeats; here is decided only
what is worth saying, and to whom: every held member, the PodGroup and the owner.
"""

import math
from dataclasses import dataclass
from typing import Final

from policy import names
from policy.gatekeeper.event_body import EventType, ObjectRef
from policy.gatekeeper.events import Recorder
from policy.rules import lifecycle
from policy.rules.conclusions import Decision, Group, Outcome
from policy.rules.lifecycle import State
from policy.rules.verdict import finished

SETTLE_SECONDS: Final = 1.0  # a hold shorter than this is not worth an event: pods of one Job come in waves
REPEAT_SECONDS: Final = 60.0  # how often the recorder is asked again; it re-sends only what is about to expire
_NORMAL: Final = frozenset(
    {
        names.Reason.FORMING,
        names.Reason.ADMITTED,
        names.Reason.LIFTED,
        names.Reason.RUNNING,
        names.Reason.FINISHED,
        names.Reason.RELEASED,
        names.Reason.RESUMED,
    }
)
_LASTING: Final = frozenset(  # told like a hold, and hold nothing
    {names.Reason.BIND_TIMEOUT, names.Reason.BYPASSED, names.Reason.DEGRADED, names.Reason.PREEMPTED}
)
_PATIENCE: Final = {names.Reason.DEGRADED: 30.0}  # seconds, where not SETTLE_SECONDS: most are replaced before
_STARTED: Final = frozenset({State.LIFTING, State.BINDING, State.RUNNING, State.DEGRADED})
_ON_PODS: Final = frozenset({names.Reason.ADMITTED, names.Reason.RELEASED})  # transitions that each pod shows


@dataclass
class _Known:
    """What was last seen and said of one group; times are monotonic seconds."""

    state: State
    ran: Group | None = None  # as seen when it was last lifted or running
    hold: tuple[str, str] | None = None  # reason and limiter
    since: float = 0.0
    said: float = 0.0
    members: int = -1
    waiting_since: float = 0.0


@dataclass(frozen=True)
class Transition:
    """A group's state changed in this pass."""

    group: Group
    came_from: State
    to: State


class Announcer:
    """One call per pass; the end of a group is told when no pass shows it any more."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[str, _Known] = {}
        self.due = math.inf  # monotonic seconds: when a hold will have lasted, and wants another pass to be told

    def tell(self, outcome: Outcome, now: float) -> list[Transition]:
        """Say what is worth saying of this pass; `now` is monotonic seconds. Returns the state changes."""
        found: list[Transition] = []
        self.due = math.inf
        for decision in outcome.decisions:
            group = outcome.groups[decision.group]
            before = self.state(group.key)
            self._one(group, decision, now)
            if self.state(group.key) is not before:
                found.append(Transition(group, before, self.state(group.key)))
        return found + [gone for key in self._known.keys() - outcome.groups.keys() if (gone := self._gone(key))]

    def _gone(self, key: str) -> Transition | None:
        """Forget a group; where it had started, its end is told on what may still be there: PodGroup and owner."""
        known = self._known.pop(key)
        if known.ran is None:
            return None
        told = finished(known.ran)
        self._say(known.ran, told.reason, told.message, on_pods=False)
        return Transition(known.ran, known.state, lifecycle.advance(known.state, told.seen).to)

    def state(self, key: str) -> State:
        return self._known[key].state if key in self._known else State.NEW

    def _one(self, group: Group, decision: Decision, now: float) -> None:
        known = self._known.setdefault(group.key, _Known(State.NEW, waiting_since=now))
        step = lifecycle.advance(known.state, decision.seen)
        known.state = step.to
        if known.state in _STARTED:
            known.ran = group
        elif group.members:  # another run of the same name; without members it may be about to end
            known.ran = None
        if decision.action in ("give-back", "resume"):
            known.hold = None
            self._say(group, decision.reason, decision.message, limiter=decision.limiter, on_pods=True)
        elif decision.action == "lift":
            known.hold = None
            self._say(group, decision.reason, decision.message, on_pods=True)
        elif decision.action == "hold" or decision.reason in _LASTING:
            self._held(group, decision, known, now)
        elif step.announce and step.announce is not names.Reason.ADMITTED:
            known.hold = None
            self._say(group, step.announce, decision.message, on_pods=step.announce in _ON_PODS)

    def _held(self, group: Group, decision: Decision, known: _Known, now: float) -> None:
        hold = (str(decision.reason), decision.limiter)
        if known.hold != hold:
            known.hold, known.since, known.members = hold, now, -1
        settled = known.since + _PATIENCE.get(decision.reason, SETTLE_SECONDS)
        lasted = now >= settled
        if not lasted:
            self.due = min(self.due, settled)
        fresh = known.members != len(group.members) or now - known.said >= REPEAT_SECONDS
        if lasted and fresh:
            known.members, known.said = len(group.members), now
            self._say(group, decision.reason, decision.message, limiter=decision.limiter, on_pods=True)

    def _say(self, group: Group, reason: names.Reason, note: str, *, limiter: str = "", on_pods: bool) -> None:
        kind: EventType = "Normal" if reason in _NORMAL else "Warning"
        for regarding in [*_objects(group), *(_pods(group) if on_pods else [])]:
            self._recorder.record(regarding, reason, note, type=kind, limiter=limiter)


def _objects(group: Group) -> list[ObjectRef]:
    found: list[ObjectRef] = []
    if group.podgroup:
        podgroup = group.podgroup
        version = names.VOLCANO_VERSION if podgroup.api == names.VOLCANO_API else names.COSCHEDULING_VERSION
        api = f"{podgroup.api}/{version}"
        found.append(ObjectRef(api, "PodGroup", podgroup.namespace, podgroup.name, podgroup.uid))
    if group.owner:
        owner = group.owner
        found.append(ObjectRef(owner.api_version, owner.kind, owner.namespace, owner.name, owner.uid))
    return found


def _pods(group: Group) -> list[ObjectRef]:
    return [ObjectRef("v1", "Pod", m.namespace, m.name, m.uid) for m in group.members]
