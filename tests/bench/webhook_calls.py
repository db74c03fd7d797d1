"""What one call of the webhook costs: `python -m tests.bench.webhook_calls`.

Three figures of the same 4 kB pod: the rules alone, the whole application without a socket, and a real process over
TLS, on one kept-alive connection and at 200 calls a second on eight. Goal: <= 1 ms at the median of one connection,
<= 10 ms at p99 under 200 calls a second (design section 14). Exits 1 when a goal is missed.
"""

import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from prometheus_client import CollectorRegistry

from policy import names
from tests.unit.webhook_process import HEADERS, Certs, running
from tests.unit.webhook_support import JOB, facts, pod, review, typed
from webhook import mutate
from webhook.app import create_app
from webhook.config import Config
from webhook.metrics import Metrics

CALLS, WARM_UP = 2000, 200
RATE, CONNECTIONS, SECONDS = 200, 8, 10
MEDIAN_GOAL, P99_GOAL = 0.001, 0.010  # seconds


def four_kilobytes() -> dict:
    """A Job's pod as the API server sends one, padded by its environment."""
    document = pod(
        controller=JOB, gpus=1, labels={"app": "train"}, annotations={names.VOLCANO_PODGROUP: "train-gang-demo"}
    )
    document["spec"]["containers"][0]["env"] = [{"name": f"VARIABLE_{i}", "value": "x" * 60} for i in range(34)]
    return document


def main() -> int:
    document = four_kilobytes()
    body = json.dumps(review(document)).encode()
    print(f"review of {len(body)} bytes, pod of {len(json.dumps(document))} bytes")
    decoded, about = typed(document), facts()
    tell("mutate.change alone", measure(lambda: mutate.change(decoded, about)))
    client = create_app(Config(), Metrics(CollectorRegistry()), lambda: None).test_client()
    tell("application, no socket", measure(lambda: client.post("/mutate/gang", data=body, headers=HEADERS)))
    with tempfile.TemporaryDirectory() as folder:
        certs = Certs(Path(folder) / "tls")
        certs.write(certs.leaf())
        with running(certs, Path(folder) / "log") as hook:
            return against(hook.wait(), body)


def against(hook, body: bytes) -> int:
    before = hook.metric("process_cpu_seconds_total")
    median, _ = tell("HTTPS, one connection", measure(caller(hook, body)))
    spent = hook.metric("process_cpu_seconds_total") - before
    print(f"CPU of the worker: {spent / (WARM_UP + CALLS) * 1e3:.3f} ms a call")
    _, p99 = tell(f"HTTPS, {RATE} calls/s on {CONNECTIONS} connections", under_load(hook, body))
    missed = [f"median {median * 1e3:.2f} ms"] * (median > MEDIAN_GOAL) + [f"p99 {p99 * 1e3:.1f} ms"] * (p99 > P99_GOAL)
    print("goals missed: " + ", ".join(missed) if missed else "goals met")
    return 1 if missed else 0


def caller(hook, body: bytes):
    connection = hook.connection()

    def call() -> None:
        connection.request("POST", "/mutate/gang", body, HEADERS)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200

    return call


def measure(call) -> list[float]:
    times = []
    for _ in range(WARM_UP + CALLS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times[WARM_UP:]


def under_load(hook, body: bytes) -> list[float]:
    """Calls at fixed times on each connection; a late answer counts from when the call was due."""
    times: list[float] = []

    def run(first: float) -> None:
        call, pause = caller(hook, body), threading.Event()
        for number in range(SECONDS * RATE // CONNECTIONS):
            due = first + number * CONNECTIONS / RATE
            pause.wait(max(0.0, due - time.perf_counter()))
            call()
            times.append(time.perf_counter() - due)

    start = time.perf_counter() + 0.5
    threads = [threading.Thread(target=run, args=(start + i / RATE,)) for i in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def tell(what: str, times: list[float]) -> tuple[float, float]:
    median, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
    print(f"{what}: median {median * 1e3:.3f} ms, p99 {p99 * 1e3:.3f} ms, n={len(times)}")
    return median, p99


if __name__ == "__main__":
    sys.exit(main())
