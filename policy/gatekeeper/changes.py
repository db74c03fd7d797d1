"""Gathers bursts of change into one wake-up: a gang of 64 pods is one reason to decide, not 64.

Waits until nothing has come for a short while, but never longer than a hard limit. Knows nothing of what changed.
"""

import threading
from typing import Final

from policy.gatekeeper.clock import Clock

IDLE_SECONDS: Final = 0.02
HARD_SECONDS: Final = 0.2


class Changes:
    """Any thread may notify; one thread waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = threading.Event()

    def notify(self, _what: object = None) -> None:
        """Say that something changed; takes an argument so that it can be a Store's listener."""
        self._event.set()

    def wait(self, timeout: float, idle: float = IDLE_SECONDS, hard: float = HARD_SECONDS) -> bool:
        """Wait up to `timeout` seconds for a change, then gather until `idle` seconds without one, `hard` at most.

        Tells whether anything changed. What is notified after the return belongs to the next call.
        """
        if not self._clock.wait(self._event, timeout):
            return False
        end = self._clock.monotonic() + hard
        while True:
            self._event.clear()
            left = end - self._clock.monotonic()
            if left <= 0 or not self._clock.wait(self._event, min(idle, left)):
                return True
