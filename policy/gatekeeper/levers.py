"""Pulls the levers of owners: suspends, resumes and wakes them, one write at a time, each conditional on what was seen.

Suspension and its record are one merge patch with the resourceVersion that the decision saw: when anything changed
since, the server refuses (409), and the next pass decides anew. A lever that is refused for another reason is left
alone for a while, and the rules are told. Decides nothing.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from policy import names
from policy.gatekeeper.client import MERGE_PATCH, Client
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.lift import Leader
from policy.gatekeeper.source import Source, group_path
from policy.gatekeeper.threads import serve
from policy.rules.conclusions import Pull
from policy.rules.model import OwnerFacts

REFUSED_SECONDS: Final = 30.0  # before a lever that was refused is tried again
TIMEOUT: Final = 5.0  # seconds; what the leader's grant still lasts when `valid` says yes
_QUERY: Final = {"fieldManager": names.FIELD_MANAGER}
_LOG: Final = logging.getLogger(__name__)


class Levers:
    """`pull` from the loop, `run` in a thread of its own; `count` is told of each write's end."""

    def __init__(
        self,
        client: Client,
        sources: Mapping[str, Source[Any]],
        leader: Leader,
        clock: Clock,
        *,
        changed: Callable[[], None],
        count: Callable[[str, str], None],
    ) -> None:
        self._client, self._sources, self._leader, self._clock = client, sources, leader, clock
        self._changed, self._count = changed, count
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._queue: OrderedDict[str, tuple[OwnerFacts, Pull]] = OrderedDict()
        self._tried: dict[str, str] = {}  # version written upon, by uid: the watch has still to show the result
        self._refused: dict[str, float] = {}  # until when, monotonic seconds

    def stuck(self) -> tuple[str, ...]:
        """Owners whose lever was refused not long ago."""
        now = self._clock.monotonic()
        with self._lock:
            self._refused = {uid: until for uid, until in self._refused.items() if until > now}
            return tuple(sorted(self._refused))

    def pull(self, owners: Mapping[str, OwnerFacts], pulls: Iterable[Pull]) -> None:
        """Have these written, in this order, unless they were upon the same version of the owner."""
        with self._lock:
            for pull in pulls:
                owner = owners.get(pull.uid)
                if owner is not None and self._tried.get(pull.uid) != owner.version and pull.uid not in self._refused:
                    self._queue[pull.uid] = (owner, pull)
        self._wake.set()

    def keep(self, owners: Mapping[str, OwnerFacts]) -> None:
        """Forget owners that are gone."""
        with self._lock:
            self._tried = {uid: version for uid, version in self._tried.items() if uid in owners}

    def run(self, stop: threading.Event) -> None:
        """Write until `stop` is set."""
        serve(self._work, self._wake, self._clock, stop)

    def _work(self) -> bool:
        item = self._next()
        if item is None:
            return False
        if self._leader.valid():
            self._write(*item)
        else:
            self._drop(item[0])
        return True

    def _next(self) -> tuple[OwnerFacts, Pull] | None:
        with self._lock:
            if not self._queue:
                return None
            owner, pull = self._queue.popitem(last=False)[1]
            self._tried[owner.uid] = owner.version
            return owner, pull

    def _drop(self, owner: OwnerFacts) -> None:
        """Not written, since we do not lead: to be asked for again once we do."""
        with self._lock:
            self._tried.pop(owner.uid, None)

    def _write(self, owner: OwnerFacts, pull: Pull) -> None:
        kind = _kind(pull)
        try:
            self._client.request(
                "PATCH",
                self._path(owner),
                body=patch(owner, pull, self._clock.now().isoformat(timespec="seconds")),
                content_type=MERGE_PATCH,
                query=_QUERY,
                timeout=TIMEOUT,
            )
        except ApiError as error:
            self._failed(owner, kind, error)
        else:
            self._count(kind, "ok")

    def _failed(self, owner: OwnerFacts, kind: str, error: ApiError) -> None:
        """A conflict or a vanished owner is news that the watch brings; an answer that never came, tried again."""
        self._count(kind, "conflict" if error.is_conflict else "gone" if error.is_not_found else "refused")
        if not (error.is_conflict or error.is_not_found):
            with self._lock:
                self._tried.pop(owner.uid, None)
                self._refused[owner.uid] = self._clock.monotonic() + (REFUSED_SECONDS if error.status else 1.0)
            if error.status:
                _LOG.warning("%s of %s in %s: %s", kind, owner.called, owner.namespace, error)
        self._changed()

    def _path(self, owner: OwnerFacts) -> str:
        source = self._sources[f"{owner.kind}.{owner.api}"]
        where = f"{group_path(source.group, source.version)}/namespaces/{owner.namespace}"
        return f"{where}/{source.plural}/{owner.name}"


def _kind(pull: Pull) -> str:
    if pull.claim is None:
        return "wake"
    return "note" if pull.suspend is None else "suspend" if pull.suspend else "resume"


def patch(owner: OwnerFacts, pull: Pull, now: str) -> dict[str, Any]:
    """The merge patch of one pull; `now` is an RFC 3339 time."""
    if pull.claim is None:  # any version will do: a time is written, and nothing taken back
        return {"metadata": {"uid": owner.uid, "annotations": {names.ANNOTATION_WOKEN: now}}}
    record = msgspec.json.encode(pull.claim, order="deterministic").decode()
    annotations = {names.ANNOTATION_GIVEN_BACK: record}
    body: dict[str, Any] = {
        "metadata": {"uid": owner.uid, "resourceVersion": owner.version, "annotations": annotations}
    }
    if pull.suspend is not None:
        inner: object = pull.suspend
        for name in reversed(owner.lever):
            inner = {name: inner}
        body |= inner if isinstance(inner, dict) else {}
    return body
