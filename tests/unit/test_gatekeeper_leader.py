"""Election under every mishap we can think of, in virtual time; tests/cluster asks a real API server."""

import json
import threading
from datetime import UTC, datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from policy.gatekeeper.errors import ApiError, TransportError
from policy.gatekeeper.leader import Leadership, Timing, new_identity
from policy.gatekeeper.lease import micro_time
from tests.virtual_clock import VirtualClock


class LeaseServer:
    """One Lease, with the API server's optimistic concurrency; the next calls may go wrong as told."""

    def __init__(self, clock):
        self.clock, self.lease, self.version, self.faults, self.writes = clock, None, 0, [], 0

    def request(self, method, path, *, body=None, content_type="", query=None, timeout=None):
        fault = self.faults.pop(0) if self.faults else None
        if fault == "lost":
            self.clock.advance(timeout)
            raise TransportError("request lost", "Timeout")
        if isinstance(fault, ApiError):
            raise fault
        if isinstance(fault, tuple) and fault[0] == "frozen before":
            self.clock.advance(fault[1])
        answer = self._serve(method, json.loads(json.dumps(body, default=_plain)) if body else None)
        if isinstance(fault, tuple) and fault[0] == "frozen after":
            self.clock.advance(fault[1])
        if fault == "answer lost":
            self.clock.advance(timeout)
            raise TransportError("answer lost", "Timeout")
        return b"<html>" if fault == "garbage" else answer

    def _serve(self, method, body):
        if method == "POST":
            if self.lease:
                raise ApiError(409, "AlreadyExists", "exists")
            self.lease = body["spec"]
            return self._written()
        if self.lease is None:
            raise ApiError(404, "NotFound", "none")
        if method == "PATCH":
            if body["metadata"]["resourceVersion"] != str(self.version):
                raise ApiError(409, "Conflict", "changed")
            self.lease = self.lease | body["spec"]
            return self._written()
        return self._answer()

    def _written(self):
        self.version += 1
        self.writes += 1
        return self._answer()

    def _answer(self):
        return json.dumps({"metadata": {"resourceVersion": str(self.version)}, "spec": self.lease}).encode()


def _plain(record):
    names = {"holder_identity": "holderIdentity", "lease_duration_seconds": "leaseDurationSeconds"}
    names |= {"acquire_time": "acquireTime", "renew_time": "renewTime", "lease_transitions": "leaseTransitions"}
    return {wire: getattr(record, ours) for ours, wire in names.items()}


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def server(clock):
    return LeaseServer(clock)


def candidate(server, name, **options):
    return Leadership(server, "ns", "lease", name, server.clock, uniform=lambda low, _high: low, **options)


def test_the_first_to_come_leads_and_renews(server, clock):
    one = candidate(server, "one")
    assert not one.valid()
    one.attempt()
    assert one.valid()
    assert (one.term, one.holder, server.lease["leaseTransitions"]) == (1, "one", 0)
    acquired, renewed = server.lease["acquireTime"], server.lease["renewTime"]
    clock.advance(2)
    one.attempt()
    assert (one.term, server.writes) == (1, 2)
    assert server.lease["acquireTime"] == acquired
    assert server.lease["renewTime"] > renewed


def test_the_grant_counts_from_before_the_renewal_was_sent(server, clock):
    one = candidate(server, "one")
    server.faults = [None, ("frozen after", 3.0)]
    one.attempt()
    assert one.valid(11.9)
    assert not one.valid(12.0)


def test_work_stops_before_the_lease_can_expire(server, clock):
    one = candidate(server, "one")
    one.attempt()
    clock.advance(9.9)
    assert one.valid()
    clock.advance(0.1)
    assert not one.valid(), "the renew deadline: no new work"
    assert one.valid(margin=4), "what takes less than four seconds still ends in time"
    clock.advance(5)
    assert not one.valid(margin=0)


def test_a_rival_waits_for_the_holders_promise_by_its_own_clock(server, clock):
    one, two = candidate(server, "one"), candidate(server, "two")
    one.attempt()
    server.lease["renewTime"] = micro_time(
        datetime(1999, 1, 1, tzinfo=UTC)
    )  # the holder's clock is no business of ours
    two.attempt()
    clock.advance(14.9)
    two.attempt()
    assert not two.valid()
    assert two.holder == "one"
    clock.advance(0.1)
    two.attempt()
    assert two.valid()
    assert server.lease["leaseTransitions"] == 1


def test_each_renewal_makes_the_rival_wait_anew(server, clock):
    one, two = candidate(server, "one"), candidate(server, "two")
    one.attempt()
    for _ in range(20):
        clock.advance(5)
        one.attempt()
        two.attempt()
    assert one.valid()
    assert not two.valid()


def test_giving_back_lets_the_next_start_at_once(server, clock):
    one, two = candidate(server, "one"), candidate(server, "two")
    one.attempt()
    two.attempt()
    one.release()
    assert not one.valid(0)
    two.attempt()
    assert two.valid()
    one.release()
    assert server.lease["holderIdentity"] == "two", "only our own lease is given back"


def test_a_frozen_leader_finds_out_at_its_first_look(server, clock):
    one, two = candidate(server, "one"), candidate(server, "two")
    one.attempt()
    two.attempt()
    clock.advance(15)  # one is frozen
    two.attempt()
    assert two.valid()
    assert not one.valid(0)
    one.attempt()
    assert not one.valid(0)
    assert one.holder == "two"


