"""Tells people: events on pods, PodGroups, owners and queues, written behind everything else.

`record` never blocks and never fails; a thread writes, at a bounded rate, namespaces in turn. A repeat of the same
reason and limiter is not written again until the first would expire, and then as a new object: the note of an event
cannot change. Knows nothing of groups and decisions.
"""

import logging
import threading
from collections.abc import Callable
from secrets import token_hex
from typing import Final

from policy.gatekeeper import event_body
from policy.gatekeeper.backoff import Backoff, Uniform
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.event_body import Entry, EventType, ObjectRef
from policy.gatekeeper.event_queue import FairQueue, Memory, TokenBucket
from policy.gatekeeper.lease import Api
from policy.gatekeeper.threads import repeat

__all__ = ["ObjectRef", "Recorder"]

CAPACITY: Final = 10_000  # events waiting; some 10 MB
RATE: Final = 50.0  # a second
BURST: Final = 200
ACTION: Final = "Admission"  # the server wants one
_TRIES: Final = 3
_TIMEOUT: Final = 5.0  # seconds
_IDLE: Final = 1.0  # seconds
_LOG: Final = logging.getLogger(__name__)


class Recorder:
    """`record` and `forget` from any thread; `run` in one of its own.

    `count` is told of each event's end: `written`, `dropped` (no room, or no answer), `refused` (by the server).
    """

    def __init__(
        self,
        client: Api,
        instance: str,
        clock: Clock,
        *,
        rate: float = RATE,
        burst: int = BURST,
        capacity: int = CAPACITY,
        count: Callable[[str], None] = lambda _result: None,
        uniform: Uniform | None = None,
    ) -> None:
        self._client, self._instance, self._clock, self._count = client, instance, clock, count
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._memory = Memory()
        self._queue: FairQueue[Entry] = FairQueue(capacity)
        self._bucket = TokenBucket(rate, burst, clock.monotonic())
        self._backoff = Backoff(base=0.5, cap=10.0, uniform=uniform)
        self._current: Entry | None = None  # being written, or to be tried again
        self._tries = 0

    def record(
        self,
        regarding: ObjectRef,
        reason: str,
        note: str,
        *,
        type: EventType = "Normal",  # noqa: A002 -- the API's own name
        limiter: str = "",
        action: str = ACTION,
        related: ObjectRef | None = None,
    ) -> bool:
        """Have it written soon, unless the same reason and limiter was said of the object not long ago.

        Tells whether it was queued.
        """
        entry = Entry(regarding, str(reason), note, type, limiter, action, related, self._clock.now())
        now = self._clock.monotonic()
        with self._lock:
            if not self._memory.due(regarding.uid, entry.key, now):
                return False
            known = self._memory.knows(regarding.uid, entry.key)
            self._memory.note(regarding.uid, entry.key, now)
            dropped = self._queue.push(regarding.event_namespace, entry, repeat=known)
        if dropped:
            self._unsay(dropped, "dropped")
        self._wake.set()
        return dropped is not entry

    def forget(self, uid: str) -> None:
        """The object is gone: its memory goes too."""
        with self._lock:
            self._memory.forget(uid)

    @property
    def waiting(self) -> int:
        """Events not written yet."""
        return len(self._queue) + (self._current is not None)

    def run(self, stop: threading.Event) -> None:
        """Write until `stop` is set; what waits then is lost."""
        repeat(self._turn, self._broken, self._clock, stop)

    def _turn(self) -> float:
        """Write one event; return the seconds to wait before the next."""
        if self._current is None:
            self._current = self._next()
            self._tries = 0
        if self._current is None:
            return 0.0
        pause = self._bucket.take(self._clock.monotonic())
        return pause or self._write(self._current)

    def _next(self) -> Entry | None:
        with self._lock:
            self._wake.clear()
            entry = self._queue.pop()
        if entry is None:
            self._clock.wait(self._wake, _IDLE)
        return entry

    def _write(self, entry: Entry) -> float:
        body = event_body.body(entry, self._instance, token_hex(8))
        try:
            self._client.request("POST", event_body.path(entry), body=body, timeout=_TIMEOUT)
        except ApiError as error:
            return self._refused(entry, error)
        self._done("written")
        self._backoff.reset()
        return 0.0

    def _refused(self, entry: Entry, error: ApiError) -> float:
        """Try again what may pass later; what the server will never take is dropped at once."""
        self._tries += 1
        passing = error.is_overload or error.is_conflict or error.status == 0 or error.status >= 500
        if not passing:
            ended = error.is_ending or error.is_not_found  # of an event there is nothing but its namespace to be found
            level = logging.DEBUG if ended else logging.WARNING
            _LOG.log(level, "event %s on %s: %s", entry.reason, entry.regarding.name, error)
            self._done("refused")
            if ended:
                self._clear(entry.regarding.event_namespace)
            return 0.0
        if self._tries >= _TRIES:
            self._unsay(entry, "dropped")
            self._current = None
        return max(error.retry_after or 0.0, self._backoff.next())

    def _clear(self, namespace: str) -> None:
        """Nobody can be told there any more: each refusal would cost the others 0.1 s."""
        with self._lock:
            gone = self._queue.clear(namespace)
        for _ in range(gone):
            self._count("refused")

    def _broken(self, problem: str) -> float:
        _LOG.warning("event dropped: %s", problem)
        self._done("dropped")
        return self._backoff.next()

    def _done(self, result: str) -> None:
        self._current = None
        self._count(result)

    def _unsay(self, entry: Entry, result: str) -> None:
        with self._lock:
            self._memory.unsay(entry.regarding.uid, entry.key)
        self._count(result)
