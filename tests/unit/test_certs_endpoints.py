"""Probing a replica: any certificate is read, and whatever is no TLS server is no answer."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import trustme

from certs import authority
from certs.config import configure, service_names
from certs.endpoints import probe, split


@contextmanager
def listening(context: ssl.SSLContext | None) -> Iterator[str]:
    """A server that takes one connection; without a context it says nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):  # who has seen the certificate may go before the handshake ends here
                if context:
                    with context.wrap_socket(connection, server_side=True) as secured:
                        secured.recv(1)
                else:
                    connection.recv(4096)
                    connection.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_a_strangers_certificate_is_read_without_trust() -> None:
    leaf = trustme.CA().issue_cert("elsewhere.example.com")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    with listening(context) as endpoint:
        assert probe(endpoint) == authority.serial(leaf.cert_chain_pems[0].bytes())


def test_a_silent_server_is_given_up_on() -> None:
    with listening(None) as endpoint:
        assert probe(endpoint, timeout=0.1) is None


def test_nobody_there_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert probe(f"127.0.0.1:{port}") is None


def test_endpoints_are_split() -> None:
    assert split("10.0.0.1:9443") == ("10.0.0.1", 9443)
    assert split("[fd00::1]:9443") == ("fd00::1", 9443)
    for wrong in ("host", ":9443", "host:", "host:https"):
        with pytest.raises(ValueError, match="want host:port"):
            split(wrong)


def test_the_usual_names() -> None:
    assert service_names("ns", "svc") == {"svc", "svc.ns", "svc.ns.svc"}
    config = configure("ns", ("127.0.0.1:1", "[::1]:2"))
    assert config.policy.names == service_names("ns") | {"127.0.0.1", "::1"}
