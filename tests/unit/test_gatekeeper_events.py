"""Events: what is said once, what again, what is dropped first, and what the server would refuse."""

import re
import threading
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.gatekeeper import event_body
from policy.gatekeeper.errors import ApiError, TransportError
from policy.gatekeeper.event_body import Entry, ObjectRef, cut, dns_name
from policy.gatekeeper.event_queue import RESEND_SECONDS, RETURN_SECONDS, FairQueue, Memory, TokenBucket
from policy.gatekeeper.events import Recorder
from policy.names import Reason
from tests.virtual_clock import VirtualClock

MINUTE = 60.0


def ref(name="p", namespace="n", uid=None):
    return ObjectRef("v1", "Pod", namespace, name, uid or f"uid-{name}")


class Server:
    """Keeps what is posted; answers as told, then well."""

    def __init__(self, *answers):
        self.answers, self.posted, self.tries, self.stop = list(answers), [], 0, None

    def request(self, method, path, *, body=None, content_type="", query=None, timeout=None):
        assert (method, timeout) == ("POST", 5.0)
        self.tries += 1
        answer = self.answers.pop(0) if self.answers else None
        if answer:
            raise answer
        self.posted.append((path, body))
        return b"{}"

    def notes(self):
        return [body["note"] for _, body in self.posted]


class World:
    def __init__(self, *answers, **options):
        self.clock, self.server, self.results = VirtualClock(), Server(*answers), []
        self.recorder = Recorder(
            self.server, "replica-1", self.clock, count=self.results.append, uniform=lambda _l, high: high, **options
        )

    def write(self, seconds=60.0):
        """Let the writer work for some (virtual) seconds."""
        stop = threading.Event()
        self.clock.at(self.clock.monotonic() + seconds, stop.set)
        self.recorder.run(stop)
        return self.server.notes()


def test_one_event_as_the_server_wants_it():
    world = World()
    related = ObjectRef("batch/v1", "Job", "n", "j", "uj")
    assert world.recorder.record(ref(), Reason.NODES_SHORT, "needs 8, 7 free", type="Warning", related=related)
    world.write()
    ((path, body),) = world.server.posted
    assert path == "/apis/events.k8s.io/v1/namespaces/n/events"
    assert re.fullmatch(r"p\.[0-9a-f]{16}", body.pop("metadata")["name"])
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-01-01T00:16:40.000000Z",
        "reportingController": "ganggate.io/gatekeeper",
        "reportingInstance": "replica-1",
        "type": "Warning",
        "reason": "NodesShort",
        "action": "Admission",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p", "uid": "uid-p"},
        "related": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "n", "name": "j", "uid": "uj"},
        "note": "needs 8, 7 free",
    }
    assert world.results == ["written"]


def test_a_cluster_scoped_object_has_its_events_in_default():
    world = World()
    world.recorder.record(ObjectRef("x/v1", "Queue", "", "q", "uq"), Reason.QUEUE_CLOSED, "closed")
    world.write()
    ((path, body),) = world.server.posted
    assert path.endswith("/namespaces/default/events")
    assert "namespace" not in body["regarding"]


def test_another_number_is_no_other_event():
    world = World()
    for free in range(5):
        world.recorder.record(ref(), Reason.NODES_SHORT, f"{free} free", limiter="nodes")
        world.clock.advance(30)
    assert world.write() == ["0 free"]


def test_another_limiter_reason_or_object_is():
    world = World()
    world.recorder.record(ref(), Reason.NAMESPACE_QUOTA_SHORT, "1", limiter="quota/a")
    world.recorder.record(ref(), Reason.NAMESPACE_QUOTA_SHORT, "2", limiter="quota/b")
    world.recorder.record(ref(), Reason.NODES_SHORT, "3", limiter="quota/b")
    world.recorder.record(ref("other"), Reason.NODES_SHORT, "4", limiter="quota/b")
    assert world.write() == ["1", "2", "3", "4"]


