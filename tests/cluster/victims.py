"""Fixtures of tests that break a cluster and heal it; `gang` also for those with an `admin` of their own."""

from collections.abc import Iterator

import pytest

from deploy.local.cluster import Cluster
from tests.cluster import breaking
from tests.cluster.calls import Caller


@pytest.fixture
def victim(victim_cluster: Cluster) -> Iterator[Cluster]:
    yield victim_cluster
    breaking.heal(victim_cluster)


@pytest.fixture
def admin(victim: Cluster) -> Caller:
    return Caller(victim.kubeconfig)


@pytest.fixture
def gang(admin: Caller) -> Iterator[str]:
    """A namespace that asks for gangs, made as the requesting file's `admin`; its end is not waited for."""
    with breaking.space(admin) as name:
        yield name
