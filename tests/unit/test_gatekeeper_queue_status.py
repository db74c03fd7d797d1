"""Queues' status: what they hold and what waits in them, written when it changes, and not too often."""

import json

import pytest

from policy.gatekeeper import queue_status
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.queue_status import QueueStatuses
from policy.rules.decide import decide
from policy.rules.model import Config, QueueFacts
from policy.rules.queue_report import QueueStatus, statuses
from tests.unit.rules_facts import NOW, job, lifted, nodes, pod, pods, snapshot
from tests.virtual_clock import VirtualClock

PATH = "/apis/scheduling.volcano.sh/v1beta1"
IDLE = (("pending", 0), ("inqueue", 0), ("running", 0), ("unknown", 0), ("completed", 0))


def test_groups_are_counted_by_state_and_amounts_are_what_is_charged():
    world = snapshot(
        nodes=nodes(1, gpu=4),
        queues=(QueueFacts("q", {}, "top"), QueueFacts("top"), QueueFacts("idle")),
        jobs=[job("run", 2, queue="q"), job("wait", 4, queue="q"), job("go", 1, queue="q", created=0.5)],
        pods=[
            *(lifted(p, "n0", 2, queue="q") for p in pods(2, "r", job="run", queue="q")),
            *pods(4, "w", job="wait", queue="q"),
            pod("g", job="go", queue="q"),
            pod("alone", queue="q", created=900_000.0),
        ],
    )
    found = statuses(decide(world, Config(), NOW), world.queues)
    assert dict(found["q"].counts) == {"pending": 2, "inqueue": 0, "running": 1, "unknown": 0, "completed": 0}
    assert dict(found["q"].allocated)["nvidia.com/gpu"] == "4"  # two run, one is let go, and so is the one alone
    assert dict(found["top"].allocated)["nvidia.com/gpu"] == "4"
    assert found["idle"] == QueueStatus(IDLE, ())
    assert set(found) == {"q", "top", "idle"}


class Server:
    def __init__(self):
        self.bodies, self.error = [], None

    def request(self, method, path, **given):
        if method == "GET":
            return json.dumps({"resources": [{"name": "queues"}, {"name": "queues/status"}]}).encode()
        assert (method, given["content_type"]) == ("PATCH", "application/merge-patch+json")
        if self.error:
            raise self.error
        self.bodies.append((path.removeprefix(f"{PATH}/queues/"), given["body"]["status"]))
        return b"{}"


@pytest.fixture
def made():
    server, clock = Server(), VirtualClock()
    return QueueStatuses(server, clock, writes=True), server, clock


def held(**amounts):
    return QueueStatus(IDLE, tuple(sorted(amounts.items())))


def work(statuses):
    while statuses._work():
        pass


def test_what_changed_is_written_and_what_is_held_no_more_is_taken_out(made):
    writer, server, clock = made
    writer.report({"q": held(cpu="1", gpu="2")})
    work(writer)
    assert server.bodies == [("q/status", {**dict(IDLE), "allocated": {"cpu": "1", "gpu": "2"}})]
    writer.report({"q": held(cpu="1", gpu="2")})
    work(writer)
    assert len(server.bodies) == 1
    writer.report({"q": held(cpu="3")})
    work(writer)
    assert len(server.bodies) == 1  # not so soon
    clock.advance(queue_status.PAUSE_SECONDS)
    work(writer)
    assert server.bodies[1][1]["allocated"] == {"cpu": "3", "gpu": None}


def test_a_refusal_is_logged_once_a_minute_and_tried_again(made, caplog):
    writer, server, clock = made
    server.error = ApiError(403, "Forbidden", "no")
    writer.report({"a": held(), "b": held()})
    work(writer)
    assert len(caplog.records) == 1
    server.error = None
    work(writer)
    assert server.bodies == []
    clock.advance(queue_status.REPEAT_SECONDS)
    work(writer)
    assert [name for name, _ in server.bodies] == ["a/status", "b/status"]


def test_a_queue_that_is_gone_is_forgotten(made, caplog):
    writer, server, _ = made
    server.error = ApiError(404, "NotFound", "gone")
    writer.report({"a": held()})
    work(writer)
    assert caplog.records == []
    server.error = None
    writer.report({})
    writer.report({"a": held()})
    work(writer)
    assert len(server.bodies) == 1


def test_where_others_write_it_nothing_is_written():
    server = Server()
    writer = QueueStatuses(server, VirtualClock(), writes=False)
    writer.report({"a": held()})
    work(writer)
    assert server.bodies == []
