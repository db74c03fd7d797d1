"""Carries out lift plans: bounded, conditional, and stopping at the first doubt about who leads.

Where admission may refuse, one pod of each class is tried out before the first is lifted (policy.gatekeeper.rehearsal).
Expect before writing: the pods of a plan are assumed lifted before the first patch (policy.gatekeeper.flights). An
answer goes into the pod store, so the next pass decides upon our own writes; a refusal is remembered with a back-off
and told. Decides nothing: what is left undone, the next pass re-derives.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Protocol

import msgspec

from policy import names
from policy.gatekeeper.cache import Store
from policy.gatekeeper.client import STRATEGIC_MERGE_PATCH, Client
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.flights import Flights
from policy.gatekeeper.rehearsal import Rehearsal, impossible
from policy.rules.lift_plan import LiftPatch, Report, Write
from policy.rules.model import Lifted, PodFacts
from policy.rules.objects import Pod

CONCURRENCY: Final = 64  # patches at once; the API server gained nothing beyond (docs/performance.md)
PATCH_TIMEOUT: Final = 5.0  # seconds; what the leader's grant still lasts when `valid` says yes
FIELD_MANAGER: Final = {"fieldManager": names.FIELD_MANAGER}
DRY_RUN: Final = {"dryRun": "All"}


class Leader(Protocol):
    def valid(self) -> bool: ...


@dataclass
class Lift:
    """One plan under way."""

    group: str
    started: float  # monotonic seconds
    patches: list[LiftPatch]
    left: int
    refused: list[str] = field(default_factory=list)
    lifted: int = 0
    first: float = 0.0
    ended: float = 0.0
    dry: bool = False  # it was tried out, and refused: nothing was written


class Lifter:
    """Up to `concurrency` patches at once, over all groups."""

    def __init__(
        self,
        client: Client,
        pods: Store[Pod, PodFacts],
        flights: Flights,
        leader: Leader,
        clock: Clock,
        *,
        report: Callable[[str], None],
        done: Callable[[Lift], None],
        count: Callable[[str], None],
        rehearsal: Rehearsal | None = None,
        concurrency: int = CONCURRENCY,
    ) -> None:
        self._client, self._pods, self._flights, self._leader, self._clock = client, pods, flights, leader, clock
        self._rehearsal = rehearsal or Rehearsal("auto", clock)
        self._report, self._done, self._count = report, done, count
        self._executor = ThreadPoolExecutor(concurrency, thread_name_prefix="lift")
        self._lock = Lock()
        self._under_way: set[str] = set()

    def start(self, group: str, writes: list[Write], lifted: Lifted) -> bool:
        """Begin a plan; False when one of this group is still under way."""
        patches = [w for w in writes if isinstance(w, LiftPatch)]
        with self._lock:
            if group in self._under_way or not patches:
                return False
            self._under_way.add(group)
        self._flights.assume(patches, lifted)
        lift = Lift(group, self._clock.monotonic(), patches, len(patches))
        reports = any(isinstance(w, Report) for w in writes)
        tried = self._rehearsal.wanted(patches)
        if tried:
            self._executor.submit(self._rehearse, lift, tried, reports=reports)
        else:
            self._begin(lift, reports=reports)
        return True

    def _begin(self, lift: Lift, *, reports: bool) -> None:
        if reports:
            self._report(lift.group)
        for patch in lift.patches:
            self._executor.submit(self._one, lift, patch)

    def _rehearse(self, lift: Lift, tried: list[LiftPatch], *, reports: bool) -> None:
        """The whole lift is refused where one of its classes is: nothing is written then."""
        try:
            lift.refused += filter(None, map(self._try_out, tried))
            if not lift.refused:
                self._begin(lift, reports=reports)
        except BaseException:  # the process ends, and the executor takes no more
            lift.refused.append("ended before the first patch")
            raise
        finally:
            if lift.refused:
                self._give_up(lift)

    def _try_out(self, patch: LiftPatch) -> str:
        refusal = self._send(patch, dry=True) if self._leader.valid() else "leadership ended before this patch"
        return f"pod {patch.name}: {refusal} (tried out)" if refusal and not impossible(refusal) else ""

    def _give_up(self, lift: Lift) -> None:
        for patch in lift.patches:
            self._flights.forget(patch.uid)
        with self._lock:
            self._under_way.discard(lift.group)
        lift.left, lift.dry, lift.ended = 0, True, self._clock.monotonic()
        self._done(lift)

    def under_way(self, group: str) -> bool:
        return group in self._under_way

    def close(self) -> None:
        """Send nothing more; answers on their way are awaited."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _one(self, lift: Lift, patch: LiftPatch) -> None:
        try:
            refusal = self._send(patch) if self._leader.valid() else "leadership ended before this patch"
        finally:
            self._flights.forget(patch.uid)
        with self._lock:
            lift.left -= 1
            lift.lifted += not refusal
            lift.first = lift.first or self._clock.monotonic()
            if refusal:
                lift.refused.append(f"pod {patch.name}: {refusal}")
            finished = lift.left == 0
            if finished:
                self._under_way.discard(lift.group)
        if finished:
            lift.ended = self._clock.monotonic()
            self._done(lift)

    def _send(self, patch: LiftPatch, *, dry: bool = False) -> str:
        """Patch one pod; the refusal in words, "" when it took effect or the pod is gone."""
        path = f"/api/v1/namespaces/{patch.namespace}/pods/{patch.name}"
        try:
            answer = self._client.request(
                "PATCH",
                path,
                body=patch.body,
                content_type=STRATEGIC_MERGE_PATCH,
                query=FIELD_MANAGER | DRY_RUN if dry else FIELD_MANAGER,
                timeout=PATCH_TIMEOUT,
            )
        except ApiError as error:
            return self._refused(patch, error, dry=dry)
        self._rehearsal.took(patch.kind)
        if dry:
            self._count("tried")
            return ""
        self._count("ok")
        self._assume(answer)
        return ""

    def _refused(self, patch: LiftPatch, error: ApiError, *, dry: bool) -> str:
        self._count("gone" if error.is_not_found else "refused" if error.status else "unanswered")
        if error.is_not_found:
            return ""
        if not dry and error.status:
            self._rehearsal.refused(patch.kind)
        return str(error)

    def _assume(self, answer: bytes) -> None:
        try:
            self._pods.assume(msgspec.json.decode(answer, type=Pod))
        except msgspec.MsgspecError:
            return  # lifted all the same; the watch brings it, and counts it as corrupt if it is
