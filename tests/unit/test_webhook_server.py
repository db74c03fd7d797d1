"""The real process: gunicorn, TLS, threads and signals, on loopback."""

import os
import signal
import ssl
import time

import pytest

from tests.unit.webhook_process import (
    BODY,
    HEADERS,
    Certs,
    ask,
    eventually,
    head,
    is_closed,
    running,
)
from webhook.review import MAX_BODY_BYTES
from webhook.server import THREADS, heartbeat_dir, wait_for_certificate

CLIENT_HELLO_START = bytes.fromhex("16030102000100")  # a record of 512 bytes is announced, and does not come
MANY = THREADS + 4  # more bad peers than threads


@pytest.fixture
def certs(tmp_path):
    found = Certs(tmp_path / "tls")
    found.write(found.leaf())
    return found


@pytest.fixture
def hook(certs, tmp_path):
    with running(certs, tmp_path / "log", "--drain", "1", "--io-timeout", "1") as started:
        yield started.wait()


def answered_within(hook, seconds):
    start = time.monotonic()
    connection = hook.connection()
    try:
        ask(connection)
    finally:
        connection.close()
    taken = time.monotonic() - start
    assert taken < seconds, f"{taken:.2f} s"
    return taken


def test_stalled_handshakes_free_their_threads(hook):
    peers = [hook.tcp() for _ in range(MANY)]
    for peer in peers:
        peer.sendall(CLIENT_HELLO_START)
    # two rounds of the one-second limit, since there are more peers than threads; without a limit: never
    answered_within(hook, 10)
    assert all(is_closed(peer, 10) for peer in peers)
    assert hook.metric('ganggate_webhook_stalled_connections_total{phase="handshake"}') == MANY


def test_stalled_bodies_free_their_threads(hook):
    peers = [hook.tls() for _ in range(MANY)]
    for peer in peers:
        peer.sendall(head(len(BODY)) + BODY[:100])
    answered_within(hook, 10)
    assert all(is_closed(peer, 10) for peer in peers)
    assert hook.metric('ganggate_webhook_stalled_connections_total{phase="request"}') == MANY


def test_a_trickle_is_bounded_like_a_silence(hook):
    with hook.tls() as peer:
        peer.sendall(head(len(BODY)))
        start, sent = time.monotonic(), 0
        while not is_closed(peer, 0.2):
            assert time.monotonic() - start < 10
            sent += 1
            try:
                peer.sendall(BODY[sent : sent + 1])
            except OSError:
                break
    assert hook.metric('ganggate_webhook_stalled_connections_total{phase="request"}') == 1


def test_silent_connections_hold_no_thread(hook):
    peers = [hook.tcp() for _ in range(4 * THREADS)]
    answered_within(hook, 3)  # gthread alone gives each 5 s of a thread
    assert all(is_closed(peer, 10) for peer in peers)


def test_spare_connections_hold_no_thread_and_serve_when_they_are_needed(hook):
    """Go dials for each call of a burst, uses what becomes free before, and keeps the new connection for later."""
    spare = [hook.tls() for _ in range(4 * THREADS)]
    answered_within(hook, 3)
    with hook.tcp() as silent:
        assert is_closed(silent, 10), "more than the limit of a request has gone by"
    for peer in spare:
        peer.sendall(head(len(BODY)) + BODY)
        assert peer.recv(12) == b"HTTP/1.1 200"
    assert hook.metric('ganggate_webhook_stalled_connections_total{phase="request"}') == 0


def test_idle_connections_outlive_the_limit_of_a_request(hook):
    connection = hook.connection()
    ask(connection)
    with hook.tcp() as silent:
        assert is_closed(silent, 10), "more than the limit has gone by"
    assert ask(connection)[0]["allowed"]
    connection.close()


def test_3600_calls_on_kept_alive_connections_lose_none(hook):
    connections = [hook.connection() for _ in range(4)]
    for number in range(3600):
        response, kept = ask(connections[number % 4])
        assert response["allowed"] and kept == "keep-alive"
    assert hook.metric("ganggate_webhook_verdicts_total{") == 3600
    assert hook.metric("ganggate_webhook_certificate_reloads_total{") == 1
    for connection in connections:
        connection.close()


def test_a_new_certificate_is_served_on_the_next_connection(tmp_path):
    certs = Certs(tmp_path / "tls")
    first = certs.mount(certs.leaf(), 1)
    with running(certs, tmp_path / "log") as hook:
        hook.wait()
        kept = hook.connection()
        ask(kept)
        assert hook.serial() == first
        second = certs.mount(certs.leaf(), 2)
        assert hook.serial() == second
        assert ask(kept)[0]["allowed"], "what is open stays open"
        kept.close()


def test_a_broken_certificate_leaves_the_last_good_one_and_is_said(certs, hook):
    served = hook.serial()
    (certs.folder / "tls.key").write_bytes(certs.leaf().key)  # of another certificate
    assert hook.serial() == served
    (certs.folder / "tls.crt").unlink()
    assert hook.serial() == served
    assert hook.get("/readyz")[0] == 200
    assert hook.metric('ganggate_webhook_certificate_reloads_total{result="failed"}') >= 2
    assert [line for line in hook.lines() if line["message"] == "certificate not loaded"]
    again = certs.write(certs.leaf())
    assert hook.serial() == again


def test_tls_1_1_is_refused(hook):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with hook.tcp() as raw, pytest.raises(ssl.SSLError):
        context.wrap_socket(raw)


