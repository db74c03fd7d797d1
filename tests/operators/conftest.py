"""What the tests with real operators share: one cluster with the add-on and every operator but those that need more than their program."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local.cluster import Cluster
from deploy.local.operators import LIGHT
from policy import names
from tests.cluster import breaking
from tests.cluster.breaking import gated
from tests.cluster.calls import Caller
from tests.cluster.conftest import MakeCluster, make_cluster, namespace_in, plain_namespace

__all__ = ["admin", "cluster", "gang_namespace", "make_cluster", "plain_namespace"]

MANIFESTS = Path(__file__).with_name("manifests")
GPU = "nvidia.com/gpu"
Manifest = dict[str, Any]
Pod = dict[str, Any]


@pytest.fixture(scope="session")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """8 nodes of 8 GPUs, ganggate, and the operators that need nothing beside them: one at a time on a machine.

    Leave it as you found it.
    """
    made = make_cluster(name=f"ops-{os.getpid()}", nodes=8, gpus=8)
    made.start_operators(LIGHT)
    return made


@pytest.fixture
def gang_namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace labelled scheduling-policy=gang."""
    with namespace_in(cluster, "gang") as name:
        yield name


def submit(cluster: Cluster, namespace: str, kind: str) -> None:
    """Apply manifests/<kind>.yaml; what lies in no namespace is left there for the next test."""
    cluster.kubectl("apply", "--server-side", "-n", namespace, "-f", str(MANIFESTS / f"{kind}.yaml"))


def pods(cluster: Cluster, namespace: str) -> list[Pod]:
    found: list[Pod] = cluster.kubectl.raw(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return found


def ran(pod: Pod) -> bool:
    """Whether it was bound and its kubelet has run it."""
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] in {"Running", "Succeeded"}


def apply(cluster: Cluster, namespace: str, objects: list[Manifest]) -> None:
    body = yaml.safe_dump_all(objects)
    cluster.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=body)


def live(pod: Pod) -> bool:
    return pod["status"]["phase"] in {"Pending", "Running"} and "deletionTimestamp" not in pod["metadata"]


def bound(cluster: Cluster, namespace: str) -> int:
    return sum(1 for p in pods(cluster, namespace) if p["spec"].get("nodeName") and live(p))


def held(cluster: Cluster, namespace: str) -> int:
    return sum(1 for p in pods(cluster, namespace) if gated(p) and live(p))


def lifted(cluster: Cluster, namespace: str) -> int:
    return sum(1 for p in pods(cluster, namespace) if not gated(p))


@pytest.fixture
def admin(cluster: Cluster) -> Caller:
    return Caller(cluster.kubeconfig)


@contextmanager
def narrow(cluster: Cluster, admin: Caller, gpus: int) -> Iterator[str]:
    """A gang namespace whose queue has so many GPUs."""
    queue = f"narrow-{time.monotonic_ns()}"
    breaking.must(admin.create(breaking.queues(), breaking.queue(queue, capability={GPU: gpus})))
    try:
        with namespace_in(cluster, "gang", **{names.ANNOTATION_QUEUES: queue}) as space:
            yield space
    finally:
        admin("DELETE", breaking.queues(queue))
