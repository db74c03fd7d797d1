"""A namespace that is being deleted: its groups are left alone, and what still runs there is charged."""

import msgspec
import pytest

from policy.names import Reason
from policy.rules.decide import decide
from policy.rules.model import Claim, Config
from tests.unit.rules_facts import NOW, NS, gang, job, lifted, nodes, pod, pods, snapshot

ROOM = nodes(1)


def decided(**given):
    """By the name of the group."""
    return {d.group.rpartition("/")[2]: d for d in decide(snapshot(nodes=ROOM, **given), Config(), NOW).decisions}


CLAIM = Claim(f"Job/{NS}/j", "deadlock", 1.0, times=1)
SUSPENDED = job("j", 4, held=True, ours=True, lever=("spec", "suspend"), claim=CLAIM)
GOING = [msgspec.structs.replace(gang(), deleted=True)]
TORN = [lifted(pod("j-0", job="j", index=0), "n0", 4), *pods(4, "j", job="j")[2:]]


@pytest.mark.parametrize(
    "parts",
    [
        {"pods": pods(4, "j", job="j"), "jobs": [job("j", 4)]},
        {"pods": pods(2, job="j"), "jobs": [job("j", 4)]},
        {"pods": TORN, "jobs": [job("j", 4)]},
        {"pods": [], "jobs": [SUSPENDED]},
        {"pods": [lifted(p, "n0", 4) for p in pods(4, "j", job="j")], "jobs": [job("j", 4)]},
    ],
    ids=["that could start", "that forms", "of which a lift has begun", "that gave back", "that runs"],
)
def test_in_a_namespace_that_is_being_deleted_nothing_is_done_for_a_group(parts):
    assert decided(**parts)["j"].reason is not Reason.FINISHED
    found = decided(namespaces=GOING, **parts)["j"]
    assert (found.action, found.reason, found.message) == (
        "none",
        Reason.FINISHED,
        "namespace team is being deleted: nothing of it is started, kept or given back",
    )
    assert (found.places, found.pulls) == ({}, ())


def test_what_still_runs_in_a_namespace_that_is_being_deleted_is_charged():
    there = [lifted(p, "n0", 4) for p in pods(4, "old", job="old", ns="gone")]
    parts = {"pods": [*pods(8, "j", job="j"), *there], "jobs": [job("j", 8), job("old", 4, ns="gone")]}
    spaces = [gang(), msgspec.structs.replace(gang(name="gone"), deleted=True)]
    found = decided(namespaces=spaces, **parts)
    assert found["j"].reason is Reason.NODES_SHORT
