"""The lines of one watch response, with a way to end it from another thread.

Knows HTTP's chunks and nothing of what the lines say.
"""

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import urllib3
from urllib3.exceptions import HTTPError

from policy.gatekeeper.errors import StreamError, TransportError

# etcd takes 1.5 MiB and the API server at most 3 MiB a request; JSON escapes may double it.
LINE_LIMIT: Final = 8 << 20


class Stream:
    """Iterate it for the lines; `abort` from any thread makes the iteration end with TransportError."""

    def __init__(self, response: urllib3.BaseHTTPResponse, line_limit: int = LINE_LIMIT) -> None:
        self._response = response
        self._limit = line_limit
        self._aborted = ""

    def __iter__(self) -> Iterator[bytes]:
        """Yield each line without its end; a line cut off by the end of the stream is left out.

        Raises TransportError when the connection breaks, StreamError when a line is beyond all bounds.
        """
        try:
            for line in _lines(self._response.stream(), self._limit):
                self._check_abort()
                yield line
        except HTTPError as error:
            self._check_abort()
            raise TransportError(f"watch cut: {error}") from error
        self._check_abort()

    def abort(self, reason: str) -> None:
        """Make a reader that is blocked in another thread give up, and say why."""
        self._aborted = self._aborted or reason
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # already ended: nothing left to wake
            self._response.shutdown()

    def close(self) -> None:
        """Give the connection up; only for the thread that iterates."""
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_abort(self) -> None:
        if self._aborted:
            raise TransportError(self._aborted, "Aborted")


def _lines(chunks: Iterator[bytes], limit: int) -> Iterator[bytes]:
    rest = bytearray()
    for chunk in chunks:
        rest += chunk
        if b"\n" in chunk:
            *whole, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            yield from whole
        elif len(rest) > limit:
            raise StreamError(f"watch: a line of over {limit} bytes")
