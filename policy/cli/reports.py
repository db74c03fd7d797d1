"""What the gatekeeper last said of a group: the condition of its PodGroup and the newest event on its objects.

Needed where the caller cannot see enough to decide anew, and to tell what only the running gatekeeper knows, such as a
refused patch. A tenant can write both, so they are shown as reports and nothing rests on them. Lists; decides nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from policy import names
from policy.gatekeeper.client import Client
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.observe import ForbiddenError, Within, listed, narrowed
from policy.gatekeeper.snapshot import PODGROUP_SOURCES
from policy.rules.conclusions import Group
from policy.rules.facts import epoch
from policy.rules.objects import EventSeries, ObjectMeta, ObjectReference, PodGroup, PodGroupCondition, Wire

CONDITION: Final = "condition"
EVENT: Final = "event"
_OURS: Final = frozenset(str(reason) for reason in names.Reason)
_MEMBERS_ASKED: Final = 1  # of a group without PodGroup and owner: its pods carry the same


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that was said; `at` in seconds since the epoch."""

    source: str  # "condition" or "event"
    reason: str
    message: str
    at: float


class Event(Wire, frozen=True):
    """The part of an events.k8s.io/v1 Event that we read."""

    metadata: ObjectMeta = ObjectMeta()
    event_time: str | None = None
    reporting_controller: str = ""
    reason: str = ""
    note: str = ""
    regarding: ObjectReference = ObjectReference()
    series: EventSeries | None = None


_EVENTS: Final = Within("events.k8s.io", "v1", "events", Event)


def in_namespace(client: Client, namespace: str) -> tuple[dict[str, Report], tuple[str, ...]]:
    """The newest report by uid of the object that it is about, and the resources that the caller may not list."""
    found: dict[str, Report] = {}
    unseen: list[str] = []
    for source in (*(narrowed(s, namespace) for s in PODGROUP_SOURCES), narrowed(_EVENTS, namespace)):
        try:
            items, _ = listed(client, source)
        except ForbiddenError as error:
            unseen.append(error.resource)
            continue
        for uid, report in _reports(items):
            keep_newest(found, uid, report)
    return found, tuple(unseen)


def last(client: Client, group: Group) -> Report | None:
    """The newest report on one group, None when there is none or the caller may not read it."""
    found: dict[str, Report] = {}
    for source in _sources(group):
        for _, report in _reports(_quietly(client, source)):
            keep_newest(found, group.key, report)
    return found.get(group.key)


def _sources(group: Group) -> Iterator[Within[Any]]:
    """Where the group's reports stand: its PodGroup, and the events on its most telling objects."""
    namespace = group.identity.namespace
    for source in PODGROUP_SOURCES:
        if group.podgroup and source.group == group.podgroup.api:
            by_name = f"metadata.name={group.podgroup.name}"
            yield Within(source.group, source.version, source.plural, source.type, by_name, namespace=namespace)
    for uid in uids(group, members=_MEMBERS_ASKED):
        yield replace(_EVENTS, field_selector=f"regarding.uid={uid}", namespace=namespace)


def of_group(found: Mapping[str, Report], group: Group) -> Report | None:
    """The newest of the reports on the group's objects."""
    about = [found[uid] for uid in uids(group) if uid in found]
    return max(about, key=lambda report: report.at, default=None)


def uids(group: Group, members: int | None = None) -> Iterator[str]:
    """The group's objects, the most telling first; at most `members` of its pods."""
    if group.podgroup:
        yield group.podgroup.uid
    if group.owner and group.owner.uid == group.identity.uid:
        yield group.owner.uid
    yield from (m.uid for m in group.members[:members])


def keep_newest(found: dict[str, Report], uid: str, report: Report) -> None:
    if uid not in found or found[uid].at <= report.at:
        found[uid] = report


def _quietly(client: Client, source: Within[Any]) -> Iterable[object]:
    """A report is an extra: where it cannot be read, the answer stands without it."""
    try:
        return listed(client, source)[0]
    except ApiError:
        return ()


def _reports(items: Iterable[object]) -> Iterator[tuple[str, Report]]:
    for item in items:
        if isinstance(item, Event) and item.reporting_controller == names.CONTROLLER:
            yield item.regarding.uid, _of_event(item)
        elif isinstance(item, PodGroup):
            ours = [c for c in item.status.conditions if c.reason in _OURS]
            yield from ((item.metadata.uid, _of_condition(c)) for c in ours[-1:])


def _of_event(event: Event) -> Report:
    seen = event.series.last_observed_time if event.series else None
    at = epoch(seen or event.event_time or event.metadata.creation_timestamp)
    return Report(EVENT, event.reason, event.note, at)


def _of_condition(condition: PodGroupCondition) -> Report:
    return Report(CONDITION, condition.reason, condition.message, epoch(condition.last_transition_time))
