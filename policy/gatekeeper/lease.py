"""One Lease object: read it, create it, and change it only where it still is as it was read.

Knows coordination.k8s.io/v1 and nothing of when to do so: that is leader.py.
https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import msgspec

_COLLECTION: Final = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
_MERGE_PATCH: Final = "application/merge-patch+json"  # keeps the labels and annotations that others put there
_JSON: Final = "application/json"


class Api(Protocol):
    """What we need of the client."""

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object | None = None,
        content_type: str = "",
        query: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> bytes: ...


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """A lease's spec. `renew_time` is whatever clock its holder has: compared for change, never read as a time."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None

    @property
    def transitions(self) -> int:
        return self.lease_transitions or 0


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: Record = Record()


@dataclass(frozen=True, slots=True)
class Seen:
    """A record and the version of the object that carried it."""

    version: str
    record: Record


class Lease:
    """The Lease `namespace`/`name`; every call may take `timeout` seconds and raise ApiError."""

    def __init__(self, client: Api, namespace: str, name: str, timeout: float) -> None:
        self._client, self._timeout = client, timeout
        self._namespace, self._name = namespace, name
        self._collection = _COLLECTION.format(namespace)
        self._path = f"{self._collection}/{name}"

    def read(self) -> Seen:
        """Raise ApiError (not found) when there is none yet."""
        return _seen(self._client.request("GET", self._path, timeout=self._timeout))

    def create(self, record: Record) -> Seen:
        """Raise ApiError (conflict) when somebody was quicker."""
        meta = {"name": self._name, "namespace": self._namespace}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": record}
        return _seen(
            self._client.request("POST", self._collection, body=body, content_type=_JSON, timeout=self._timeout)
        )

    def change(self, version: str, record: Record) -> Seen:
        """Write `record` over what was read at `version`. Raise ApiError (conflict) when it has changed since."""
        body = {"metadata": {"resourceVersion": version}, "spec": record}
        answer = self._client.request("PATCH", self._path, body=body, content_type=_MERGE_PATCH, timeout=self._timeout)
        return _seen(answer)


def micro_time(moment: datetime) -> str:
    """Write a UTC time as meta/v1 MicroTime."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}Z"


def _seen(answer: bytes) -> Seen:
    lease = msgspec.json.decode(answer, type=_Lease)
    return Seen(lease.metadata.resource_version, lease.spec)
