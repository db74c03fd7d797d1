"""The queue's capability and that of every ancestor: absent, zero, closed, missing, in a circle."""

import pytest

from policy.names import Reason
from policy.rules.quantity import NANO
from policy.rules.queue_capacity import CapabilityShort, chain, charge, limit, problem, shortage
from tests.unit.rules_facts import GPU, amounts, queue


def tree(*queues):
    return {q.name: q for q in queues}


def names_of(queues, name):
    return [q.name for q in chain(queues, name)]


def test_the_chain_goes_up_to_the_last_parent():
    assert names_of(tree(queue("a", "b"), queue("b", "c"), queue("c")), "a") == ["a", "b", "c"]


def test_a_written_root_is_everybodys_ancestor():
    """Volcano's queue controller writes `parent: root` into queues that name none."""
    queues = tree(queue("a"), queue("root"))
    assert names_of(queues, "a") == ["a", "root"]
    assert names_of(queues, "default") == ["default", "root"]
    assert names_of(queues, "root") == ["root"]


@pytest.mark.parametrize("start", ["a", "b"])
def test_queues_in_a_circle_are_each_met_once(start):
    assert sorted(names_of(tree(queue("a", "b"), queue("b", "a")), start)) == ["a", "b"]


def test_a_queue_that_is_its_own_parent_is_met_once():
    assert names_of(tree(queue("a", "a")), "a") == ["a"]


def test_an_endless_chain_ends():
    queues = tree(*(queue(f"q{i}", f"q{i + 1}") for i in range(100)))
    assert len(names_of(queues, "q0")) == 32


@pytest.mark.parametrize(
    ("capability", "resource", "found"),
    [
        ({"cpu": 4}, "cpu", 4 * NANO),
        ({}, "cpu", None),
        ({"cpu": 0}, "cpu", None),
        ({"memory": 0}, "memory", None),
        ({}, GPU, None),
        ({"gpu": 0}, GPU, 0),
        ({"gpu": 3}, GPU, 3 * NANO),
        ({"ephemeral-storage": 0}, "ephemeral-storage", 0),
    ],
)
def test_what_a_capability_allows(capability, resource, found):
    assert limit(queue("q", **capability), resource) == found


def short(queues, need, allocated=None, name="a"):
    return shortage(tree(*queues), name, amounts(**need), allocated or {})


def test_what_fits_exactly_is_not_short():
    assert short([queue("a", gpu=8)], {"gpu": 5}, {"a": amounts(gpu=3)}) is None


def test_one_too_many_is_short_with_every_figure():
    found = short([queue("a", gpu=8)], {"gpu": 6}, {"a": amounts(gpu=3)})
    assert found == CapabilityShort("a", GPU, 6 * NANO, 8 * NANO, 3 * NANO)
    assert (found.free, found.never) == (5 * NANO, False)


def test_more_than_the_capability_can_never_fit():
    assert short([queue("a", gpu=8)], {"gpu": 9}).never


def test_a_queue_above_its_lowered_capability_has_nothing_left():
    assert short([queue("a", gpu=8)], {"gpu": 1}, {"a": amounts(gpu=11)}).free == 0


def test_an_ancestor_limits_as_well():
    found = short([queue("a", "b", gpu=8), queue("b", gpu=4)], {"gpu": 3}, {"b": amounts(gpu=2)})
    assert (found.queue, found.free) == ("b", 2 * NANO)


def test_only_what_is_asked_for_is_compared():
    assert short([queue("a", gpu=0)], {"cpu": 3}) is None
    assert short([queue("a", gpu=2)], {"gpu": 0, "cpu": 3}, {"a": amounts(gpu=5)}) is None


def test_zero_of_an_extended_resource_is_none_at_all():
    assert short([queue("a", gpu=0)], {"gpu": 1}).never


def test_a_queue_that_nobody_wrote_is_unlimited():
    assert short([], {"gpu": 1000}, name="default") is None


def test_what_is_charged_is_charged_at_every_level():
    allocated: dict = {}
    queues = tree(queue("a", "b"), queue("b"))
    charge(queues, "a", amounts(gpu=2, cpu=1), allocated)
    charge(queues, "b", amounts(gpu=1), allocated)
    assert allocated == {"a": amounts(gpu=2, cpu=1), "b": amounts(gpu=3, cpu=1)}


def told(queues, name="a", allowed=()):
    found = problem(tree(*queues), name, allowed)
    return (found.reason, found.message) if found else None


@pytest.mark.parametrize("state", ["", "Open"])
def test_an_open_queue_has_no_problem(state):
    assert told([queue("a", "b", state=state), queue("b", state=state)]) is None


@pytest.mark.parametrize("name", ["default", "root"])
def test_default_and_root_need_no_object(name):
    assert told([], name) is None
    assert told([queue("a", name)]) is None


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_a_queue_that_is_not_open_holds(state):
    assert told([queue("a", state=state)]) == (Reason.QUEUE_CLOSED, f"queue 'a' is {state}")


def test_a_closed_ancestor_holds():
    assert told([queue("a", "b"), queue("b", state="Closed")]) == (Reason.QUEUE_CLOSED, "queue 'b' is Closed")


def test_a_missing_queue_holds():
    assert told([]) == (Reason.QUEUE_MISSING, "queue 'a' does not exist; it starts when it is created")


def test_a_missing_ancestor_holds_since_its_limit_is_unknown():
    assert told([queue("a", "b"), queue("b", "c")]) == (
        Reason.QUEUE_MISSING,
        "queue 'c', parent of 'b', does not exist; it starts when it is created",
    )


@pytest.mark.parametrize("wrong", ["a", "b"])
def test_an_amount_that_does_not_parse_holds_at_any_level(wrong):
    text = "spec.capability: cpu: not a quantity: 'x'"
    queues = [queue("a", "b", problem=text * (wrong == "a")), queue("b", problem=text * (wrong == "b"))]
    assert told(queues) == (Reason.QUEUE_CLOSED, f"queue {wrong!r}: {text}")


def test_a_queue_that_the_namespace_may_not_use_holds():
    assert told([queue("a")], allowed=("b", "c")) == (
        Reason.QUEUE_NOT_ALLOWED,
        "queue 'a' is not one that this namespace may use: b, c",
    )
    assert told([queue("a")], allowed=("b", "a")) is None
