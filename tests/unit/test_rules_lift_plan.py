"""The writes of a lift: byte for byte, in order, touching our gate and nothing else."""

import json

import msgspec
import pytest

from policy import names
from policy.rules.decide import decide
from policy.rules.facts import pod as pod_facts
from policy.rules.lift_plan import LiftPatch, Report, pinned_terms, plan, podgroup_name
from policy.rules.membership.identity import LITE, NATIVE, POD, PODGROUP, Identity
from policy.rules.conclusions import Group
from policy.rules.model import Config, Lifted
from policy.rules.objects import NodeSelectorTerm, Pod, SelectorRequirement
from tests.unit.rules_facts import NOW, NS, job, nodes, pod, podgroup, pods, queue, shape, snapshot

ZONE = SelectorRequirement("zone", "In", ("a", "b"))
DISK = SelectorRequirement("disk", "Exists")
HERE = SelectorRequirement("metadata.name", "In", ("n0",))


def writes(now=NOW, pin=True, **given):
    outcome = decide(snapshot(**({"nodes": nodes(2)} | given)), Config(), NOW)
    (decision,) = outcome.decisions
    return list(plan(outcome.groups[decision.group], decision, now, pin=pin))


def patches(**given):
    return [json.loads(w.body) for w in writes(**given) if isinstance(w, LiftPatch)]


def test_the_report_comes_before_the_first_gate_goes():
    found = writes(pods=pods(3, job="j"), jobs=[job("j", 3)])
    assert found[0] == Report("Job/team/j")
    assert [w.name for w in found[1:]] == ["p-0", "p-1", "p-2"]
    assert all(isinstance(w, LiftPatch) for w in found[1:])


def test_a_patch_byte_for_byte():
    member = pod("p", job="j", like=shape(node_terms=(NodeSelectorTerm((ZONE,)),)), queue="default")
    (_, found) = writes(now=12.5, pods=[member], jobs=[job("j", 1)], nodes=nodes(1, labels={"zone": "a"}))
    assert found == LiftPatch(NS, "p", "team/p", "n0", found.body, found.kind)
    label = member.group.label
    assert found.body == (
        b'{"metadata":{"uid":"team/p","annotations":{"ganggate.io/lifted":'
        b'"{\\"min\\":1,\\"at\\":12.5,\\"queue\\":\\"default\\",'
        b'\\"room\\":{\\"cpu\\":1000000000,\\"nvidia.com/gpu\\":1000000000},\\"present\\":1,\\"newest\\":1.0}",'
        b'"scheduling.k8s.io/group-name":"ganggate-j"},'
        b'"labels":{"ganggate.io/group":"' + label.encode() + b'"}},'
        b'"spec":{"schedulingGates":[{"name":"ganggate.io/gang","$patch":"delete"}],'
        b'"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":'
        b'[{"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]}],'
        b'"matchFields":[{"key":"metadata.name","operator":"In","values":["n0"]}]}]}}}}}'
    )


def test_a_patch_without_place_byte_for_byte():
    (_, found) = writes(now=12.5, pods=[pod("p")], pin=False)
    assert found.body == (
        b'{"metadata":{"uid":"team/p","annotations":{"ganggate.io/lifted":'
        b'"{\\"min\\":1,\\"at\\":12.5,\\"queue\\":\\"default\\",'
        b'\\"room\\":{\\"cpu\\":1000000000,\\"nvidia.com/gpu\\":1000000000},\\"present\\":1,\\"newest\\":1.0}",'
        b'"volcano.sh/queue-name":"default"}},'
        b'"spec":{"schedulingGates":[{"name":"ganggate.io/gang","$patch":"delete"}]}}'
    )
    assert found.node == ""


def test_only_the_members_of_the_decision_are_patched():
    found = writes(pods=pods(12, job="j"), jobs=[job("j", 4, possible=12)], nodes=nodes(1))
    assert len(found) == 1 + 8


@pytest.mark.parametrize(
    ("terms", "pinned"),
    [
        ((), (NodeSelectorTerm((), (HERE,)),)),
        ((NodeSelectorTerm((ZONE,)),), (NodeSelectorTerm((ZONE,), (HERE,)),)),
        (
            (NodeSelectorTerm((ZONE, DISK)), NodeSelectorTerm((DISK,))),
            (NodeSelectorTerm((ZONE, DISK), (HERE,)), NodeSelectorTerm((DISK,), (HERE,))),
        ),
        (
            (NodeSelectorTerm((), (SelectorRequirement("metadata.name", "NotIn", ("n9",)),)),),
            (NodeSelectorTerm((), (SelectorRequirement("metadata.name", "NotIn", ("n9",)), HERE)),),
        ),
    ],
    ids=["no term", "one", "several", "a field"],
)
def test_the_pin_narrows_every_term_and_changes_none(terms, pinned):
    """A gated pod's terms may only be added to, and any one of them suffices (KEP-3838)."""
    assert pinned_terms(pod("p", like=shape(node_terms=terms)), "n0") == pinned


def test_the_frozen_terms_are_read_back_as_written():
    (body,) = patches(pods=[pod("p", job="j")], jobs=[job("j", 1)])
    written = {"metadata": body["metadata"]} | {"spec": {"affinity": body["spec"]["affinity"]}}
    found = pod_facts(msgspec.convert(written, Pod))
    assert found.lifted == Lifted(1, NOW, "default", {"nvidia.com/gpu": 10**9, "cpu": 10**9}, 1, 1.0)
    assert found.pin == "n0"


def test_a_queue_that_the_pod_names_elsewhere_stays_the_only_one():
    """A label beside another annotation: two names, and the lifted pod would belong to no group at all."""
    member = pod("p", of="g", queue="by-label")
    given = {"podgroups": [podgroup("g", 1, queue="by-podgroup")], "queues": [queue("by-podgroup")]}
    (body,) = patches(pods=[member], **given)
    assert names.QUEUE_NAME not in body["metadata"]["annotations"]
    assert json.loads(body["metadata"]["annotations"][names.ANNOTATION_LIFTED])["queue"] == "by-podgroup"


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (Identity("Job", NS, "train", "j-1"), "ganggate-j-1"),
        (Identity(PODGROUP, NS, "g"), "g"),
        (Identity(POD, NS, "p", "u"), ""),
        (Identity(NATIVE, NS, "g"), ""),
        (Identity(LITE, NS, "g"), ""),
    ],
)
def test_the_podgroup_that_is_named_for_other_tools(identity, name):
    assert podgroup_name(Group(identity, "", 1, None, "", ())) == name
