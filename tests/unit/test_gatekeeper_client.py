"""The client over a real TLS connection: what it sends, how long it waits, what it makes of the answer."""

import base64
import json
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trustme
from kubernetes.config import incluster_config

from policy.gatekeeper.client import STRATEGIC_MERGE_PATCH, Client
from policy.gatekeeper.discovery import has_status_subresource, resources, serves
from policy.gatekeeper.errors import ApiError, ConfigError, StreamError, TransportError
from policy.gatekeeper.stream import Stream


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        self.server.answers[self.path.partition("?")[0]](self)

    do_GET = do_POST = do_PATCH = handle_request

    def log_message(self, *_):
        pass


def plain(body=b"{}", status=200, **headers):
    def answer(handler):
        handler.send_response(status)
        for name, text in ({"Content-Length": str(len(body))} | headers).items():
            handler.send_header(name.replace("_", "-"), text)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def chunks(*parts, end=b"0\r\n\r\n"):
    """A chunked answer; an Event among the parts is waited for."""

    def answer(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for part in parts:
            if isinstance(part, threading.Event):
                part.wait(20)
            else:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        handler.wfile.write(end)
        handler.close_connection = True

    return answer


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def server(authority):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    server.handle_error = lambda *_: None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.seen, server.answers = [], {"/ok": plain(b'{"a":1}')}
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def kubeconfig(folder, authority, server, base="", **user):
    address = f"https://127.0.0.1:{server.server_address[1]}{base}"
    ca = base64.b64encode(authority.cert_pem.bytes()).decode()
    document = {
        "clusters": [{"name": "c", "cluster": {"server": address, "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.fixture
def client(tmp_path, authority, server):
    client = Client.from_kubeconfig(kubeconfig(tmp_path, authority, server, token="s3cret"))
    yield client
    client.close()


def test_a_request_carries_token_body_and_query(client, server):
    patch = {"metadata": {"uid": "u"}}
    query = {"fieldManager": "ganggate", "x": "a b&c"}
    assert client.request("PATCH", "/ok", body=patch, content_type=STRATEGIC_MERGE_PATCH, query=query) == b'{"a":1}'
    ((method, path, headers, body),) = server.seen
    assert (method, path) == ("PATCH", "/ok?fieldManager=ganggate&x=a+b%26c")
    assert headers["Authorization"] == "Bearer s3cret"
    assert headers["Content-Type"] == STRATEGIC_MERGE_PATCH
    assert json.loads(body) == patch


def test_bytes_are_sent_as_they_are_and_nothing_when_there_is_nothing(client, server):
    client.request("POST", "/ok", body=b"{ }")
    client.get("/ok")
    assert [seen[3] for seen in server.seen] == [b"{ }", b""]
    assert "Content-Type" not in server.seen[1][2]


def test_connections_are_kept(client, server):
    ports = set()
    server.answers["/port"] = lambda handler: (ports.add(handler.client_address[1]), plain()(handler))
    for _ in range(20):
        client.get("/port")
    assert len(ports) == 1


def test_a_base_path_in_the_servers_url(tmp_path, authority, server):
    server.answers["/k8s/clusters/c-1/ok"] = plain(b"based")
    client = Client.from_kubeconfig(kubeconfig(tmp_path, authority, server, base="/k8s/clusters/c-1/"))
    assert client.get("/ok") == b"based"
    assert "Authorization" not in server.seen[0][2]


def test_refusals(client, server):
    body = b'{"kind":"Status","reason":"Conflict","message":"changed","code":409}'
    server.answers["/conflict"] = plain(body, 409)
    server.answers["/slow-down"] = plain(b"", 429, Retry_After="4")
    with pytest.raises(ApiError, match="409 Conflict: changed"):
        client.request("PATCH", "/conflict", body={})
    for method in ("GET", "PATCH"):
        with pytest.raises(ApiError) as caught:
            client.request(method, "/slow-down")
        assert caught.value.retry_after == 4
    assert len(server.seen) == 3, "nothing is sent twice, neither reads nor writes"


def test_a_redirect_is_not_followed(client, server):
    server.answers["/away"] = plain(b"", 302, Location="https://127.0.0.1:1/ok")
    assert client.get("/away") == b""
    assert len(server.seen) == 1


def test_no_answer(client, server, tmp_path, authority):
    server.answers["/cut"] = lambda handler: handler.connection.shutdown(socket.SHUT_RDWR)
    with pytest.raises(TransportError) as caught:
        client.request("PATCH", "/cut", body={})
    assert caught.value.status == 0
    assert [path for _, path, _, _ in server.seen] == ["/cut"], "a write is never repeated"


def test_nobody_listens(tmp_path, authority, server):
    path = kubeconfig(tmp_path, authority, server)
    text = open(path).read().replace(str(server.server_address[1]), "1")
    open(path, "w").write(text)
    with pytest.raises(TransportError, match="GET /ok"):
        Client.from_kubeconfig(path).get("/ok")


def test_a_slow_answer_is_given_up(client, server):
    gate = threading.Event()
    server.answers["/slow"] = lambda handler: gate.wait(20)
    before = time.monotonic()
    with pytest.raises(TransportError) as caught:
        client.get("/slow", timeout=0.3)
    gate.set()
    assert caught.value.reason == "Timeout"
    assert time.monotonic() - before < 5


def test_a_stranger_with_another_certificate_is_not_talked_to(tmp_path, server):
    client = Client.from_kubeconfig(kubeconfig(tmp_path, trustme.CA(), server, token="s3cret"))
    with pytest.raises(TransportError, match="certificate verify failed"):
        client.get("/ok")
    assert server.seen == []


def test_many_threads_share_it(client, server):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(client.get("/ok"))) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [b'{"a":1}'] * 64


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "Invalid kube-config file. No configuration found|nowhere"),
        ("", "kubeconfig"),
        ("[]", "kubeconfig"),
        ("{clusters: [}", "kubeconfig"),
        ('{"contexts": [], "clusters": [], "users": []}', "current-context"),
        ('{"contexts": [], "clusters": [], "users": [], "current-context": "x"}', "name x"),
    ],
)
def test_a_bad_kubeconfig_is_named(tmp_path, text, complaint):
    path = tmp_path / "nowhere"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        Client.from_kubeconfig(str(path))
    assert str(path) in str(caught.value)


def test_an_unknown_context_is_named(tmp_path, authority, server):
    path = kubeconfig(tmp_path, authority, server)
    with pytest.raises(ConfigError, match="other"):
        Client.from_kubeconfig(path, context="other")
    assert Client.from_kubeconfig(path, context="one").host.startswith("https://127.0.0.1:")


def test_a_service_account_outside_a_cluster(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="service account"):
        Client.in_cluster()


def test_a_service_accounts_token_is_read_again(tmp_path, authority, server, monkeypatch):
    """The kubelet replaces the file long before the token ends; a client that never looked would fail after an hour."""
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    authority.cert_pem.write_to_path(ca)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_address[1]))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    client = Client.in_cluster()
    client.get("/ok")
    token.write_text("second")
    now = incluster_config.datetime.datetime.now

    class Later(incluster_config.datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return now(tz) + incluster_config.datetime.timedelta(minutes=2)

    monkeypatch.setattr(incluster_config.datetime, "datetime", Later)
    client.get("/ok")
    assert [seen[2]["Authorization"] for seen in server.seen] == ["bearer first", "bearer second"]
    token.unlink()
    monkeypatch.setattr(
        Later, "now", classmethod(lambda cls, tz=None: now(tz) + incluster_config.datetime.timedelta(days=1))
    )
    with pytest.raises(TransportError, match="credentials"):
        client.get("/ok")


def lines(client, path="/watch", timeout=10.0):
    with client.stream(path, timeout=timeout) as stream:
        yield from stream


def test_lines_of_a_watch_however_they_are_cut(client, server):
    server.answers["/watch"] = chunks(b"one\ntw", b"o\n", b"three\nfour\n\nfi", b"ve\nunfinished")
    assert list(lines(client)) == [b"one", b"two", b"three", b"four", b"", b"five"]


def test_lines_come_as_soon_as_they_are_sent(client, server):
    gate = threading.Event()
    server.answers["/watch"] = chunks(b"one\n", gate, b"two\n")
    reader = lines(client)
    assert next(reader) == b"one"
    gate.set()
    assert list(reader) == [b"two"]


def test_a_watch_that_is_cut(client, server):
    server.answers["/watch"] = chunks(b"one\n", end=b"")
    reader = lines(client)
    assert next(reader) == b"one"
    with pytest.raises(TransportError, match="watch cut"):
        next(reader)


def test_a_watch_that_is_refused(client, server):
    server.answers["/watch"] = plain(b'{"reason":"Expired","message":"too old","code":410}', 410)
    with pytest.raises(ApiError) as caught:
        list(lines(client))
    assert caught.value.is_gone
    assert client.get("/ok") == b'{"a":1}', "the connection is usable again"


def test_a_silent_watch_ends_by_itself_too(client, server):
    gate = threading.Event()
    server.answers["/watch"] = chunks(b"one\n", gate)
    reader = lines(client, timeout=0.3)
    assert next(reader) == b"one"
    with pytest.raises(TransportError):
        next(reader)
    gate.set()


def test_another_thread_may_end_a_reader(client, server):
    gate, started, ended = threading.Event(), threading.Event(), []
    server.answers["/watch"] = chunks(b"one\n", gate)
    stream = client.stream("/watch", timeout=60)

    def read():
        try:
            with stream:
                for _ in stream:
                    started.set()
        except TransportError as error:
            ended.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert started.wait(10)
    stream.abort("silent for 91 s")
    reader.join(10)
    gate.set()
    assert not reader.is_alive()
    assert ended[0].message == "silent for 91 s"
    assert ended[0].reason == "Aborted"
    stream.abort("twice does no harm")


def test_a_line_without_end_is_not_kept(client, server):
    server.answers["/watch"] = chunks(*[b"x" * 1000] * 50)
    stream = client.stream("/watch", timeout=10)
    with pytest.raises(StreamError, match="a line of over 10000 bytes"), stream:
        list(Stream(stream._response, line_limit=10_000))


def test_discovery(client, server):
    found = {"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}, {"name": "queues"}]}
    server.answers["/apis/g.example/v1"] = plain(json.dumps(found).encode())
    server.answers["/apis/absent/v1"] = plain(b"404 page not found", 404)
    server.answers["/api/v1"] = plain(b'{"resources":null}')
    server.answers["/apis/broken/v1"] = plain(b"", 503)
    assert serves(client, "g.example", "v1", "podgroups")
    assert has_status_subresource(client, "g.example", "v1", "podgroups")
    assert not has_status_subresource(client, "g.example", "v1", "queues")
    assert not serves(client, "absent", "v1", "podgroups")
    assert resources(client, "", "v1") == frozenset()
    with pytest.raises(ApiError):
        serves(client, "broken", "v1", "x")
