"""Each write to an owner: conditional, made once upon one version, and left alone for a while when refused."""

import json
import threading

import pytest

from policy import names
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.levers import REFUSED_SECONDS, Levers
from policy.gatekeeper.snapshot import owner_sources
from policy.rules.conclusions import Pull
from policy.rules.membership.families import KNOWN
from policy.rules.model import Claim
from tests.unit.rules_facts import job
from tests.virtual_clock import VirtualClock

CLAIM = Claim("g", "deadlock", 1.0, times=1)
OWNER = job("j", 4, lever=("spec", "suspend"), version="7")


class Server:
    def __init__(self):
        self.writes, self.answers = [], []

    def request(self, method, path, *, body, content_type, query, timeout):
        self.writes.append((method, path, body))
        if self.answers:
            raise self.answers.pop(0)
        return b"{}"


class Leader:
    leads = True

    def valid(self):
        return self.leads


@pytest.fixture
def made():
    server, clock, counted, woken = Server(), VirtualClock(), [], []
    levers = Levers(
        server,
        owner_sources(KNOWN),
        Leader(),
        clock,
        changed=lambda: woken.append(1),
        count=lambda *a: counted.append(a),
    )
    return levers, server, clock, counted, woken


def work(levers):
    while item := levers._next():
        levers._write(*item)


def test_suspension_and_record_are_one_conditional_patch(made):
    levers, server, _, counted, _ = made
    levers.pull({"j": OWNER}, [Pull("j", suspend=True, claim=CLAIM)])
    work(levers)
    ((method, path, body),) = server.writes
    assert (method, path) == ("PATCH", "/apis/batch/v1/namespaces/team/jobs/j")
    assert body["spec"] == {"suspend": True}
    assert (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) == ("j", "7")
    assert json.loads(body["metadata"]["annotations"][names.ANNOTATION_GIVEN_BACK])["times"] == 1
    assert counted == [("suspend", "ok")]


def test_it_is_written_once_upon_one_version(made):
    levers, server, *_ = made
    for _ in range(3):
        levers.pull({"j": OWNER}, [Pull("j", suspend=True, claim=CLAIM)])
        work(levers)
    assert len(server.writes) == 1


def test_a_record_is_closed_without_touching_the_lever(made):
    levers, server, *_ = made
    levers.pull({"j": OWNER}, [Pull("j", suspend=None, claim=CLAIM)])
    work(levers)
    assert "spec" not in server.writes[0][2]


def test_waking_writes_a_time_and_nothing_else(made):
    levers, server, *_ = made
    levers.pull({"j": OWNER}, [Pull("j", suspend=None)])
    work(levers)
    assert list(server.writes[0][2]["metadata"]) == ["uid", "annotations"]
    assert list(server.writes[0][2]["metadata"]["annotations"]) == [names.ANNOTATION_WOKEN]


def test_what_was_dropped_while_another_led_is_written_once_we_lead_again(made):
    """Upon the same version: nobody has touched the owner in between."""
    levers, server, *_ = made
    stop = threading.Event()
    levers._clock.wait = lambda *_: stop.set()  # idle: the queue is empty
    for leads in (False, True):
        levers._leader.leads = leads
        levers.pull({"j": OWNER}, [Pull("j", suspend=True, claim=CLAIM)])
        stop.clear()
        levers.run(stop)
        assert len(server.writes) == leads


def test_a_conflict_is_no_refusal(made):
    levers, server, _, counted, woken = made
    server.answers = [ApiError(409, "Conflict", "changed")]
    levers.pull({"j": OWNER}, [Pull("j", suspend=True, claim=CLAIM)])
    work(levers)
    assert (levers.stuck(), counted, woken) == ((), [("suspend", "conflict")], [1])


def test_a_refused_lever_is_told_and_tried_again_after_a_while(made):
    levers, server, clock, *_ = made
    server.answers = [ApiError(403, "Forbidden", "no")]
    pulls = [Pull("j", suspend=True, claim=CLAIM)]
    levers.pull({"j": OWNER}, pulls)
    work(levers)
    levers.pull({"j": OWNER}, pulls)
    work(levers)
    assert (levers.stuck(), len(server.writes)) == (("j",), 1)
    clock.advance(REFUSED_SECONDS + 1)
    assert levers.stuck() == ()
    levers.pull({"j": OWNER}, pulls)
    work(levers)
    assert len(server.writes) == 2
