"""Who of the replicas may lift: election on a Lease, with deadlines on a monotonic clock.

A lease does not fence: it only tells others when we must have stopped. So a grant is counted from before the renewal
was sent, and work asks `valid` before each write. Any failure is a failed renewal; none ends the thread. Knows
nothing of the work: no callbacks, the loop asks.

    sent          valid() by default         others may take over, at the earliest
      |--------- renew deadline 10 s ---------|------ margin 5 s ------|
"""

import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import Final

import msgspec

from policy.gatekeeper.backoff import Uniform, system_uniform
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.errors import ApiError, TransportError
from policy.gatekeeper.lease import Api, Lease, Record, Seen, micro_time
from policy.gatekeeper.threads import repeat

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, with client-go's defaults. Raises ValueError where one does not leave room for the next."""

    duration: int = 15  # others wait that long after the last renewal they saw
    renew_deadline: float = 10.0  # we stop that long after our last renewal was sent
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > 2 * self.retry > 0:
            raise ValueError(
                f"leader election: want duration > renew deadline > 2 x retry > 0, "
                f"got {self.duration}, {self.renew_deadline}, {self.retry}"
            )

    @property
    def request(self) -> float:
        """Timeout of one request: a renewal and its second try fit before the deadline."""
        return (self.renew_deadline - self.retry) / 2

    @property
    def margin(self) -> float:
        """How long a write that was begun in time may still take."""
        return self.duration - self.renew_deadline


@dataclass(frozen=True, slots=True)
class _Grant:
    term: int
    expires: float  # monotonic
    seen: Seen


class Leadership:
    """One candidate. `run` in a thread of its own; everything else from any thread."""

    def __init__(
        self,
        client: Api,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        *,
        timing: Timing = Timing(),
        uniform: Uniform | None = None,
    ) -> None:
        self.identity, self._clock, self._timing = identity, clock, timing
        self._uniform = uniform or system_uniform()
        self._lease = Lease(client, namespace, name, timing.request)
        self._grant: _Grant | None = None  # replaced whole, so that readers need no lock
        self._rival: Seen | None = None
        self._rival_since = 0.0
        self._term = 0
        self._problem = ""

    def valid(self, margin: float | None = None) -> bool:
        """Whether work begun now and done within `margin` seconds ends before anybody else may lead."""
        grant = self._grant
        needed = self._timing.margin if margin is None else margin
        return grant is not None and self._clock.monotonic() + needed < grant.expires

    @property
    def term(self) -> int:
        """Grows each time leadership is gained, also after a lapse of our own: then decide anew."""
        return self._term

    @property
    def holder(self) -> str:
        """Who held the lease when we last saw it; empty when nobody did."""
        seen = self._grant.seen if self._grant else self._rival
        return (seen and seen.record.holder_identity) or ""

    @property
    def problem(self) -> str:
        """Why the last attempt failed; empty when it did not."""
        return self._problem

    def run(self, stop: threading.Event) -> None:
        """Be a candidate until `stop` is set, then give the lease back: stop the work before that."""
        repeat(self._turn, self._failed, self._clock, stop)
        self.release()

    def attempt(self) -> None:
        """Try once to renew or to take the lease."""
        started = self._clock.monotonic()
        try:
            seen = self._renew(self._grant, started) if self._grant else self._take()
        except (ApiError, msgspec.DecodeError) as error:
            self._failed(str(error))
            return
        self._tell("")
        if seen is None:
            self._lose()
        else:
            self._gain(seen, started)

    def release(self) -> None:
        """Let the next candidate start at once; a failure only makes it wait."""
        grant, self._grant = self._grant, None
        if grant is None:
            return
        empty = msgspec.structs.replace(grant.seen.record, holder_identity="", lease_duration_seconds=1)
        try:
            self._lease.change(grant.seen.version, empty)
        except (ApiError, msgspec.DecodeError) as error:
            _LOG.warning("lease not given back: %s", error)

    def _turn(self) -> float:
        self.attempt()
        return self._pause()

    def _failed(self, problem: str) -> float:
        self._tell(f"lease: {problem}")
        return self._pause()

    def _pause(self) -> float:
        return self._uniform(self._timing.retry, self._timing.retry * 1.2)

    # --- one attempt: what we hold now, or None --------------------------------------------------------------

    def _renew(self, grant: _Grant, started: float) -> Seen | None:
        try:
            return self._write(grant.seen)
        except ApiError as error:
            if error.is_not_found:
                return self._create()  # somebody deleted it: the first to make it anew leads
            if not error.is_conflict:
                raise
        seen = self._lease.read()
        if not self._is_ours(seen, grant.seen):
            self._stand_by(seen)
            return None
        # A renewal of ours that was reported as failed got through. It proves nothing about now: renew once more.
        if self._clock.monotonic() - started > self._timing.request:
            raise TransportError("lease: no time left to renew again after a conflict", "Timeout")
        return self._write(seen)

    def _take(self) -> Seen | None:
        try:
            seen = self._lease.read()
        except ApiError as error:
            if not error.is_not_found:
                raise
            return self._create()
        ours = seen.record.holder_identity == self.identity
        return self._unless_late(lambda: self._write(seen)) if ours or self._is_free(seen) else None

    def _create(self) -> Seen | None:
        return self._unless_late(lambda: self._lease.create(self._record(Record())))

    def _unless_late(self, write: Callable[[], Seen]) -> Seen | None:
        """Write, or stand by where somebody else was quicker."""
        try:
            return write()
        except ApiError as error:
            if not error.is_conflict:
                raise
            return None

    def _write(self, seen: Seen) -> Seen:
        return self._lease.change(seen.version, self._record(seen.record))

    def _record(self, last: Record) -> Record:
        """What we write: a renewal where `last` is ours, else a change of holder."""
        now = micro_time(self._clock.now())
        ours = last.holder_identity == self.identity
        return Record(
            holder_identity=self.identity,
            lease_duration_seconds=self._timing.duration,
            acquire_time=last.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=last.transitions if ours or last == Record() else last.transitions + 1,
        )

    def _is_ours(self, seen: Seen, last: Seen) -> bool:
        record = seen.record
        return record.holder_identity == self.identity and record.transitions == last.record.transitions

    def _is_free(self, seen: Seen) -> bool:
        """Whether nobody holds it, or its holder has not renewed for as long as it promised, by our clock."""
        self._stand_by(seen)
        promised = seen.record.lease_duration_seconds or self._timing.duration
        idle = self._clock.monotonic() - self._rival_since
        return not seen.record.holder_identity or idle >= promised

    def _stand_by(self, seen: Seen) -> None:
        if self._rival != seen:
            self._rival, self._rival_since = seen, self._clock.monotonic()

    # --- what follows ----------------------------------------------------------------------------------------

    def _gain(self, seen: Seen, started: float) -> None:
        if not self.valid(0.0):
            self._term += 1
            _LOG.info("leading as %s, term %d", self.identity, self._term)
        self._grant = _Grant(self._term, started + self._timing.duration, seen)

    def _lose(self) -> None:
        if self._grant:
            _LOG.warning("no longer leading: %s holds the lease", self._rival and self._rival.record.holder_identity)
        self._grant = None

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            _LOG.warning("%s", problem)
        self._problem = problem


def new_identity() -> str:
    """Unique for each process, recognizable for people: two that share one would both believe to lead."""
    return f"{socket.gethostname()}_{token_hex(4)}"
