"""Whose turn it is among queues: guarantees, priorities, weighted dominant shares, down the tree."""

from collections import Counter

import msgspec
import pytest

from policy.rules import queue_capacity
from policy.rules.conclusions import Group
from policy.rules.decide import decide
from policy.rules.membership.identity import Identity
from policy.rules.model import Config, QueueFacts
from policy.rules.quantity import NANO
from policy.rules.shares import Line, Remembered
from tests.unit.rules_facts import NOW, amounts, gang, job, lifted, nodes, pod, pods, shape, snapshot

GPU = "nvidia.com/gpu"
TOTALS = {GPU: 32 * NANO, "cpu": 320 * NANO}


def group(name, queue, gpu=1, **fields):
    member = pod(f"{name}-0", like=shape(gpu=gpu), job=name)
    return Group(Identity("Job", "team", name, name), name, 1, 1, "", (member,), queue=queue, **fields)


def some(queue, count, **fields):
    return [group(f"{queue}{i:02}", queue, **fields) for i in range(count)]


def tree(*queues):
    return {queue.name: queue for queue in queues}


def charged(queues, used, of, need):
    queue_capacity.charge(queues, of.queue, need, used)


def served(queues, groups, used=None, rounds=None, totals=TOTALS):
    """The queues in the order of their turns, each turn charging what its group asks for."""
    used = {} if used is None else used
    found = []
    for one in Line(queues, totals, used, groups):
        found.append(one.queue)
        charged(queues, used, one, one.members[0].shape.requests)
        if len(found) == rounds:
            break
    return found


def test_turns_follow_the_weights():
    queues = tree(QueueFacts("a", weight=4), QueueFacts("b", weight=1))
    turns = Counter(served(queues, [*some("a", 50), *some("b", 50)], rounds=25))
    assert turns == {"a": 20, "b": 5}


def test_what_a_queue_deserves_counts_before_its_weight():
    queues = tree(QueueFacts("a", deserved=amounts(gpu=3)), QueueFacts("b", deserved=amounts(gpu=1), weight=100))
    assert Counter(served(queues, [*some("a", 50), *some("b", 50)], rounds=16)) == {"a": 12, "b": 4}


def test_the_dominant_resource_counts():
    """Of one queue the cpu is scarce, of the other the GPUs (the example of the paper, in other amounts)."""
    queues = tree(QueueFacts("cpu"), QueueFacts("gpu"))
    thick = [group(f"c{i}", "cpu") for i in range(40)]
    thin = [group(f"g{i}", "gpu") for i in range(40)]
    used, turns = {}, Counter()
    for one in Line(queues, TOTALS, used, [*thick, *thin]):
        charged(queues, used, one, amounts(cpu=20) if one.queue == "cpu" else amounts(gpu=1, cpu=1))
        turns[one.queue] += 1
        if sum(turns.values()) == 18:
            break
    assert turns == {"cpu": 6, "gpu": 12}  # 6 x 20 of 320 cores is as much as 12 of 32 GPUs


def test_who_is_below_the_guarantee_comes_first_as_far_as_it_asks_for_it():
    queues = tree(QueueFacts("a", weight=9), QueueFacts("b", guarantee=amounts(gpu=2)))
    assert served(queues, [*some("a", 4), *some("b", 4)], rounds=3) == ["b", "b", "a"]
    queues = tree(QueueFacts("a", weight=9), QueueFacts("b", guarantee={"google.com/tpu": NANO}))
    used = {"b": amounts(gpu=1)}
    assert served(queues, [*some("a", 4), *some("b", 4)], used, rounds=1) == ["a"]


def test_priority_of_a_queue_comes_before_its_share():
    queues = tree(QueueFacts("a"), QueueFacts("b", priority=1))
    assert served(queues, [*some("a", 2), *some("b", 2)]) == ["b", "b", "a", "a"]


def test_shares_are_compared_among_siblings():
    """research is one of two departments: its three teams share its half."""
    teams = [QueueFacts(f"r{i}", parent="research") for i in range(3)]
    queues = tree(QueueFacts("research"), QueueFacts("product"), *teams)
    waiting = [*some("product", 50), *(g for i in range(3) for g in some(f"r{i}", 50))]
    turns = Counter(served(queues, waiting, rounds=24))
    assert (turns["product"], turns["r0"], turns["r1"], turns["r2"]) == (12, 4, 4, 4)


def test_groups_of_an_inner_queue_stand_beside_its_children():
    queues = tree(QueueFacts("research"), QueueFacts("team", parent="research"))
    turns = served(queues, [*some("research", 4), *some("team", 4)], rounds=6)
    assert Counter(turns) == {"research": 3, "team": 3}


