"""The outermost frame of threads that must outlive any mistake, ours or a library's.

A watch thread that died would leave a cache that never becomes fresh again, a leader thread a process that never leads:
both look alive from outside. The mistake is logged with its trace and the turn counts as failed.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from policy.gatekeeper.clock import Clock

IDLE_SECONDS: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


def repeat(turn: Callable[[], float], failed: Callable[[str], float], clock: Clock, stop: threading.Event) -> None:
    """Call `turn` until `stop` is set, waiting as many seconds as it returns; `failed` does so after an exception."""
    while not stop.is_set():
        clock.wait(stop, _guarded(turn, failed))


def serve(work: Callable[[], bool], wake: threading.Event, clock: Clock, stop: threading.Event) -> None:
    """Call `work` until `stop` is set; when it says that nothing was left to do, wait for `wake`, or a second."""

    def turn() -> float:
        if not work():
            clock.wait(wake, IDLE_SECONDS)
            wake.clear()
        return 0.0

    repeat(turn, lambda _problem: IDLE_SECONDS, clock, stop)


def _guarded(turn: Callable[[], float], failed: Callable[[str], float]) -> float:
    try:
        return turn()
    except Exception as error:  # noqa: BLE001 -- outermost frame of a thread that must not die; see above
        _LOG.exception("unexpected; going on")
        return failed(f"unexpected {type(error).__name__}: {error}")
