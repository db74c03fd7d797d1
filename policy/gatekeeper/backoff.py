"""How long to wait after a failure: full jitter, so that many clients do not come back in step.

Pure but for the random number, which is injected. Knows nothing of ours.
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/ compares the variants.
"""

from collections.abc import Callable
from secrets import SystemRandom

Uniform = Callable[[float, float], float]


def system_uniform() -> Uniform:
    """Uniform random numbers that need no seed and are safe to draw from several threads."""
    return SystemRandom().uniform


class Backoff:
    """Waits that double at most: the n-th is uniform in [0, min(cap, base * 2^n)], in seconds."""

    def __init__(self, base: float = 0.2, cap: float = 30.0, uniform: Uniform | None = None) -> None:
        self._base, self._cap = base, cap
        self._uniform = uniform or system_uniform()
        self._limit = base

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        limit = self._limit
        self._limit = min(self._cap, limit * 2)
        return self._uniform(0.0, limit)

    def reset(self) -> None:
        """Forget the failures, after a success."""
        self._limit = self._base
