"""The same load three ways: without a gang, gated and freed by the simplest possible loop, and by ganggate.

Each arm returns seconds: from the first submission to the last bind, and from the last member's creation to the last
gate's removal.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from policy import names
from policy.gatekeeper.client import STRATEGIC_MERGE_PATCH, Client
from tests.bench import load

FOREIGN_GATE = "bench.example.com/hold"
CONCURRENCY = 64


@dataclass(frozen=True)
class Shape:
    jobs: int
    pods: int

    @property
    def total(self) -> int:
        return self.jobs * self.pods

    def __str__(self) -> str:
        return f"{self.jobs}x{self.pods}"


@dataclass(frozen=True)
class Times:
    whole: float  # first submission -> last bind
    lift: float  # last pod created -> last gate gone
    creation: float  # first submission -> last pod created


def run(client: Client, shape: Shape, arm: str, serial: int) -> Times:
    """One run of one arm in a namespace of its own, cleared afterwards."""
    namespace = f"bench-{arm}-{shape}-{serial}"
    load.namespace(client, namespace, names.Policy.GANG if arm == "ganggate" else None)
    watch = load.Stopwatch(client, namespace)
    pool = ThreadPoolExecutor(CONCURRENCY)
    if arm == "bare":
        watch.on_created = lambda name: pool.submit(_patch, client, namespace, name)
    watch.start()
    gate = FOREIGN_GATE if arm == "bare" else None
    try:
        started = load.submit(client, namespace, [load.job(f"j{i}", shape.pods, gate=gate) for i in range(shape.jobs)])
        bound = watch.wait(shape.total, "bound")
        created = watch.wait(shape.total, "created")
        opened = watch.wait(shape.total, "open")
    finally:
        watch.stop()
        pool.shutdown(cancel_futures=True)
        load.clear(client, namespace)
    return Times(bound - started, opened - created, created - started)


def bare_lift(client: Client, shape: Shape, serial: int) -> Times:
    """All pods first, then the patch loop: what lifting alone costs."""
    namespace = f"bench-lift-{shape}-{serial}"
    load.namespace(client, namespace, None)
    watch = load.Stopwatch(client, namespace)
    watch.start()
    try:
        jobs = [load.job(f"j{i}", shape.pods, gate=FOREIGN_GATE) for i in range(shape.jobs)]
        started = load.submit(client, namespace, jobs)
        created = watch.wait(shape.total, "created")
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(lambda name: _patch(client, namespace, name), list(watch.pods)))
        opened = watch.wait(shape.total, "open")
        bound = watch.wait(shape.total, "bound")
    finally:
        watch.stop()
        load.clear(client, namespace)
    return Times(bound - started, opened - created, created - started)


def _patch(client: Client, namespace: str, name: str) -> None:
    body = msgspec.json.encode({"spec": {"schedulingGates": [{"name": FOREIGN_GATE, "$patch": "delete"}]}})
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    client.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE_PATCH)
