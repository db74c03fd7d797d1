"""Jobs that grow and shrink while they run: whole units start as there is room, what runs is never disturbed."""

from collections.abc import Iterator
from contextlib import contextmanager

from deploy.local.cluster import Cluster
from tests.cluster.calls import Caller
from tests.cluster.conftest import holds_for
from tests.operators.jobs import Manifest, manifests
from tests.operators.space import Pod, Space, labelled, live, narrow, uids

REPLICA = "leaderworkerset.sigs.k8s.io/group-index"


def on_nodes(space: Space) -> list[Pod]:
    return [pod for pod in space.pods() if live(pod) and pod["spec"].get("nodeName")]


@contextmanager
def undisturbed(space: Space) -> Iterator[None]:
    """What is on nodes before is there afterwards."""
    before = uids(on_nodes(space))
    yield
    assert before <= uids(on_nodes(space))


def until_counts(space: Space, bound: int, held: int, what: str) -> None:
    space.until(lambda: (space.bound(), space.held()) == (bound, held), f"{what}: {bound} on nodes and {held} held")
    holds_for(lambda: (space.bound(), space.held()) == (bound, held), 1.5, f"{what} did not stay so")


def test_each_replica_of_a_leaderworkerset_is_a_gang_of_its_own(cluster: Cluster, admin: Caller) -> None:
    """Eight GPUs: two replicas of three, and not two thirds of another."""
    with narrow(cluster, admin, 8) as space:
        space.apply(manifests("LeaderWorkerSet"))
        space.until_bound(3, "one replica")
        with undisturbed(space):
            space.patch("LeaderWorkerSet", {"replicas": 4})
            until_counts(space, 6, 6, "two of four replicas")
        by_replica = {labelled(pod, REPLICA) for pod in on_nodes(space)}
        assert len(by_replica) == 2
        space.patch("LeaderWorkerSet", {"replicas": 2})
        space.until(lambda: len([pod for pod in space.pods() if live(pod)]) == 6, "two replicas")
        space.until_bound(6, "the two that are left")
        space.patch("LeaderWorkerSet", {"replicas": 1})
        until_counts(space, 3, 0, "one replica again")


# --- Ray -----------------------------------------------------------------------------------------------------


def ray(replicas: int, least: int, most: int, *, hosts: int = 1, autoscaled: bool = False) -> list[Manifest]:
    found = manifests("RayCluster")
    (workers,) = found[0]["spec"]["workerGroupSpecs"]
    workers |= {"replicas": replicas, "minReplicas": least, "maxReplicas": most, "numOfHosts": hosts}
    found[0]["spec"]["enableInTreeAutoscaling"] = autoscaled
    return found


def scale(space: Space, replicas: int) -> None:
    """As the autoscaler or a user does; the group's other fields are kept."""
    found = space.owner("RayCluster")
    (workers,) = found["spec"]["workerGroupSpecs"]
    space.patch("RayCluster", {"workerGroupSpecs": [workers | {"replicas": replicas}]})


def test_a_raycluster_is_scaled_by_its_user(cluster: Cluster, admin: Caller) -> None:
    """Its size is fixed by the start: workers that are added later join one by one."""
    with narrow(cluster, admin, 4) as space:
        space.apply(ray(2, 0, 8))
        space.until_bound(3, "head and two workers")
        with undisturbed(space):
            scale(space, 5)
            until_counts(space, 5, 1, "four of five workers")
        scale(space, 3)
        until_counts(space, 4, 0, "three workers")
        scale(space, 4)
        until_counts(space, 5, 0, "four workers")


def test_an_autoscaled_raycluster_starts_with_its_fewest(cluster: Cluster, admin: Caller) -> None:
    with narrow(cluster, admin, 3) as space:
        space.occupy(2)
        space.apply(ray(3, 1, 4, autoscaled=True))
        until_counts(space, 2, 2, "head and one worker")
        with undisturbed(space):
            space.make_room()
            until_counts(space, 4, 0, "all three workers")
            scale(space, 4)
            until_counts(space, 4, 1, "three of four workers")


def test_an_autoscaled_raycluster_waits_for_its_fewest(cluster: Cluster, admin: Caller) -> None:
    with narrow(cluster, admin, 3) as space:
        space.occupy(2)
        space.apply(ray(3, 2, 4, autoscaled=True))
        until_counts(space, 0, 4, "all of it")
        space.make_room()
        until_counts(space, 4, 0, "all three workers")


def test_the_hosts_of_a_replica_join_together(cluster: Cluster, admin: Caller) -> None:
    """Three GPUs are a replica of two hosts and half of another."""
    with narrow(cluster, admin, 5) as space:
        space.occupy(2)
        space.apply(ray(1, 1, 4, hosts=2, autoscaled=True))
        space.until_bound(3, "head and one replica of two hosts")
        with undisturbed(space):
            scale(space, 2)
            until_counts(space, 3, 2, "one of two replicas")
            space.make_room()
            until_counts(space, 5, 0, "both replicas")
        gone = next(pod for pod in on_nodes(space) if labelled(pod, "ray.io/node-type") == "worker")
        space.lose(gone, "deleted")
        space.until(lambda: uids([gone]).isdisjoint(uids(space.pods())), "the loss")
        until_counts(space, 5, 0, "both replicas again")


# --- Kubeflow ------------------------------------------------------------------------------------------------


def torch(workers: int, **elastic: int) -> list[Manifest]:
    found = manifests("PyTorchJob")
    spec = found[0]["spec"]
    spec["pytorchReplicaSpecs"]["Worker"]["replicas"] = workers
    if elastic:
        spec["elasticPolicy"] = {"rdzvBackend": "c10d", **elastic}
    return found


def workers(space: Space, count: int) -> None:
    space.patch("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": count}}})


def test_an_mpijob_is_scaled_by_its_user(cluster: Cluster, admin: Caller) -> None:
    with narrow(cluster, admin, 3) as space:
        space.apply(manifests("MPIJob"))
        space.until_bound(3, "launcher and two workers")
        with undisturbed(space):
            space.patch("MPIJob", {"mpiReplicaSpecs": {"Worker": {"replicas": 4}}})
            until_counts(space, 4, 1, "launcher and three of four workers")
        space.patch("MPIJob", {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}})
        until_counts(space, 3, 0, "launcher and two workers again")


def test_an_elastic_pytorchjob_starts_with_its_fewest_and_is_scaled(cluster: Cluster, admin: Caller) -> None:
    with narrow(cluster, admin, 5) as space:
        space.occupy(3)
        space.apply(torch(3, minReplicas=1, maxReplicas=8))
        until_counts(space, 2, 2, "master and one worker")
        with undisturbed(space):
            space.make_room()
            until_counts(space, 4, 0, "master and three workers")
            workers(space, 5)
            until_counts(space, 5, 1, "four of five workers")
        workers(space, 2)
        until_counts(space, 3, 0, "two workers")


def test_a_pytorchjob_of_fixed_size_is_scaled_by_its_user(cluster: Cluster, admin: Caller) -> None:
    with narrow(cluster, admin, 4) as space:
        space.apply(torch(2))
        space.until_bound(3, "master and two workers")
        with undisturbed(space):
            workers(space, 4)
            until_counts(space, 4, 1, "three of four workers")
