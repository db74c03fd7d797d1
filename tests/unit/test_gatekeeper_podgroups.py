"""PodGroups of ours are made once, and anew when somebody deletes them; statuses go where each dialect keeps them."""

import logging

import msgspec
import pytest

from policy import names
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.podgroups import REMAKE_SECONDS, REPEAT_SECONDS, PodGroups
from policy.rules.decide import decide
from policy.rules.verdict import finished
from policy.rules.model import Config
from tests.unit.rules_facts import NOW, gang, job, lifted, nodes, podgroup, pods, snapshot
from tests.virtual_clock import VirtualClock

OURS = names.OWN_PODGROUP_PREFIX + "j"


class Server:
    """Notes every write; serves a status subresource for coscheduling's dialect only."""

    def __init__(self):
        self.writes, self.answers = [], []

    def request(self, method, path, *, body=None, content_type="", query=None):
        if method == "GET":
            status = [{"name": "podgroups/status"}] if names.COSCHEDULING_API in path else []
            return msgspec.json.encode({"resources": [{"name": "podgroups"}, *status]})
        self.writes.append((method, path, body))
        if self.answers:
            raise self.answers.pop(0)
        return b"{}"


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def writer(server, clock):
    return PodGroups(server, clock)


def passed(writer, **given):
    """One pass of the loop, and all that the writer makes of it."""
    outcome = decide(snapshot(**({"nodes": nodes(1)} | given)), Config(), NOW)
    for decision in outcome.decisions:
        writer.report(outcome.groups[decision.group], decision)
    writer.keep(outcome.groups)
    while item := writer._next():
        writer._write(*item)
    return outcome


def of_job(*podgroups, **fields):
    return {"pods": pods(2, job="j"), "jobs": [job("j", 9, **fields)], "podgroups": podgroups}


def test_ours_is_made_once_and_anew_when_it_was_deleted(writer, server):
    made = podgroup(OURS, 9, controller="j", ours=True)
    passed(writer, **of_job())
    passed(writer, **of_job())
    assert [method for method, *_ in server.writes] == ["POST"], "the watch has not shown it yet"
    passed(writer, **of_job(made))
    passed(writer, **of_job())
    assert [method for method, *_ in server.writes] == ["POST", "PATCH", "POST"]


def test_one_that_came_and_went_between_two_passes_is_made_anew_too(writer, server, clock):
    passed(writer, **of_job())
    clock.advance(REMAKE_SECONDS)
    passed(writer, **of_job())
    assert [method for method, *_ in server.writes] == ["POST", "POST"]


def test_none_is_made_for_a_job_that_is_going(writer, server):
    passed(writer, **of_job(over=True))
    assert server.writes == []


def test_none_is_made_in_a_namespace_that_is_going(writer, server):
    passed(writer, namespaces=[msgspec.structs.replace(gang(), deleted=True)], **of_job())
    assert server.writes == []


@pytest.mark.parametrize(
    ("api", "where", "over"),
    [
        (names.VOLCANO_API, "/podgroups/g", "Completed"),
        (names.COSCHEDULING_API, "/podgroups/g/status", "Finished"),
        (names.COSCHEDULING_OLD_API, "/podgroups/g", "Finished"),
    ],
)
def test_a_status_goes_where_the_dialect_keeps_it(writer, server, api, where, over):
    group = podgroup("g", 2, api=api)
    running = passed(writer, pods=[lifted(p, "n0", 2) for p in pods(2, of="g")], podgroups=[group])
    (seen,) = running.groups.values()
    writer.report(seen, finished(seen))
    writer._write(*writer._next())
    assert [path.rpartition("/podgroups")[1:] for _, path, _ in server.writes] == [("/podgroups", where[10:])] * 2
    assert [body["status"]["phase"] for _, _, body in server.writes] == ["Running", over]


def test_equal_statuses_are_written_once_and_forgotten_with_the_group(writer, server):
    given = {"pods": pods(1, of="g"), "podgroups": [podgroup("g", 2)]}
    for _ in range(3):
        passed(writer, **given)
    assert len(server.writes) == 1
    passed(writer)
    assert writer._told == {}


@pytest.mark.parametrize(
    "answer",
    [
        ApiError(404, "NotFound", "gone"),
        ApiError(403, "Forbidden", "unable to create new content in namespace n because it is being terminated"),
    ],
)
def test_a_podgroup_or_namespace_that_goes_is_no_failure(writer, server, answer):
    server.answers = [answer]
    passed(writer, pods=pods(1, of="g"), podgroups=[podgroup("g", 2)])
    assert (len(server.writes), writer.failures) == (1, 0)


def test_failures_are_counted_and_logged_once_a_minute(writer, server, clock, caplog):
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        server.answers = [ApiError(403, "Forbidden", "cannot create")]
        passed(writer, **of_job())
    assert (writer.failures, len(caplog.records)) == (3, 1)
    assert "cannot create" in caplog.text and "Job/team/j" in caplog.text
    server.answers = [ApiError(500, "InternalError", "etcd")]
    passed(writer, **of_job())
    clock.advance(REPEAT_SECONDS)
    server.answers = [ApiError(500, "InternalError", "etcd")]
    passed(writer, **of_job())
    assert (writer.failures, len(caplog.records)) == (5, 3)
