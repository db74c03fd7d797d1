"""Probes and metrics over a real socket."""

import http.client
import json
import socket
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from policy.gatekeeper import health
from policy.gatekeeper.health import Health
from policy.gatekeeper.metrics import Metrics


def failing():
    raise RuntimeError("broken look")


@pytest.fixture
def problems():
    return {"live": [], "ready": []}


@pytest.fixture
def server(problems):
    registry = CollectorRegistry()
    Metrics(registry, "9.9.9")
    server = Health(
        "127.0.0.1",
        0,
        live=lambda: problems["live"],
        ready=lambda: problems["ready"],
        registry=registry,
        debug={"time": lambda: {"at": datetime(2026, 1, 1, tzinfo=UTC), "of": frozenset({"a"})}, "bad": failing},
    )
    server.start()
    yield server
    server.close()


def get(server, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_probes_tell_what_is_wrong(server, problems):
    assert get(server, "/healthz")[:2] == (200, "ok\n")
    assert get(server, "/readyz?verbose=1")[:2] == (200, "ok\n")
    problems["ready"] = ["pods: forbidden: list pods", "leader: none"]
    assert get(server, "/readyz")[:2] == (503, "pods: forbidden: list pods\nleader: none\n")
    assert get(server, "/healthz")[0] == 200


def test_metrics(server):
    status, text, headers = get(server, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=")
    assert 'ganggate_build_info{version="9.9.9"} 1.0' in text


def test_a_look_inside(server):
    status, text, headers = get(server, "/debug/time")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(text) == {"at": "2026-01-01T00:00:00Z", "of": ["a"]}
    assert get(server, "/debug/nothing")[:2] == (404, "known: bad, time\n")


def test_a_look_inside_is_for_loopback_only(server):
    assert server.answer("/debug/time", "10.1.2.3")[0] == 403
    assert server.answer("/debug/time", "::1")[0] == 200


def test_a_failing_look_is_an_answer(server, caplog):
    assert get(server, "/debug/bad")[:2] == (500, "RuntimeError: broken look\n")
    assert "broken look" in caplog.text


@pytest.mark.parametrize(
    ("path", "status"), [("/", 404), ("/debug", 404), ("/" + "x" * 300, 414), ("/" + "x" * 70000, 414)]
)
def test_other_paths(server, path, status):
    assert get(server, path)[0] == status


def test_other_methods(server):
    assert get(server, "/healthz", "POST")[0] == 501


def test_it_does_not_say_what_it_is_made_of(server):
    assert get(server, "/healthz")[2]["Server"] == "ganggate"


def test_idle_connections_are_bounded_and_end(server, monkeypatch):
    assert health._Handler.timeout == health.TIMEOUT
    monkeypatch.setattr(health._Handler, "timeout", 0.5)
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(health.CONNECTIONS + 4)]
    try:
        for each in idle:
            each.settimeout(5)
            assert each.recv(1) == b"", "closed by the server: at once beyond the limit, else after the timeout"
    finally:
        for each in idle:
            each.close()
    assert get(server, "/healthz")[0] == 200


def test_ipv6():
    server = Health("::1", 0, live=list, ready=list, registry=CollectorRegistry())
    server.start()
    try:
        connection = http.client.HTTPConnection("::1", server.port, timeout=10)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        server.close()
