"""A recorded watch, and the audit that holds it to the product's first promises.

Records every pod event in the order of the API server, from before the first submission. The audit knows the groups
from what the test submitted, never from what ganggate wrote.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from policy import names
from policy.gatekeeper.client import Client
from policy.gatekeeper.errors import ApiError
from policy.rules import resources
from policy.rules.objects import Pod, ResourceQuota

GROUP_LABEL = "test.example.com/group"
WHOLE_SECONDS = 30.0


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


@dataclass(frozen=True)
class Entry:
    at: float
    type: str
    pod: Pod


class Recorder:
    """Watches all pods from `start`, on a thread of its own; reconnects where a watch ends."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.entries: list[Entry] = []
        self.over_quota: list[str] = []
        self._stop = threading.Event()

    def start(self) -> "Recorder":
        for path, take in (("/api/v1/pods", self._pod), ("/api/v1/resourcequotas", self._quota)):
            version = msgspec.json.decode(self.client.get(path, {"limit": "1"}))["metadata"]["resourceVersion"]
            threading.Thread(target=self._read, args=(path, version, take), daemon=True).start()
        return self

    def stop(self) -> None:
        self._stop.set()

    def _read(self, path, version, take) -> None:
        while not self._stop.is_set():
            query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1800"}
            try:
                for line in self.client.stream(path, query, timeout=1900):
                    event = msgspec.json.decode(line, type=_Event)
                    if event.type == "ERROR":  # the API server ends
                        break
                    version = take(event)
                    if self._stop.is_set():
                        return
            except ApiError:
                self._stop.wait(0.2)  # the API server went away; an audit over a gap fails by missing pods

    def _pod(self, event: _Event) -> str:
        pod = msgspec.json.decode(event.object, type=Pod)
        self.entries.append(Entry(time.monotonic(), event.type, pod))
        return pod.metadata.resource_version

    def _quota(self, event: _Event) -> str:
        quota = msgspec.json.decode(event.object, type=ResourceQuota)
        hard, used = (resources.read(a) for a in (quota.status.hard, quota.status.used))
        over = [key for key in hard if used.get(key, 0) > hard[key]]
        self.over_quota += [f"{quota.metadata.namespace}/{quota.metadata.name}: {key}" for key in over]
        return quota.metadata.resource_version


@dataclass
class _Member:
    live: bool = True
    open: bool = False
    bound: bool = False


@dataclass
class _Watched:
    members: dict[str, _Member] = field(default_factory=dict)
    first_open: float | None = None
    whole_at: float | None = None


def labelled(pod: Pod) -> str | None:
    """The group that a submission of these tests wrote on its pods."""
    return pod.metadata.label(GROUP_LABEL)


def audit(
    entries: list[Entry],
    minimum: dict[str, int],
    capability: dict[str, dict[str, int]],
    until: float,
    whole: float = WHOLE_SECONDS,
    group_of: Callable[[Pod], str | None] = labelled,
) -> list[str]:
    """Every broken promise, in words. A gang whose first gate went must be bound `whole` seconds later.

    `minimum` is minMember by group label, which `group_of` finds; `capability` is, by namespace, the queue's limit of
    GPUs under its name.
    """
    groups: dict[str, _Watched] = defaultdict(_Watched)
    charged: dict[str, dict[str, int]] = defaultdict(dict)
    found: list[str] = []
    for entry in entries:
        label = group_of(entry.pod)
        if label is not None and label in minimum:
            found += _members(groups[label], label, minimum[label], entry)
            found += _queue(charged, capability, entry)
    for label, group in groups.items():
        late = group.first_open is not None and group.whole_at is None and until - group.first_open > whole
        slow = group.whole_at is not None and group.whole_at - group.first_open > whole
        if late or slow:
            bound = sum(m.bound for m in group.members.values())
            found.append(f"{label}: {bound} of {minimum[label]} bound {whole:g} s after its first lift")
    return found


def _members(group: _Watched, label: str, minimum: int, entry: Entry) -> list[str]:
    pod = entry.pod
    member = group.members.setdefault(pod.metadata.uid, _Member())
    member.live = entry.type != "DELETED" and pod.status.phase not in ("Succeeded", "Failed")
    member.bound |= bool(pod.spec.node_name)
    opened = not any(g.name == names.GATE for g in pod.spec.scheduling_gates)
    found = []
    if opened and not member.open:
        member.open = True
        present = len(group.members)
        if present < minimum:
            found.append(f"{label}: {pod.metadata.name} lifted with {present} of {minimum} members")
        group.first_open = group.first_open or entry.at
    if group.whole_at is None and sum(m.bound for m in group.members.values()) >= minimum:
        group.whole_at = entry.at
    return found


def _queue(charged: dict[str, dict[str, int]], capability: dict[str, dict[str, int]], entry: Entry) -> list[str]:
    """GPUs of lifted and running pods by queue, at this event."""
    pod = entry.pod
    limits = capability.get(pod.metadata.namespace)
    if not limits:
        return []
    (queue, limit) = next(iter(limits.items()))
    gated = any(g.name == names.GATE for g in pod.spec.scheduling_gates)
    over = entry.type == "DELETED" or pod.status.phase in ("Succeeded", "Failed")
    gpus = 0 if gated or over else resources.requests(pod).get("nvidia.com/gpu", 0) // 10**9
    charged[queue][pod.metadata.uid] = gpus
    total = sum(charged[queue].values())
    return [f"queue {queue}: {total} GPUs lifted, capability {limit}"] if total > limit else []
