"""The certificate threads of a gatekeeper: the leader rotates, and where no kubelet mounts the Secret, it is mirrored.

Knows when to call certs and where its outcomes are told: log and metrics. Decides nothing about certificates.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from certs.config import Mode, configure
from certs.mirror import Mirror
from certs.outcome import Outcome
from certs.rotate import Rotator
from policy.gatekeeper.client import Client
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.lift import Leader
from policy.gatekeeper.metrics import Metrics
from policy.gatekeeper.threads import repeat

STANDBY_SECONDS: Final = 1.0  # how soon a new leader takes the rotation up
_FAILED_SECONDS: Final = 5.0
_LOG: Final = logging.getLogger(__name__)


class Certificates:
    """Runs what of rotation and mirroring this replica is told to."""

    def __init__(
        self,
        client: Client,
        leader: Leader,
        clock: Clock,
        metrics: Metrics,
        *,
        namespace: str,
        endpoints: Sequence[str],
        mirror: str | None,
        mode: Mode = Mode.ISSUED,
    ) -> None:
        """Raises ValueError for an endpoint that is not host:port."""
        self._leader, self._clock, self._metrics = leader, clock, metrics
        self._rotator = Rotator(client, configure(namespace, tuple(endpoints), mode), clock)
        self._mirror = Mirror(client, namespace, Path(mirror), clock) if mirror else None

    def threads(self) -> list[tuple[str, Callable[[threading.Event], None]]]:
        """Name and target of each thread to start."""
        found = [("certificates", lambda stop: repeat(self._rotate, self._failed, self._clock, stop))]
        if self._mirror is not None:
            mirror = self._mirror
            found.append(
                ("mirror", lambda stop: repeat(lambda: self._told(mirror.step()), self._failed, self._clock, stop))
            )
        return found

    def _rotate(self) -> float:
        if not self._leader.valid():
            return STANDBY_SECONDS
        outcome = self._rotator.step()
        if outcome.leaf_ends:
            self._metrics.certificate("serving", outcome.leaf_ends)
        if outcome.ca_ends:
            self._metrics.certificate("ca", outcome.ca_ends)
        return self._told(outcome)

    def _told(self, outcome: Outcome) -> float:
        if outcome.error:
            _LOG.warning("certificates: %s", outcome.error)
        if outcome.did:
            _LOG.info("certificates: %s", outcome.did)
        return outcome.wait

    def _failed(self, problem: str) -> float:
        _LOG.warning("certificates: %s", problem)
        return _FAILED_SECONDS
