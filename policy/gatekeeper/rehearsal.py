"""Which patches of a lift are tried out first: one of each class of pods, by a server-side dry run.

Admission that is not ours may refuse an update of pods, and a lift of which half is refused has torn its gang. Nobody
need tell us whether such admission exists (to list webhooks and policies of others would be a right over the whole
cluster): a class that the server has taken not long ago is trusted, any other is tried out. A dry run goes through all
of admission and writes nothing (https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run). Thread-safe.
"""

import threading
from collections.abc import Iterable
from typing import Final, Literal

from policy.gatekeeper.clock import Clock
from policy.rules.lift_plan import LiftPatch

Mode = Literal["auto", "always", "never"]
TRUSTED_SECONDS: Final = 600.0  # that a class needs no other dry run
MOST: Final = 10_000  # classes; some 2 MB
# k8s.io/apiserver pkg/admission/plugin/webhook/errors: a webhook with side effects cannot take part.
_CANNOT: Final = "does not support dry run"


class Rehearsal:
    """Remembers which classes were taken, and when."""

    def __init__(self, mode: Mode, clock: Clock) -> None:
        self._mode, self._clock = mode, clock
        self._lock = threading.Lock()
        self._taken: dict[str, float] = {}  # monotonic seconds, by class

    def wanted(self, patches: Iterable[LiftPatch]) -> list[LiftPatch]:
        """One patch of each class that is to be tried out; a pod that is lifted alone can tear nothing."""
        patches = list(patches)
        if self._mode == "never" or (self._mode == "auto" and len(patches) == 1):
            return []
        first: dict[str, LiftPatch] = {}
        for patch in patches:
            first.setdefault(patch.kind, patch)
        return [patch for kind, patch in first.items() if self._mode == "always" or not self._trusts(kind)]

    def _trusts(self, kind: str) -> bool:
        with self._lock:
            taken = self._taken.get(kind)
        return taken is not None and self._clock.monotonic() - taken < TRUSTED_SECONDS

    def took(self, kind: str) -> None:
        """The server took a patch of that class, tried out or real."""
        with self._lock:
            if len(self._taken) >= MOST:
                self._taken.clear()
            self._taken[kind] = self._clock.monotonic()

    def refused(self, kind: str) -> None:
        with self._lock:
            self._taken.pop(kind, None)


def impossible(refusal: str) -> bool:
    """Whether the answer says nothing of the patch: some webhook takes part in no dry run."""
    return _CANNOT in refusal
