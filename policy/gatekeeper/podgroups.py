"""PodGroups as people and other tools see them: ours made where a group has none, and every one's status kept current.

Status is a report, never read back: a tenant can write it. Work is coalesced by group and paced, behind the lifts.
Volcano's own CRD has no status subresource and ours has none either; coscheduling's has one: asked once, remembered.
Knows the dialects' paths and fields; decides nothing.
"""

import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from policy import names
from policy.gatekeeper.client import MERGE_PATCH, Client
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.discovery import has_status_subresource
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.threads import serve
from policy.rules.belonging import own_podgroup
from policy.rules.conclusions import Decision, Group
from policy.rules.lifecycle import State
from policy.rules.model import PodGroupFacts

WRITES_PER_SECOND: Final = 50.0
REMAKE_SECONDS: Final = 5.0  # what the watch may take to show one of ours; it may also have come and gone unseen
REPEAT_SECONDS: Final = 60.0  # between two lines of the log about failures of one kind
_LOG: Final = logging.getLogger(__name__)
_VERSIONS: Final = {
    names.VOLCANO_API: names.VOLCANO_VERSION,
    names.COSCHEDULING_API: names.COSCHEDULING_VERSION,
    names.COSCHEDULING_OLD_API: names.COSCHEDULING_VERSION,
}
_QUERY: Final = {"fieldManager": names.FIELD_MANAGER}


def _phases(begun: str, over: str) -> dict[State, str]:
    """How a dialect calls the states of a group that is admitted; all others are Pending."""
    return {State.LIFTING: begun, State.BINDING: begun, State.RUNNING: "Running", State.FINISHED: over}


_PHASES: Final = {
    names.VOLCANO_API: _phases("Inqueue", "Completed"),
    names.COSCHEDULING_API: _phases("Scheduling", "Finished"),
    names.COSCHEDULING_OLD_API: _phases("Scheduling", "Finished"),
}


class Told(msgspec.Struct, frozen=True):
    """What a PodGroup's status says of a decision; equal ones are written once."""

    phase: str
    running: int
    reason: str
    message: str
    position: int
    scheduled: bool


class PodGroups:
    """One writer thread over a queue that keeps the newest word of each group."""

    def __init__(self, client: Client, clock: Clock, *, make: bool = True, rate: float = WRITES_PER_SECOND) -> None:
        self._client, self._clock, self._makes, self._pause = client, clock, make, 1.0 / rate
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._queue: OrderedDict[str, tuple[Group, Decision]] = OrderedDict()
        self._told: dict[str, Told] = {}
        self._made: dict[str, float] = {}  # when, by group; until the watch has shown it
        self._subresource: dict[str, bool] = {}
        self.failures = 0
        self.last_error = ""
        self._said: tuple[object, float] = (None, 0.0)  # the kind of failure logged last, and when

    def report(self, group: Group, decision: Decision) -> None:
        """Have the group's PodGroup made where it has none, and its status written where it changed."""
        over = decision.reason is names.Reason.FINISHED
        if group.podgroup is None and (over or not (self._makes and _may_have_one(group))):
            return
        if group.podgroup is not None and self._told.get(group.podgroup.uid) == _told(group, decision):
            return
        with self._lock:
            self._queue[group.key] = (group, decision)
        self._wake.set()

    def keep(self, groups: Mapping[str, Group]) -> None:
        """Forget what is known of groups that are gone; one whose PodGroup was seen gets a new one if it vanishes."""
        uids = {group.podgroup.uid for group in groups.values() if group.podgroup}
        with self._lock:
            self._made = {k: at for k, at in self._made.items() if k in groups and groups[k].podgroup is None}
            self._told = {uid: told for uid, told in self._told.items() if uid in uids}

    def run(self, stop: threading.Event) -> None:
        """Write until `stop` is set; one write at a time, paced."""

        def work() -> bool:
            item = self._next()
            if item is not None:
                self._write(*item)
                self._clock.wait(stop, self._pause)
            return item is not None

        serve(work, self._wake, self._clock, stop)

    def _next(self) -> tuple[Group, Decision] | None:
        with self._lock:
            return self._queue.popitem(last=False)[1] if self._queue else None

    def _write(self, group: Group, decision: Decision) -> None:
        try:
            if group.podgroup is None:
                self._make(group)
            else:
                self._write_status(group, decision, group.podgroup)
        except ApiError as error:
            deleted = error.is_not_found and group.podgroup is not None
            if not (deleted or error.is_ending):  # else nobody is left to be told
                self._failed(group, error)

    def _failed(self, group: Group, error: ApiError) -> None:
        """Every pass tries again, for each group: said once a minute, and when another kind of failure comes."""
        self.failures += 1
        self.last_error = f"PodGroup of {group.key}: {error}"
        kind, now = (error.status, error.reason), self._clock.monotonic()
        if kind != self._said[0] or now - self._said[1] >= REPEAT_SECONDS:
            self._said = kind, now
            _LOG.warning("%s (%d failures so far)", self.last_error, self.failures)

    def _make(self, group: Group) -> None:
        now = self._clock.monotonic()
        if now - self._made.get(group.key, -math.inf) < REMAKE_SECONDS:
            return
        path = _path(names.VOLCANO_API, group.identity.namespace)
        try:
            self._client.request("POST", path, body=manifest(group), query=_QUERY)
        except ApiError as error:
            if not error.is_conflict:
                raise
        with self._lock:
            self._made[group.key] = now

    def _write_status(self, group: Group, decision: Decision, podgroup: PodGroupFacts) -> None:
        told = _told(group, decision)
        stamp = self._clock.now().isoformat(timespec="seconds").replace("+00:00", "Z")
        path = f"{_path(podgroup.api, podgroup.namespace)}/{podgroup.name}"
        self._patch(podgroup.api, path, {"status": status(podgroup.api, told, stamp)})
        with self._lock:
            self._told[podgroup.uid] = told

    def _patch(self, api: str, path: str, body: dict[str, Any]) -> None:
        if api not in self._subresource:
            self._subresource[api] = has_status_subresource(self._client, api, _VERSIONS[api], "podgroups")
        self._send(f"{path}/status" if self._subresource[api] else path, body)

    def _send(self, path: str, body: dict[str, Any]) -> None:
        self._client.request("PATCH", path, body=body, content_type=MERGE_PATCH, query=_QUERY)


