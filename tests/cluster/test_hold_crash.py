"""Promise I8 for lifts that cannot hold: the gatekeeper dies at any write of a give-back, and the gang still runs whole.

A node goes between lift and bind. Three writes suspend the Jobs of the gang, three resume them once all of it fits on the
nodes that are left.
"""

import pytest

from deploy.local import nodes
from tests.cluster.conftest import namespace_in, wait_until
from tests.cluster.quotas import claim, complete, failed, jobs, suspended, training
from tests.cluster.test_crash import crash, succeed
from tests.cluster.test_failures_leaders import pinned

PODS = 5


def listed(kubectl, space):
    return kubectl.json("get", "pods", "-n", space)["items"]


def lose_a_node(cluster, space, *, lift):
    """`lift` makes a gang; once all of it is let go, the node of its first member goes, and the scheduler comes back."""
    scheduler = cluster.processes["kube-scheduler"]
    scheduler.kill()
    lift()
    gone = wait_until(lambda: _planned(cluster.kubectl, space), timeout=30, what="the lift")
    cluster.remove_nodes([gone])
    scheduler.start()
    return gone


def _planned(kubectl, space):
    found = listed(kubectl, space)
    open_ = [p for p in found if not p["spec"].get("schedulingGates")]
    return pinned(open_[0]) if len(open_) == len(found) == PODS else ""


def runs_whole(kubectl, space):
    return sum(1 for p in listed(kubectl, space) if p["spec"].get("nodeName")) == PODS


@pytest.mark.parametrize("where", [f"lever-{m}-{n}" for n in range(1, 7) for m in ("before", "after")])
def test_a_give_back_is_finished_after_a_crash(arena, where):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        crash(arena, where)
        doomed = arena.processes["gatekeeper"]
        gone = lose_a_node(arena, space, lift=lambda: kubectl.create(training(space, "a", run="30s"), validate=False))
        try:
            wait_until(lambda: not doomed.alive, timeout=60, what="the gatekeeper's death")
            succeed(arena)
            wait_until(lambda: runs_whole(kubectl, space), timeout=60, what="the whole gang on nodes")
            found = jobs(kubectl, space)
            assert {claim(one)["why"] for one in found.values()} == {"bind"}
            assert not [name for name, one in found.items() if failed(one) or complete(one)]
            assert not suspended(kubectl, space)
            assert {claim(one)["fails"] for one in found.values()} == {1}, "given back once"
        finally:
            kubectl.create([nodes.manifest(gone, 8)], validate=False)
