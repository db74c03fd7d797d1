"""A gang namespace with operators' jobs in it: what is submitted there, and what its pods show."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import breaking
from tests.cluster.breaking import gated, must
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import wait_until
from tests.operators.jobs import GPU, KINDS, Manifest

Pod = dict[str, Any]
FAILS = {"metadata": {"labels": {"pod-container-running-failed.stage.kwok.x-k8s.io": "true"}}}


def live(pod: Pod) -> bool:
    return pod["status"]["phase"] in {"Pending", "Running"} and "deletionTimestamp" not in pod["metadata"]


def labelled(pod: Pod, key: str) -> str:
    found: str = pod["metadata"].get("labels", {}).get(key, "")
    return found


def uids(found: list[Pod]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in found}


@dataclass(frozen=True)
class Space:
    """One namespace; `label` narrows what is counted to pods that carry it, of a submission of `breaking`."""

    cluster: Cluster
    admin: Caller
    name: str

    # --- what is there -------------------------------------------------------------------------------------------

    def pods(self) -> list[Pod]:
        """Those that operators made; what a test put beside them is seen by `others`."""
        return [pod for pod in breaking.listed(self.admin, breaking.pods(self.name)) if not breaking.of(pod)]

    def others(self, label: str) -> list[Pod]:
        return [pod for pod in breaking.listed(self.admin, breaking.pods(self.name)) if breaking.of(pod) == label]

    def bound(self) -> int:
        return sum(1 for pod in self.pods() if pod["spec"].get("nodeName") and live(pod))

    def held(self) -> int:
        return sum(1 for pod in self.pods() if gated(pod) and live(pod))

    def lifted(self) -> int:
        return sum(1 for pod in self.pods() if not gated(pod))

    def bound_of(self, label: str) -> int:
        return sum(1 for pod in self.others(label) if pod["spec"].get("nodeName") and live(pod))

    def owner(self, kind: str, name: str = "simple") -> dict[str, Any]:
        return must(self.admin("GET", KINDS[kind].path(kind, self.name, name)))

    def conditions(self, kind: str, name: str = "simple") -> set[str]:
        """Types of the owner's conditions that are true; a RayJob's state is one of its own."""
        status = self.owner(kind, name).get("status", {})
        found = {c["type"] for c in status.get("conditions", []) if c["status"] == "True"}
        return found | {status.get("jobDeploymentStatus", "")} - {""}

    # --- what is done --------------------------------------------------------------------------------------------

    def apply(self, objects: list[Manifest]) -> None:
        body = yaml.safe_dump_all(objects)
        self.cluster.kubectl("apply", "--server-side", "-n", self.name, "-f", "-", stdin=body)

    def patch(self, kind: str, spec: dict[str, Any], name: str = "simple") -> None:
        must(self.admin.patch(KINDS[kind].path(kind, self.name, name), {"spec": spec}, MERGE))

    def delete(self, kind: str, name: str = "simple") -> None:
        must(self.admin("DELETE", KINDS[kind].path(kind, self.name, name) + "?propagationPolicy=Background"))

    def lose(self, pod: Pod, how: str, exit_code: int = 1) -> None:
        """Have a member `deleted`, or `failed` by its kubelet."""
        path = breaking.pods(self.name, pod["metadata"]["name"])
        if how == "deleted":
            must(self.admin("DELETE", path, {"preconditions": {"uid": pod["metadata"]["uid"]}}))
            return
        code = {"pod-container-running-failed.stage.kwok.x-k8s.io/exit-code": str(exit_code)}
        must(self.admin.patch(path, {"metadata": FAILS["metadata"] | {"annotations": code}}, MERGE))

    def occupy(self, gpus: int = 1, label: str = "before") -> None:
        """Run a Job of so many GPUs."""
        self.queue_up(gpus, label)
        wait_until(lambda: self.bound_of(label) == gpus, what="what takes the room")

    def queue_up(self, gpus: int, label: str, runs: str = breaking.LONG) -> None:
        must(self.admin.create(breaking.jobs(self.name), breaking.job(label, self.name, gpus, runs)))

    def make_room(self, label: str = "before") -> float:
        """End that Job; when."""
        at = time.monotonic()
        must(self.admin("DELETE", breaking.jobs(self.name, label) + "?propagationPolicy=Background"))
        return at

    # --- what is waited for --------------------------------------------------------------------------------------

    def until(self, check: Callable[[], Any], what: str, timeout: float = 60) -> None:
        wait_until(check, timeout=timeout, what=what)

    def until_bound(self, count: int, what: str, timeout: float = 90) -> None:
        wait_until(lambda: self.bound() == count, timeout=timeout, what=f"{count} pods of {what} on nodes")

    def until_held(self, count: int, what: str) -> None:
        wait_until(lambda: self.held() == count, timeout=60, what=f"{count} pods of {what} behind the gate")


@contextmanager
def narrow(cluster: Cluster, admin: Caller, gpus: int) -> Iterator[Space]:
    """A gang namespace whose queue has so many GPUs."""
    queue = f"narrow-{time.monotonic_ns()}"
    must(admin.create(breaking.queues(), breaking.queue(queue, capability={GPU: gpus})))
    with wide(cluster, admin, **{names.ANNOTATION_QUEUES: queue}) as space:
        yield space
    admin("DELETE", breaking.queues(queue))


@contextmanager
def wide(cluster: Cluster, admin: Caller, **annotations: str) -> Iterator[Space]:
    """A gang namespace with all of the cluster; its end is asked for and not awaited."""
    with breaking.space(admin, "gang", **annotations) as name:
        yield Space(cluster, admin, name)
