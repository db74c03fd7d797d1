"""The pair that breaks unpinned lifts: one gang spreads over both nodes, and the other's single pod never binds."""

import os

import pytest

from tests.cluster import submissions
from tests.cluster.conftest import namespace_in, wait_until

PAIRS = int(os.environ.get("GANGGATE_PAIRS", "5"))


@pytest.fixture(scope="module")
def two_nodes(make_cluster):
    pair = make_cluster(nodes=2, gpus=8)
    yield pair
    pair.down()


def bound(kubectl, namespace: str) -> int:
    pods = kubectl.raw(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return sum(1 for p in pods if p["spec"].get("nodeName"))


@pytest.mark.parametrize("round_", range(PAIRS))
def test_eight_small_pods_and_one_large_both_bind(two_nodes, round_):
    kubectl = two_nodes.kubectl
    with namespace_in(two_nodes, "gang") as space:
        small = submissions.job("small", 8, space, submissions.template("small", "600s"))
        large = submissions.job("large", 1, space, submissions.template("large", "600s", gpus=8))
        kubectl.create([small, large] if round_ % 2 else [large, small], validate=False)
        wait_until(lambda: bound(kubectl, space) == 9, what="all nine pods bound")
