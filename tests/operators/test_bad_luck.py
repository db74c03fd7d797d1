"""Owners that go away while their gang waits, and operators that make their pods again and again."""

import time

import pytest

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import breaking
from tests.cluster.breaking import gated
from tests.cluster.calls import Caller
from tests.cluster.conftest import wait_until
from tests.operators.jobs import KINDS, manifests
from tests.operators.space import Space, live, narrow, uids

ROUNDS = 60
# Reasons that an object may be told of in a minute: few, however many pods come and go beneath it.
MOST_EVENTS = 6


@pytest.mark.parametrize("name", list(KINDS))
def test_an_owner_that_is_deleted_while_its_gang_waits_leaves_no_trace(
    cluster: Cluster, admin: Caller, name: str
) -> None:
    kind = KINDS[name]
    log = breaking.Log(cluster)
    with narrow(cluster, admin, kind.gpus) as space:
        space.occupy()
        space.apply(manifests(name))
        space.until_held(kind.first, name)
        space.queue_up(kind.gpus, "next")
        space.until(lambda: len(space.others("next")) == kind.gpus, "the next gang")
        space.delete(name)
        space.until(lambda: not space.pods(), "the end of its pods")
        space.make_room()
        space.until(lambda: space.bound_of("next") == kind.gpus, "the next gang's start")
        space.until(lambda: podgroup_owners(space) <= {"before", "next"}, "the end of its PodGroup")
    assert "Traceback" not in log.text


def podgroup_owners(space: Space) -> set[str]:
    found = breaking.listed(space.admin, breaking.podgroups(space.name))
    return {owner["name"] for each in found for owner in each["metadata"].get("ownerReferences", ())}


def churn(space: Space, rounds: int) -> float:
    """Delete a gated pod as soon as there is one, so many times; how many seconds that took."""
    started, gone = time.monotonic(), set[str]()
    while len(gone) < rounds:
        victims = [pod for pod in space.pods() if live(pod) and gated(pod) and not uids([pod]) & gone]
        for pod in victims[:1]:
            path = breaking.pods(space.name, pod["metadata"]["name"])
            if space.admin("DELETE", path, {"preconditions": {"uid": pod["metadata"]["uid"]}}).ok:
                gone |= uids([pod])
        assert time.monotonic() - started < 600, f"only {len(gone)} pods in ten minutes"
    return time.monotonic() - started


def events(space: Space) -> dict[str, int]:
    """How often we told of each object."""
    found: dict[str, int] = {}
    for event in breaking.listed(space.admin, f"/apis/events.k8s.io/v1/namespaces/{space.name}/events"):
        if event.get("reportingController") == names.CONTROLLER:
            of = f"{event['regarding']['kind']} {event['regarding']['uid']}"
            found[of] = found.get(of, 0) + 1
    return found


@pytest.mark.parametrize("name", ["LeaderWorkerSet", "PyTorchJob"])
def test_an_operator_that_makes_its_pods_anew_without_end(cluster: Cluster, admin: Caller, name: str) -> None:
    kind = KINDS[name]
    with narrow(cluster, admin, kind.gpus) as space:
        space.occupy()
        space.apply(manifests(name))
        space.until_held(kind.first, name)
        seconds = churn(space, ROUNDS)
        space.until_held(kind.first, f"{name} after {ROUNDS} deletions")
        assert max(events(space).values()) <= MOST_EVENTS
        wait_until(lambda: breaking.readiness(cluster) is None, what="a gatekeeper at rest")
        freed = space.make_room()
        space.until_bound(kind.count, name)
        print(
            f"{name}: {ROUNDS} gated pods deleted in {seconds:.0f} s; on nodes {time.monotonic() - freed:.1f} s "
            f"after room came; {sum(events(space).values())} events"
        )
