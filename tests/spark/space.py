"""What tests with Spark see and do in a namespace: pods, manifests, a queue with so many GPUs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import breaking
from tests.cluster.breaking import gated
from tests.cluster.calls import Caller
from tests.cluster.conftest import namespace_in

GPU = "nvidia.com/gpu"
Manifest = dict[str, Any]
Pod = dict[str, Any]


def pods(cluster: Cluster, namespace: str) -> list[Pod]:
    found: list[Pod] = cluster.kubectl.raw(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return found


def apply(cluster: Cluster, namespace: str, objects: list[Manifest]) -> None:
    body = yaml.safe_dump_all(objects)
    cluster.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=body)


def live(pod: Pod) -> bool:
    return pod["status"]["phase"] in {"Pending", "Running"} and "deletionTimestamp" not in pod["metadata"]


def bound(cluster: Cluster, namespace: str) -> int:
    return sum(1 for p in pods(cluster, namespace) if p["spec"].get("nodeName") and live(p))


def held(cluster: Cluster, namespace: str) -> int:
    return sum(1 for p in pods(cluster, namespace) if gated(p) and live(p))


@pytest.fixture
def gang_namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace labelled scheduling-policy=gang."""
    with namespace_in(cluster, "gang") as name:
        yield name


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
