"""Compares a quota's status with our own count of its pods, and says so when they differ for long.

status.used lags, leaks upwards after failed creates for up to five minutes, and is written early: a difference is news
only when it lasts. Also says once of a quota that one of its keys limits nothing. Decides nothing.
"""

from typing import Final

from policy import names
from policy.gatekeeper.event_body import ObjectRef
from policy.gatekeeper.events import Recorder
from policy.rules import audit
from policy.rules.audit import Difference, differences, idle_keys
from policy.rules.model import QuotaFacts, Snapshot

LOOK_SECONDS: Final = 15.0  # between two comparisons, at most


class Witness:
    """Called after every pass; remembers since when the figures differ."""

    def __init__(self, recorder: Recorder, patience: float) -> None:
        """`patience` in seconds: how long a difference must last to be told."""
        self._recorder, self._patience = recorder, patience
        self._since: dict[tuple[str, str, str], float] = {}  # (namespace, quota, key) -> monotonic seconds
        self._looked = -LOOK_SECONDS

    def look(self, snapshot: Snapshot, wall: float, now: float) -> None:
        """`wall` is the time of the cluster, `now` monotonic seconds."""
        if now - self._looked < min(LOOK_SECONDS, self._patience):
            return
        self._looked = now
        found = {(d.quota.namespace, d.quota.name, d.key): d for d in differences(snapshot, wall)}
        self._since = {key: self._since.get(key, now) for key in found}
        for key, difference in found.items():
            lasted = now - self._since[key]
            if lasted >= self._patience:
                self._differs(difference, lasted)
        for quota in snapshot.quotas:
            for name in idle_keys(quota):
                self._say(quota, *audit.never_binds(quota.name, name), name)

    def _differs(self, found: Difference, lasted: float) -> None:
        told = audit.disagrees(found.quota.name, found.key, found.used, found.counted, lasted)
        self._say(found.quota, *told, found.key)

    def _say(self, quota: QuotaFacts, reason: names.Reason, note: str, limiter: str) -> None:
        regarding = ObjectRef("v1", "ResourceQuota", quota.namespace, quota.name, quota.uid)
        self._recorder.record(regarding, reason, note, type="Warning", limiter=limiter)
