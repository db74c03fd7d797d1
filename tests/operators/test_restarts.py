"""Members that are lost, and jobs that start over: replaced singly, made anew whole, or given up, as their kind does."""

import pytest

from deploy.local.cluster import Cluster
from tests.cluster.breaking import gated
from tests.cluster.calls import Caller
from tests.operators.jobs import BRIEF, GPU, KINDS, Manifest, everywhere, manifests, off
from tests.operators.space import Pod, Space, labelled, live, narrow, uids, wide

RIVAL = "rival"


def asks(pod: Pod) -> bool:
    return any(GPU in c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"])
# Kinds that replace a lost member, and whom of theirs is lost: one that asks for a GPU, where the kind replaces it.
REPLACED = {
    "JobSet": asks,
    "MPIJob": lambda pod: labelled(pod, "training.kubeflow.org/job-role") == "launcher",
    "PyTorchJob": asks,
    "RayCluster": asks,
    "TrainJob": asks,
}


def outliving(kind: str) -> list[Manifest]:
    """With a job that outlives the loss of a pod, where its kind would give up by default."""
    found = manifests(kind)
    everywhere(found, "backoffLimit", 6)
    return found


def run_beside_a_rival(space: Space, found: list[Manifest], count: int, what: str) -> None:
    """Start it in a queue that has room for it alone; a Job of one GPU waits behind."""
    space.apply(found)
    space.until_bound(count, what)
    space.queue_up(1, RIVAL)
    space.until(lambda: [gated(pod) for pod in space.others(RIVAL)] == [True], "the rival behind the gate")


@pytest.mark.parametrize("how", ["deleted", "failed"])
@pytest.mark.parametrize("name", list(REPLACED))
def test_a_lost_member_is_replaced_in_its_own_room(cluster: Cluster, admin: Caller, name: str, how: str) -> None:
    kind = KINDS[name]
    with narrow(cluster, admin, kind.gpus) as space:
        run_beside_a_rival(space, outliving(name), kind.count, name)
        gone = next(pod for pod in space.pods() if REPLACED[name](pod))
        space.lose(gone, how)
        space.until(lambda: uids([gone]).isdisjoint(uids([p for p in space.pods() if live(p)])), "the loss")
        space.until_bound(kind.count, f"{name} again")
        assert [gated(pod) for pod in space.others(RIVAL)] == [True]
