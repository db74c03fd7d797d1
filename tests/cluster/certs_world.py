"""A bare cluster with what ganggate ships, the real webhook, and rotators that the test drives itself.

The rotators act as the gatekeeper's identity and with its client; only settling is shorter than in earnest. Beside
them two observers: a stream of creates through the webhook, and a stranger who checks what is served against what
is published, as the API server does.
"""

import base64
import itertools
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from certs import authority, endpoints
from certs.config import Config, service_names
from certs.mirror import Mirror
from certs.outcome import Outcome
from certs.publish import PATHS
from certs.rotate import Rotator
from certs.world import Policy
from deploy.local.cluster import Cluster
from deploy.local.kubeconfig import GATEKEEPER, WEBHOOK
from policy import names
from policy.gatekeeper.client import Client
from policy.gatekeeper.clock import SystemClock
from tests.cluster.calls import Answer, Caller
from tests.cluster.conftest import wait_until

SECRETS = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/secrets"
LOOK_SECONDS = 0.2
_serial = itertools.count()


class World:
    """The cluster, who acts in it, and shorthands for what tests look at."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.admin = cluster, Caller(cluster.kubeconfig)
        self.client = Client.from_kubeconfig(str(cluster.layout.kubeconfig(GATEKEEPER)))
        self.as_admin = Client.from_kubeconfig(str(cluster.kubeconfig))
        self.webhook = f"127.0.0.1:{cluster.ports[WEBHOOK]}"
        self.mirror = Mirror(self.client, names.SYSTEM_NAMESPACE, cluster.layout.serving(WEBHOOK), SystemClock())

    def rotator(self, *others: str, api: Any = None, settle: float = 5.0, **fields: Any) -> Rotator:
        """A rotator of the webhook's certificate; `others` are endpoints beside the webhook's own."""
        wanted = service_names(names.SYSTEM_NAMESPACE) | {"127.0.0.1"}
        policy = Policy(wanted, settle=timedelta(seconds=settle), look_every=timedelta(seconds=LOOK_SECONDS))
        config = Config(policy, endpoints=(self.webhook, *others), **fields)
        return Rotator(api or self.client, config, SystemClock())

    def secret(self, name: str) -> dict[str, Any]:
        answer = self.admin("GET", f"{SECRETS}/{name}")
        assert answer.ok, answer.message
        return answer.body

    def held(self, name: str, key: str) -> bytes:
        return base64.b64decode(self.secret(name)["data"][key])

    def serial(self) -> int:
        """Of the leaf that is stored."""
        return authority.serial(self.held(names.CERT_SECRET, "tls.crt"))

    def cas(self) -> tuple[bytes, ...]:
        """The CAs that are stored, newest first."""
        return authority.split_bundle(self.held(names.CA_SECRET, "ca.crt"))

    def ask(self, secret: str) -> None:
        """Ask for a rotation as docs/certificates.md says."""
        patch = {"metadata": {"annotations": {names.ANNOTATION_ROTATE: "now"}}}
        assert self.admin.patch(f"{SECRETS}/{secret}", patch).ok

    def configurations(self) -> list[dict[str, Any]]:
        return [self.admin("GET", path).body for path in PATHS]

    def published(self) -> set[bytes]:
        """Every caBundle of every entry."""
        clients = [each["clientConfig"] for found in self.configurations() for each in found["webhooks"]]
        return {base64.b64decode(client.get("caBundle", "")) for client in clients}

    def at_rest(self) -> bool:
        """One CA, which signed what is served, and which is published everywhere."""
        cas = self.cas()
        served = len(cas) == 1 and endpoints.probe(self.webhook) == self.serial()
        return served and self.published() == {cas[0]} == {self.held(names.CERT_SECRET, "ca.crt")}


@dataclass
class Driver:
    """Runs rotators as the gatekeeper does, each in a thread; keeps what each step came to."""

    outcomes: list[Outcome] = field(default_factory=list)
    mistakes: list[BaseException] = field(default_factory=list)

    def drive(self, step: Callable[[], Outcome], stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                outcome = step()
                self.outcomes.append(outcome)
                stop.wait(outcome.wait)
        except BaseException as error:  # shown by the test, whose thread is another
            self.mistakes.append(error)

    @property
    def done(self) -> list[str]:
        return [outcome.did for outcome in self.outcomes if outcome.did]

    @property
    def errors(self) -> list[str]:
        return [outcome.error for outcome in self.outcomes if outcome.error]


@contextmanager
def driven(*steps: Callable[[], Outcome]) -> Iterator[Driver]:
    """Each of `steps` in a thread of its own, until the end of the block."""
    driver, stop = Driver(), threading.Event()
    threads = [threading.Thread(target=driver.drive, args=(step, stop)) for step in steps]
    for thread in threads:
        thread.start()
    try:
        yield driver
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert driver.mistakes == []


@contextmanager
def refreshing(world: World) -> Iterator[None]:
    """The webhook's files follow the Secret, a little late, as a kubelet's do."""
    stop = threading.Event()

    def follow() -> None:
        while not stop.wait(0.5):
            world.mirror.step()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@dataclass
class Stream:
    """Creates pods through the webhook without a pause; keeps every refusal."""

    caller: Caller
    namespace: str
    created: int = 0
    refused: list[str] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        while not stop.wait(0.01):
            answer = self.caller.create(path, _pod(f"stream-{next(_serial)}"))
            self.created += 1
            if not _gated(answer):
                self.refused.append(answer.message or "created ungated")


@dataclass
class Stranger:
    """Reads a caBundle, then makes a handshake that trusts nothing else, over and over."""

    world: World
    checked: int = 0
    serials: set[int] = field(default_factory=set)
    bundles: set[bytes] = field(default_factory=set)
    distrusted: list[str] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(0.02):
            for bundle in self.world.published():
                self.check(bundle)

    def check(self, bundle: bytes) -> None:
        host, port = endpoints.split(self.world.webhook)
        self.checked += 1
        self.bundles.add(bundle)
        context = ssl.create_default_context(cadata=bundle.decode())
        try:
            self.serials.add(_served(context, host, port))
        except ssl.SSLCertVerificationError as error:
            self.distrusted.append(str(error))


def _served(context: ssl.SSLContext, host: str, port: int) -> int:
    with (
        socket.create_connection((host, port), 5) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        return authority.serial_of_der(secured.getpeercert(binary_form=True) or b"")


@contextmanager
def observed(world: World, namespace: str) -> Iterator[tuple[Stream, Stranger]]:
    """Both observers at work until the end of the block."""
    stop, stream, stranger = threading.Event(), Stream(Caller(world.cluster.kubeconfig), namespace), Stranger(world)
    threads = [threading.Thread(target=each.run, args=(stop,)) for each in (stream, stranger)]
    for thread in threads:
        thread.start()
    try:
        yield stream, stranger
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextmanager
def straggler(served: bytes, key: bytes, folder: Any) -> Iterator[tuple[str, Callable[[bytes, bytes], None]]]:
    """A replica that goes on serving what it was given, whatever the Secret holds; and how to give it another."""
    stop, pair = threading.Event(), folder / "pair.pem"

    def give(certificate: bytes, key: bytes) -> None:
        fresh = folder / "fresh.pem"
        fresh.write_bytes(key + certificate)
        fresh.replace(pair)

    def serve(server: socket.socket) -> None:
        while not stop.is_set():
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair)
            with suppress(OSError), connection:  # a probe may give up in the middle of a handshake
                with context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1)

    give(served, key)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}", give
        finally:
            stop.set()
            thread.join()


def _pod(name: str) -> dict[str, Any]:
    """A pod that is held by our gate, and that no node would take."""
    container = {"name": "main", "image": "registry.k8s.io/pause", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [container], "nodeSelector": {"example.com/no-node": "has-this"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _gated(answer: Answer) -> bool:
    return answer.ok and [gate["name"] for gate in answer.body["spec"].get("schedulingGates", [])] == [names.GATE]


def settle_down(world: World, what: str, timeout: float = 60) -> None:
    """Wait until nothing is left to do."""
    wait_until(world.at_rest, timeout=timeout, what=what)
