"""What queues used over time, the further back the less: for their shares, where settings ask for that.

A queue moves towards what it holds now, half of the way in each half-life, as in Kueue's admission fair sharing
(KEP-4136). Kept in memory: a new leader begins with what is held then. Amounts in nano units.
"""

from collections.abc import Mapping

from policy.rules.model import Resources


class Usage:
    """Told of every pass; `half_life` in seconds, 0 to keep nothing."""

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._used: dict[str, Resources] = {}
        self._at: float | None = None

    def take(self, allocated: Mapping[str, Resources], now: float) -> None:
        """What queues hold, by the clock `now` in monotonic seconds: it has been so since the last time."""
        if not self._half_life:
            return
        since, self._at = self._at, now
        if since is None:
            self._used = {queue: dict(amounts) for queue, amounts in allocated.items()}
            return
        kept = 0.5 ** (max(0.0, now - since) / self._half_life)
        moved: dict[str, Resources] = {}
        for queue in {*self._used, *allocated}:
            before, held = self._used.get(queue, {}), allocated.get(queue, {})
            amounts = {r: _between(held.get(r, 0), before.get(r, 0), kept) for r in {*before, *held}}
            moved[queue] = {r: amount for r, amount in amounts.items() if amount}
        self._used = {queue: amounts for queue, amounts in moved.items() if amounts}

    def all(self) -> dict[str, Resources]:
        """By queue; another object after every `take`."""
        return self._used


def _between(now: int, before: int, kept: float) -> int:
    return now + round((before - now) * kept)
