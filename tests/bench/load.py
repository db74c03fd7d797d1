"""Loads for the benchmarks, and a stopwatch that sees them through a watch of its own.

Times are when this process saw a pod created, without gates, and bound; one clock for all runs.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec

from policy.gatekeeper.client import Client
from policy.rules.objects import Pod

WATCH = {"watch": "true", "timeoutSeconds": "600", "allowWatchBookmarks": "true"}


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


@dataclass
class Seen:
    created: float = 0.0
    open: float = 0.0
    bound: float = 0.0


@dataclass
class Stopwatch:
    """Watches one namespace from the start of a run."""

    client: Client
    namespace: str
    pods: dict[str, Seen] = field(default_factory=dict)
    on_created: Callable[[str], object] = lambda name: None

    def start(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        version = msgspec.json.decode(self.client.get(path, {"limit": "1"}))["metadata"]["resourceVersion"]
        stream = self.client.stream(path, WATCH | {"resourceVersion": version}, timeout=600)
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream) -> None:
        decoder = msgspec.json.Decoder(_Event)
        for line in stream:
            event = decoder.decode(line)
            now = time.monotonic()
            if event.type == "BOOKMARK":
                continue
            pod = msgspec.json.decode(event.object, type=Pod)
            seen = self.pods.setdefault(pod.metadata.name, Seen())
            if not seen.created:
                seen.created = now
                self.on_created(pod.metadata.name)
            if not pod.spec.scheduling_gates:
                seen.open = seen.open or now
            if pod.spec.node_name:
                seen.bound = seen.bound or now

    def wait(self, count: int, what: str, seconds: float = 180.0) -> float:
        """Until `count` pods are created, open or bound; the moment when the last was. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            times = sorted(t for s in list(self.pods.values()) if (t := getattr(s, what)))
            if len(times) >= count:
                return times[count - 1]
            threading.Event().wait(0.01)
        raise TimeoutError(f"{len(times)} of {count} pods {what} in namespace {self.namespace} after {seconds} s")


def namespace(client: Client, name: str, policy: str | None) -> None:
    labels = {"scheduling-policy": policy} if policy else {}
    client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name, "labels": labels}})


def job(name: str, pods: int, *, gate: str | None = None) -> dict:
    spec = {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "c",
                "image": "busybox:1.36",
                "resources": {"requests": {"cpu": "100m"}, "limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    }
    if gate:
        spec["schedulingGates"] = [{"name": gate}]
    annotations = {f"pod-complete.stage.kwok.x-k8s.io/{k}": "900s" for k in ("delay", "jitter-delay")}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    }


def submit(client: Client, namespace: str, jobs: list[dict]) -> float:
    """Create the Jobs, 16 at once; the moment of the first submission."""
    started = time.monotonic()
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda body: client.request("POST", path, body=body), jobs))
    return started


def clear(client: Client, namespace: str) -> None:
    """Delete the namespace and wait until nothing of it is left, so that runs do not share capacity."""
    client.request("DELETE", f"/api/v1/namespaces/{namespace}")
    end = time.monotonic() + 180
    while time.monotonic() < end:
        path = f"/api/v1/namespaces/{namespace}/pods"
        if not msgspec.json.decode(client.get(path, {"limit": "1"}))["items"]:
            return
        threading.Event().wait(0.2)
    raise TimeoutError(f"namespace {namespace} still has pods after 180 s")
