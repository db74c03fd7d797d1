"""What the recorder keeps in memory, each part bounded: what was said, what waits to be written, how fast.

Pure: told the time, takes no lock. Knows events by their key and namespace only.
"""

from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

RESEND_SECONDS: Final = 45 * 60.0  # before the API server's --event-ttl, one hour by default
RETURN_SECONDS: Final = 5 * 60.0  # a reason that comes back after another is said again, but flapping is not
_KEYS_PER_OBJECT: Final = 16
_OBJECTS: Final = 200_000
_ROUNDING: Final = 1e-6  # of a token: a wait for less might be too short to move a clock

Key = tuple[str, str]
E = TypeVar("E")


class Memory:
    """When each key was last said of each object."""

    def __init__(self, resend: float = RESEND_SECONDS, back: float = RETURN_SECONDS) -> None:
        self._resend, self._back = resend, back
        self._said: dict[str, dict[Key, float]] = {}  # inner: the newest key last

    def due(self, uid: str, key: Key, now: float) -> bool:
        """Whether `key` should be said of `uid` now, at `now` seconds."""
        said = self._said.get(uid, {})
        if key not in said:
            return True
        newest = next(reversed(said)) == key
        return now - said[key] >= (self._resend if newest else self._back)

    def knows(self, uid: str, key: Key) -> bool:
        """Whether `key` was ever said of `uid`: then saying it again is a repeat."""
        return key in self._said.get(uid, ())

    def note(self, uid: str, key: Key, now: float) -> None:
        """Remember that `key` was said of `uid`."""
        said = self._said.pop(uid, {})
        self._said[uid] = said  # last in, so that the first is the one longest silent
        said.pop(key, None)
        said[key] = now
        _trim(said, _KEYS_PER_OBJECT)
        _trim(self._said, _OBJECTS)

    def unsay(self, uid: str, key: Key) -> None:
        """It was not written after all: say it again when asked."""
        self._said.get(uid, {}).pop(key, None)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._said.pop(uid, None)

    def __len__(self) -> int:
        return len(self._said)


class _RoundRobin(Generic[E]):
    """One queue for each namespace, served in turn."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[E]] = {}

    def push(self, namespace: str, item: E) -> None:
        self._queues.setdefault(namespace, deque()).append(item)

    def pop(self) -> E | None:
        namespace = next(iter(self._queues), None)
        if namespace is None:
            return None
        queue = self._queues.pop(namespace)
        item = queue.popleft()
        if queue:
            self._queues[namespace] = queue  # to the end of the line
        return item

    def clear(self, namespace: str) -> int:
        return len(self._queues.pop(namespace, ()))

    def drop(self) -> E | None:
        """Take the oldest of the namespace that has most waiting."""
        namespace = max(self._queues, key=lambda each: len(self._queues[each]), default=None)
        if namespace is None:
            return None
        item = self._queues[namespace].popleft()
        if not self._queues[namespace]:
            del self._queues[namespace]
        return item


class FairQueue(Generic[E]):
    """News before repeats, and namespaces in turn; when full, repeats go first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._news: _RoundRobin[E] = _RoundRobin()
        self._repeats: _RoundRobin[E] = _RoundRobin()
        self._size = 0

    def push(self, namespace: str, item: E, *, repeat: bool) -> E | None:
        """Queue `item`; return what had to go for it, if anything."""
        (self._repeats if repeat else self._news).push(namespace, item)
        self._size += 1
        if self._size <= self._capacity:
            return None
        self._size -= 1
        return self._repeats.drop() or self._news.drop()

    def clear(self, namespace: str) -> int:
        """Drop all of a namespace; return how many that were."""
        gone = self._news.clear(namespace) + self._repeats.clear(namespace)
        self._size -= gone
        return gone

    def pop(self) -> E | None:
        """Take the next, or None."""
        item = self._news.pop() or self._repeats.pop()
        self._size -= item is not None
        return item

    def __len__(self) -> int:
        return self._size


class TokenBucket:
    """At most `burst` at once and `rate` a second in the long run."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate, self._burst = rate, float(burst)
        self._tokens, self._at = self._burst, now

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1.0 - _ROUNDING:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def _trim(table: dict[K, V], size: int) -> None:
    """Drop the oldest entry when there are too many; called at each insertion, so one is enough."""
    if len(table) > size:
        del table[next(iter(table))]
