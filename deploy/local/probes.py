"""Readiness as a kubelet probes: any answer below 400 is ready, and no certificate is checked; or an open port.

Never raises for a server that is not there: it says what is missing.
"""

import http.client
import socket
import ssl
from typing import Final

from deploy.local.ports import LOOPBACK
from deploy.local.process import Probe

TIMEOUT_SECONDS: Final = 2.0


def http_probe(port: int, path: str) -> Probe:
    return lambda: _ask(http.client.HTTPConnection(LOOPBACK, port, timeout=TIMEOUT_SECONDS), path)


def https_probe(port: int, path: str) -> Probe:
    return lambda: _ask(
        http.client.HTTPSConnection(LOOPBACK, port, timeout=TIMEOUT_SECONDS, context=_unverified()), path
    )


def port_probe(port: int) -> Probe:
    """For a server that answers nothing but its own protocol."""
    return lambda: _knock(port)


def every(*probes: Probe) -> Probe:
    """Ready when all are; what is missing is the first's answer."""
    return lambda: next((answer for probe in probes if (answer := probe()) is not None), None)


def _knock(port: int) -> str | None:
    try:
        socket.create_connection((LOOPBACK, port), timeout=TIMEOUT_SECONDS).close()
    except OSError as error:
        return f"port {port}: {error}"
    return None


def _ask(connection: http.client.HTTPConnection, path: str) -> str | None:
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"GET {path} on port {connection.port}: {error}"
    finally:
        connection.close()
    return None if status < http.HTTPStatus.BAD_REQUEST else f"GET {path} on port {connection.port}: HTTP {status}"


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # as kubelets probe: it is asked whether, not whom
    return context
