"""Asks the API server what it serves: what a cluster has installed differs from one to the next.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api. Keeps nothing: the caller knows for how long
an answer holds.
"""

from typing import Protocol

import msgspec

from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.source import group_path


class Api(Protocol):
    """What we need of the client."""

    def request(self, method: str, path: str) -> bytes: ...


class _Resource(msgspec.Struct):
    name: str = ""


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] | None = None


def resources(client: Api, group: str, version: str) -> frozenset[str]:
    """Plurals and `plural/subresource` that are served; none when the group is not installed. Raises ApiError."""
    try:
        body = client.request("GET", group_path(group, version))
    except ApiError as error:
        if error.is_not_found:
            return frozenset()
        raise
    return frozenset(each.name for each in msgspec.json.decode(body, type=_ResourceList).resources or ())


def serves(client: Api, group: str, version: str, resource: str) -> bool:
    """Whether `resource` (its plural) exists in that group and version. Raises ApiError."""
    return resource in resources(client, group, version)


def has_status_subresource(client: Api, group: str, version: str, resource: str) -> bool:
    """Whether status has an endpoint of its own; a real Volcano's PodGroup has none. Raises ApiError."""
    return f"{resource}/status" in resources(client, group, version)
