"""The table is the machine: every row has a test of its name, and the drawing shows nothing else."""

import itertools

import pytest

from policy.names import Reason
from policy.rules.lifecycle import TABLE, Seen, State, Step, TransitionError, advance, drawing, observe

# Written out a second time on purpose: a row that is deleted or changed in the table fails here, by its name.
EXPECTED = {
    State.NEW: {
        Seen.TOO_FEW: (State.FORMING, Reason.FORMING),
        Seen.COMPLETE: (State.WAITING, None),
        Seen.GIVEN_BACK: (State.SUSPENDED, None),
        Seen.PART_LIFTED: (State.LIFTING, Reason.ADMITTED),
        Seen.LIFTED: (State.BINDING, Reason.LIFTED),
        Seen.BOUND: (State.RUNNING, Reason.RUNNING),
        Seen.GONE: (State.FINISHED, Reason.FINISHED),
    },
    State.FORMING: {
        Seen.TOO_FEW: (State.FORMING, None),
        Seen.COMPLETE: (State.WAITING, None),
        Seen.GIVEN_BACK: (State.SUSPENDED, None),
        Seen.PART_LIFTED: (State.LIFTING, Reason.ADMITTED),
        Seen.LIFTED: (State.BINDING, Reason.LIFTED),
        Seen.BOUND: (State.RUNNING, Reason.RUNNING),
        Seen.GONE: (State.FINISHED, Reason.FINISHED),
    },
    State.WAITING: {
        Seen.TOO_FEW: (State.FORMING, Reason.FORMING),
        Seen.COMPLETE: (State.WAITING, None),
        Seen.GIVEN_BACK: (State.SUSPENDED, None),
        Seen.PART_LIFTED: (State.LIFTING, Reason.ADMITTED),
        Seen.LIFTED: (State.BINDING, Reason.LIFTED),
        Seen.BOUND: (State.RUNNING, Reason.RUNNING),
        Seen.GONE: (State.FINISHED, Reason.FINISHED),
    },
    State.SUSPENDED: {
        Seen.TOO_FEW: (State.FORMING, Reason.FORMING),
        Seen.COMPLETE: (State.WAITING, None),
        Seen.GIVEN_BACK: (State.SUSPENDED, None),
        Seen.PART_LIFTED: (State.LIFTING, Reason.ADMITTED),
        Seen.LIFTED: (State.BINDING, Reason.LIFTED),
        Seen.BOUND: (State.RUNNING, Reason.RUNNING),
        Seen.GONE: (State.FINISHED, Reason.FINISHED),
    },
    State.LIFTING: {
        Seen.TOO_FEW: (State.FORMING, Reason.FORMING),
        Seen.COMPLETE: (State.WAITING, None),
        Seen.GIVEN_BACK: (State.SUSPENDED, None),
        Seen.PART_LIFTED: (State.LIFTING, None),
        Seen.LIFTED: (State.BINDING, Reason.LIFTED),
        Seen.BOUND: (State.RUNNING, Reason.RUNNING),
        Seen.GONE: (State.FINISHED, Reason.FINISHED),
    },
    State.BINDING: {
        Seen.TOO_FEW: (State.FORMING, Reason.FORMING),
        Seen.COMPLETE: (State.WAITING, None),
        Seen.GIVEN_BACK: (State.SUSPENDED, None),
        Seen.PART_LIFTED: (State.LIFTING, None),
        Seen.LIFTED: (State.BINDING, None),
        Seen.BOUND: (State.RUNNING, Reason.RUNNING),
        Seen.GONE: (State.FINISHED, Reason.FINISHED),
    },
    State.RUNNING: {
        Seen.TOO_FEW: (State.FORMING, Reason.FORMING),
        Seen.COMPLETE: (State.WAITING, None),
        Seen.GIVEN_BACK: (State.SUSPENDED, None),
        Seen.PART_LIFTED: (State.DEGRADED, None),
        Seen.LIFTED: (State.DEGRADED, None),
        Seen.BOUND: (State.RUNNING, None),
        Seen.GONE: (State.FINISHED, Reason.FINISHED),
    },
    State.DEGRADED: {
        Seen.TOO_FEW: (State.FORMING, Reason.FORMING),
        Seen.COMPLETE: (State.WAITING, None),
        Seen.GIVEN_BACK: (State.SUSPENDED, None),
        Seen.PART_LIFTED: (State.DEGRADED, None),
        Seen.LIFTED: (State.DEGRADED, None),
        Seen.BOUND: (State.RUNNING, Reason.RUNNING),
        Seen.GONE: (State.FINISHED, Reason.FINISHED),
    },
    State.FINISHED: {
        Seen.TOO_FEW: None,
        Seen.COMPLETE: None,
        Seen.GIVEN_BACK: None,
        Seen.PART_LIFTED: None,
        Seen.LIFTED: None,
        Seen.BOUND: None,
        Seen.GONE: (State.FINISHED, None),
    },
}
ROWS = list(itertools.product(State, Seen))


