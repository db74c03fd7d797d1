"""Which replicas of the webhook there are, and which certificate each of them serves.

Either a given list (`host:port`), for places without a Service network, or the EndpointSlices of the Service. A
probe asks for the certificate and checks no trust: it wants to know what is served, right or wrong.
"""

import socket
import ssl
from collections.abc import Callable
from typing import Final

import msgspec

from certs import authority
from certs.api import Api
from policy import names

PROBE_SECONDS: Final = 2.0
Probe = Callable[[str], int | None]


class _Endpoint(msgspec.Struct):
    addresses: list[str]


class _Port(msgspec.Struct):
    port: int | None = None


class _Slice(msgspec.Struct):
    endpoints: list[_Endpoint] | None = None
    ports: list[_Port] | None = None


class _Slices(msgspec.Struct):
    items: list[_Slice]


def probe(endpoint: str, timeout: float = PROBE_SECONDS) -> int | None:
    """Serial number of the certificate served at `endpoint` (host:port), None if no handshake comes about.

    `timeout` is in seconds, for each step of the handshake.
    """
    host, port = split(endpoint)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout) as plain,
            context.wrap_socket(plain) as secured,
        ):
            der = secured.getpeercert(binary_form=True)
    except OSError:  # ssl.SSLError and TimeoutError are among them
        return None
    return authority.serial_of_der(der) if der else None


def split(endpoint: str) -> tuple[str, int]:
    """Split `host:port`, `[::1]:port` included. Raises ValueError naming the endpoint."""
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"endpoint {endpoint!r}: want host:port")
    return host.strip("[]"), int(port)


def of_service(api: Api, namespace: str, service: str) -> tuple[str, ...]:
    """Every address behind the Service, ready or not: one that is not may be so tomorrow. Raises ApiError."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    query = {"labelSelector": f"{names.SERVICE_NAME_LABEL}={service}"}
    found = msgspec.json.decode(api.request("GET", path, query=query), type=_Slices)
    return tuple(sorted({address for each in found.items for address in _addresses(each)}))


def _addresses(found: _Slice) -> list[str]:
    hosts = [host for endpoint in found.endpoints or () for host in endpoint.addresses]
    ports = [each.port for each in found.ports or () if each.port is not None]
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts for port in ports]
