"""What the tests with real operators share: one cluster with the add-on and every operator that can be started."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.operators import OPERATORS
from tests.cluster.conftest import MakeCluster, make_cluster, namespace_in, plain_namespace

__all__ = ["cluster", "gang_namespace", "make_cluster", "plain_namespace"]

MANIFESTS = Path(__file__).with_name("manifests")
Pod = dict[str, Any]


@pytest.fixture(scope="session")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """8 nodes of 8 GPUs, ganggate, and all operators: one at a time on a machine. Leave it as you found it."""
    made = make_cluster(name=f"ops-{os.getpid()}", nodes=8, gpus=8)
    made.start_operators(list(OPERATORS))
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
