"""What the webhook adds to a pod's creation: the same pod with the webhook on and off, in turn, in one run.

The gatekeeper is frozen meanwhile: what it does about a new pod (an event, a condition, a PodGroup) comes after the
create and is part of the lifts' figures; on two cores it would only take the processor from the next create.
"""

import statistics
import time
from collections.abc import Iterator

from policy import names
from policy.gatekeeper.client import Client
from tests.bench import load


def compare(client: Client, count: int) -> Iterator[str]:
    """Create `count` pods each way, alternating, and say median and p99 of both and of the difference."""
    sides = {"off": "bench-create-off", "on": "bench-create-on"}
    load.namespace(client, sides["off"], None)
    load.namespace(client, sides["on"], names.Policy.GANG)
    times: dict[str, list[float]] = {"off": [], "on": []}
    try:
        for serial in range(count + 20):  # the first twenty warm connections and caches
            for side, namespace in sides.items():
                took = _create(client, namespace, serial, gated=side == "off")
                if serial >= 20:
                    times[side].append(took)
    finally:
        for namespace in sides.values():
            load.clear(client, namespace)
    for side, found in times.items():
        yield f"pod create, webhook {side}: median {_ms(_median(found))}, p99 {_ms(_p99(found))} ({len(found)} pods)"
    added = _median(times["on"]) - _median(times["off"])
    yield f"webhook adds {_ms(added)} at the median; ratio {_median(times['on']) / _median(times['off']):.2f}"


def _create(client: Client, namespace: str, serial: int, *, gated: bool) -> float:
    """Both sides end up gated, so that only admission differs."""
    pod = load.job("j", 1, gate=names.GATE if gated else None)["spec"]["template"]
    body = {**pod, "metadata": {**pod["metadata"], "name": f"p{serial}"}}
    started = time.perf_counter()
    client.request("POST", f"/api/v1/namespaces/{namespace}/pods", body=body)
    return time.perf_counter() - started


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
