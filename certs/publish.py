"""The caBundle of our webhook entries: reads what is published, writes what should be, and nothing beside it.

The write is a strategic merge patch, in which entries are merged by name, and not a server-side apply: who applies an
entry owns its place in the list, and an installer whose next version drops that entry is then refused, because what
is left of it is our caBundle alone (422, seen on 1.37.2). The patch carries the resourceVersion that was read: a
leader that was frozen and thawed cannot publish yesterday's CAs over today's.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from certs.api import Api, ApiError
from policy import names

_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
PATHS: Final = (
    f"{_GROUP}/mutatingwebhookconfigurations/{names.MUTATING_CONFIG}",
    f"{_GROUP}/validatingwebhookconfigurations/{names.VALIDATING_CONFIG}",
)
_MERGE: Final = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Configuration:
    """A webhook configuration: where it is, and the caBundle of each of its entries by name."""

    path: str
    version: str
    bundles: dict[str, bytes]


class _ClientConfig(msgspec.Struct):
    ca_bundle: bytes = msgspec.field(name="caBundle", default=b"")  # msgspec decodes the base64


class _Webhook(msgspec.Struct):
    name: str
    client_config: _ClientConfig = msgspec.field(name="clientConfig")


class _Metadata(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion")


class _Found(msgspec.Struct):
    metadata: _Metadata
    webhooks: list[_Webhook] = msgspec.field(default_factory=list)


def read(api: Api, paths: Iterable[str] = PATHS) -> tuple[Configuration, ...]:
    """Read those configurations that are installed. Raises ApiError."""
    return tuple(found for path in paths if (found := _read(api, path)) is not None)


def publish(api: Api, configuration: Configuration, bundle: bytes) -> None:
    """Write `bundle` into every entry that holds something else. Raises ApiError; `conflict` as in Store.write."""
    encoded = base64.b64encode(bundle).decode("ascii")
    stale = [name for name, held in configuration.bundles.items() if held != bundle]
    entries = [{"name": name, "clientConfig": {"caBundle": encoded}} for name in stale]
    body = {"metadata": {"resourceVersion": configuration.version}, "webhooks": entries}
    query = {"fieldManager": names.CERT_FIELD_MANAGER}
    api.request("PATCH", configuration.path, body=body, content_type=_MERGE, query=query)


def _read(api: Api, path: str) -> Configuration | None:
    try:
        found = msgspec.json.decode(api.request("GET", path), type=_Found)
    except ApiError as error:
        if error.absent:
            return None
        raise
    bundles = {each.name: each.client_config.ca_bundle for each in found.webhooks}
    return Configuration(path, found.metadata.resource_version, bundles)
