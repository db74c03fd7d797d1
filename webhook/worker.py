"""gunicorn's gthread worker, taught to wait without a thread and to leave without losing a call.

What is overridden was read in gunicorn 26 and 27; tests/unit/test_webhook_server.py runs against the real thing. May
know gunicorn; nothing of pods.
"""

import errno
import select
import selectors
import signal
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from types import FrameType
from typing import Any, Final

from gunicorn.workers.gthread import TConn, ThreadWorker

_NO_CONNECTION: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED)  # the peer left before we came

_BEAT_SECONDS: Final = 0.5  # between signs of life; the arbiter asks for one in 30 s


@dataclass(slots=True)
class Drain:
    """The time between being told to stop and accepting no more: not ready, but every call is answered.

    Load balancers and API servers need it to notice: without it they send calls to a port that is closed.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    _until: float | None = field(default=None)

    def begin(self) -> None:
        if self._until is None:
            self._until = self.clock() + self.seconds

    @property
    def begun(self) -> bool:
        return self._until is not None

    @property
    def over(self) -> bool:
        return self._until is not None and self.clock() >= self._until


def close_if(request: Any, wanted: Callable[[], bool]) -> None:
    """Have gunicorn end the connection after this request if `wanted` says so when the answer's headers are written.

    Asked once: gunicorn asks again after the answer, and must not close what it announced to keep.
    """
    natural = request.should_close
    request.should_close = cache(lambda: natural() or wanted())


class Connection(TConn):  # type: ignore[misc]  # gunicorn ships no types
    """A connection that can be closed twice.

    gunicorn's cannot after a failed handshake: the error then counts the connection off a second time, and a stopping
    worker whose count is too low believes that nobody is left to be served.
    """

    def close(self, graceful: bool = False) -> None:  # noqa: FBT001, FBT002 -- the signature of TConn
        try:
            super().close(graceful)
        except (OSError, ValueError):
            super().close()

    def asked(self) -> bool:
        """Whether a request, or the peer's end, is there to be read."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(self.sock.pending() or poll.poll(0))


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn ships no types
    """One process, its threads, and a poller on the main thread. `app` is webhook.server.Application."""

    notified = 0.0  # seconds, monotonic

    def accept(self, listener: Any) -> None:
        """Let the poller wait for the first byte: gthread gives a silent connection a thread for 5 s (#3518)."""
        try:
            peer, address = listener.accept()
        except OSError as error:
            if error.errno not in _NO_CONNECTION:
                raise
            return
        connection = Connection(self.cfg, peer, address, listener.getsockname())
        connection.timeout = time.monotonic() + self.app.io_seconds
        self.nr_conns += 1
        self.pending_conns.append(connection)
        readable = partial(self.on_pending_socket_readable, connection)
        self.poller.register(connection.sock, selectors.EVENT_READ, readable)

    def handle(self, connection: Connection) -> Any:
        """Let the poller wait, too, for a request that does not follow upon the handshake at once.

        Go dials for each call of a burst, sends it on whichever connection is free first, and keeps the others for
        later: gthread gives each of these a thread until it is given up.
        """
        if not connection.initialized:
            try:
                connection.init()
            except OSError as error:
                if isinstance(error, ssl.SSLError) and error.args[0] != ssl.SSL_ERROR_EOF:
                    self.handle_error(None, connection.sock, connection.client, error)
                return False
            if not connection.asked():
                return True  # kept alive, as after a request
        return super().handle(connection)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM: stop being ready first. Runs inside a signal handler, so it only takes down the time."""
        self.app.drain.begin()
        if self.app.drain.over:
            super().handle_exit(sig, frame)

    def notify(self) -> None:
        """Called at every turn of the main loop: each second at least, and twice per call, which is too often."""
        now = time.monotonic()
        if now - self.notified >= _BEAT_SECONDS:
            self.notified = now
            super().notify()
        if self.alive and self.app.drain.over:
            super().handle_exit(signal.SIGTERM, None)

    def set_accept_enabled(self, enabled: bool) -> None:  # noqa: FBT001 -- the signature of ThreadWorker
        """Close the listeners as soon as nobody accepts: a caller is better refused than left in the backlog."""
        super().set_accept_enabled(enabled)
        if not self.alive:
            for listener in self.sockets:
                listener.close()
