"""Owners that make members one after the other: nothing starts without room for all, and all run to the last."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from deploy.local.cluster import Cluster
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import holds_for
from tests.operators.jobs import BRIEF, GPU, Manifest, mark, manifests
from tests.operators.space import Space, labelled, narrow

Change = Callable[[list[Manifest]], None]


def in_order(found: list[Manifest]) -> None:
    spec = found[0]["spec"]
    spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    (workers,) = spec["replicatedJobs"]
    spec["replicatedJobs"] = [workers | {"name": "driver", "replicas": 1}, workers]


def depending(found: list[Manifest], status: str = "Ready") -> None:
    spec = found[0]["spec"]
    (workers,) = spec["replicatedJobs"]
    after = {"dependsOn": [{"name": "driver", "status": status}]}
    spec["replicatedJobs"] = [workers | {"name": "driver", "replicas": 1}, workers | after]


def leader_first(found: list[Manifest]) -> None:
    found[0]["spec"]["startupPolicy"] = "LeaderReady"


def launcher_last(found: list[Manifest]) -> None:
    found[0]["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"


def as_it_stands(_: list[Manifest]) -> None:
    """A RayJob's submitter comes when the cluster is ready."""


# Kind, what is changed, pods at first, pods in all, GPUs of all.
READY: dict[str, tuple[str, Change, int, int, int]] = {
    "JobSet in order": ("JobSet", in_order, 2, 6, 6),
    "JobSet with dependencies": ("JobSet", depending, 2, 6, 6),
    "LeaderWorkerSet, leader first": ("LeaderWorkerSet", leader_first, 1, 3, 3),
    "MPIJob, launcher last": ("MPIJob", launcher_last, 2, 3, 2),
    "RayJob, submitter last": ("RayJob", as_it_stands, 2, 3, 1),
}


@contextmanager
def short_of_one(cluster: Cluster, admin: Caller, found: list[Manifest], first: int, gpus: int) -> Iterator[Space]:
    """Held while one GPU of all its stages is missing, though the first stage has room; then that one is given."""
    with narrow(cluster, admin, gpus) as space:
        space.occupy()
        space.apply(found)
        space.until_held(first, "the first stage")
        holds_for(lambda: space.held() == first, 2, "started without room for its later members")
        freed = space.make_room()
        space.until(lambda: space.lifted() >= first, "the lift")
        print(f"{time.monotonic() - freed:.1f} s from room to lift of {first}")
        yield space


@pytest.mark.parametrize(("kind", "change", "first", "count", "gpus"), READY.values(), ids=list(READY))
def test_stages_start_when_all_have_room_and_run_to_the_last(
    cluster: Cluster, admin: Caller, kind: str, change: Change, first: int, count: int, gpus: int
) -> None:
    found = manifests(kind)
    change(found)
    with short_of_one(cluster, admin, found, first, gpus) as space:
        space.until_bound(count, kind)
        assert space.held() == 0


def ends(space: Space, kind: str, done: str) -> None:
    """Every pod has succeeded, and its owner says so."""
    space.until(lambda: done in space.conditions(kind), f"the end of the {kind}", timeout=120)
    assert {pod["status"]["phase"] for pod in space.pods()} == {"Succeeded"}


def test_a_stage_that_waits_for_the_end_of_the_one_before(cluster: Cluster, admin: Caller) -> None:
    """Both never run at once, and yet room for both is asked for: nobody promises when a pod's end frees its place."""
    found = manifests("JobSet", BRIEF)
    depending(found, "Complete")
    with short_of_one(cluster, admin, found, 2, 6) as space:
        ends(space, "JobSet", "Completed")
        assert len(space.pods()) == 6


def initialized() -> list[Manifest]:
    """A TrainJob whose data set is fetched by one pod first, as its runtime says."""
    job, runtime = manifests("TrainJob", BRIEF)
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "dataset-initializer"}
    pod = {"spec": {"containers": [{"name": "dataset-initializer", "image": "busybox:1.36"}]}}
    fetch = {"name": "dataset-initializer", "template": {"metadata": {"labels": step}, "spec": {"template": pod}}}
    mark(fetch, annotations=BRIEF)
    after = {"dependsOn": [{"name": "dataset-initializer", "status": "Complete"}]}
    runtime["spec"]["template"]["spec"]["replicatedJobs"] = [fetch, node | after]
    job["spec"]["initializer"] = {"dataset": {"storageUri": "hf://example/data"}}
    return [job, runtime]


def test_initializers_of_a_trainjob_come_first(cluster: Cluster, admin: Caller) -> None:
    with short_of_one(cluster, admin, initialized(), 1, 2) as space:
        ends(space, "TrainJob", "Complete")
        assert len(space.pods()) == 3


# --- exclusive topology --------------------------------------------------------------------------------------

RACK = "test.example.com/rack"


@pytest.fixture
def racks(cluster: Cluster, admin: Caller) -> Iterator[None]:
    """Four racks of two nodes."""
    nodes = [f"/api/v1/nodes/node-{number}" for number in range(8)]
    for number, node in enumerate(nodes):
        admin.patch(node, {"metadata": {"labels": {RACK: f"rack-{number // 2}"}}}, MERGE)
    yield
    for node in nodes:
        admin.patch(node, {"metadata": {"labels": {RACK: None}}}, MERGE)


def test_each_job_of_a_jobset_has_a_rack_of_its_own(cluster: Cluster, admin: Caller, racks: None) -> None:
    """The first pod of each Job chooses the rack; the others are refused until it is on a node there."""
    found = manifests("JobSet", BRIEF)
    found[0]["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}
    rack_of = {
        node["metadata"]["name"]: node["metadata"]["labels"][RACK]
        for node in admin("GET", "/api/v1/nodes").body["items"]
    }
    with short_of_one(cluster, admin, found, 2, 4) as space:
        ends(space, "JobSet", "Completed")
        made = space.pods()
        places = {(labelled(pod, "jobset.sigs.k8s.io/job-index"), rack_of[pod["spec"]["nodeName"]]) for pod in made}
        assert len(made) == 4
        assert len(places) == len({rack for _, rack in places}) == 2