@pytest.mark.parametrize(("state", "seen"), ROWS, ids=[f"{state.name}-{seen.name}" for state, seen in ROWS])
def test_row(state, seen):
    expected = EXPECTED[state][seen]
    if expected is None:
        with pytest.raises(TransitionError, match=f"^{state.value} has no step for '{seen.value}'$"):
            advance(state, seen)
    else:
        assert advance(state, seen) == Step(*expected)


@pytest.mark.parametrize(("state", "seen"), ROWS, ids=[f"{state.name}-{seen.name}" for state, seen in ROWS])
def test_row_is_drawn(state, seen):
    step = TABLE[state].get(seen)
    told = f" / {step.announce}" if step and step.announce else ""
    line = f"    {state} --> {step.to}: {seen.value}{told}" if step else f"    {state} --> "
    found = [drawn for drawn in drawing().splitlines() if drawn.startswith(f"    {state} --> ")]
    assert (line in found) if step else all(seen.value not in drawn for drawn in found)


def test_the_drawing_has_no_line_that_is_no_row():
    rows = sum(len(row) for row in TABLE.values())
    assert len(drawing().splitlines()) == rows + 3, "the title, the beginning and the end besides"


def test_deleting_a_row_changes_the_drawing(monkeypatch):
    before = drawing()
    left = {seen: step for seen, step in TABLE[State.RUNNING].items() if seen is not Seen.LIFTED}
    monkeypatch.setitem(TABLE, State.RUNNING, left)  # put back, the order of its rows stays
    assert drawing() != before
    with pytest.raises(TransitionError):
        advance(State.RUNNING, Seen.LIFTED)


def test_every_state_can_be_reached():
    reached, frontier = {State.NEW}, [State.NEW]
    while frontier:
        news = {step.to for step in TABLE[frontier.pop()].values()} - reached
        reached |= news
        frontier += news
    assert reached == set(State)


@pytest.mark.parametrize(
    ("need", "present", "lifted", "bound", "more", "seen"),
    [
        (8, 0, 0, 0, False, Seen.GONE),
        (8, 0, 0, 0, True, Seen.TOO_FEW),
        (8, 7, 0, 0, True, Seen.TOO_FEW),
        (8, 8, 0, 0, True, Seen.COMPLETE),
        (8, 9, 0, 0, False, Seen.COMPLETE),
        (8, 8, 1, 0, True, Seen.PART_LIFTED),
        (8, 8, 7, 7, True, Seen.PART_LIFTED),
        (8, 8, 8, 7, True, Seen.LIFTED),
        (8, 9, 9, 8, True, Seen.BOUND),
    ],
)
def test_what_the_counts_mean(need, present, lifted, bound, more, seen):
    assert observe(need=need, present=present, lifted=lifted, bound=bound, owner_makes_more=more) is seen