def test_it_is_said_again_before_it_expires_as_a_new_object():
    world = World()
    for minute in range(101):
        world.recorder.record(ref(), Reason.NODES_SHORT, f"minute {minute}")
        world.write(MINUTE)
    assert world.server.notes() == ["minute 0", "minute 45", "minute 90"]
    assert len({body["metadata"]["name"] for _, body in world.server.posted}) == 3


def test_a_reason_that_comes_back_is_said_again_but_flapping_is_not():
    world = World()
    for minute in range(12):
        reason = Reason.NODES_SHORT if minute % 2 else Reason.NAMESPACE_QUOTA_SHORT
        world.recorder.record(ref(), reason, f"minute {minute}")
        world.write(MINUTE)
    assert world.server.notes() == ["minute 0", "minute 1", "minute 6", "minute 7"]


def test_an_object_that_is_gone_is_forgotten():
    world = World()
    world.recorder.record(ref(), Reason.FORMING, "1")
    world.recorder.forget("uid-p")
    world.recorder.forget("never seen")
    assert world.recorder.record(ref(), Reason.FORMING, "2")
    assert len(world.recorder._memory) == 1


def test_the_rate_is_bounded_and_namespaces_take_turns():
    world = World(rate=10.0, burst=5)
    for n in range(100):
        world.recorder.record(ref(f"big-{n}", "big"), Reason.FORMING, f"big {n}")
    world.recorder.record(ref("small", "small"), Reason.FORMING, "small")
    notes = world.write(1.0)
    assert 13 <= len(notes) <= 16
    assert notes[:2] == ["big 0", "small"]
    assert notes[2:] == [f"big {n}" for n in range(1, len(notes) - 1)]
    assert world.recorder.waiting == 101 - len(notes)


def test_what_may_pass_is_tried_again_and_the_pause_is_the_servers():
    world = World(ApiError(429, "TooManyRequests", "slow down", retry_after=20.0), TransportError("reset"))
    world.recorder.record(ref(), Reason.FORMING, "1")
    before = world.clock.monotonic()
    assert world.write(20.5) == []
    assert world.write(10.0) == ["1"]
    assert world.clock.monotonic() - before > 20
    assert world.results == ["written"]


def test_after_three_tries_it_is_dropped_and_may_be_said_anew():
    world = World(*[TransportError("reset")] * 3)
    world.recorder.record(ref(), Reason.FORMING, "1")
    world.write()
    assert (world.results, world.server.tries, world.recorder.waiting) == (["dropped"], 3, 0)
    assert world.recorder.record(ref(), Reason.FORMING, "2")
    assert world.write() == ["2"]


@pytest.mark.parametrize("status", [403, 422])
def test_what_the_server_will_never_take_is_not_tried_again(status):
    world = World(ApiError(status, "r", "namespace is being terminated"))
    world.recorder.record(ref(), Reason.FORMING, "1")
    world.recorder.record(ref("q"), Reason.FORMING, "2")
    assert world.write() == ["2"]
    assert world.results == ["refused", "written"]


def test_a_mistake_costs_one_event_not_the_thread(caplog):
    world = World(KeyError("library"))
    world.recorder.record(ref(), Reason.FORMING, "1")
    world.recorder.record(ref("q"), Reason.FORMING, "2")
    assert world.write() == ["2"]
    assert world.results == ["dropped", "written"]
    assert "KeyError" in caplog.text


def test_when_full_repeats_go_first_then_the_oldest_of_the_largest_namespace():
    world = World(capacity=3)
    world.recorder.record(ref("old", "b"), Reason.FORMING, "first")
    world.write()
    world.clock.advance(RESEND_SECONDS)
    world.recorder.record(ref("old", "b"), Reason.FORMING, "repeat")
    for n in range(4):
        world.recorder.record(ref(f"p{n}", "a"), Reason.FORMING, str(n))
    assert world.results == ["written", "dropped", "dropped"]
    assert world.recorder.record(ref("p0", "a"), Reason.FORMING, "0 again"), "what was dropped may be said anew"
    assert world.write() == ["first", "2", "3", "0 again"]


def test_recording_never_waits_for_the_server():
    world = World(capacity=10)
    for n in range(1000):
        world.recorder.record(ref(f"p{n}"), Reason.FORMING, "x")
    assert world.recorder.waiting == 10
    assert world.clock.waits == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(1, 20))
