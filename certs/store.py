"""The two Secrets: the serving certificate, which replicas mount, and the CAs with their keys, which nobody mounts.

Knows where things are kept and how they are read back; not when to write. Each write is conditional on what was
read: a Secret that somebody else wrote meanwhile is refused by the API server (409), and the loser reads again.
What cannot be read in a Secret of ours counts as absent, so that the plan replaces it.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from certs import authority
from certs.api import Api, ApiError, ForeignSecretError
from certs.authority import Pair
from policy import names

TLS_CERT: Final = "tls.crt"
TLS_KEY: Final = "tls.key"
CA_CERT: Final = "ca.crt"  # in either Secret: the CAs that are trusted now, newest first
CA_KEY: Final = "ca.key"  # their keys, in any order; each is matched to its CA by its public half
TLS_TYPE: Final = "kubernetes.io/tls"
OPAQUE: Final = "Opaque"


@dataclass(frozen=True, slots=True)
class Secret:
    """A Secret as it was read; all empty when there is none. A repr shows no data."""

    name: str
    found: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def data(self) -> Mapping[str, bytes]:
        """What it holds, decoded."""
        return {key: base64.b64decode(value) for key, value in (self.found.get("data") or {}).items()}

    @property
    def rotation_asked(self) -> bool:
        """Tell whether somebody wants what it holds renewed now."""
        return names.ANNOTATION_ROTATE in (self.found.get("metadata", {}).get("annotations") or {})


@dataclass(frozen=True, slots=True)
class StoredCa:
    """A CA of the CA Secret; an old one may have lost its key."""

    certificate: bytes
    key: bytes | None = field(default=None, repr=False)


class Store:
    """Both Secrets of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def read(self, name: str) -> Secret:
        """Read one. Raises ForeignSecretError if it is there and not labelled as ours."""
        try:
            found: dict[str, Any] = msgspec.json.decode(self._api.request("GET", f"{self._secrets}/{name}"))
        except ApiError as error:
            if error.absent:
                return Secret(name)
            raise
        if (found["metadata"].get("labels") or {}).get(names.LABEL_MANAGED) != names.MANAGER:
            raise ForeignSecretError(
                f"Secret {self._namespace}/{name} is not labelled {names.LABEL_MANAGED}={names.MANAGER}: somebody"
                " else's, left alone. Delete it, or let ganggate only serve it (certificates: mounted)"
            )
        return Secret(name, found)

    def write(self, before: Secret, kind: str, data: Mapping[str, bytes], *, renewed: bool) -> None:
        """Replace what `before` was, or make it, with `data`; `renewed` answers the request to rotate.

        Raises ApiError; one of `conflict` means that somebody else was faster.
        """
        body = _body(before, kind, data)
        if renewed:
            body["metadata"]["annotations"].pop(names.ANNOTATION_ROTATE, None)
        if before.found:
            self._api.request("PUT", f"{self._secrets}/{before.name}", body=body, query=_MANAGED)
        else:
            self._api.request("POST", self._secrets, body=body, query=_MANAGED)

    @property
    def _secrets(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/secrets"


_MANAGED: Final = {"fieldManager": names.CERT_FIELD_MANAGER}


def serving(secret: Secret) -> Pair | None:
    """The serving certificate and its key, None if there is none that could be served."""
    pair = Pair(secret.data.get(TLS_CERT, b""), secret.data.get(TLS_KEY, b""))
    return pair if authority.matches(pair) else None


def bundle(secret: Secret) -> tuple[bytes, ...]:
    """The CAs in ca.crt, newest first."""
    try:
        return authority.split_bundle(secret.data.get(CA_CERT, b""))
    except ValueError:
        return ()


def authorities(secret: Secret) -> tuple[StoredCa, ...]:
    """The CAs of the CA Secret, newest first, each with its key where it has one."""
    keys = authority.split_keys(secret.data.get(CA_KEY, b""))
    certificates = bundle(secret)
    found = {ca: key for ca in certificates for key in keys if authority.matches(Pair(ca, key))}
    return tuple(StoredCa(ca, found.get(ca)) for ca in certificates)


def serving_data(leaf: Pair, cas: Sequence[bytes]) -> dict[str, bytes]:
    """Content of the Secret that replicas mount."""
    return {TLS_CERT: leaf.certificate, TLS_KEY: leaf.key, CA_CERT: authority.bundle(*cas)}


def authority_data(cas: Sequence[StoredCa]) -> dict[str, bytes]:
    """Content of the CA Secret."""
    keys = b"".join(ca.key for ca in cas if ca.key)
    return {CA_CERT: authority.bundle(*(ca.certificate for ca in cas)), CA_KEY: keys}


def _body(before: Secret, kind: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    """Others' labels and annotations stay; the resourceVersion that was read makes the write conditional."""
    found = before.found or {"metadata": {"name": before.name}, "type": kind}
    metadata = {**found["metadata"], "annotations": dict(found["metadata"].get("annotations") or {})}
    metadata["labels"] = (metadata.get("labels") or {}) | {names.LABEL_MANAGED: names.MANAGER}
    encoded = {key: base64.b64encode(value).decode("ascii") for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "type": found["type"], "metadata": metadata, "data": encoded}
