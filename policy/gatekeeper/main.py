"""The gatekeeper process: wires the parts, starts their threads, and stops them in an order that loses nothing.

Order at the end: the loop, then the lifter (patches on their way are answered), then the lease is given back, so that
the next leader sees everything this one wrote. Knows every part and no rule.
"""

import argparse
import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version
from secrets import token_hex
from typing import Any, Final

import msgspec

from policy import names
from policy.gatekeeper.announce import Announcer
from policy.gatekeeper.cache import Delta
from policy.gatekeeper.certificates import Certificates
from policy.gatekeeper.changes import Changes
from policy.gatekeeper.client import Client
from policy.gatekeeper.clock import SystemClock
from policy.gatekeeper.config import Settings, load
from policy.gatekeeper.errors import ConfigError
from policy.gatekeeper.events import Recorder
from policy.gatekeeper.flights import Flights
from policy.gatekeeper.health import Health
from policy.gatekeeper.leader import Leadership
from policy.gatekeeper.levers import Levers
from policy.gatekeeper.lift import Lift, Lifter
from policy.gatekeeper.lookup import Lookup
from policy.gatekeeper.loop import Loop
from policy.gatekeeper.measure import Measures
from policy.gatekeeper.metrics import Metrics, new_registry
from policy.gatekeeper.podgroups import PodGroups
from policy.gatekeeper.queue_status import QueueStatuses
from policy.gatekeeper.rehearsal import Rehearsal
from policy.gatekeeper.snapshot import Stores
from policy.gatekeeper.strangers import Strangers
from policy.gatekeeper.watch import Reflector
from policy.gatekeeper.watches import Watches
from policy.gatekeeper.witness import Witness
from policy.rules.model import OwnerFacts

FIGURES_SECONDS: Final = 2.0
JOIN_SECONDS: Final = 10.0  # a patch may take five
# Thresholds of the garbage collector: facts are trees and none of them garbage, walking them costs a pass a tenth.
COLLECTOR: Final = (50_000, 20, 100)
_LOG: Final = logging.getLogger(__name__)


class Gatekeeper:
    """All parts of one replica, built but not started."""

    def __init__(self, client: Client, settings: Settings, namespace: str, identity: str) -> None:
        self.clock = SystemClock()
        self.settings = settings
        self.changes = Changes(self.clock)
        self.flights = Flights()
        self.stores = Stores(self.clock, settings.owner_kinds)
        self.strangers = Strangers(
            Lookup(client, self.clock), self.stores.pods.items, self.stores.kinds, self.clock, self.changes.notify
        )
        self.stores.strangers = self.strangers
        self.stores.pods.subscribe(self.strangers.pod)
        for store in self.stores.by_name.values():
            store.subscribe(self._changed)
        reflectors = [
            Reflector(client, self.stores.sources[name], store, self.clock)
            for name, store in self.stores.by_name.items()
        ]
        self.watches = Watches(reflectors, self.clock)
        self.leadership = Leadership(client, namespace, names.LEASE_NAME, identity, self.clock)
        self.registry = new_registry()
        self.metrics = Metrics(self.registry, version("ganggate"))
        self.measures = Measures(self.metrics)
        self.recorder = Recorder(client, identity, self.clock, count=self.metrics.event)
        self.stores.pods.subscribe(lambda delta: None if delta.after else self.recorder.forget(delta.uid))
        self.podgroups = PodGroups(client, self.clock, make=settings.own_pod_groups)
        self.loop = self._loop()
        self.lifter, self.levers = self._lifter(client), self._levers(client)
        self.queues = QueueStatuses(client, self.clock, writes=settings.queue_status)
        self.loop.lifter, self.loop.levers, self.loop.queues = self.lifter, self.levers, self.queues

    def _loop(self) -> Loop:
        return Loop(
            self.stores,
            self.flights,
            self.leadership,
            self.changes,
            self.clock,
            self.settings.deciding(),
            Announcer(self.recorder),
            self.podgroups,
            self.measures.passed,
            Witness(self.recorder, self.settings.quota_patience_seconds),
        )

    def _lifter(self, client: Client) -> Lifter:
        return Lifter(
            client,
            self.stores.pods,
            self.flights,
            self.leadership,
            self.clock,
            report=self.loop.reported,
            done=self._lifted,
            count=self.metrics.patched,
            rehearsal=Rehearsal(self.settings.dry_run, self.clock),
            concurrency=self.settings.lift_concurrency,
        )

    def _levers(self, client: Client) -> Levers:
        return Levers(
            client,
            self.stores.owner_sources,
            self.leadership,
            self.clock,
            changed=self.changes.notify,
            count=self.metrics.pulled,
        )

    def _changed(self, delta: Delta[Any]) -> None:
        """Heartbeats of nodes and conditions of pods change no fact: no reason for a pass."""
        if not _same(delta.before, delta.after):
            self.changes.notify()

    def _lifted(self, lift: Lift) -> None:
        self.measures.lifted(lift)
        self.loop.lifted(lift)

    def health(self, host: str, port: int) -> Health:
        """Probes and metrics. Ready means: able to lead, every cache fresh."""
        return Health(
            host,
            port,
            live=self.loop.stuck,
            ready=self.watches.problems,
            registry=self.registry,
            debug={"outcome": lambda: self.loop.last, "snapshot": lambda: self.loop.snapshot},
        )

    def watch_figures(self, stop: threading.Event) -> None:
        """Figures that no pass brings: the age of the watches, who leads."""
        while not self.clock.wait(stop, FIGURES_SECONDS):
            self.metrics.watches(self.watches.ages())
            self.metrics.leading(valid=self.leadership.valid())

    def run(self, stop: threading.Event, certificates: Certificates) -> None:
        """Work until `stop` is set, then end in order."""
        ended = threading.Event()  # for what must outlive the loop
        workers = [self._thread("loop", self.loop.run, stop)]
        others = [
            self._thread("leader", self.leadership.run, ended),
            self._thread("events", self.recorder.run, ended),
            self._thread("podgroups", self.podgroups.run, ended),
            self._thread("queues", self.queues.run, ended),
            self._thread("levers", self.levers.run, stop),
            self._thread("strangers", self.strangers.run, ended),
            self._thread("figures", self.watch_figures, ended),
            *(self._thread(name, target, ended) for name, target in certificates.threads()),
        ]
        self.watches.start(ended)
        stop.wait()
        self.changes.notify()
        for worker in workers:
            worker.join(JOIN_SECONDS)
        self.lifter.close()
        ended.set()
        for other in others:
            other.join(JOIN_SECONDS)

    def _thread(self, name: str, target: Callable[[threading.Event], None], stop: threading.Event) -> threading.Thread:
        thread = threading.Thread(target=target, args=(stop,), name=name, daemon=True)
        thread.start()
        return thread


