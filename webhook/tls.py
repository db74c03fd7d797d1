"""TLS for a server whose files change under it and whose peers may fall silent.

gunicorn asks for a context at every new connection; here it is built anew only when the files have changed. Its gthread
worker puts no time limit on a handshake nor on a body (gunicorn #2507, #2652), so the sockets carry one themselves.
May know ssl and certificates; nothing of pods, HTTP or gunicorn.
"""

import errno
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from cryptography import x509

Clock = Callable[[], float]  # seconds, monotonic

CERTIFICATE: Final = "tls.crt"  # keys of a kubernetes.io/tls Secret
KEY: Final = "tls.key"
_GENERATION: Final = "..data"  # the link that the kubelet swaps when a mounted Secret changes

HANDSHAKE: Final = "handshake"
REQUEST: Final = "request"


class BoundedSocket(ssl.SSLSocket):
    """A server's socket on which no peer can hold a thread for longer than `seconds` per request.

    Whoever makes it blocking opens a new budget: gunicorn does so before each request, and the handshake shares the
    first one. The budget covers all reads and writes together, so that a trickle is bounded like a silence. Past it
    the peer counts as gone (ECONNRESET, which gunicorn passes over without a word).
    """

    seconds: ClassVar[float]
    clock: ClassVar[Clock]
    stalled: ClassVar[Callable[[str], None]]

    _deadline: float = 0.0
    _lost: bool = False  # the peer was given up
    _closing: bool = False  # our half is closed

    def setblocking(self, flag: bool) -> None:  # noqa: FBT001 -- the signature of socket.socket
        self.settimeout(None if flag else 0.0)

    def settimeout(self, value: float | None) -> None:
        """None is no "for ever" here but a new budget."""
        if value is None:
            self._deadline = type(self).clock() + self.seconds
            value = self.seconds
        # gunicorn lingers on its main thread for a peer that does not close (util.close_graceful): never wait there.
        super().settimeout(0.0 if self._closing else value)

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 -- the signature of ssl.SSLSocket
        try:
            super().do_handshake(block)
        except TimeoutError:
            raise self._gone(HANDSHAKE) from None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        self._spend()
        try:
            return super().recv(buflen, flags)
        except TimeoutError:
            raise self._gone(REQUEST) from None

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._spend()
        try:
            super().sendall(data, flags)
        except TimeoutError:
            raise self._gone(REQUEST) from None

    def shutdown(self, how: int) -> None:
        if self._lost:
            raise OSError(errno.ENOTCONN, "the peer was given up")
        super().shutdown(how)
        self._closing = True

    def _spend(self) -> None:
        """Give the next operation what is left of the budget. Once given up, a peer stays given up.

        Not for the sake of a twentieth of it: that takes a system call, and a quick request has five.
        """
        timeout, left = self.gettimeout(), self._deadline - type(self).clock()
        if self._lost or (timeout and left <= 0):
            raise self._gone(REQUEST)
        if timeout and left < timeout - self.seconds / 20:
            super().settimeout(left)

    def _gone(self, phase: str) -> ConnectionResetError:
        if not self._lost:
            self._lost = True
            type(self).stalled(phase)
        return ConnectionResetError(errno.ECONNRESET, f"{phase} not finished in {self.seconds} s")


def bounded(seconds: float, clock: Clock, stalled: Callable[[str], None]) -> type[BoundedSocket]:
    """A socket class with its limit; `stalled` is told the phase in which a peer was given up."""
    members = {"seconds": seconds, "clock": staticmethod(clock), "stalled": staticmethod(stalled)}
    return type("BoundedSocket", (BoundedSocket,), members)


@dataclass(frozen=True, slots=True)
class Served:
    """One generation of the files, loaded."""

    identity: tuple[object, ...]
    context: ssl.SSLContext
    expires: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class Watchers:
    """Who is told: of a generation that is served from now on (its end), of one that could not be (why)."""

    loaded: Callable[[float], None]
    failed: Callable[[str], None]


class Certificates:
    """The context for the next connection: of the newest files that could be loaded."""

    def __init__(self, directory: Path, socket_class: type[ssl.SSLSocket], watchers: Watchers) -> None:
        self._directory = directory
        self._socket_class = socket_class
        self._watchers = watchers
        self._lock = threading.Lock()
        self._served: Served | None = None

    def context(self) -> ssl.SSLContext:
        """Raises OSError (ssl.SSLError is one) or ValueError while no generation has been loaded yet."""
        return self._current().context

    def expires(self) -> float:
        """End of the served certificate's validity, in seconds since 1970. Raises like `context`."""
        return self._current().expires

    def _current(self) -> Served:
        """Looks at the files each time: three stat calls, against the 0.7 ms of building a context."""
        with self._lock:
            try:
                self._refresh()
            except (OSError, ValueError) as error:
                self._watchers.failed(f"{type(error).__name__}: {error}")
                if self._served is None:
                    raise
            assert self._served is not None  # noqa: S101 -- for the type checker: _refresh has just set it
            return self._served

    def _refresh(self) -> None:
        folder = generation(self._directory)
        identity = _identity(folder)
        if self._served is None or self._served.identity != identity:
            self._served = _load(folder, identity, self._socket_class)
            self._watchers.loaded(self._served.expires)


def generation(directory: Path) -> Path:
    """The folder to read both files from, resolved once, so that certificate and key are of one generation."""
    link = directory / _GENERATION
    return link.resolve() if link.is_symlink() else directory


def are_there(directory: Path) -> bool:
    folder = generation(directory)
    return (folder / CERTIFICATE).is_file() and (folder / KEY).is_file()


def _identity(folder: Path) -> tuple[object, ...]:
    stats = [(folder / name).stat() for name in (CERTIFICATE, KEY)]
    return (str(folder), *((s.st_mtime_ns, s.st_ino, s.st_size) for s in stats))


def _load(folder: Path, identity: tuple[object, ...], socket_class: type[ssl.SSLSocket]) -> Served:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslsocket_class = socket_class
    context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    leaf = x509.load_pem_x509_certificates((folder / CERTIFICATE).read_bytes())[0]
    return Served(identity, context, leaf.not_valid_after_utc.timestamp())
