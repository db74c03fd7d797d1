"""What a queue is guaranteed and does not use is nobody else's."""

import pytest

from policy.names import Reason
from policy.rules.decide import decide
from policy.rules.guarantee import shortage
from policy.rules.model import Config, QueueFacts
from tests.unit.rules_facts import NOW, amounts, job, lifted, nodes, pod, pods, snapshot

GPU = "nvidia.com/gpu"


def asked(queues, name, gpu, used=None, free=8):
    allocated = {queue: amounts(gpu=n) for queue, n in (used or {}).items()}
    return shortage({q.name: q for q in queues}, name, amounts(gpu=gpu), allocated, amounts(gpu=free))


A, B = QueueFacts("a"), QueueFacts("b", guarantee=amounts(gpu=4))


@pytest.mark.parametrize(
    ("name", "gpu", "used", "fits"),
    [
        ("a", 4, {}, True),  # of 8 that are free 4 are b's
        ("a", 5, {}, False),
        ("a", 5, {"b": 1}, True),  # b uses 1 of its 4
        ("a", 8, {"b": 4}, True),
        ("a", 8, {"b": 9}, True),  # more than its guarantee: that is borrowed
        ("b", 8, {}, True),
        ("b", 8, {"b": 2}, True),
        ("other", 5, {}, False),  # a queue that nobody wrote
    ],
)
def test_what_is_kept(name, gpu, used, fits):
    found = asked([A, B], name, gpu, used)
    assert (found is None) is fits
    if found:
        assert (found.resource, found.need, found.free, found.kept, found.whose) == (
            GPU,
            *amounts(gpu=gpu).values(),
            *amounts(gpu=8).values(),
            *amounts(gpu=4).values(),
            ("b",),
        )


def test_another_resource_is_nobody_s():
    assert shortage({"b": B}, "a", amounts(cpu=100), {}, amounts(cpu=1)) is None


def test_a_parent_s_guarantee_holds_its_children_s():
    parent = QueueFacts("p", guarantee=amounts(gpu=4))
    child, other = QueueFacts("c", parent="p", guarantee=amounts(gpu=3)), QueueFacts("d", parent="p")
    assert asked([parent, child], "a", 4) is None
    assert asked([parent, child], "a", 5).whose == ("c", "p")
    assert asked([parent, child, other], "d", 5) is None  # 8 free, of which c keeps 3
    assert asked([parent, child, other], "d", 6).whose == ("c",)


def test_full_nodes_are_no_matter_of_guarantees():
    assert asked([A, B], "b", 9) is None


def test_a_circle_of_parents_ends():
    queues = [QueueFacts("x", parent="y", guarantee=amounts(gpu=4)), QueueFacts("y", parent="x"), A]
    assert asked(queues, "a", 8) is None  # nothing can start there, so nothing is kept
    assert asked(queues, "x", 8) is None


def world(**queue):
    return snapshot(
        nodes=nodes(1, gpu=8),
        queues=(QueueFacts("a"), QueueFacts("b", guarantee=amounts(gpu=4))),
        jobs=[job("j", 6, queue="a")],
        pods=pods(6, job="j", queue="a"),
    )


def test_a_gang_waits_for_what_is_kept_and_is_told_for_whom():
    (decision,) = decide(world(), Config(), NOW).decisions
    assert (decision.action, decision.reason) == ("hold", Reason.QUEUE_CAPABILITY_SHORT)
    assert decision.message == "6 pods need 6 nvidia.com/gpu; 8 free, of which 4 kept: guaranteed to queue b"
    assert decision.limiter == f"guarantee/b/{GPU}"


def test_members_above_the_minimum_leave_what_is_kept():
    found = snapshot(
        nodes=nodes(1, gpu=8),
        queues=(QueueFacts("a"), QueueFacts("b", guarantee=amounts(gpu=4))),
        jobs=[job("j", 2, possible=8, queue="a")],
        pods=pods(8, job="j", queue="a"),
    )
    (decision,) = decide(found, Config(), NOW).decisions
    assert (decision.action, len(decision.places)) == ("lift", 4)


def test_where_nothing_is_placed_nothing_is_kept():
    (decision,) = decide(world(), Config(placement=False), NOW).decisions
    assert decision.action == "lift"


def test_what_is_borrowed_of_idle_queues_runs_on():
    """The guarantee is kept of what is free; of what runs nothing is taken."""
    found = snapshot(
        nodes=nodes(1, gpu=8),
        queues=(QueueFacts("a"), QueueFacts("b", guarantee=amounts(gpu=4))),
        jobs=[job("j", 1, queue="b")],
        pods=[*(lifted(p, "n0", queue="a") for p in pods(7, "r", queue="a")), pod("p", job="j", queue="b")],
    )
    (decision,) = [d for d in decide(found, Config(), NOW).decisions if d.group == "Job/team/j"]
    assert decision.action == "lift"
