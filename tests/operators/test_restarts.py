"""Members that are lost, and jobs that start over: replaced singly, made anew whole, or given up, as their kind does.

A Job of one GPU, the rival, waits behind each: it must not get what a replaced member needs, and gets what is given up.
"""

import time
from collections.abc import Callable

import pytest

from deploy.local.cluster import Cluster
from policy.gatekeeper.client import Client
from policy.rules import objects
from tests.cluster.breaking import gated
from tests.cluster.calls import Caller
from tests.cluster.conftest import holds_for
from tests.cluster.record import Recorder, audit, labelled as submission
from tests.operators.jobs import GPU, KINDS, Manifest, everywhere, manifests, off
from tests.operators.space import Pod, Space, labelled, live, narrow, uids, wide

RIVAL = "rival"
Make = Callable[[], list[Manifest]]
Whom = Callable[[Pod], bool]


def trains(pod: Pod) -> bool:
    return any(GPU in c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"])


def launches(pod: Pod) -> bool:
    return labelled(pod, "training.kubeflow.org/job-role") == "launcher"


def submits(pod: Pod) -> bool:
    return not labelled(pod, "ray.io/cluster")


def run_beside_a_rival(space: Space, found: list[Manifest], count: int, what: str) -> None:
    """Start it in a queue that has room for it alone; the rival waits."""
    space.apply(found)
    space.until_bound(count, what)
    space.queue_up(1, RIVAL, "2s")
    space.until(lambda: rival_waits(space), "the rival behind the gate")


def rival_waits(space: Space) -> bool:
    return [gated(pod) for pod in space.others(RIVAL)] == [True]


def lose(space: Space, whom: Whom, how: str, exit_code: int = 1) -> None:
    """Lose one of those, and wait until it is gone or over."""
    gone = next(pod for pod in space.pods() if live(pod) and whom(pod))
    space.lose(gone, how, exit_code)
    space.until(lambda: uids([gone]).isdisjoint(uids([pod for pod in space.pods() if live(pod)])), "the loss")


# --- a member is replaced ------------------------------------------------------------------------------------

REPLACED = {
    "JobSet": trains,
    "MPIJob": launches,
    "PyTorchJob": trains,
    "RayCluster": trains,
    "RayJob": trains,
    "TrainJob": trains,
}


def outliving(kind: str) -> list[Manifest]:
    """With a job that outlives the loss of a pod, where its kind would give up by default."""
    found = manifests(kind)
    everywhere(found, "backoffLimit", 6)
    return found


@pytest.mark.parametrize("how", ["deleted", "failed"])
@pytest.mark.parametrize("name", list(REPLACED))
def test_a_lost_member_is_replaced_in_its_own_room(cluster: Cluster, admin: Caller, name: str, how: str) -> None:
    kind = KINDS[name]
    with narrow(cluster, admin, kind.gpus) as space:
        run_beside_a_rival(space, outliving(name), kind.count, name)
        lose(space, REPLACED[name], how)
        space.until_bound(kind.count, f"{name} again")
        assert rival_waits(space)


def test_a_deleted_worker_of_an_mpijob_is_replaced_and_a_failed_one_keeps_its_place(
    cluster: Cluster, admin: Caller
) -> None:
    """The operator replaces no worker that failed: the job goes on with those that it has."""
    with narrow(cluster, admin, 2) as space:
        run_beside_a_rival(space, manifests("MPIJob"), 3, "MPIJob")
        lose(space, trains, "deleted")
        space.until_bound(3, "MPIJob again")
        lose(space, trains, "failed")
        holds_for(lambda: space.bound() == 2 and rival_waits(space), 2, "the job or its place was given up")
        space.delete("MPIJob")
        space.until(lambda: not rival_waits(space), "the rival's start")


def with_policy(kind: str, policy: str) -> list[Manifest]:
    """A training job whose replicas restart so."""
    found = manifests(kind)
    (replicas,) = (value for key, value in found[0]["spec"].items() if key.endswith("ReplicaSpecs"))
    for role in replicas.values():
        role["restartPolicy"] = policy
    return found


def test_a_failed_worker_is_replaced_where_its_exit_code_says_so(cluster: Cluster, admin: Caller) -> None:
    with narrow(cluster, admin, 3) as space:
        run_beside_a_rival(space, with_policy("PyTorchJob", "ExitCode"), 3, "PyTorchJob")
        lose(space, trains, "failed", exit_code=137)
        space.until_bound(3, "PyTorchJob again")
        assert rival_waits(space)
        lose(space, trains, "failed", exit_code=1)
        space.until(lambda: "Failed" in space.conditions("PyTorchJob"), "the end of the job")
        space.until(lambda: not rival_waits(space), "the rival's start")


# --- all are made anew ---------------------------------------------------------------------------------------


def restarting() -> list[Manifest]:
    found = manifests("JobSet")
    found[0]["spec"]["failurePolicy"] = {"maxRestarts": 3}
    return found


WHOLE: dict[str, tuple[Make, int]] = {
    "JobSet": (restarting, 4),
    "LeaderWorkerSet": (lambda: manifests("LeaderWorkerSet"), 3),
}


def made_anew(space: Space, former: set[str]) -> bool:
    return former.isdisjoint(uids([pod for pod in space.pods() if live(pod)]))


@pytest.mark.parametrize("how", ["deleted", "failed"])
@pytest.mark.parametrize("name", list(WHOLE))
def test_a_job_that_starts_over_starts_whole(cluster: Cluster, admin: Caller, name: str, how: str) -> None:
    """All of its members are gone for a moment: it is judged anew, in its old place, and the rival may come between."""
    make, count = WHOLE[name]
    recorder = Recorder(Client.from_kubeconfig(str(cluster.kubeconfig))).start()
    with narrow(cluster, admin, count) as space:
        run_beside_a_rival(space, make(), count, name)
        first = uids(space.pods())
        lose(space, lambda _: True, how)
        space.until(lambda: made_anew(space, first) and space.bound() == count, f"{name} again", timeout=90)
        recorder.stop()

    def again(pod: objects.Pod) -> str | None:
        mine = pod.metadata.namespace == space.name and not submission(pod)
        return "again" if mine and pod.metadata.uid not in first else None

    assert audit(recorder.entries, {"again": count}, {}, time.monotonic(), group_of=again) == []


# --- the job gives up ----------------------------------------------------------------------------------------


def without_retry() -> list[Manifest]:
    """A RayJob keeps its cluster unless it is told to shut it down."""
    found = manifests("RayJob")
    found[0]["spec"] |= {"submitterConfig": {"backoffLimit": 0}, "shutdownAfterJobFinishes": True}
    return found


GIVES_UP: dict[str, tuple[Make, Whom]] = {
    "JobSet": (lambda: manifests("JobSet"), trains),
    "PyTorchJob": (lambda: with_policy("PyTorchJob", "Never"), trains),
    "RayJob": (without_retry, submits),
    "TFJob": (lambda: manifests("TFJob"), trains),
}


@pytest.mark.parametrize("how", ["deleted", "failed"])
@pytest.mark.parametrize("name", list(GIVES_UP))
def test_a_job_that_gives_up_leaves_its_room_to_the_next(cluster: Cluster, admin: Caller, name: str, how: str) -> None:
    """Kubeflow's operators let the other pods run on by default: then what the lost one had is free, and no more."""
    make, whom = GIVES_UP[name]
    with narrow(cluster, admin, KINDS[name].gpus) as space:
        run_beside_a_rival(space, make(), KINDS[name].count, name)
        lose(space, whom, how)
        space.until(lambda: "Failed" in space.conditions(name), f"the end of the {name}")
        space.until(lambda: not rival_waits(space), "the rival's start")


# --- its user suspends it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.suspend])
def test_its_user_suspends_and_resumes_it(cluster: Cluster, admin: Caller, name: str) -> None:
    kind = KINDS[name]
    assert kind.suspend is not None
    with wide(cluster, admin) as space:
        space.apply(manifests(name))
        space.until_bound(kind.count, name)
        space.patch(name, dict(kind.suspend))
        space.until_bound(0, f"{name}, suspended")
        space.patch(name, off(kind.suspend))
        space.until_bound(kind.count, f"{name}, resumed")
