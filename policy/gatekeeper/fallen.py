"""Members that the scheduler's preemption took: they are gone, and their group lacks them all the same.

Kept in memory, from when they are marked (a pod may end as Failed long before it is gone), for ten minutes or until
their group is whole again. A restart forgets only those that are gone by then. Thread-safe.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from policy.gatekeeper.cache import Delta
from policy.gatekeeper.clock import Clock
from policy.rules.model import PodFacts

KEPT_SECONDS: Final = 600.0
MOST: Final = 5_000


class Fallen:
    """Told of every change of pods."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, tuple[float, PodFacts | None]] = OrderedDict()  # by uid, the oldest first

    def pod(self, delta: Delta[PodFacts]) -> None:
        """Keep a member that is preempted, as it is seen first; once forgotten it is not taken up again."""
        seen = delta.after or delta.before
        if seen is None or not seen.preempted or seen.lifted is None:
            return
        with self._lock:
            self._seen.setdefault(seen.uid, (self._clock.monotonic(), seen))
            while len(self._seen) > MOST:
                self._seen.popitem(last=False)

    def all(self) -> tuple[PodFacts, ...]:
        """Those of the last ten minutes."""
        oldest = self._clock.monotonic() - KEPT_SECONDS
        with self._lock:
            while self._seen and next(iter(self._seen.values()))[0] < oldest:
                self._seen.popitem(last=False)
            return tuple(pod for _, pod in self._seen.values() if pod is not None)

    def forget(self, uids: Iterable[str]) -> None:
        """Their group is whole again."""
        with self._lock:
            for uid in uids:
                if uid in self._seen:
                    self._seen[uid] = (self._seen[uid][0], None)