def test_ties_are_broken_by_name():
    queues = tree(QueueFacts("b"), QueueFacts("a"))
    assert served(queues, [*some("b", 1), *some("a", 1)]) == ["a", "b"]


def test_within_a_queue_the_given_order_stands():
    found = list(Line({}, TOTALS, {}, [*some("x", 3), *some("y", 2)]))
    assert [g.identity.name for g in found if g.queue == "x"] == ["x00", "x01", "x02"]
    assert len(found) == 5


@pytest.mark.parametrize(
    "queues",
    [
        {},
        tree(QueueFacts("a", parent="b"), QueueFacts("b", parent="a")),
        tree(QueueFacts("a", parent="a")),
        tree(QueueFacts("a", parent="gone"), QueueFacts("root", parent="b"), QueueFacts("b", parent="a")),
        tree(QueueFacts("c", parent="a"), QueueFacts("a", parent="b"), QueueFacts("b", parent="a")),
        tree(QueueFacts("a", deserved={GPU: 0}), QueueFacts("b")),
    ],
)
def test_no_tree_is_too_odd(queues):
    waiting = [g for name in ("a", "b", "c", "default", "root", "gone") for g in some(name, 2)]
    assert Counter(served(queues, waiting)) == {g.queue: 2 for g in waiting}


def test_what_nobody_offers_still_has_an_order():
    assert served({}, [*some("a", 2), *some("b", 2)], totals={}) == ["a", "b", "a", "b"]


def test_use_over_time_counts_with_what_is_charged_now():
    allocated = {"a": amounts(gpu=1)}
    used = Remembered({"b": amounts(gpu=3)}, allocated)
    assert (used.get("a", {}), used.get("b", {})) == ({GPU: 0}, amounts(gpu=3))
    allocated["a"][GPU] += NANO
    assert used.get("a", {})[GPU] == NANO
    assert used.get("b", {})[GPU] == 3 * NANO


# --- as decisions --------------------------------------------------------------------------------------------


def contest(config=Config(), **more):
    """One GPU is free; the older group is of the queue that uses most."""
    world = snapshot(
        nodes=nodes(1, gpu=4),
        queues=(QueueFacts("rich"), QueueFacts("poor")),
        jobs=[job("old", 1, created=1.0, queue="rich"), job("new", 1, created=2.0, queue="poor")],
        pods=[
            *(lifted(p, "n0", queue="rich") for p in pods(3, "r", job="before", queue="rich")),
            pod("o", job="old", queue="rich", created=1.0),
            pod("n", job="new", queue="poor", created=2.0),
        ],
    )
    outcome = decide(msg(world, more), config, NOW)
    return [d.group.rpartition("/")[2] for d in outcome.decisions if d.action == "lift"]


def msg(world, more):
    return msgspec.structs.replace(world, **more)


def test_the_queue_with_less_goes_first_though_its_group_is_younger():
    assert contest() == ["new"]


def test_use_over_time_turns_the_order_round():
    usage = {"poor": amounts(gpu=100)}
    assert contest(Config(usage_half_life_seconds=60.0), usage=usage) == ["old"]
    assert contest(usage=usage) == ["new"]


@pytest.mark.parametrize(("points", "first"), [(0, "high"), (3600, "low")])
def test_waiting_raises_a_group_in_the_order(points, first):
    world = snapshot(
        nodes=nodes(1, gpu=1),
        jobs=[job("low", 1, created=NOW - 100.0), job("high", 1, created=NOW - 1.0)],
        pods=[
            pod("l", job="low", created=NOW - 100.0),
            pod("h", job="high", created=NOW - 1.0, like=shape(priority=50)),
        ],
    )
    outcome = decide(world, Config(ageing_points_per_hour=points), NOW)
    assert [d.group.rpartition("/")[2] for d in outcome.decisions if d.action == "lift"] == [first]


# --- a queue that takes members singly -----------------------------------------------------------------------


def test_a_queue_of_policy_binpack_takes_members_singly():
    queues = {"q": QueueFacts("q", policy="binpack")}
    world = snapshot(nodes=nodes(1, gpu=2), jobs=[job("j", 4, queue="q")], pods=pods(3, job="j", queue="q"))
    (decision,) = decide(msg(world, {"queues": queues}), Config(), NOW).decisions
    assert (decision.action, len(decision.places), decision.need) == ("lift", 2, 1)
    (decision,) = decide(msg(world, {"queues": {"q": QueueFacts("q")}}), Config(), NOW).decisions
    assert decision.action == "hold"
