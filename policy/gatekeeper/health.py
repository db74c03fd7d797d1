"""A small HTTP server for probes, metrics and a look inside: /healthz /readyz /metrics /debug/<name>.

Bounded against a peer that means ill: few connections at once, each with a timeout; requests have no body, and
/debug answers loopback only (`kubectl port-forward` comes from there). Knows no more than what it is given to call.
"""

import ipaddress
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

CONNECTIONS: Final = 16
TIMEOUT: Final = 5.0  # seconds for each read and write of a connection
_PATH_LIMIT: Final = 256
_TEXT: Final = "text/plain; charset=utf-8"
_LOG: Final = logging.getLogger(__name__)

Problems = Callable[[], list[str]]  # empty: all is well
Answer = tuple[int, str, bytes]  # status, content type, body


class Health:
    """Serves from a daemon thread between `start` and `close`; `port` 0 takes a free one."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        live: Problems,
        ready: Problems,
        registry: CollectorRegistry,
        debug: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        self._live, self._ready, self._registry, self._debug = live, ready, registry, dict(debug or {})
        self._server = _Server(host, port, self.answer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop serving and free the port; only after `start`."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, peer: str) -> Answer:
        """What `path` shows to a client at the address `peer`."""
        if path == "/healthz":
            return _verdict(self._live())
        if path == "/readyz":
            return _verdict(self._ready())
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest(self._registry)
        if path.startswith("/debug/"):
            return self._look(path.removeprefix("/debug/"), peer)
        return _text(404, "not found")

    def _look(self, name: str, peer: str) -> Answer:
        if not ipaddress.ip_address(peer).is_loopback:
            return _text(403, "loopback only: use kubectl port-forward")
        if name not in self._debug:
            return _text(404, f"known: {', '.join(sorted(self._debug))}")
        return 200, "application/json", msgspec.json.encode(self._debug[name](), enc_hook=str)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, answer: Callable[[str, str], Answer]) -> None:
        self.answer = answer
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)  # full: better none than late

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 -- the base class's signature
        _LOG.debug("request from %s failed", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = TIMEOUT
    server: _Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        too_long = len(path) > _PATH_LIMIT
        status, kind, body = _text(414, "path too long") if too_long else self._answer(path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "ganggate"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's own name
        _LOG.debug(format, *args)

    def _answer(self, path: str) -> Answer:
        try:
            return self.server.answer(path, self.client_address[0])
        except Exception as error:  # noqa: BLE001 -- outermost frame of a request; a probe must get an answer
            _LOG.exception("GET %s", path)
            return _text(500, f"{type(error).__name__}: {error}")


def _verdict(problems: list[str]) -> Answer:
    return _text(503 if problems else 200, "\n".join(problems) or "ok")


def _text(status: int, text: str) -> Answer:
    return status, _TEXT, f"{text}\n".encode()