def test_the_queue_loses_nothing_unsaid(pushes, capacity):
    queue, dropped = FairQueue(capacity), []
    for n, (namespace, again) in enumerate(pushes):
        if (out := queue.push(namespace, (namespace, n), repeat=again)) is not None:
            dropped.append(out)
        assert len(queue) <= capacity
    popped = []
    while (item := queue.pop()) is not None:
        popped.append(item)
    assert sorted(popped + dropped) == sorted((ns, n) for n, (ns, _) in enumerate(pushes))
    assert len(queue) == 0
    for namespace in "abc":
        for again in (False, True):
            order = [n for ns, n in popped if ns == namespace and pushes[n][1] is again]
            assert order == sorted(order), "within a namespace, in order"


def test_no_namespace_waits_for_another():
    queue = FairQueue(1000)
    for n in range(300):
        queue.push("a", ("a", n), repeat=False)
    for n in range(3):
        queue.push("b", ("b", n), repeat=False)
    assert [queue.pop()[0] for _ in range(6)] == ["a", "b"] * 3


@given(st.lists(st.floats(0, 3), max_size=60))
def test_the_bucket_never_gives_more_than_its_rate(gaps):
    bucket, now, taken = TokenBucket(2.0, 3, 0.0), 0.0, 0
    for gap in gaps:
        now += gap
        wait = bucket.take(now)
        taken += wait == 0
        assert 0 <= wait <= 0.5
        assert taken <= 3 + 2 * now + 1e-3


def test_memory_is_bounded():
    memory = Memory()
    for n in range(1000):
        memory.note("u", ("r", str(n)), float(n))
    assert len(memory._said["u"]) == 16
    assert memory.due("u", ("r", "0"), 1000)
    assert not memory.due("u", ("r", "999"), 1000)
    assert memory.due("u", ("r", "998"), 998 + RETURN_SECONDS)


@given(st.text(), st.integers(3, 64))
def test_cut_fits_between_characters(text, limit):
    short = cut(text, limit)
    assert len(short.encode()) <= limit
    whole = text.encode(errors="replace").decode()
    assert short == whole or (short.endswith("…") and whole.startswith(short[:-1]))


@given(st.text(max_size=400))
def test_names_are_dns_subdomains(text):
    entry = Entry(ref(text), "R", "n", "Normal", "", "A", None, datetime(2026, 1, 1, tzinfo=UTC))
    name = event_body.body(entry, "i", "0" * 16)["metadata"]["name"]
    assert len(name) <= 253
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", part) for part in name.split("."))


def test_names_of_ordinary_objects_are_kept():
    assert dns_name("pytorch-train-0-abcde") == "pytorch-train-0-abcde"
    assert dns_name("a.b-c") == "a.b-c"


def test_a_namespace_on_its_way_out_takes_no_events_and_fills_no_log(caplog):
    ending = ApiError(403, "Forbidden", "unable to create new content in namespace n because it is being terminated")
    world = World(ending, ApiError(403, "Forbidden", "cannot create resource"))
    world.recorder.record(ref("a"), "R", "text")
    world.recorder.record(ref("b", "other"), "R", "text")
    assert world.write() == []
    assert world.results == ["refused", "refused"]
    assert [record.getMessage() for record in caplog.records] == ["event R on b: 403 Forbidden: cannot create resource"]


ENDED = [
    ApiError(403, "Forbidden", "unable to create new content in namespace n because it is being terminated"),
    ApiError(404, "NotFound", 'namespaces "n" not found'),
]


@pytest.mark.parametrize("answer", ENDED, ids=["going", "gone"])
def test_one_refusal_tells_of_all_that_waits_for_a_namespace_that_has_ended(answer):
    world = World(answer)
    for n in range(50):
        world.recorder.record(ref(f"p{n}"), Reason.FORMING, "lost")
    world.recorder.record(ref("q", "other"), Reason.FORMING, "told")
    assert world.write() == ["told"]
    assert sorted(world.results) == ["refused"] * 50 + ["written"]
    assert (world.server.tries, world.recorder.waiting) == (2, 0)
