"""The words: amounts as people write them, reasons ranked, what helps said where something does."""

import pytest

from policy.names import Reason
from policy.rules import explain, explain_queues, words
from policy.rules.grouping import groups_of
from policy.rules.model import Shape
from policy.rules.namespace_quota import QuotaShort
from policy.rules.placement import NodesShort
from policy.rules.quantity import NANO
from policy.rules.queue_capacity import CapabilityShort
from tests.unit.rules_facts import amounts, job, pods, shape, snapshot


@pytest.fixture
def group():
    (found,) = groups_of(snapshot(pods=pods(3, job="j"), jobs=[job("j", 8)])).values()
    return found


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (shape(gpu=1, cpu="500m", memory="2Gi"), "1 nvidia.com/gpu, 500m cpu, 2Gi memory"),
        (shape(gpu=0, cpu="1"), "1 cpu"),
        (Shape(), "a place"),
        (Shape(node_selector={"b": "2", "a": "1"}), "a place with a=1, b=2"),
        (Shape(requests=amounts(memory="1500M")), "1500000000 memory"),
    ],
)
def test_what_one_pod_asks_for(given, text):
    assert words.request_text(given) == text


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        ({}, ""),
        ({"cordoned": 1}, "1 node cordoned"),
        ({"cordoned": 2, "not ready": 1}, "2 nodes cordoned, 1 not ready"),
        (
            {f"r{i}": 9 - i for i in range(7)},
            "9 nodes r0, 8 r1, 7 r2, 6 r3, 5 r4, 7 for other reasons",
        ),
    ],
)
def test_reasons_of_nodes(reasons, text):
    assert words.reasons_text(reasons) == text


def test_bytes_are_told_in_binary_units(group):
    short = QuotaShort("q", "requests.memory", 10 * 2**30 * NANO, 16 * 2**30 * NANO, 8 * 2**30 * NANO, 0, 5)
    assert explain.quota(group, short)[2] == (
        "3 of 8 created; the 5 missing need 10Gi requests.memory, quota q has 8Gi of 16Gi left"
    )


def test_limits_are_told_in_the_units_of_their_resource(group):
    short = QuotaShort("q", "limits.cpu", 500_000_000, NANO, 750_000_000, 0, 1)
    assert "needs 500m limits.cpu, quota q has 250m of 1 left" in explain.quota(group, short)[2]


def test_a_capability_is_told_with_its_queue(group):
    short = CapabilityShort("org", "memory", 2**31 * NANO, 2**32 * NANO, 2**32 * NANO)
    assert explain_queues.capability(group, short, 1)[1:3] == (
        "queue/org/memory",
        "1 pod needs 2Gi memory, queue org has 0 of 4Gi left",
    )


@pytest.mark.parametrize(
    ("short", "reason", "text"),
    [
        (
            NodesShort(8, 3, 8, shape(), {"cordoned": 2}, on=1, up_fit=8),
            Reason.NODES_SHORT,
            "8 pods need 1 nvidia.com/gpu, 1 cpu each: 3 fit; 2 nodes cordoned",
        ),
        (
            NodesShort(8, 3, 6, shape(), {}, on=2, up_fit=6),
            Reason.NODES_SHORT,
            "8 pods need 1 nvidia.com/gpu, 1 cpu each: 3 fit on 2 nodes; "
            "even with all nodes up and empty only 6 would fit",
        ),
        (
            NodesShort(8, 0, 0, shape(), {"cordoned": 2}, up_fit=0),
            Reason.NEVER_FITS,
            "can never fit: 8 pods need 1 nvidia.com/gpu, 1 cpu each, "
            "and no node could take even one were it up and empty: 2 nodes cordoned",
        ),
    ],
)
def test_nodes(group, short, reason, text):
    assert explain.nodes(group, short)[::2][:2] == (reason, text)


def test_refused_patches_tell_the_first_refusal_and_the_next_try(group):
    assert explain.refused(group, ["pod p-0: denied", "pod p-1: denied"], 4.6) == (
        Reason.LIFT_REFUSED,
        "patch",
        "2 patches refused, next try in 5 s: pod p-0: denied",
        {"present": 3, "minMember": 8, "missing": 5, "refused": 2},
    )


def test_the_limiter_is_the_same_whatever_the_numbers(group):
    """It is part of an event's key: a changed number alone makes no new event."""
    first = QuotaShort("q", "pods", 5, 8, 7, 0, 5)
    later = QuotaShort("q", "pods", 2, 8, 7, 1, 2)
    assert explain.quota(group, first)[:2] == explain.quota(group, later)[:2]
