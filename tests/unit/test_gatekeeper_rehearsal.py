"""Which lifts are tried out by a dry run, and that one that is refused there writes nothing."""

import threading

import msgspec
import pytest

from policy.gatekeeper.cache import Store
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.flights import Flights
from policy.gatekeeper.lift import Lifter
from policy.gatekeeper.rehearsal import TRUSTED_SECONDS, Rehearsal, impossible
from policy.rules.lift_plan import LiftPatch, Report
from policy.rules.model import Lifted
from tests.virtual_clock import VirtualClock

NO_DRY_RUN = 'admission webhook "x.example.com" does not support dry run'


def patch(name, kind="a"):
    return LiftPatch("n", name, f"u-{name}", "n0", b"{}", kind)


MIXED = [patch("p0"), patch("p1"), patch("q0", "b"), patch("q1", "b")]


def names(patches):
    return [p.name for p in patches]


@pytest.fixture
def clock():
    return VirtualClock()


def test_one_of_each_class_is_tried_out(clock):
    assert names(Rehearsal("auto", clock).wanted(MIXED)) == ["p0", "q0"]


@pytest.mark.parametrize(("mode", "tried"), [("auto", []), ("always", ["p0"]), ("never", [])])
def test_a_pod_that_is_lifted_alone_tears_nothing(clock, mode, tried):
    assert names(Rehearsal(mode, clock).wanted(MIXED[:1])) == tried


def test_a_class_that_was_taken_is_trusted_for_a_while(clock):
    rehearsal = Rehearsal("auto", clock)
    rehearsal.took("a")
    assert names(rehearsal.wanted(MIXED)) == ["q0"]
    clock.advance(TRUSTED_SECONDS)
    assert names(rehearsal.wanted(MIXED)) == ["p0", "q0"]


def test_a_class_that_was_refused_is_trusted_no_more(clock):
    rehearsal = Rehearsal("auto", clock)
    rehearsal.took("a")
    rehearsal.refused("a")
    assert names(rehearsal.wanted(MIXED)) == ["p0", "q0"]


@pytest.mark.parametrize(("mode", "tried"), [("always", ["p0", "q0"]), ("never", [])])
def test_the_operator_may_want_all_or_none(clock, mode, tried):
    rehearsal = Rehearsal(mode, clock)
    rehearsal.took("a")
    assert names(rehearsal.wanted(MIXED)) == tried


def test_a_webhook_that_takes_part_in_no_dry_run_says_nothing_of_the_patch():
    assert impossible(f"400 BadRequest: {NO_DRY_RUN}")
    assert not impossible('admission webhook "x.example.com" denied the request')


class Server:
    """Answers patches; `refusals` by pod's name, for dry runs and for real ones."""

    def __init__(self, dry=None, real=None):
        self.dry, self.real, self.sent = dry or {}, real or {}, []

    def request(self, method, path, *, body, content_type, query, timeout):
        name, tried = path.rpartition("/")[2], "dryRun" in query
        self.sent.append((name, tried))
        refusal = (self.dry if tried else self.real).get(name)
        if refusal:
            raise ApiError(403, "Forbidden", refusal)
        return msgspec.json.encode({"metadata": {"name": name, "namespace": "n", "uid": f"u-{name}"}})


class Leads:
    def valid(self):
        return True


def lifted(server, clock, rehearsal=None):
    """Carry out the lift of MIXED; what became of it, and what the PodGroup was told."""
    done, ended, reports, flights = [], threading.Event(), [], Flights()
    lifter = Lifter(
        server,
        Store(lambda item: item, clock),
        flights,
        Leads(),
        clock,
        report=reports.append,
        done=lambda lift: (done.append(lift), ended.set()),
        count=lambda result: None,
        rehearsal=rehearsal,
    )
    assert lifter.start("g", [Report("g"), *MIXED], Lifted(4, 1.0))
    assert ended.wait(10)
    lifter.close()
    assert len(flights) == 0
    assert not lifter.under_way("g")
    return done[0], reports


def test_a_lift_that_is_refused_when_tried_out_writes_nothing(clock):
    server = Server(dry={"q0": "frozen"})
    found, reports = lifted(server, clock)
    assert server.sent == [("p0", True), ("q0", True)]
    assert (found.dry, found.lifted, reports) == (True, 0, [])
    assert found.refused == ["pod q0: 403 Forbidden: frozen (tried out)"]


def test_one_that_is_taken_goes_on_and_the_next_needs_no_trial(clock):
    server, rehearsal = Server(), Rehearsal("auto", clock)
    found, reports = lifted(server, clock, rehearsal)
    assert (found.dry, found.lifted, found.refused, reports) == (False, 4, [], ["g"])
    assert [tried for _, tried in server.sent] == [True, True, False, False, False, False]
    server.sent.clear()
    lifted(server, clock, rehearsal)
    assert [tried for _, tried in server.sent] == [False] * 4


def test_one_that_cannot_be_tried_out_is_lifted_all_the_same(clock):
    server = Server(dry={"p0": NO_DRY_RUN, "q0": NO_DRY_RUN})
    assert lifted(server, clock)[0].lifted == 4


def test_one_that_is_refused_for_real_is_tried_out_the_next_time(clock):
    rehearsal = Rehearsal("auto", clock)
    for kind in "ab":
        rehearsal.took(kind)
    server = Server(real={"p0": "frozen", "p1": "frozen"})
    found, _ = lifted(server, clock, rehearsal)
    assert (found.dry, found.lifted, len(found.refused)) == (False, 2, 2)
    assert names(rehearsal.wanted(MIXED)) == ["p0"]
