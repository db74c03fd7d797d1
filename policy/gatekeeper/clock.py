"""The gatekeeper's one source of time: wall time for what people read, a monotonic clock for every deadline.

Injected everywhere, so that a test can let a minute of silence pass in no time. Knows nothing of ours.
"""

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the gatekeeper asks of time."""

    def now(self) -> datetime:
        """Wall time, UTC: for time stamps that others read, never for a deadline."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until `event` is set or `seconds` have passed; tell whether it is set."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        # CLOCK_MONOTONIC stands still while a machine sleeps; a lease does not.
        return time.clock_gettime(_STEADY)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(max(0.0, seconds))


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
