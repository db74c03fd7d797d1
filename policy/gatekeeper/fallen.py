"""Members that the scheduler's preemption took: they are gone, and their group lacks them all the same.

Kept in memory, for ten minutes or until the group is whole again. What still terminates shows in the pods themselves,
so a restart forgets only those that are gone for good, and their group is told of as degraded. Thread-safe.
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
        self._seen: OrderedDict[str, tuple[float, PodFacts]] = OrderedDict()  # by uid, the oldest first

    def pod(self, delta: Delta[PodFacts]) -> None:
        """Keep a member that was preempted as it was seen last."""
        went = delta.before
        if delta.after is not None or went is None or not went.preempted or went.lifted is None:
            return
        with self._lock:
            self._seen[went.uid] = (self._clock.monotonic(), went)
            while len(self._seen) > MOST:
                self._seen.popitem(last=False)

    def all(self) -> tuple[PodFacts, ...]:
        """Those of the last ten minutes."""
        oldest = self._clock.monotonic() - KEPT_SECONDS
        with self._lock:
            while self._seen and next(iter(self._seen.values()))[0] < oldest:
                self._seen.popitem(last=False)
            return tuple(pod for _, pod in self._seen.values())

    def forget(self, uids: Iterable[str]) -> None:
        """Their group is whole again."""
        with self._lock:
            for uid in uids:
                self._seen.pop(uid, None)