def test_a_body_above_the_bound_is_answered_not_reset(hook):
    connection = hook.connection()
    connection.request("POST", "/mutate/gang", b"x" * (MAX_BODY_BYTES + 2**20), HEADERS)
    assert connection.getresponse().status == 413
    connection.close()


def test_sigterm_lets_calls_in_flight_end_and_readiness_falls_first(hook):
    kept = hook.connection()
    assert ask(kept)[1] == "keep-alive"
    assert hook.get("/readyz")[0] == 200
    with hook.tls() as slow:
        slow.sendall(head(len(BODY)) + BODY[:100])
        os.kill(hook.process.pid, signal.SIGTERM)
        eventually(lambda: hook.get("/readyz") == (503, "draining\n"), 5, every=0.01)
        assert hook.get("/healthz")[0] == 200, "alive all the same"
        assert ask(kept)[1] == "close", "the API server shall look for another replica"
        slow.sendall(BODY[100:])
        answer = slow.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200") and b"Connection: close" in answer
    assert hook.process.wait(15) == 0
    with pytest.raises(OSError):
        hook.tcp(1)


def test_who_comes_after_the_drain_is_refused_at_once_and_who_came_before_is_served(certs, tmp_path):
    with running(certs, tmp_path / "log", "--drain", "0", "--io-timeout", "30") as hook:
        with hook.wait().tls() as slow:
            slow.sendall(head(len(BODY)) + BODY[:100])
            hook.process.send_signal(signal.SIGTERM)
            eventually(lambda: is_refused(hook), 10)
            assert hook.process.poll() is None
            slow.sendall(BODY[100:])
            assert slow.recv(65536).startswith(b"HTTP/1.1 200")
        assert hook.process.wait(15) == 0


def test_peers_that_left_during_the_handshake_do_not_cut_short_the_stop(certs, tmp_path):
    with running(certs, tmp_path / "log", "--drain", "0") as hook:
        hook.wait()
        for _ in range(5):
            hook.tcp().close()
        kept = hook.connection()
        ask(kept)
        hook.process.send_signal(signal.SIGTERM)
        eventually(lambda: is_refused(hook), 10)
        assert ask(kept)[1] == "close", "a call that was on its way when we stopped"
        assert hook.process.wait(15) == 0


def is_refused(hook):
    try:
        hook.tcp(1).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_port_is_free_again_for_the_next_process(hook, certs, tmp_path):
    assert hook.stop() == 0
    with running(certs, tmp_path / "second", port=hook.port) as next_hook:
        assert next_hook.wait().get("/readyz")[0] == 200


def test_a_worker_that_dies_is_replaced(hook):
    first = hook.worker()
    os.kill(first, signal.SIGKILL)
    eventually(lambda: hook.worker() not in (None, first))
    eventually(hook.is_healthy)


def test_a_start_without_certificate_waits_and_says_so(tmp_path):
    certs = Certs(tmp_path / "tls")
    with running(certs, tmp_path / "log", "--wait-for-certificate", "60") as hook:
        eventually(lambda: any("waiting for tls.crt" in line["message"] for line in hook.lines()))
        certs.mount(certs.leaf(), 1)
        assert hook.wait().get("/readyz")[0] == 200


def test_a_start_without_certificate_ends_when_the_time_is_up(tmp_path):
    with running(Certs(tmp_path / "tls"), tmp_path / "log", "--wait-for-certificate", "0.1") as hook:
        assert hook.process.wait(30) == 1
        assert hook.lines()[-1]["message"] == "no certificate"


def test_a_wrong_configuration_ends_the_start_naming_key_and_value(certs, tmp_path):
    (tmp_path / "config.yaml").write_text("kueue: perhaps\n")
    with running(certs, tmp_path / "log", "--config", str(tmp_path / "config.yaml")) as hook:
        assert hook.process.wait(30) == 2
        assert "kueue: 'perhaps'" in hook.log.read_text()


def test_an_expired_certificate_is_not_ready(tmp_path, monkeypatch):
    certs = Certs(tmp_path / "tls")
    certs.write(certs.leaf(hours=0.001))  # 3.6 s
    with running(certs, tmp_path / "log") as hook:
        eventually(lambda: "certificate loaded" in hook.log.read_text())
        context = ssl.create_default_context(cafile=certs.ca_file)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = hook.connection()
        connection._context = context

        def unready():
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            return (answer.status, answer.read()) == (503, b"certificate expired\n")

        eventually(unready)
        connection.close()


def test_every_line_of_the_log_is_json_and_holds_no_object(hook):
    connection = hook.connection()
    ask(connection)
    connection.close()
    with hook.tcp() as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")  # no TLS at all
        assert is_closed(peer, 10)
    hook.stop()
    text = hook.log.read_text()
    assert len(hook.lines()) == len(text.splitlines())
    assert "pytorch-train" not in text


def test_the_heartbeat_falls_back_where_there_is_no_memory_folder(tmp_path):
    assert heartbeat_dir(tmp_path) == str(tmp_path)
    assert heartbeat_dir(tmp_path / "absent") == os.environ.get("TMPDIR", "/tmp")


def test_waiting_is_bounded_and_speaks_every_ten_seconds(tmp_path, caplog):
    now = [0.0]

    def clock():
        now[0] += 0.001
        return now[0]

    def sleep(seconds):
        now[0] += seconds

    with caplog.at_level("INFO"):
        assert not wait_for_certificate(tmp_path, 60, clock, sleep)
    assert 60 <= now[0] < 61
    assert [record.fields["waited"] for record in caplog.records] == [0, 10, 20, 30, 40, 50]
