"""Clock, backoff and the gathering of bursts."""

import threading
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.gatekeeper.backoff import Backoff
from policy.gatekeeper.changes import Changes
from policy.gatekeeper.clock import SystemClock
from policy.gatekeeper.threads import repeat
from tests.virtual_clock import VirtualClock


def test_the_system_clock_waits_for_the_event_or_the_time():
    clock, event = SystemClock(), threading.Event()
    before = clock.monotonic()
    assert not clock.wait(event, 0.02)
    assert clock.monotonic() - before >= 0.02
    event.set()
    assert clock.wait(event, 60)
    assert not clock.wait(threading.Event(), -5)
    assert clock.now().tzinfo is UTC


def test_backoff_doubles_up_to_its_cap_and_starts_again():
    backoff = Backoff(base=1, cap=5, uniform=lambda _low, high: high)
    assert [backoff.next() for _ in range(5)] == [1, 2, 4, 5, 5]
    backoff.reset()
    assert backoff.next() == 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_backoff_is_spread_over_the_whole_interval(draws):
    feed = iter(draws)
    backoff = Backoff(base=0.5, cap=8, uniform=lambda low, high: low + next(feed) * (high - low))
    for n, draw in enumerate(draws):
        assert backoff.next() == pytest.approx(draw * min(8, 0.5 * 2**n))


@pytest.fixture
def clock():
    return VirtualClock(0.0)


def test_nothing_changed_within_the_timeout(clock):
    assert not Changes(clock).wait(10)
    assert clock.monotonic() == 10


def test_a_single_change_wakes_after_the_idle_time(clock):
    changes = Changes(clock)
    clock.at(3, changes.notify)
    assert changes.wait(10, idle=0.02, hard=0.2)
    assert clock.monotonic() == pytest.approx(3.02)


def test_a_burst_is_one_wake_up(clock):
    changes = Changes(clock)
    for n in range(5):
        clock.at(1 + n * 0.015, changes.notify)
    assert changes.wait(10, idle=0.02, hard=0.2)
    assert clock.monotonic() == pytest.approx(1.08)
    assert not changes.wait(1)


def test_an_endless_burst_is_cut_at_the_hard_limit(clock):
    changes = Changes(clock)
    for n in range(100):
        clock.at(1 + n * 0.01, changes.notify)
    assert changes.wait(10, idle=0.02, hard=0.2)
    assert clock.monotonic() == pytest.approx(1.2, abs=0.011)
    assert changes.wait(0.02), "what came during the last moment is not lost"


@given(st.lists(st.floats(0, 3), max_size=30))
def test_no_change_is_ever_left_unanswered(moments):
    clock = VirtualClock(0.0)
    changes, answered = Changes(clock), []
    for moment in moments:
        clock.at(moment, changes.notify)
    while changes.wait(5):
        answered.append(clock.monotonic())
    assert all(any(moment <= answer <= moment + 0.2 + 1e-9 for answer in answered) for moment in moments)


def test_a_thread_outlives_a_mistake(clock, caplog):
    stop, seen = threading.Event(), []

    def turn():
        seen.append(clock.monotonic())
        if len(seen) == 3:
            stop.set()
        if len(seen) == 2:
            raise KeyError("listener")
        return 1.0

    repeat(turn, lambda _problem: 7.0, clock, stop)
    assert seen == [0, 1, 8]
    assert "listener" in caplog.text