def _same(before: Any, after: Any) -> bool:
    """Whether nothing that a decision rests on has changed; the version of an owner is for our writes to it only."""
    if isinstance(before, OwnerFacts) and isinstance(after, OwnerFacts):
        before = msgspec.structs.replace(before, version=after.version)
    return bool(before == after)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ganggate-gatekeeper", description="Lifts the gates of whole groups.")
    parser.add_argument("--kubeconfig", help="default: the pod's service account")
    parser.add_argument("--bind", default="0.0.0.0:8080", help="address of /healthz, /readyz and /metrics")
    parser.add_argument("--namespace", default=names.SYSTEM_NAMESPACE, help="where the Lease and the Secret live")
    parser.add_argument(
        "--identity", required=True, help="name of this replica in the Lease, such as the pod's; made unique"
    )
    parser.add_argument("--webhook-endpoint", action="append", default=[], help="host:port; default: the Service's")
    parser.add_argument("--mirror-cert-dir", help="write the serving certificate here, where no kubelet mounts it")
    parser.add_argument("--config", help="settings file (YAML)")
    return parser.parse_args(argv)


def run(argv: Sequence[str] | None = None) -> None:
    """Entry of the process; exits 2 with one line on standard error when a setting is wrong."""
    options = parse(argv)
    try:
        settings = load(options.config)
        client = Client.from_kubeconfig(options.kubeconfig) if options.kubeconfig else Client.in_cluster()
    except ConfigError as error:
        sys.stderr.write(f"ganggate-gatekeeper: {error}\n")
        sys.exit(2)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"
    )
    gc.set_threshold(*COLLECTOR)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    gatekeeper = Gatekeeper(client, settings, options.namespace, f"{options.identity}_{token_hex(4)}")
    certificates = Certificates(
        client,
        gatekeeper.leadership,
        gatekeeper.clock,
        gatekeeper.metrics,
        namespace=options.namespace,
        endpoints=options.webhook_endpoint,
        mirror=options.mirror_cert_dir,
        mode=settings.certificates,
    )
    host, _, port = options.bind.rpartition(":")
    health = gatekeeper.health(host.strip("[]"), int(port))
    health.start()
    gatekeeper.run(stop, certificates)
    health.close()


if __name__ == "__main__":
    run()
