"""A quota whose status and pods differ for long is told of, once the difference has lasted; so is a key that never binds."""

import pytest

from policy.gatekeeper.witness import LOOK_SECONDS, Witness
from policy.names import Reason
from tests.unit.rules_facts import NOW, gang, pods, quota, snapshot

PATIENCE = 60.0


class Recorder:
    def __init__(self):
        self.told = []

    def record(self, regarding, reason, note, *, type, limiter):
        self.told.append((regarding.kind, regarding.name, reason, note, type, limiter))


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def witness(recorder):
    return Witness(recorder, PATIENCE)


def leaking(used):
    return snapshot(pods=pods(2), quotas=[quota(used={"requests_gpu": used}, requests_gpu=8)])


def look(witness, found, *, until):
    now = 0.0
    while now <= until:
        witness.look(found, NOW, now)
        now += LOOK_SECONDS


def test_a_difference_that_lasts_is_told_with_both_figures(witness, recorder):
    look(witness, leaking(5), until=PATIENCE)
    (told,) = recorder.told
    text = "quota q: status.used of requests.nvidia.com/gpu is 5, the pods that exist add up to 2, for 60 s now"
    assert told == ("ResourceQuota", "q", Reason.QUOTA_DISAGREES, text, "Warning", "requests.nvidia.com/gpu")


def test_a_difference_that_goes_away_begins_anew(witness, recorder):
    look(witness, leaking(5), until=PATIENCE - LOOK_SECONDS)
    witness.look(leaking(2), NOW, PATIENCE)
    witness.look(leaking(5), NOW, PATIENCE + LOOK_SECONDS)
    assert recorder.told == []


def test_namespaces_that_are_not_ours_are_not_looked_at(witness, recorder):
    found = snapshot(
        pods=pods(2), quotas=[quota(used={"requests_gpu": 5}, requests_gpu=8)], namespaces=[gang(name="x")]
    )
    look(witness, found, until=2 * PATIENCE)
    assert recorder.told == []


def test_a_key_that_limits_nothing(witness, recorder):
    witness.look(snapshot(quotas=[quota(limits_gpu=8, limits_cpu=8)]), NOW, 0.0)
    assert [(told[2], told[5]) for told in recorder.told] == [(Reason.QUOTA_NEVER_BINDS, "limits.nvidia.com/gpu")]
