"""Real operators' jobs as gangs: held whole while one GPU is missing, started whole once it is there."""

import time
from functools import partial

import pytest

from deploy.local.cluster import Cluster
from tests.cluster import breaking
from tests.cluster.breaking import must
from tests.cluster.calls import Caller
from tests.cluster.conftest import holds_for, wait_until
from tests.operators.jobs import BRIEF, GPU, KINDS, LASTING, Kind, Manifest, manifests
from tests.operators.space import Space, labelled, narrow, wide

DONE = {"Succeeded", "Completed", "Complete"}


@pytest.mark.parametrize(("name", "kind"), KINDS.items(), ids=list(KINDS))
def test_it_is_held_whole_and_started_whole(cluster: Cluster, admin: Caller, name: str, kind: Kind) -> None:
    with narrow(cluster, admin, kind.gpus) as space:
        space.occupy()
        space.apply(manifests(name))
        space.until_held(kind.first, name)
        holds_for(lambda: space.held() == kind.first and space.lifted() == 0, 2, "torn")
        freed = space.make_room()
        space.until(lambda: space.held() == 0 and space.lifted() >= kind.first, "the lift")
        print(f"{name}: {time.monotonic() - freed:.1f} s from room to lift of {kind.first}")
        space.until_bound(kind.count, name)


# --- several at once -----------------------------------------------------------------------------------------


def training(name: str) -> Manifest:
    """Two workers, two parameter servers and a chief."""
    (found,) = manifests("TFJob", BRIEF)
    chief = found["spec"]["tfReplicaSpecs"]["Chief"]
    pair = chief | {"replicas": 2}
    found["spec"]["tfReplicaSpecs"] = {"Chief": chief, "PS": pair, "Worker": pair}
    found["metadata"]["name"] = name
    return found


def succeeded(space: Space, kind: str, name: str = "simple") -> bool:
    found = space.conditions(kind, name)
    assert "Failed" not in found
    return bool(found & DONE)


def test_two_trainings_in_a_quota_for_one_finish_in_turn(cluster: Cluster, admin: Caller) -> None:
    with wide(cluster, admin) as space:
        path = f"/api/v1/namespaces/{space.name}/resourcequotas"
        must(admin.create(path, breaking.quota("gpus", **{f"requests.{GPU}": 5})))
        wait_until(lambda: breaking.listed(admin, path)[0].get("status", {}).get("hard"), what="the quota")
        space.apply([training("a"), training("b")])
        for name in ("a", "b"):
            wait_until(partial(succeeded, space, "TFJob", name), timeout=180, what=name)


def test_kinds_that_fit_one_at_a_time_run_in_turn(cluster: Cluster, admin: Caller) -> None:
    """A RayCluster never ends by itself: it is deleted once it has run."""
    with narrow(cluster, admin, 4) as space:
        runs = {"RayCluster": LASTING, "PyTorchJob": BRIEF, "JobSet": BRIEF}
        space.apply([each for kind, time_of in runs.items() for each in manifests(kind, time_of)])

        def cluster_ran() -> bool:
            mine = [pod for pod in space.pods() if labelled(pod, "ray.io/cluster")]
            return sum(1 for pod in mine if pod["spec"].get("nodeName")) == KINDS["RayCluster"].count

        space.until(cluster_ran, "the RayCluster", timeout=120)
        space.delete("RayCluster")
        for kind in ("PyTorchJob", "JobSet"):
            wait_until(partial(succeeded, space, kind), timeout=120, what=kind)
