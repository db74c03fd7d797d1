"""Asks the API server what it serves: what a cluster has installed differs from one to the next.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api. Keeps nothing: the caller knows for how long
an answer holds.
"""

from typing import NamedTuple, Protocol

import msgspec

from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.source import group_path


class Api(Protocol):
    """What we need of the client."""

    def request(self, method: str, path: str) -> bytes: ...


class Found(NamedTuple):
    """A namespaced kind, as the server prefers it."""

    version: str
    plural: str
    scales: bool  # it has a scale subresource


class _Resource(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] | None = None


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    preferred_version: _Version = msgspec.field(default_factory=_Version)


def resources(client: Api, group: str, version: str) -> frozenset[str]:
    """Plurals and `plural/subresource` that are served; none when the group is not installed. Raises ApiError."""
    return frozenset(each.name for each in _listed(client, group, version))


def kind(client: Api, group: str, kind: str) -> Found | None:
    """What the namespaced kind of a named group is called; None where it is not served. Raises ApiError."""
    try:
        body = client.request("GET", f"/apis/{group}")
    except ApiError as error:
        if error.is_not_found:
            return None
        raise
    version = msgspec.json.decode(body, type=_Group).preferred_version.version
    served = _listed(client, group, version)
    names = {each.name for each in served}
    plurals = (each.name for each in served if each.kind == kind and each.namespaced and "/" not in each.name)
    return next((Found(version, plural, f"{plural}/scale" in names) for plural in plurals), None)


def _listed(client: Api, group: str, version: str) -> list[_Resource]:
    try:
        body = client.request("GET", group_path(group, version))
    except ApiError as error:
        if error.is_not_found:
            return []
        raise
    return msgspec.json.decode(body, type=_ResourceList).resources or []


def serves(client: Api, group: str, version: str, resource: str) -> bool:
    """Whether `resource` (its plural) exists in that group and version. Raises ApiError."""
    return resource in resources(client, group, version)


def has_status_subresource(client: Api, group: str, version: str, resource: str) -> bool:
    """Whether status has an endpoint of its own; a real Volcano's PodGroup has none. Raises ApiError."""
    return f"{resource}/status" in resources(client, group, version)
