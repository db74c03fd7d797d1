"""What the tests with real operators share: one cluster with the add-on and every operator but those that need more than their program."""

import os

import pytest

from deploy.local.cluster import Cluster
from deploy.local.operators import LIGHT
from tests.cluster.calls import Caller
from tests.cluster.conftest import MakeCluster, make_cluster

__all__ = ["make_cluster"]


@pytest.fixture(scope="session")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """8 nodes of 8 GPUs, ganggate, and all operators: one at a time on a machine. Leave it as you found it."""
    made = make_cluster(name=f"ops-{os.getpid()}", nodes=8, gpus=8)
    made.start_operators(list(LIGHT))
    return made


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> Caller:
    return Caller(cluster.kubeconfig)
