"""A real webhook process on loopback, and the means to be a bad peer of it."""

import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs import authority
from tests.unit.webhook_support import JOB, pod, review

ROOT = Path(__file__).parents[2]
START_SECONDS = 30  # a loaded machine of two cores


def eventually(check, seconds=START_SECONDS, every=0.05):
    """Ask until `check` gives something true, and hand it back. Fails when `seconds` have gone by."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds} s"
        pause.wait(every)


class Certs:
    """A CA and the folder that a server reads."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        now = datetime.now(UTC)
        self.ca = authority.new_ca("test-ca", now=now, lifetime=timedelta(days=1))
        self.ca_file = self.folder.parent / f"{self.folder.name}-ca.pem"
        self.ca_file.write_bytes(self.ca.certificate)

    def leaf(self, hours=5):
        now = datetime.now(UTC)
        return authority.issue(
            self.ca, "webhook", names=["localhost", "127.0.0.1"], now=now, lifetime=timedelta(hours=hours)
        )

    def write(self, pair):
        (self.folder / "tls.crt").write_bytes(pair.certificate)
        (self.folder / "tls.key").write_bytes(pair.key)
        return authority.serial(pair.certificate)

    def mount(self, pair, generation):
        """As the kubelet writes a Secret: a folder per generation, and a link that is swapped in one step."""
        folder = self.folder / f"..{generation}"
        folder.mkdir()
        (folder / "tls.crt").write_bytes(pair.certificate)
        (folder / "tls.key").write_bytes(pair.key)
        (self.folder / "..next").symlink_to(folder.name)
        (self.folder / "..next").rename(self.folder / "..data")
        return authority.serial(pair.certificate)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Webhook:
    """One process. Started at once; `wait` until it answers."""

    def __init__(self, certs, log, *arguments, port=None):
        self.certs, self.port, self.log = certs, port or free_port(), Path(log)
        command = [sys.executable, "-m", "webhook.server", "--bind", f"127.0.0.1:{self.port}"]
        command += ["--cert-dir", str(certs.folder), *arguments]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)

    def wait(self):
        eventually(self.is_healthy)
        return self

    def is_healthy(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.get("/healthz")[0] == 200
        except OSError:
            return False

    def stop(self, seconds=START_SECONDS):
        """SIGTERM, and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self):
        """Without a drain."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(15)

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def worker(self):
        """Pid of gunicorn's worker."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def connection(self, timeout=START_SECONDS):
        context = ssl.create_default_context(cafile=self.certs.ca_file)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=context)

    def tls(self, timeout=START_SECONDS):
        """A socket whose handshake is done."""
        context = ssl.create_default_context(cafile=self.certs.ca_file)
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        return context.wrap_socket(raw, server_hostname="127.0.0.1")

    def tcp(self, timeout=START_SECONDS):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def get(self, path):
        connection = self.connection()
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def serial(self):
        with self.tls() as peer:
            return authority.serial(ssl.DER_cert_to_PEM_cert(peer.getpeercert(binary_form=True)).encode())

    def metric(self, start):
        """Value of the series whose line starts with `start`, 0 when there is none."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith(start)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


@contextmanager
def running(certs, log, *arguments, **about):
    hook = Webhook(certs, log, *arguments, **about)
    try:
        yield hook
    finally:
        hook.kill()


BODY = json.dumps(review(pod(controller=JOB))).encode()
HEADERS = {"Content-Type": "application/json"}


def ask(connection, body=BODY):
    """One call on a kept-alive connection: the response part, and the header that says what becomes of it."""
    connection.request("POST", "/mutate/gang", body, HEADERS)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    return json.loads(text)["response"], answer.headers["Connection"]


def head(length):
    """The start of a call, up to its body."""
    lines = ["POST /mutate/gang HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {length}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def is_closed(peer, seconds):
    """Whether the other side closes within `seconds`, whatever it says before."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        peer.settimeout(left)
        try:
            if not peer.recv(4096):
                return True
        except TimeoutError:
            return False
        except OSError:
            return True
    return False
