"""Nodes that an autoscaler makes: who goes without one, who does not, and how long that may take."""

import msgspec
import pytest

from policy import names
from policy.gatekeeper.config import parsed
from policy.gatekeeper.errors import ConfigError
from policy.names import Reason
from policy.rules import autoscaling, binding
from policy.rules.decide import decide
from policy.rules.grouping import groups_of
from policy.rules.model import Config
from policy.rules.objects import LabelSelector, PodAffinityTerm, Taint, Toleration
from policy.rules.settings import AutoscaledPool
from tests.unit.rules_facts import GPU, NOW, amounts, job, lifted, nodes, pod, pods, queue, shape, snapshot

BURST = AutoscaledPool("burst", {"pool": "burst"}, allocatable={GPU: 8, "cpu": "32"}, scale_up_seconds=600)
CONFIG = Config(autoscaled_pools=(BURST,))
WANTS = {"node_selector": {"pool": "burst"}}
OLD = {"node_selector": {"zone": "old"}}
THERE = nodes(1, labels={"zone": "old"})


def outcome(config=CONFIG, **given):
    return decide(snapshot(**({"nodes": nodes(1)} | given)), config, NOW)


def told(found):
    (only,) = found.decisions
    return only.action, only.reason, only.message


def gang(count, **of):
    return {"pods": pods(count, job="j", like=shape(**of)), "jobs": [job("j", count, like=shape(**of))]}


def test_who_finds_no_node_goes_without_one():
    found = outcome(**gang(2, gpu=8, **WANTS))
    assert told(found) == (
        "lift",
        Reason.ADMITTED,
        "2 of 2 pods (minMember 2) fit: lifting their gates, queue default; 2 pods without a node yet: an autoscaler is to make it (burst)",
    )
    assert set(found.decisions[0].places.values()) == {""}


def test_nodes_that_are_there_come_first():
    there = nodes(2, labels={"pool": "burst"})
    (only,) = outcome(nodes=there, **gang(2, gpu=8, **WANTS)).decisions
    assert set(only.places.values()) == {"n0", "n1"}
    assert "autoscaler" not in only.message


@pytest.mark.parametrize(
    "of",
    [
        {"gpu": 9} | WANTS,  # more than a new node has
        {"gpu": 8, "node_selector": {"pool": "other"}},
        {"gpu": None, "cpu": "33"} | WANTS,
        {"gpu": None, "requests": {"example.com/fpga": 1}}
        | WANTS,  # of an extended resource that is not stated a node has none
    ],
)
def test_who_would_not_fit_on_a_new_node_either_waits(of):
    (only,) = outcome(**gang(2, **of)).decisions
    assert (only.action, only.reason) == ("hold", Reason.NEVER_FITS)


@pytest.mark.parametrize("tolerated", [False, True])
def test_taints_of_the_pool_count(tolerated):
    pool = AutoscaledPool("gpu", taints=(Taint(key=GPU, effect="NoSchedule"),), allocatable={GPU: 8})
    tolerations = (Toleration(key=GPU, operator="Exists"),) if tolerated else ()
    (only,) = outcome(Config(autoscaled_pools=(pool,)), **gang(3, gpu=8, tolerations=tolerations)).decisions
    assert only.action == ("lift" if tolerated else "hold")


def test_the_others_of_the_group_need_their_nodes_first():
    """A head that belongs on the nodes there are, and workers that may wait for new ones."""
    head, worker = shape(gpu=8, **OLD), shape(gpu=8, **WANTS)
    members = [pod("head", job="j", like=head), *pods(2, job="j", like=worker)]
    found = outcome(pods=members, jobs=[job("j", 3)], nodes=THERE)
    assert found.decisions[0].places == {"team/head": "n0", "team/p-0": "", "team/p-1": ""}
    full = outcome(pods=[*members, lifted(pod("other", like=head), "n0")], jobs=[job("j", 3)], nodes=THERE)
    held = {d.group: d for d in full.decisions}["Job/team/j"]
    assert (held.action, held.reason) == ("hold", Reason.NODES_SHORT)


