"""What is told of a group, on which objects and when; written by no one here: the recorder only notes."""

import math

import msgspec
import pytest

from policy.gatekeeper.announce import REPEAT_SECONDS, SETTLE_SECONDS, Announcer
from policy.names import Reason
from policy.rules.decide import decide
from policy.rules.lifecycle import State
from policy.rules.model import Config
from tests.unit.rules_facts import NOW, gang, job, lifted, nodes, podgroup, pods, snapshot


class Notes:
    """Stands where the recorder does: who was told what."""

    def __init__(self):
        self.told = []

    def record(self, regarding, reason, note, *, type, limiter=""):
        self.told.append((regarding.kind, regarding.name, str(reason), type))

    def take(self):
        told, self.told = self.told, []
        return told


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def announcer(notes):
    return Announcer(notes)


def outcome(**given):
    return decide(snapshot(**({"nodes": nodes(4)} | given)), Config(), NOW)


def short(count=2):
    """A Job of eight of which some pods exist."""
    return outcome(pods=pods(count, job="j"), jobs=[job("j", 8)])


def whole(on=True, namespaces=None):
    members = [lifted(p, "n0", 2, bound=on) for p in pods(2, job="j")]
    return outcome(pods=members, jobs=[job("j", 2)], namespaces=namespaces)


def test_a_hold_is_told_once_it_has_lasted_and_the_pass_for_it_is_asked_for(announcer, notes):
    announcer.tell(short(), 100.0)
    assert (notes.take(), announcer.due) == ([], 100.0 + SETTLE_SECONDS)
    announcer.tell(short(), 100.5)
    assert (notes.take(), announcer.due) == ([], 100.0 + SETTLE_SECONDS), "a pass in between changes nothing"
    announcer.tell(short(), 101.0)
    whom = [("Job", "j"), ("Pod", "p-0"), ("Pod", "p-1")]
    assert notes.take() == [(*who, Reason.FORMING, "Normal") for who in whom]
    assert announcer.due == math.inf


def test_it_is_told_again_for_new_members_and_before_it_is_forgotten(announcer, notes):
    for now in (100.0, 101.0):
        announcer.tell(short(), now)
    notes.take()
    announcer.tell(short(), 102.0)
    assert notes.take() == []
    announcer.tell(short(3), 103.0)
    assert ("Pod", "p-2", Reason.FORMING, "Normal") in notes.take()
    announcer.tell(short(3), 103.0 + REPEAT_SECONDS)
    assert len(notes.take()) == 4


def test_what_ends_within_a_second_is_not_told(announcer, notes):
    announcer.tell(short(), 100.0)
    announcer.tell(whole(on=False), 100.9)
    assert [reason for _, _, reason, _ in notes.take()] == [Reason.LIFTED]
    assert announcer.due == math.inf


def test_a_lift_is_told_at_once_on_every_object(announcer, notes):
    transitions = announcer.tell(outcome(pods=pods(2, job="j"), jobs=[job("j", 2)]), 100.0)
    assert notes.take() == [
        (kind, name, Reason.ADMITTED, "Normal") for kind, name in (("Job", "j"), ("Pod", "p-0"), ("Pod", "p-1"))
    ]
    assert [(t.came_from, t.to) for t in transitions] == [(State.NEW, State.WAITING)]


def test_members_that_came_round_us_are_told_of_on_each_pod(announcer, notes):
    around = [msgspec.structs.replace(p, gated=False, node="n0") for p in pods(2, job="j")]
    for now in (100.0, 101.0):
        announcer.tell(outcome(pods=around, jobs=[job("j", 2)]), now)
    whom = [("Job", "j"), ("Pod", "p-0"), ("Pod", "p-1")]
    assert notes.take() == [(*who, Reason.BYPASSED, "Warning") for who in whom]


def test_pods_that_were_freed_with_their_namespace_are_not(announcer, notes):
    for now in (100.0, 101.0, 102.0):
        announcer.tell(whole(namespaces=[gang(policy="")]), now)
    assert {reason for _, _, reason, _ in notes.take()} == {Reason.RUNNING}


def test_the_end_of_a_group_that_ran_is_told_once_and_not_on_pods(announcer, notes):
    group = podgroup("g", 2)
    members = [lifted(p, "n0", 2) for p in pods(2, of="g")]
    announcer.tell(outcome(pods=members, podgroups=[group]), 100.0)
    notes.take()
    (transition,) = announcer.tell(outcome(podgroups=[group]), 200.0)
    assert (transition.came_from, transition.to) == (State.RUNNING, State.FINISHED)
    assert notes.take() == [("PodGroup", "g", Reason.FINISHED, "Normal")]
    assert announcer.tell(outcome(podgroups=[group]), 201.0) == []
    assert notes.take() == []


def test_a_job_whose_status_lags_behind_its_pods_ends_all_the_same(announcer, notes):
    announcer.tell(whole(), 100.0)
    announcer.tell(outcome(jobs=[job("j", 2)]), 100.1)
    announcer.tell(outcome(), 100.2)
    assert [reason for _, _, reason, _ in notes.take()] == [Reason.RUNNING, Reason.FINISHED]


def test_a_second_run_that_never_started_has_no_end(announcer, notes):
    announcer.tell(whole(), 100.0)
    announcer.tell(outcome(pods=pods(1, job="j"), jobs=[job("j", 2)]), 100.1)
    announcer.tell(outcome(), 100.2)
    assert [reason for _, _, reason, _ in notes.take()] == [Reason.RUNNING]


def test_a_group_that_is_gone_before_it_started_is_forgotten_in_silence(announcer, notes):
    announcer.tell(short(), 100.0)
    assert announcer.tell(outcome(), 200.0) == []
    assert (notes.take(), announcer.state("Job/team/j")) == ([], State.NEW)
