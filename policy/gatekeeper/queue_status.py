"""Writes what queues hold into their status, one queue at a time, when it has changed and at most every few seconds.

A queue that is not there any more is forgotten. A lack of rights, or a server that does not answer, is logged once a
minute and tried again: nothing depends on it. Where a live Volcano owns the statuses, settings keep this off.
"""

import logging
import math
import threading
from collections.abc import Mapping
from typing import Any, Final

from policy import names
from policy.gatekeeper.client import MERGE_PATCH, Client
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.discovery import has_status_subresource
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.threads import serve
from policy.rules.queue_report import QueueStatus

PAUSE_SECONDS: Final = 2.0  # between two writes of one queue
REPEAT_SECONDS: Final = 60.0  # between two lines of the log, and two tries, after a refusal
_PATH: Final = f"/apis/{names.VOLCANO_API}/{names.VOLCANO_VERSION}/queues"
_QUERY: Final = {"fieldManager": names.FIELD_MANAGER}
_LOG: Final = logging.getLogger(__name__)


class QueueStatuses:
    """`report` from the loop, `run` in a thread of its own."""

    def __init__(self, client: Client, clock: Clock, *, writes: bool) -> None:
        self._client, self._clock, self._writes = client, clock, writes
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._wanted: dict[str, QueueStatus] = {}
        self._written: dict[str, QueueStatus] = {}
        self._due: dict[str, float] = {}  # by queue, when it may be written again
        self._silent = -math.inf  # until when a failure is not logged
        self._subresource: bool | None = None

    def report(self, statuses: Mapping[str, QueueStatus]) -> None:
        """Have these written, and forget queues that are not among them."""
        if not self._writes:
            return
        with self._lock:
            self._wanted = dict(statuses)
            for known in (self._written, self._due):
                for name in known.keys() - statuses.keys():
                    del known[name]
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Write until `stop` is set."""
        serve(self._work, self._wake, self._clock, stop)

    def _work(self) -> bool:
        now = self._clock.monotonic()
        with self._lock:
            changed = (name for name, status in sorted(self._wanted.items()) if self._written.get(name) != status)
            name = next((name for name in changed if self._due.get(name, 0.0) <= now), None)
            if name is None:
                return False
            status, before = self._wanted[name], self._written.get(name)
        self._write(name, status, before)
        return True

    def _write(self, name: str, status: QueueStatus, before: QueueStatus | None) -> None:
        """What is held no more is taken out: a merge patch leaves what it does not name."""
        gone = dict.fromkeys(dict(before.allocated)) if before else {}
        body: dict[str, Any] = {**status.body, "allocated": {**gone, **dict(status.allocated)}}
        pause = PAUSE_SECONDS
        try:
            self._client.request(
                "PATCH",
                f"{_PATH}/{name}{'/status' if self._is_subresource() else ''}",
                body={"status": body},
                content_type=MERGE_PATCH,
                query=_QUERY,
            )
        except ApiError as error:
            pause = REPEAT_SECONDS
            self._failed(name, error)
        with self._lock:
            if pause == PAUSE_SECONDS:
                self._written[name] = status
            self._due[name] = self._clock.monotonic() + pause

    def _is_subresource(self) -> bool:
        if self._subresource is None:
            api, version = names.VOLCANO_API, names.VOLCANO_VERSION
            self._subresource = has_status_subresource(self._client, api, version, "queues")
        return self._subresource

    def _failed(self, name: str, error: ApiError) -> None:
        now = self._clock.monotonic()
        if not error.is_not_found and now >= self._silent:
            self._silent = now + REPEAT_SECONDS
            _LOG.warning("status of queue %s: %s", name, error)
