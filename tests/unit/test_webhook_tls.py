"""Certificates that change on disk, and sockets whose peers fall silent, without a server around them."""

import errno
import socket
import ssl
import threading
import time

import pytest

from tests.unit.webhook_process import Certs
from webhook.tls import HANDSHAKE, REQUEST, BoundedSocket, Certificates, Watchers, are_there, bounded


class Heard:
    """What the watchers were told."""

    def __init__(self):
        self.loaded, self.failed = [], []
        self.watchers = Watchers(self.loaded.append, self.failed.append)


@pytest.fixture
def certs(tmp_path):
    return Certs(tmp_path / "tls")


@pytest.fixture
def heard():
    return Heard()


def reader(certs, heard):
    return Certificates(certs.folder, ssl.SSLSocket, heard.watchers)


def test_a_context_is_built_once_per_generation(certs, heard):
    certs.mount(certs.leaf(), 1)
    served = reader(certs, heard)
    first = served.context()
    assert served.context() is first
    certs.mount(certs.leaf(), 2)
    assert served.context() is not first
    assert len(heard.loaded) == 2 and heard.failed == []


def test_plain_files_are_noticed_too(certs, heard):
    certs.write(certs.leaf())
    served = reader(certs, heard)
    first = served.context()
    certs.write(certs.leaf())
    assert served.context() is not first


def test_the_end_of_validity_is_that_of_the_leaf(certs, heard):
    certs.write(certs.leaf(hours=1))
    served = reader(certs, heard)
    early = served.expires()
    certs.write(certs.leaf(hours=3))
    assert 7100 < served.expires() - early < 7300
    assert heard.loaded == [early, served.expires()]


def test_the_last_good_context_outlives_broken_and_missing_files(certs, heard):
    certs.write(certs.leaf())
    served = reader(certs, heard)
    good = served.context()
    (certs.folder / "tls.key").write_text("no key")
    assert served.context() is good
    (certs.folder / "tls.crt").unlink()
    assert served.context() is good
    assert len(heard.failed) == 2


def test_without_any_good_generation_the_error_comes_through(certs, heard):
    with pytest.raises(FileNotFoundError):
        reader(certs, heard).context()
    certs.write(certs.leaf())
    (certs.folder / "tls.crt").write_text("no certificate")
    with pytest.raises(ssl.SSLError):
        reader(certs, heard).context()
    assert len(heard.failed) == 2


def test_both_files_come_from_one_generation(certs, heard):
    certs.mount(certs.leaf(), 1)
    certs.write(certs.leaf())  # beside the link, as the kubelet's own links are
    assert are_there(certs.folder)
    (certs.folder / "..1" / "tls.key").unlink()
    assert not are_there(certs.folder)


def test_old_protocols_are_off(certs, heard):
    certs.write(certs.leaf())
    assert reader(certs, heard).context().minimum_version == ssl.TLSVersion.TLSv1_2


class Pair:
    """Both ends of a connection; the server's with a limit."""

    def __init__(self, certs, seconds):
        self.stalled = []
        self.now = [0.0]
        certs.write(certs.leaf())
        sockets = bounded(seconds, lambda: self.now[0], self.stalled.append)
        self.context = Certificates(certs.folder, sockets, Heard().watchers).context()
        ours, self.theirs = socket.socketpair()
        self.server = self.context.wrap_socket(ours, server_side=True, do_handshake_on_connect=False)
        self.client_context = ssl.create_default_context(cafile=certs.ca_file)

    def shake(self):
        """Both handshakes, the client's on a thread of its own."""
        found = []

        def client():
            found.append(self.client_context.wrap_socket(self.theirs, server_hostname="localhost"))

        thread = threading.Thread(target=client)
        thread.start()
        self.server.do_handshake()
        thread.join(10)
        self.client = found[0]
        return self

    def close(self):
        self.server.close()
        self.theirs.close()


@pytest.fixture
def pair(certs):
    made = []

    def make(seconds=0.1):
        made.append(Pair(certs, seconds))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_handshake_that_does_not_come_ends_as_a_reset(pair):
    ends = pair()
    with pytest.raises(ConnectionResetError) as caught:
        ends.server.do_handshake()
    assert caught.value.errno == errno.ECONNRESET
    assert ends.stalled == [HANDSHAKE]


def test_a_read_that_does_not_come_ends_as_a_reset(pair):
    ends = pair().shake()
    with pytest.raises(ConnectionResetError):
        ends.server.recv(1)
    ends.client.sendall(b"too late")
    ends.server.setblocking(True)
    for operation in (lambda: ends.server.recv(1), lambda: ends.server.sendall(b"x")):
        with pytest.raises(ConnectionResetError):
            operation()
    with pytest.raises(OSError):
        ends.server.shutdown(socket.SHUT_WR)
    assert ends.stalled == [REQUEST]
    ends.client.close()


def test_the_budget_is_spent_by_all_reads_together_and_renewed_per_request(pair):
    ends = pair(5).shake()
    for second in (2, 4):
        ends.client.sendall(b"x")
        ends.now[0] = second
        assert ends.server.recv(10) == b"x"
    ends.server.setblocking(True)  # what gunicorn does before each request
    ends.client.sendall(b"y")
    ends.now[0] = 8
    assert ends.server.recv(10) == b"y"
    ends.client.sendall(b"z")
    ends.now[0] = 10
    with pytest.raises(ConnectionResetError):
        ends.server.recv(10)
    assert ends.stalled == [REQUEST]
    ends.client.close()


def test_a_read_waits_for_what_is_left_of_the_budget_only(pair):
    ends = pair(60).shake()
    ends.now[0] = 59.9
    start = time.monotonic()
    with pytest.raises(ConnectionResetError):
        ends.server.recv(10)
    assert time.monotonic() - start < 30
    ends.client.close()


def test_a_non_blocking_socket_stays_one(pair):
    ends = pair().shake()
    ends.server.setblocking(False)
    with pytest.raises(ssl.SSLWantReadError):
        ends.server.recv(1)
    assert ends.stalled == []
    ends.client.close()


def test_nothing_waits_for_a_peer_that_does_not_close(pair):
    ends = pair(60).shake()
    ends.server.shutdown(socket.SHUT_WR)
    ends.server.settimeout(2.0)  # gunicorn's linger
    with pytest.raises(BlockingIOError):
        ends.server.recv(1)
    ends.client.close()


def test_every_server_has_its_own_limit():
    one, two = bounded(1, lambda: 0.0, print), bounded(2, lambda: 0.0, print)
    assert (one.seconds, two.seconds) == (1, 2)
    assert issubclass(one, BoundedSocket)
