"""Loads for the benchmarks, and a stopwatch that sees them through a watch of its own.

Times are when this process saw a pod created, without gates, and bound; one clock for all runs.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec

from policy.gatekeeper.client import Client
from policy.gatekeeper.errors import ApiError, TransportError
from policy.rules.objects import ObjectMeta, Pod

WATCH = {"watch": "true", "timeoutSeconds": "600", "allowWatchBookmarks": "true"}


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Versioned(msgspec.Struct):
    metadata: ObjectMeta


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
    _stopped: bool = False

    def start(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        version = msgspec.json.decode(self.client.get(path, {"limit": "1"}))["metadata"]["resourceVersion"]
        threading.Thread(target=self._read, args=(path, version), daemon=True).start()

    def stop(self) -> None:
        self._stopped = True

    def _read(self, path: str, version: str) -> None:
        """The API server ends the watch of a reader that falls behind: go on where it ended."""
        decoder = msgspec.json.Decoder(_Event)
        while not self._stopped:
            with contextlib.suppress(TransportError):
                for line in self.client.stream(path, WATCH | {"resourceVersion": version}, timeout=600):
                    event = decoder.decode(line)
                    version = msgspec.json.decode(event.object, type=_Versioned).metadata.resource_version
                    if event.type != "BOOKMARK":  # its object has no containers, which is no pod
                        self._note(msgspec.json.decode(event.object, type=Pod))

    def _note(self, pod: Pod) -> None:
        now = time.monotonic()
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
    # A bound pod stays Pending: a run ends with its last bind, and what simulated kubelets write is not our subject.
    annotations = {"pod-ready.stage.kwok.x-k8s.io/delay": "3600s"}
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
    """Delete the namespace and wait until nothing of it is left: neither capacity nor anybody's work on its remains."""
    path = f"/api/v1/namespaces/{namespace}"
    client.request("DELETE", path)
    end = time.monotonic() + 180
    while time.monotonic() < end:
        try:
            client.get(path)
        except ApiError as error:
            if error.is_not_found:
                return
            raise
        threading.Event().wait(0.2)
    raise TimeoutError(f"namespace {namespace} is still there after 180 s")
