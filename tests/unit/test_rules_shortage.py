"""Nodes by why they take none, and what the pods select that no node has."""

import pytest

from policy.rules import explain
from policy.rules.grouping import groups_of
from policy.rules.objects import NodeSelectorTerm, SelectorRequirement, Taint
from policy.rules.placement import place
from policy.rules.pool import Pool, columns_of
from policy.rules.quantity import NANO
from policy.rules.shortage import unknown
from tests.unit.rules_facts import GPU, job, node, nodes, pod, pods, shape, snapshot

TYPES = ("a100", "h100", "l40s", "t4")
FLEET = [node(f"gpu-{kind}", labels={"gpu-type": kind, "size": "8"}) for kind in TYPES]


def said(wanted, given=FLEET):
    found = unknown(Pool(given, ["cpu"]), wanted)
    return (found.key, found.text, found.near, found.known) if found else None


def term(key, operator, *values, field=False):
    one = (SelectorRequirement(key, operator, values),)
    return NodeSelectorTerm((), one) if field else NodeSelectorTerm(one)


@pytest.mark.parametrize(
    ("wanted", "what"),
    [
        ({"node_selector": {"gpu-type": "a100"}}, None),
        ({}, None),
        (
            {"node_selector": {"gpu-type": "A100"}},
            ("gpu-type", "gpu-type=A100", ("a100", "h100", "l40s"), True),
        ),
        ({"node_selector": {"gpu-typ": "a100"}}, ("gpu-typ", "gpu-typ=a100", ("gpu-type",), False)),
        ({"node_selector": {"rack": "1"}}, ("rack", "rack=1", (), False)),
        (
            {"node_terms": (term("gpu-type", "In", "a10", "a30"),)},
            ("gpu-type", "gpu-type in (a10, a30)", ("a100", "h100", "l40s"), True),
        ),
        ({"node_terms": (term("rack", "Exists"),)}, ("rack", "rack", (), False)),
        ({"node_terms": (term("size", "Gt", "16"),)}, ("size", "size Gt 16", ("8",), True)),
        ({"node_terms": (term("size", "Gt", "4"),)}, None),
        ({"node_terms": (term("rack", "NotIn", "a"), term("rack", "DoesNotExist"))}, None),
        ({"node_terms": (term("rack", "Exists"), term("gpu-type", "Exists"))}, None),
        ({"node_terms": (term("rack", "Exists"), term("gpu-type", "In", "x"))}, ("rack", "rack", (), False)),
        (
            {"node_terms": (term("metadata.name", "In", "gpu-t40", field=True),)},
            ("metadata.name", "metadata.name=gpu-t40", ("gpu-t4", "gpu-l40s", "gpu-h100"), True),
        ),
        ({"node_terms": (NodeSelectorTerm(),)}, None),
    ],
)
def test_what_no_node_has_and_the_nearest_there_is(wanted, what):
    assert said(shape(**wanted)) == what


def test_labels_that_exist_on_different_nodes_are_not_unknown():
    given = [node("a", labels={"gpu-type": "a100"}), node("b", labels={"zone": "b"})]
    wanted = shape(node_selector={"gpu-type": "a100", "zone": "b"})
    assert said(wanted, given) is None
    assert place(Pool(given, [GPU, "cpu"]), pods(1, like=wanted)).reasons == {"not matching gpu-type=a100, zone=b": 2}


def test_without_nodes_nothing_is_unknown():
    assert said(shape(node_selector={"a": "b"}), []) is None


def test_thousands_of_values_are_not_compared_one_by_one():
    given = [node(f"node-{i:05}", labels={"rack": f"r{i}"}) for i in range(3000)]
    assert said(shape(node_selector={"rack": "r299x"}), given)[2][0] == "r299"


@pytest.mark.parametrize(
    "resource", ["google.com/tpu", "rdma/hca_shared_devices_a", "nvidia.com/mig-1g.5gb", "example.com/fpga-v2"]
)
def test_extended_resources_of_any_name_are_counted_on_the_node(resource):
    wanted = shape(gpu=0, requests={resource: 2 * NANO, "cpu": NANO})
    fleet = [
        node("none"),
        node("some", allocatable={resource: 5 * NANO, "cpu": 64 * NANO, "pods": 110 * NANO}),
        node("one", allocatable={resource: 1 * NANO, "cpu": 64 * NANO, "pods": 110 * NANO}),
    ]
    pool = Pool(fleet, columns_of([wanted.requests]))
    found = place(pool, pods(3, like=wanted))
    assert (found.fit, found.reasons) == (2, {f"without {resource}": 1, f"with too little {resource}": 1})
    assert set(place(pool, pods(2, like=wanted)).values()) == {"some"}
    assert place(pool, pods(1, "q", like=wanted)).reasons["full"] == 1


def test_a_resource_that_the_node_calls_otherwise_is_not_the_same():
    """A MIG profile is a resource of its own: whole GPUs do not give it."""
    wanted = shape(gpu=0, requests={"nvidia.com/mig-1g.5gb": NANO})
    assert place(Pool(nodes(2), columns_of([wanted.requests])), pods(1, like=wanted)).never


def test_full_and_short_are_told_apart():
    given = Pool([node("a"), node("b", cpu="4"), node("c", pods=2)], [GPU, "cpu"])
    given.charge("a", pod("x", like=shape(gpu=8, cpu=1)))
    given.charge("b", pod("y", like=shape(gpu=1, cpu=4)))
    for name in "zw":
        given.charge("c", pod(name, like=shape(gpu=1, cpu=1)))
    assert place(given, pods(1)).reasons == {"full": 1, "short of cpu": 1, "short of places for pods": 1}


def test_the_sentence_of_the_issue():
    """Nodes by reason, ranked, for the whole gang."""
    a100 = {"gpu-type": "a100"}
    fleet = [
        node("open", labels=a100, gpu=11),
        *(node(f"full-{i}", labels=a100, gpu=1) for i in range(4)),
        *(node(f"shut-{i}", labels=a100, cordoned=True) for i in range(3)),
        *(node(f"kept-{i}", labels=a100, taints=(Taint("dedicated", "ml", "NoSchedule"),)) for i in range(2)),
    ]
    wanted = shape(cpu=None, node_selector=a100)
    members = pods(16, job="j", like=wanted)
    pool = Pool(fleet, columns_of([wanted.requests]))
    for i in range(4):
        pool.charge(f"full-{i}", pod(f"busy-{i}", like=wanted))
    (group,) = groups_of(snapshot(pods=members, jobs=[job("j", 16)])).values()
    assert explain.nodes(group, place(pool, members))[2] == (
        "16 pods need 1 nvidia.com/gpu each with gpu-type=a100: 11 fit; 3 nodes cordoned, 2 tainted dedicated, 4 full"
    )
