"""A clock that moves only when told, or when somebody waits on it: minutes of silence pass in no time."""

import heapq
import itertools
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """Whoever waits is carried to the end of the wait, through everything that was planned for the time between."""

    def __init__(self, at: float = 1000.0) -> None:
        self._at = at
        self._plan: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._lock = threading.RLock()
        self.waits: list[float] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self._at)

    def monotonic(self) -> float:
        return self._at

    def advance(self, seconds: float) -> None:
        """Let time pass, and what was planned happen on the way."""
        self._carry(threading.Event(), self._at + seconds)

    def at(self, moment: float, call: Callable[[], None]) -> None:
        """Have `call` happen at `moment` of the monotonic clock."""
        heapq.heappush(self._plan, (moment, next(self._order), call))

    def wait(self, event: threading.Event, seconds: float) -> bool:
        with self._lock:
            self.waits.append(seconds)
            self._carry(event, self._at + max(0.0, seconds))
        return event.is_set()

    def _carry(self, event: threading.Event, end: float) -> None:
        with self._lock:
            while not event.is_set() and self._plan and self._plan[0][0] <= end:
                moment, _, call = heapq.heappop(self._plan)
                self._at = max(self._at, moment)
                call()
            if not event.is_set():
                self._at = max(self._at, end)
