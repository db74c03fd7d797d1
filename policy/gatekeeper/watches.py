"""All Reflectors of the process: their threads, the watchdog over them, and whether decisions may rest on the caches.

Knows threads and readiness; what is watched is told from outside.
"""

import threading
from collections.abc import Sequence
from typing import Any, Final

from policy.gatekeeper.clock import Clock
from policy.gatekeeper.watch import Reflector

CHECK_SECONDS: Final = 1.0


class Watches:
    """Start once; the threads are daemons and end soon after `stop` is set."""

    def __init__(self, reflectors: Sequence[Reflector[Any, Any]], clock: Clock) -> None:
        self._reflectors, self._clock = tuple(reflectors), clock
        self._threads: list[threading.Thread] = []

    def start(self, stop: threading.Event) -> None:
        """Start one thread for each Reflector and one that ends silent watches."""
        for each in self._reflectors:
            self._spawn(f"watch-{each.source.name}", each.run, stop)
        self._spawn("watchdog", self.guard, stop)

    def guard(self, stop: threading.Event) -> None:
        """Check every watch each second, and once more after `stop`, to wake those that read."""
        stopping = False
        while not stopping:
            stopping = self._clock.wait(stop, CHECK_SECONDS)
            self.check(stop)

    def check(self, stop: threading.Event) -> None:
        for each in self._reflectors:
            each.check(stop)

    def join(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for all threads to end; tell whether they have."""
        end = self._clock.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - self._clock.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def ready(self) -> bool:
        """Whether every cache is listed and fresh."""
        return all(each.store.ready for each in self._reflectors)

    def problems(self) -> list[str]:
        """One line for each resource that is not being fed or not ready; empty when all is well."""
        lines = [(each.source.name, _problem(each)) for each in self._reflectors]
        return [f"{name}: {problem}" for name, problem in lines if problem]

    def ages(self) -> dict[str, float]:
        """Seconds since the last sign of life of each resource's watch."""
        return {each.source.name: each.store.age() for each in self._reflectors}

    def _spawn(self, name: str, target: Any, stop: threading.Event) -> None:
        thread = threading.Thread(target=target, args=(stop,), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)


def _problem(each: Reflector[Any, Any]) -> str:
    if each.problem or each.store.ready:
        return each.problem
    return f"last seen {each.store.age():.0f} s ago" if each.store.synced else "not listed yet"