def _may_have_one(group: Group) -> bool:
    """Groups of a controller that stays get one of ours; names that pods give are theirs to create."""
    return group.owner is not None and group.owner.uid == group.identity.uid and not group.owner.over


def manifest(group: Group) -> dict[str, Any]:
    """A Volcano PodGroup of ours for a group without one, controlled by the group's owner and gone with it."""
    if group.owner is None:
        raise ValueError(f"group {group.key} has no owner to control its PodGroup")
    owner = group.owner
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return {
        "apiVersion": f"{names.VOLCANO_API}/{names.VOLCANO_VERSION}",
        "kind": "PodGroup",
        "metadata": {
            "name": own_podgroup(owner.uid, group.identity.part),
            "namespace": owner.namespace,
            "labels": {names.LABEL_MANAGED: names.MANAGER},
            "ownerReferences": [{**reference, "controller": True}],
        },
        "spec": {"minMember": group.minimum, "queue": group.queue},
    }


def status(api: str, told: Told, stamp: str) -> dict[str, Any]:
    """The status as its dialect has it; only Volcano's has conditions."""
    found: dict[str, Any] = {"phase": told.phase, "running": told.running}
    if api == names.VOLCANO_API:
        found["conditions"] = [
            {
                "type": "Scheduled" if told.scheduled else "Unschedulable",
                "status": "True",
                "reason": told.reason,
                "message": told.message + (f" (position {told.position} in its queue)" if told.position else ""),
                "lastTransitionTime": stamp,
            }
        ]
    return found


def _told(group: Group, decision: Decision) -> Told:
    api = group.podgroup.api if group.podgroup else names.VOLCANO_API
    return Told(
        phase=_phase(api, decision),
        running=sum(1 for m in group.members if m.node),
        reason=decision.reason,
        message=decision.message,
        position=decision.position,
        scheduled=decision.action != "hold",
    )


def _phase(api: str, decision: Decision) -> str:
    if decision.called and decision.state not in _PHASES[api]:
        return _PHASES[api][State.LIFTING]
    return _PHASES[api].get(decision.state, "Pending")


def _path(api: str, namespace: str) -> str:
    return f"/apis/{api}/{_VERSIONS[api]}/namespaces/{namespace}/podgroups"
