"""One event as events.k8s.io/v1 wants it, within the server's limits.

Pure. The limits are those of Kubernetes' pkg/apis/core/validation/events.go: a note has at most 1,024 bytes, action,
reason and reportingInstance 128; a cluster-scoped object's events live in `default`.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from policy import names
from policy.gatekeeper.lease import micro_time

EventType = Literal["Normal", "Warning"]

NOTE_BYTES: Final = 1024
_FIELD_BYTES: Final = 128
_NAME_CHARACTERS: Final = 253 - 17  # a dot and 16 hexadecimal digits follow
_ELLIPSIS: Final = "…"
_NOT_DNS: Final = re.compile(r"[^a-z0-9.-]+")
_LOOSE_DOTS: Final = re.compile(r"[.-]*\.[.-]*")  # each label of a subdomain begins and ends with a letter or digit
_CLUSTER_SCOPED: Final = "default"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """What an event is about. Without the uid `kubectl describe` does not show it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def event_namespace(self) -> str:
        return self.namespace or _CLUSTER_SCOPED

    def wire(self) -> dict[str, str]:
        both = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {key: text for key, text in both.items() if text}


@dataclass(frozen=True, slots=True)
class Entry:
    """An event to be written, as of `at`."""

    regarding: ObjectRef
    reason: str
    note: str
    type: EventType
    limiter: str
    action: str
    related: ObjectRef | None
    at: datetime

    @property
    def key(self) -> tuple[str, str]:
        """What makes it another event than the one before; the note's numbers do not."""
        return self.reason, self.limiter


def path(entry: Entry) -> str:
    """Where to POST it."""
    return f"/apis/events.k8s.io/v1/namespaces/{entry.regarding.event_namespace}/events"


def body(entry: Entry, instance: str, suffix: str) -> dict[str, Any]:
    """The object to create; `suffix` makes its name unique, `instance` is the process that reports."""
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{dns_name(entry.regarding.name)}.{suffix}",
            "namespace": entry.regarding.event_namespace,
        },
        "eventTime": micro_time(entry.at),
        "reportingController": names.CONTROLLER,
        "reportingInstance": cut(instance, _FIELD_BYTES),
        "type": entry.type,
        "reason": cut(entry.reason, _FIELD_BYTES),
        "action": cut(entry.action, _FIELD_BYTES),
        "regarding": entry.regarding.wire(),
        "note": cut(entry.note, NOTE_BYTES),
    }
    return event | ({"related": entry.related.wire()} if entry.related else {})


def cut(text: str, limit: int) -> str:
    """Shorten to at most `limit` bytes of UTF-8, between characters, with an ellipsis to show for it."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - len(_ELLIPSIS.encode())].decode(errors="ignore") + _ELLIPSIS


def dns_name(name: str) -> str:
    """A name that may begin a DNS subdomain; most object names are one already."""
    plain = _LOOSE_DOTS.sub(".", _NOT_DNS.sub("-", name.lower()))
    return plain[:_NAME_CHARACTERS].strip("-.") or "object"
