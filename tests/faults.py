"""A proxy before the real API server that misbehaves on request: refuses, delays, cuts, falls silent, goes away.

Plain HTTP on loopback towards the client, the kubeconfig's TLS and credentials towards the server.

    with Faults(kubeconfig) as faults:
        client = Client.from_kubeconfig(str(faults.kubeconfig(tmp_path)))
        faults.answer(429, match="/pods", headers={"Retry-After": "1"})
        faults.cut()            # every open answer ends in the middle
        faults.silence()        # nothing comes through any more, no connection ends
        faults.heal()
"""

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import urllib3
from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject

SILENT_SECONDS = 120.0  # the longest a held request is kept when a test forgets to heal
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "host", "authorization", "keep-alive"}


@dataclass
class Fault:
    """What happens instead of, or before, the real answer; `times` counts down to nothing."""

    match: Callable[[str, str], bool]
    times: int
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    lose: str = ""  # "request": never reaches the server; "answer": the server acts, the client does not hear of it


class Faults:
    """The proxy; `seen` lists what was asked, as (method, path with query)."""

    def __init__(self, kubeconfig: Path | str) -> None:
        configuration = Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=configuration, persist_config=False)
        configuration.connection_pool_maxsize = 64
        self._upstream, self._pool = configuration, RESTClientObject(configuration).pool_manager
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, name="faults", daemon=True)
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._open: set[socket.socket] = set()
        self.seen: list[tuple[str, str]] = []

    # --- what goes wrong -------------------------------------------------------------------------------------

    def answer(
        self, status: int, *, match: str = "", method: str = "", times: int = 1, reason: str = "", **options: Any
    ) -> None:
        """Answer the next matching requests with a Status object, without asking the server."""
        status_object = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
        body = json.dumps(status_object | {"reason": reason, "message": "by the proxy"}).encode()
        self._add(match, method, times, status=status, body=body, **options)

    def delay(self, seconds: float, *, match: str = "", method: str = "", times: int = 1) -> None:
        """Hold the next matching requests back before the server sees them."""
        self._add(match, method, times, delay=seconds)

    def lose(self, what: str, *, match: str = "", method: str = "", times: int = 1) -> None:
        """Lose the `request` or the `answer` and close the connection."""
        self._add(match, method, times, lose=what)

    def cut(self) -> None:
        """End every connection that is open now, in the middle of whatever it carries."""
        with self._lock:
            connections = tuple(self._open)
        for each in connections:
            _shut(each)

    def silence(self) -> None:
        """Let nothing through any more, in either direction, and end no connection."""
        self._flowing.clear()

    def heal(self) -> None:
        """Let what was held go on, and work as a proxy should."""
        with self._lock:
            self._faults.clear()
        self._flowing.set()

    # --- how to reach it -------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig that leads here."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = folder / f"faults-{self._server.server_address[1]}.json"
        path.write_text(json.dumps(document))
        return path

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()
        self.cut()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._pool.clear()

    # --- inside ----------------------------------------------------------------------------------------------

    def _add(self, match: str, method: str, times: int, **what: Any) -> None:
        fault = Fault(lambda verb, path: match in path and method in ("", verb), times, **what)
        with self._lock:
            self._faults.append(fault)

    def take(self, method: str, path: str) -> Fault | None:
        """The fault that this request meets, if any."""
        with self._lock:
            self.seen.append((method, path))
            for fault in self._faults:
                if fault.times > 0 and fault.match(method, path):
                    fault.times -= 1
                    return fault
        return None

    def pass_on(self) -> None:
        """Wait while nothing comes through."""
        self._flowing.wait(SILENT_SECONDS)

    def hold(self, seconds: float) -> None:
        """Keep a request back."""
        threading.Event().wait(seconds)

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        """Ask the real server, as the kubeconfig's user."""
        for setting in self._upstream.auth_settings().values():
            headers = headers | {"Authorization": setting["value"]}
        url = self._upstream.host + path
        return self._pool.urlopen(
            method, url, body=body or None, headers=headers, preload_content=False, retries=False, timeout=400
        )

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that was cut on purpose is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.faults.opened(self.connection)

    def finish(self) -> None:
        self.server.faults.closed(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def handle_request(self) -> None:
        faults = self.server.faults
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        faults.pass_on()
        fault = faults.take(self.command, self.path)
        if fault and fault.delay:
            faults.hold(fault.delay)
        if fault and fault.lose == "request":
            _shut(self.connection)
        elif fault and fault.status:
            self._answer(fault.status, fault.headers, fault.body)
        else:
            self._relay(body, lose=bool(fault and fault.lose))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def _relay(self, body: bytes, *, lose: bool) -> None:
        headers = {name: text for name, text in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        answer = self.server.faults.ask(self.command, self.path, body, headers)
        try:
            if lose:
                _shut(self.connection)
            elif answer.headers.get("Transfer-Encoding") == "chunked":
                self._stream(answer)
            else:
                self._answer(answer.status, {"Content-Type": answer.headers["Content-Type"]}, answer.read())
        finally:
            answer.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.server.faults.pass_on()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, answer: urllib3.BaseHTTPResponse) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in answer.stream():
            self.server.faults.pass_on()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it ended by itself
        return
