"""Real operators' jobs as gangs: held whole, started whole, mended, suspended, scaled, and stage by stage to their end."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from deploy.local.cluster import Cluster
from tests.cluster import breaking
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import holds_for, wait_until
from tests.operators.conftest import GPU, MANIFESTS, Manifest, apply, bound, held, lifted, narrow, pods

# Pods that are made at first, pods in all, and GPUs of all of them.
SIZES = {
    "JobSet": (4, 4, 4),
    "LeaderWorkerSet": (3, 3, 3),
    "MPIJob": (3, 3, 2),
    "PyTorchJob": (3, 3, 3),
    "RayCluster": (3, 3, 2),
    "RayJob": (2, 3, 1),
    "TFJob": (3, 3, 3),
    "TrainJob": (2, 2, 2),
}
LEVERS = {
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets", {"suspend": True}),
    "MPIJob": ("kubeflow.org/v2beta1", "mpijobs", {"runPolicy": {"suspend": True}}),
    "PyTorchJob": ("kubeflow.org/v1", "pytorchjobs", {"runPolicy": {"suspend": True}}),
    "RayCluster": ("ray.io/v1", "rayclusters", {"suspend": True}),
    "TFJob": ("kubeflow.org/v1", "tfjobs", {"runPolicy": {"suspend": True}}),
    "TrainJob": ("trainer.kubeflow.org/v1alpha1", "trainjobs", {"suspend": True}),
}
LASTING = {f"pod-complete.stage.kwok.x-k8s.io/{key}": "900s" for key in ("delay", "jitter-delay")}
BRIEF = {f"pod-complete.stage.kwok.x-k8s.io/{key}": "2s" for key in ("delay", "jitter-delay")}


def manifests(kind: str, running: dict[str, str] = LASTING) -> list[Manifest]:
    """The simplest of a kind, its pods running for as long as the annotations say."""
    found = [each for each in yaml.safe_load_all((MANIFESTS / f"{kind}.yaml").read_text()) if each]
    for each in found:
        annotate(each, running)
    return found


def annotate(node: Any, marks: dict[str, str]) -> None:
    """Every pod template in it."""
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        annotate(child, marks)
    if isinstance(node, dict) and "containers" in (node.get("spec") or {}):
        node.setdefault("metadata", {}).setdefault("annotations", {}).update(marks)


# --- held whole, started whole -------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "sizes"), SIZES.items(), ids=list(SIZES))
def test_it_is_held_whole_and_started_whole(
    cluster: Cluster, admin: Caller, kind: str, sizes: tuple[int, int, int]
) -> None:
    first, count, gpus = sizes
    with narrow(cluster, admin, gpus) as space:
        breaking.must(admin.create(breaking.jobs(space), breaking.job("before", space, 1)))
        wait_until(lambda: bound(cluster, space) == 1, what="what takes the room")
        apply(cluster, space, manifests(kind))
        wait_until(lambda: held(cluster, space) == first, timeout=60, what=f"{first} pods of {kind} behind the gate")
        holds_for(lambda: held(cluster, space) == first and lifted(cluster, space) == 1, 2, "torn")
        freed = time.monotonic()
        breaking.must(admin("DELETE", breaking.jobs(space, "before") + "?propagationPolicy=Background"))
        wait_until(lambda: held(cluster, space) == 0 and lifted(cluster, space) >= first, timeout=60, what="the lift")
        print(f"{kind}: {time.monotonic() - freed:.1f} s from room to lift of {first}")
        wait_until(lambda: bound(cluster, space) == count, timeout=60, what=f"{count} pods of {kind} on nodes")


ENDED_BY_A_LOSS = {"RayJob", "TFJob"}  # the operator calls the whole job failed


@pytest.mark.parametrize("kind", [kind for kind in SIZES if kind not in ENDED_BY_A_LOSS])
def test_a_lost_member_starts_again(cluster: Cluster, gang_namespace: str, kind: str) -> None:
    space, count = gang_namespace, SIZES[kind][1]
    apply(cluster, space, forgiving(manifests(kind)))
    wait_until(lambda: bound(cluster, space) == count, timeout=90, what=f"{kind} on nodes")
    gone = max(pods(cluster, space), key=lambda p: p["metadata"]["name"])
    cluster.kubectl("delete", "pod", gone["metadata"]["name"], "-n", space, "--wait=false")
    uid = gone["metadata"]["uid"]
    wait_until(lambda: uid not in {p["metadata"]["uid"] for p in pods(cluster, space)}, what="the loss")
    wait_until(lambda: bound(cluster, space) == count, timeout=60, what=f"{count} pods of {kind} again")


def forgiving(node: Any) -> Any:
    """With a job that outlives the loss of a pod, where its kind would give up by default."""
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        forgiving(child)
    if isinstance(node, dict) and "backoffLimit" in node:
        node["backoffLimit"] = 6
    return node


@pytest.mark.parametrize("kind", LEVERS)
def test_its_user_suspends_and_resumes_it(cluster: Cluster, admin: Caller, gang_namespace: str, kind: str) -> None:
    space, count = gang_namespace, SIZES[kind][1]
    api, plural, spec = LEVERS[kind]
    path = f"/apis/{api}/namespaces/{space}/{plural}/simple"
    apply(cluster, space, manifests(kind))
    wait_until(lambda: bound(cluster, space) == count, timeout=90, what=f"{kind} on nodes")
    breaking.must(admin.patch(path, {"spec": spec}, MERGE))
    wait_until(lambda: bound(cluster, space) == 0, timeout=60, what=f"{kind} suspended")
    breaking.must(admin.patch(path, {"spec": _off(spec)}, MERGE))
    wait_until(lambda: bound(cluster, space) == count, timeout=90, what=f"{kind} resumed")


def _off(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: _off(value) if isinstance(value, dict) else False for key, value in spec.items()}


# --- stages --------------------------------------------------------------------------------------------------


def in_order(found: list[Manifest]) -> None:
    spec = found[0]["spec"]
    spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    (workers,) = spec["replicatedJobs"]
    spec["replicatedJobs"] = [workers | {"name": "driver", "replicas": 1}, workers]


def depending(found: list[Manifest]) -> None:
    spec = found[0]["spec"]
    (workers,) = spec["replicatedJobs"]
    after = {"dependsOn": [{"name": "driver", "status": "Ready"}]}
    spec["replicatedJobs"] = [workers | {"name": "driver", "replicas": 1}, workers | after]


def leader_first(found: list[Manifest]) -> None:
    found[0]["spec"]["startupPolicy"] = "LeaderReady"


def launcher_last(found: list[Manifest]) -> None:
    found[0]["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"


# Kind, what is changed, pods at first, pods in all, GPUs of all.
STAGED = {
    "JobSet in order": ("JobSet", in_order, 2, 6, 6),
    "JobSet with dependencies": ("JobSet", depending, 2, 6, 6),
    "LeaderWorkerSet, leader first": ("LeaderWorkerSet", leader_first, 1, 3, 3),
    "MPIJob, launcher last": ("MPIJob", launcher_last, 2, 3, 2),
}


@pytest.mark.parametrize(("kind", "change", "first", "count", "gpus"), STAGED.values(), ids=list(STAGED))
def test_stages_start_when_all_have_room_and_run_to_the_last(
    cluster: Cluster,
    admin: Caller,
    kind: str,
    change: Callable[[list[Manifest]], None],
    first: int,
    count: int,
    gpus: int,
) -> None:
    """The room that the first stage needs is there at once: it is not enough."""
    found = manifests(kind)
    change(found)
    with narrow(cluster, admin, gpus) as space:
        breaking.must(admin.create(breaking.jobs(space), breaking.job("before", space, 1)))
        wait_until(lambda: bound(cluster, space) == 1, what="what takes the room")
        apply(cluster, space, found)
        wait_until(lambda: held(cluster, space) == first, timeout=60, what=f"{first} pods behind the gate")
        holds_for(lambda: held(cluster, space) == first, 2, "started without room for its later members")
        breaking.must(admin("DELETE", breaking.jobs(space, "before") + "?propagationPolicy=Background"))
        wait_until(lambda: bound(cluster, space) == count, timeout=90, what=f"{count} pods on nodes")
        assert held(cluster, space) == 0


# --- several at once -----------------------------------------------------------------------------------------


def training(name: str) -> Manifest:
    """Two workers, two parameter servers and a chief."""
    (found,) = manifests("TFJob", BRIEF)
    chief = found["spec"]["tfReplicaSpecs"]["Chief"]
    pair = chief | {"replicas": 2}
    found["spec"]["tfReplicaSpecs"] = {"Chief": chief, "PS": pair, "Worker": pair}
    found["metadata"]["name"] = name
    return found


def succeeded(admin: Caller, space: str, api: str, plural: str, name: str) -> bool:
    status = breaking.must(admin("GET", f"/apis/{api}/namespaces/{space}/{plural}/{name}")).get("status", {})
    conditions = {c["type"] for c in status.get("conditions", []) if c["status"] == "True"}
    assert "Failed" not in conditions
    return bool(conditions & {"Succeeded", "Completed", "Complete"})


def test_two_trainings_in_a_quota_for_one_finish_in_turn(cluster: Cluster, admin: Caller, gang_namespace: str) -> None:
    space = gang_namespace
    path = f"/api/v1/namespaces/{space}/resourcequotas"
    breaking.must(admin.create(path, breaking.quota("gpus", **{f"requests.{GPU}": 5})))
    wait_until(lambda: breaking.listed(admin, path)[0].get("status", {}).get("hard"), what="the quota")
    apply(cluster, space, [training("a"), training("b")])
    for name in ("a", "b"):
        wait_until(lambda name=name: succeeded(admin, space, "kubeflow.org/v1", "tfjobs", name), timeout=180, what=name)


def test_kinds_that_fit_one_at_a_time_run_in_turn(cluster: Cluster, admin: Caller) -> None:
    """A RayCluster never ends by itself: it is deleted once it has run."""
    with narrow(cluster, admin, 4) as space:
        (jobset,), (torch,), (ray,) = (manifests(kind, BRIEF) for kind in ("JobSet", "PyTorchJob", "RayCluster"))
        apply(cluster, space, [ray, torch, jobset])

        def cluster_ran() -> bool:
            mine = [p for p in pods(cluster, space) if "ray.io/cluster" in p["metadata"].get("labels", {})]
            return sum(1 for p in mine if p["spec"].get("nodeName")) == SIZES["RayCluster"][1]

        wait_until(cluster_ran, timeout=120, what="the RayCluster")
        breaking.must(admin("DELETE", f"/apis/ray.io/v1/namespaces/{space}/rayclusters/simple"))
        wait_until(
            lambda: succeeded(admin, space, "kubeflow.org/v1", "pytorchjobs", "simple"), timeout=120, what="PyTorchJob"
        )
        wait_until(
            lambda: succeeded(admin, space, "jobset.x-k8s.io/v1alpha2", "jobsets", "simple"), timeout=120, what="JobSet"
        )
