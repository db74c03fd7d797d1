"""Operators that were told of a gang scheduler: they make the PodGroup, and some of them no pod before it may start."""

from collections.abc import Iterator
from functools import partial

import pytest

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import breaking
from tests.cluster.calls import Caller
from tests.cluster.conftest import holds_for
from tests.operators.jobs import BRIEF, KINDS, Manifest, manifests
from tests.operators.space import Space, narrow

Flags = dict[str, tuple[str, ...]]
VOLCANO: Flags = {"training": ("--gang-scheduler-name=volcano",), "mpi": ("--gang-scheduling=volcano",)}
COSCHEDULING: Flags = {
    "training": ("--gang-scheduler-name=scheduler-plugins-scheduler",),
    "mpi": ("--gang-scheduling=scheduler-plugins-scheduler",),
}


def restarted(cluster: Cluster, flags: Flags) -> None:
    for name in VOLCANO:
        cluster.processes[name].stop()
    cluster.start_operators(list(VOLCANO), flags=flags)


@pytest.fixture(scope="module")
def told_of_volcano(cluster: Cluster) -> Iterator[Cluster]:
    restarted(cluster, VOLCANO)
    yield cluster
    restarted(cluster, {})


@pytest.fixture(scope="module")
def told_of_coscheduling(cluster: Cluster) -> Iterator[Cluster]:
    restarted(cluster, COSCHEDULING)
    yield cluster
    restarted(cluster, {})


def phase(space: Space, name: str = "simple") -> str:
    found: str = space.admin("GET", breaking.podgroups(space.name, name)).body.get("status", {}).get("phase", "")
    return found


@pytest.mark.parametrize("kind", ["PyTorchJob", "TFJob"])
def test_no_pod_is_made_before_all_have_room(told_of_volcano: Cluster, admin: Caller, kind: str) -> None:
    with narrow(told_of_volcano, admin, 3) as space:
        space.occupy()
        space.apply(manifests(kind))
        breaking.hears(admin, space.name, "simple", names.Reason.QUEUE_CAPABILITY_SHORT)
        assert phase(space) == "Pending"
        holds_for(lambda: not space.pods(), 2, "pods were made")
        space.make_room()
        space.until_bound(3, kind)
        space.until(lambda: phase(space) == "Running", "the PodGroup's phase")
        assert {pod["metadata"]["annotations"][names.GROUP_NAME] for pod in space.pods()} == {"simple"}


def named(kind: str, name: str) -> Manifest:
    (found,) = manifests(kind, BRIEF)
    found["metadata"]["name"] = name
    return found


def test_jobs_that_fit_one_at_a_time_run_in_turn(told_of_volcano: Cluster, admin: Caller) -> None:
    with narrow(told_of_volcano, admin, 3) as space:
        space.apply([named("PyTorchJob", "a"), named("TFJob", "b"), named("PyTorchJob", "c")])
        for kind, name in (("PyTorchJob", "a"), ("TFJob", "b"), ("PyTorchJob", "c")):
            space.until(partial(succeeded, space, kind, name), name, timeout=90)


def succeeded(space: Space, kind: str, name: str) -> bool:
    return "Succeeded" in space.conditions(kind, name)


def test_an_mpijob_names_its_podgroup(told_of_volcano: Cluster, admin: Caller) -> None:
    held_and_started(told_of_volcano, admin, "MPIJob")


@pytest.mark.parametrize("kind", ["MPIJob", "PyTorchJob"])
def test_podgroups_of_coscheduling(told_of_coscheduling: Cluster, admin: Caller, kind: str) -> None:
    held_and_started(told_of_coscheduling, admin, kind)


def held_and_started(cluster: Cluster, admin: Caller, kind: str) -> None:
    with narrow(cluster, admin, KINDS[kind].gpus) as space:
        space.occupy()
        space.apply(manifests(kind))
        space.until_held(KINDS[kind].first, kind)
        holds_for(lambda: space.held() == KINDS[kind].first, 1.5, "torn")
        assert {pod["spec"]["schedulerName"] for pod in space.pods()} == {names.DEFAULT_SCHEDULER}
        space.make_room()
        space.until_bound(KINDS[kind].count, kind)
