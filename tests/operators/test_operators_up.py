"""Real operators on a local cluster: each makes the pods of its simplest job, and they run like any others."""

import pytest

from deploy.local.cluster import Cluster
from deploy.local.errors import UsageError
from deploy.local.operators import OPERATORS
from policy import names
from tests.cluster.conftest import wait_until
from tests.operators.conftest import MANIFESTS, pods, ran, submit

PODS = {
    "JobSet": 4,
    "LeaderWorkerSet": 3,
    "MPIJob": 3,
    "PyTorchJob": 3,
    "RayCluster": 3,
    "RayJob": 3,  # the third is the submitter's, made when the other two are ready
    "TFJob": 3,
    "TrainJob": 2,
}


def test_every_manifest_is_tried() -> None:
    assert {path.stem for path in MANIFESTS.iterdir()} == set(PODS)


@pytest.mark.parametrize(("kind", "count"), PODS.items(), ids=list(PODS))
def test_its_operator_makes_the_pods_and_they_run(
    cluster: Cluster, plain_namespace: str, kind: str, count: int
) -> None:
    submit(cluster, plain_namespace, kind)
    wait_until(
        lambda: [ran(pod) for pod in pods(cluster, plain_namespace)] == [True] * count, timeout=90, what=f"{kind} runs"
    )
    made = pods(cluster, plain_namespace)
    assert all(pod["metadata"]["ownerReferences"] for pod in made)
    assert not any(names.GATE in str(pod["spec"]) for pod in made)


def test_starting_what_runs_changes_nothing(cluster: Cluster) -> None:
    before = cluster.roster.pids()
    cluster.start_operators(["trainer", "mpi"])
    assert cluster.roster.pids() == before
    assert set(before) >= set(OPERATORS)


def test_one_that_ended_is_started_again(cluster: Cluster) -> None:
    before = cluster.roster.pids()
    cluster.processes["kuberay"].kill()
    cluster.start_operators(["kuberay"])
    after = cluster.roster.pids()
    assert after["kuberay"] != before["kuberay"]
    assert after == before | {"kuberay": after["kuberay"]}


def test_an_operator_that_is_not_known_is_refused(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="operator: 'kubelet' is none of jobset, "):
        cluster.start_operators(["kubelet"])
