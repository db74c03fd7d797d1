"""What the last member of each owner was like: other webhooks may have made it larger than its template.

An owner that its user suspended has no pod to ask. Kept in memory only: after a restart the template counts, until a
pod or a refused create tells better. An owner's entry goes with the owner.
"""

import threading
from collections.abc import Callable
from typing import Any

from policy.gatekeeper.cache import Delta
from policy.rules.model import OwnerFacts, PodFacts, SeenFacts


class Remembered:
    """Told of every change of pods and owners. Thread-safe."""

    def __init__(self, owner: Callable[[str], OwnerFacts | None]) -> None:
        """`owner` finds the facts of an owner by its uid."""
        self._owner = owner
        self._lock = threading.Lock()
        self._seen: dict[str, SeenFacts] = {}

    def pod(self, delta: Delta[PodFacts]) -> None:
        """Keep the shape of a pod that stops being a member."""
        went = delta.before
        if went is None or not went.live or (delta.after is not None and delta.after.live):
            return
        owner = self._owner(went.owner)
        part = owner.part if owner else None  # of members of several kinds this one tells nothing
        if part is not None:
            with self._lock:
                self._seen[went.owner] = SeenFacts(part.template, went.shape)

    def owner(self, delta: Delta[Any]) -> None:
        """Forget an owner that is gone."""
        if delta.after is None:
            with self._lock:
                self._seen.pop(delta.uid, None)

    def all(self) -> dict[str, SeenFacts]:
        with self._lock:
            return dict(self._seen)