def test_a_lapse_of_our_own_is_a_new_term(server, clock):
    one = candidate(server, "one")
    one.attempt()
    clock.advance(60)
    one.attempt()
    assert one.valid()
    assert one.term == 2
    assert server.lease["leaseTransitions"] == 0


def test_a_conflict_may_be_our_own_success(server, clock):
    one = candidate(server, "one")
    one.attempt()
    clock.advance(2)
    server.faults = ["answer lost"]
    one.attempt()
    assert "answer lost" in one.problem
    clock.advance(2)
    one.attempt()
    assert one.problem == ""
    assert server.writes == 3, "renewed again, now, rather than believed"
    assert one.valid(14.9)
    assert one.term == 1


def test_an_answer_lost_while_taking_over_is_no_second_transition(server, clock):
    one, two = candidate(server, "one"), candidate(server, "two")
    one.attempt()
    two.attempt()
    clock.advance(15)
    server.faults = [None, "answer lost"]
    two.attempt()
    assert not two.valid(0)
    two.attempt()
    assert two.valid()
    assert server.lease["leaseTransitions"] == 1


def test_no_second_try_when_time_is_short(server, clock):
    one = candidate(server, "one")
    one.attempt()
    server.faults = ["answer lost"]
    one.attempt()
    writes = server.writes
    server.faults = [None, ("frozen after", 5.0)]
    one.attempt()
    assert "no time left" in one.problem
    assert server.writes == writes


@pytest.mark.parametrize("fault", ["lost", "garbage", ApiError(500, "x", "y"), ApiError(403, "Forbidden", "no")])
def test_any_failure_is_a_failed_renewal_and_nothing_more(server, clock, fault):
    one = candidate(server, "one")
    one.attempt()
    clock.advance(2)
    server.faults = [fault]
    one.attempt()
    assert one.problem
    assert one.valid(), "the old grant stands until its own end"
    one.attempt()
    assert one.problem == ""


def test_a_deleted_lease_is_made_anew(server, clock):
    one = candidate(server, "one")
    one.attempt()
    server.lease = None
    one.attempt()
    assert one.valid()
    assert server.lease["holderIdentity"] == "one"


def test_two_that_create_at_once(server, clock):
    one, two = candidate(server, "one"), candidate(server, "two")
    server.faults = [ApiError(404, "NotFound", "none")]
    two.attempt()  # read nothing, creates
    server.faults = [ApiError(404, "NotFound", "none")]
    one.attempt()  # read nothing either, comes too late
    assert two.valid()
    assert not one.valid(0)
    assert one.problem == ""


def test_run_renews_and_gives_back(server, clock):
    one, stop = candidate(server, "one"), threading.Event()
    clock.at(1031, stop.set)
    one.run(stop)
    assert server.writes == 16 + 1
    assert clock.waits[0] == 2.0
    assert server.lease["holderIdentity"] == ""


def test_run_outlives_what_it_does_not_know(server, clock, caplog):
    one, stop, real = candidate(server, "one"), threading.Event(), server.request

    def broken(*args, **kwargs):
        raise KeyError("library")

    server.request = broken
    clock.at(1009, lambda: setattr(server, "request", real))
    clock.at(1013, stop.set)
    one.run(stop)
    assert one.term == 1
    assert "KeyError" in caplog.text


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 4, 2), (15, 10, 0), (15, 10, -1)])
def test_timing_must_leave_room(times):
    with pytest.raises(ValueError, match="leader election"):
        Timing(*times)


def test_request_timeout_is_below_the_renew_deadline():
    timing = Timing()
    assert 2 * timing.request < timing.renew_deadline
    assert timing.margin == 5


def test_identities_differ():
    assert new_identity() != new_identity()


class Election(RuleBasedStateMachine):
    """Three candidates, any order of attempts, any of the faults, any pauses: never two leaders."""

    @initialize()
    def begin(self):
        self.clock = VirtualClock()
        self.server = LeaseServer(self.clock)
        self.all = [candidate(self.server, name) for name in "abc"]

    faults = st.sampled_from(
        [None, None, "lost", "answer lost", "garbage", ("frozen before", 6.0), ("frozen after", 6.0)]
        + [("frozen before", 20.0), ("frozen after", 20.0), ApiError(409, "Conflict", "x"), ApiError(500, "x", "y")]
    )

    @rule(who=st.integers(0, 2), faults=st.lists(faults, max_size=3))
    def attempt(self, who, faults):
        self.server.faults = list(faults)
        self.all[who].attempt()
        self.server.faults = []

    @rule(who=st.integers(0, 2))
    def release(self, who):
        self.all[who].release()

    @rule(seconds=st.sampled_from([0.1, 2.0, 5.0, 10.0, 15.0, 30.0]))
    def pause(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def someone_steps_in(self):
        """Another program changes the lease's other fields, or its version."""
        if self.server.lease:
            self.server.version += 1

    @invariant()
    def at_most_one_leads(self):
        leaders = [each.identity for each in self.all if each.valid(0.0)]
        assert len(leaders) <= 1, leaders
        if leaders and self.server.lease:
            assert self.server.lease["holderIdentity"] == leaders[0]


TestElection = Election.TestCase
TestElection.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
