"""Promise I8 for cures: the gatekeeper dies at any write to an owner, and both groups still finish."""

import pytest

from tests.cluster.conftest import namespace_in, wait_until
from tests.cluster.quotas import GPU_KEY, quota, suspended
from tests.cluster.test_crash import crash, succeed
from tests.cluster.test_deadlock import all_complete, deadlock


@pytest.mark.parametrize("where", [f"lever-{m}-{n}" for n in range(1, 7) for m in ("before", "after")])
def test_a_cure_is_finished_after_a_crash(arena, where):
    """Three writes suspend the second training, three resume it."""
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        kubectl.create([quota(space, hard={GPU_KEY: "5"})])
        crash(arena, where)
        doomed = arena.processes["gatekeeper"]
        deadlock(kubectl, space)
        wait_until(lambda: not doomed.alive, timeout=60, what="the gatekeeper's death")
        succeed(arena)
        wait_until(lambda: all_complete(kubectl, space), timeout=90, what="both trainings complete")
        assert not suspended(kubectl, space)