@pytest.mark.parametrize(("wants", "reason"), [({}, Reason.BEHIND_RESERVATION), (WANTS, Reason.ADMITTED)])
def test_nodes_that_are_kept_for_another_are_not_taken(wants, reason):
    """Two GPUs are free; all 16 are kept for a gang until the one that runs has ended."""
    runs = lifted(pod("runs", like=shape(gpu=7), lasts=60, started=NOW), "n0")
    also = lifted(pod("also", like=shape(gpu=7), lasts=60, started=NOW), "n1")
    ahead = pods(2, "a", job="ahead", like=shape(gpu=8, **OLD))
    behind = pods(3, "b", job="behind", like=shape(gpu=1, **wants))
    jobs = [job("ahead", 2, created=1.0), job("behind", 3, created=2.0)]
    given = {"pods": [runs, also, *ahead, *behind], "jobs": jobs, "nodes": nodes(2, labels={"zone": "old"})}
    found = {d.group: d for d in outcome(**given).decisions}
    assert found["Job/team/ahead"].reason is Reason.NODES_SHORT
    assert found["Job/team/behind"].reason is reason


def test_queues_and_quotas_count_all_the_same():
    given = gang(2, gpu=8, **WANTS) | {"queues": [queue("default", gpu=10)]}
    (only,) = outcome(**given).decisions
    assert (only.action, only.reason) == ("hold", Reason.NEVER_FITS)


def test_nobody_waits_for_a_node_where_members_must_be_together():
    """A head bound to the nodes there are, and workers that must be on one node with each other: where is not known."""
    beside = (
        PodAffinityTerm(topology_key=names.HOSTNAME_LABEL, label_selector=LabelSelector(match_labels={"a": "b"})),
    )
    head, worker = shape(gpu=8, **OLD), shape(gpu=4, beside=beside, **WANTS)
    members = [pod("head", job="j", like=head), *pods(2, job="j", like=worker, labels={"a": "b"})]
    (only,) = outcome(pods=members, jobs=[job("j", 3)], nodes=THERE).decisions
    assert (only.action, only.reason) == ("hold", Reason.NEVER_FITS)
    (alone,) = outcome(pods=members[1:], jobs=[job("j", 2)], nodes=THERE).decisions
    assert alone.action == "lift"


@pytest.mark.parametrize(("pin", "limit"), [("", 600.0), ("n0", 120.0)])
def test_pods_without_a_place_are_given_the_time_that_a_node_takes(pin, limit):
    running = [lifted(p, pin, 2, bound=False) for p in pods(2, job="j", like=shape(gpu=8, **WANTS))]
    (group,) = groups_of(snapshot(pods=running, jobs=[job("j", 2)])).values()
    assert binding.limit(group, CONFIG) == limit


def test_without_pools_nothing_is_different():
    given = gang(2, gpu=8, **WANTS)
    assert told(outcome(Config(), **given))[:2] == ("hold", Reason.NEVER_FITS)
    assert autoscaling.pools(Config(), given["pods"]) == []


def test_an_extended_resource_of_a_device_class_cannot_be_verified():
    """No node tells of it: it was said that it never fits."""
    given = gang(2, gpu=None, requests=amounts(gpu=0) | {"example.com/fpga": 10**9})
    world = {"nodes": nodes(1)} | given
    (never,) = decide(snapshot(**world), Config(), NOW).decisions
    assert (never.action, never.reason) == ("hold", Reason.NEVER_FITS)
    (only,) = decide(msgspec.structs.replace(snapshot(**world), devices=("example.com/fpga",)), Config(), NOW).decisions
    assert (only.action, only.reason) == ("lift", Reason.ADMITTED)
    assert "placement cannot be verified (example.com/fpga of a DeviceClass)" in only.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[{labels: {a: b}}]", "missing required field `name`"),
        ("[{name: ''}]", "every pool needs a name of its own"),
        ("[{name: a}, {name: a}]", "'a': every pool needs a name of its own"),
        ("[{name: a, scaleUpSeconds: 0}]", "'a': scaleUpSeconds is 0.0: it must be 1 or more"),
        ("[{name: a, allocatable: {cpu: lots}}]", "'a': allocatable cpu: "),
        ("[{name: a, label: {x: y}}]", "unknown field `label`"),
        ("[{name: a, labels: {x: 1}}]", "labels"),
    ],
)
def test_pools_that_cannot_be_used_are_named(text, told):
    with pytest.raises(ConfigError) as caught:
        parsed(f"autoscaledPools: {text}", "settings.yaml")
    assert "settings.yaml" in str(caught.value)
    assert told in str(caught.value)


def test_pools_are_read():
    text = "autoscaledPools: [{name: burst, labels: {pool: burst}, allocatable: {nvidia.com/gpu: 8, cpu: '32'}, scaleUpSeconds: 600}]"
    assert parsed(text, "").deciding() == CONFIG
