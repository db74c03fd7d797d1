"""`ganggate queues`: the tree, what each level holds, and queues that are missing, wrong or in a circle."""

import json

import pytest

from tests.unit.cli_support import FakeWorld, run, trimmed
from tests.unit.rules_facts import gang, job, lifted, nodes, pod, pods, queue, snapshot


def world(**changes):
    fields = {
        "nodes": nodes(4),
        "jobs": [job("runs", 4), job("waits", 20), job("lost", 1)],
        "pods": [
            *[lifted(p, "n0", 4) for p in pods(4, "runs", job="runs", queue="team-a")],
            *pods(20, "waits", job="waits", queue="team-a"),
            *pods(1, "lost", job="lost", queue="nowhere"),
        ],
        "queues": [
            queue("team-a", "research", gpu="16"),
            queue("team-b", "research", gpu="8", state="Closed"),
            queue("research", gpu="20", cpu="64"),
            queue("broken", problem="spec.capability: cpu: not a quantity: 'x'"),
        ],
    }
    return snapshot(**(fields | changes))


def test_the_tree():
    assert run(world(), "queues").stdout == trimmed(
        """
        QUEUE      STATE     WAITING   RUNNING   RESOURCE         CAPABILITY   ALLOCATED   FREE
        broken     Open      0         0         -                -            -           -
        default    Open      0         0         -                -            -           -
        nowhere    Missing   1         0         -                -            -           -
        research   Open      0         0         nvidia.com/gpu   20           4           16
                                                 cpu              64           4           60
          team-a   Open      1         1         nvidia.com/gpu   16           4           12
                                                 cpu              unlimited    4           unlimited
          team-b   Closed    0         0         nvidia.com/gpu   8            0           8
        """
    )


def test_wide_says_what_is_wrong_with_a_queue():
    rows = {line.split()[0]: line for line in run(world(), "queues", "-o", "wide").stdout.splitlines()[1:]}
    assert rows["broken"].endswith("spec.capability: cpu: not a quantity: 'x'")
    assert rows["team-b"].rstrip().endswith("-")


def test_the_structure():
    items = {i["name"]: i for i in json.loads(run(world(), "queues", "-o", "json").stdout)["items"]}
    assert items["team-a"] == {
        "name": "team-a",
        "parent": "research",
        "depth": 1,
        "state": "Open",
        "problem": "",
        "capability": {"nvidia.com/gpu": "16"},
        "allocated": {"cpu": "4", "nvidia.com/gpu": "4"},
        "free": {"nvidia.com/gpu": "12"},
        "waiting": 1,
        "running": 1,
    }


def test_names():
    assert run(world(), "queues", "-o", "name").stdout.split()[:2] == [
        "queue.scheduling.volcano.sh/broken",
        "queue.scheduling.volcano.sh/default",
    ]


def test_a_circle_and_a_missing_parent_lose_no_queue():
    facts = world(queues=[queue("a", "b"), queue("b", "a"), queue("c", "gone"), queue("self", "self")])
    names = run(facts, "queues", "-o", "name").stdout.split()
    assert len(names) == len(set(names))
    assert {n.rpartition("/")[2] for n in names} >= {"a", "b", "c", "self", "default"}


def test_zero_cpu_is_unlimited_and_zero_gpu_is_none():
    facts = world(queues=[queue("team-a", cpu="0", gpu="0")])
    items = {i["name"]: i for i in json.loads(run(facts, "queues", "-o", "json").stdout)["items"]}
    assert items["team-a"]["capability"] == {"nvidia.com/gpu": "0"}
    assert items["team-a"]["free"] == {"nvidia.com/gpu": "0"}


def test_pods_that_are_no_gang_s_are_charged_to_the_queue_they_name():
    outsider = pod("o", gated=False, node="n0", queue="team-b")
    facts = world(pods=[outsider], namespaces=[gang()])
    items = {i["name"]: i for i in json.loads(run(facts, "queues", "-o", "json").stdout)["items"]}
    assert items["team-b"]["allocated"]["nvidia.com/gpu"] == "1" == items["research"]["allocated"]["nvidia.com/gpu"]


@pytest.mark.parametrize("args", [[], ["-n", "x"]])
def test_who_may_not_see_the_cluster_sees_no_queues(args):
    result = run(FakeWorld(world(), tenant=True), "queues", *args)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: you may not list pods in the whole cluster: pods is forbidden\n"
