"""A group's states, what is observed of it, and where each observation leads: the table is the machine.

States are re-derived from the cluster at every pass (nothing here is stored), so after a restart a group enters at
whatever is seen of it. A pair that the table lacks raises before anything changes. docs/lifecycle.md is drawn from
the table, and CI refuses a stale drawing. May know names only.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from policy.names import Reason


class State(StrEnum):
    NEW = "New"
    FORMING = "Forming"
    WAITING = "Waiting"
    SUSPENDED = "Suspended"
    LIFTING = "Lifting"
    BINDING = "Binding"
    RUNNING = "Running"
    DEGRADED = "Degraded"
    FINISHED = "Finished"


class Seen(StrEnum):
    """What a pass observes of a group."""

    TOO_FEW = "fewer than minMember exist, none lifted"
    COMPLETE = "minMember exist, none lifted"
    GIVEN_BACK = "its owners are suspended by us"
    PART_LIFTED = "some lifted, fewer than minMember"
    LIFTED = "minMember lifted, fewer bound"
    BOUND = "minMember bound"
    GONE = "no member and no owner that makes any"


class Step(NamedTuple):
    """Where an observation leads, and what is announced on the way (nothing where the state stays)."""

    to: State
    announce: Reason | None = None


class TransitionError(RuntimeError):
    """The table has no such pair."""


def _start() -> dict[Seen, Step]:
    """From any state in which nothing is lifted."""
    return {
        Seen.TOO_FEW: Step(State.FORMING, Reason.FORMING),
        Seen.COMPLETE: Step(State.WAITING),
        Seen.GIVEN_BACK: Step(State.SUSPENDED),
        Seen.PART_LIFTED: Step(State.LIFTING, Reason.ADMITTED),
        Seen.LIFTED: Step(State.BINDING, Reason.LIFTED),
        Seen.BOUND: Step(State.RUNNING, Reason.RUNNING),
        Seen.GONE: Step(State.FINISHED, Reason.FINISHED),
    }


TABLE: Final[dict[State, dict[Seen, Step]]] = {
    State.NEW: _start(),
    State.FORMING: _start() | {Seen.TOO_FEW: Step(State.FORMING)},
    State.WAITING: _start(),
    State.SUSPENDED: _start(),
    State.LIFTING: _start() | {Seen.PART_LIFTED: Step(State.LIFTING)},
    State.BINDING: _start() | {Seen.PART_LIFTED: Step(State.LIFTING), Seen.LIFTED: Step(State.BINDING)},
    State.RUNNING: _start()
    | {
        Seen.PART_LIFTED: Step(State.DEGRADED),
        Seen.LIFTED: Step(State.DEGRADED),
        Seen.BOUND: Step(State.RUNNING),
    },
    State.DEGRADED: _start() | {Seen.PART_LIFTED: Step(State.DEGRADED), Seen.LIFTED: Step(State.DEGRADED)},
    State.FINISHED: {Seen.GONE: Step(State.FINISHED)},
}


def observe(
    *, need: int, present: int, lifted: int, bound: int, owner_makes_more: bool, suspended: bool = False
) -> Seen:
    """Name what the counts mean. `lifted` counts members without our gate, `bound` those on a node."""
    if suspended and not lifted:
        return Seen.GIVEN_BACK
    if not present and not owner_makes_more:
        return Seen.GONE
    if not lifted:
        return Seen.COMPLETE if present >= need else Seen.TOO_FEW
    if lifted < need:
        return Seen.PART_LIFTED
    return Seen.BOUND if bound >= need else Seen.LIFTED


def advance(state: State, seen: Seen) -> Step:
    """Raises TransitionError for a pair that the table lacks."""
    step = TABLE[state].get(seen)
    if step is None:
        raise TransitionError(f"{state} has no step for {seen.value!r}")
    return step


def seen_first(seen: Seen, *, ran: bool) -> State:
    """Where an observation leads a group that was not looked at before; `ran`: it was whole once, as its pods tell."""
    return advance(State.RUNNING if ran else State.NEW, seen).to


def drawing() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> New"]
    for state, row in TABLE.items():
        for seen, step in row.items():
            told = f" / {step.announce}" if step.announce else ""
            lines.append(f"    {state} --> {step.to}: {seen.value}{told}")
    return "\n".join([*lines, "    Finished --> [*]"])
