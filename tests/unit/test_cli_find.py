"""Which group is meant: every way to name one, and what is said when there is none or more than one."""

import pytest

from policy import names
from policy.cli import find
from policy.cli.failures import Misuse, NotFound
from policy.rules.grouping import groups_of
from policy.rules.membership.identity import NATIVE, Identity
from policy.rules.model import NamespaceFacts
from tests.unit.rules_facts import gang, job, pod, podgroup, pods, snapshot


def world():
    """A Job with its own PodGroup, a PodGroup of two Jobs, a native one, a pod alone; `twin` in two namespaces."""
    native = Identity(NATIVE, "team", "native", how="field spec.schedulingGroup.podGroupName")
    return snapshot(
        jobs=[
            job("uid-1", 2, name="train"),
            job("half-a", 1, group=Identity("PodGroup", "team", "ring")),
            job("half-b", 1, group=Identity("PodGroup", "team", "ring")),
            job("twin-1", 1, name="twin"),
            job("twin-2", 1, name="twin", ns="there"),
            job("done", 1, over=True),
            job("held", 1, held=True),
            job("outside", 1, ns="plain"),
        ],
        podgroups=[
            podgroup("ganggate-uid-1", 2, controller="uid-1", ours=True),
            podgroup("ring", 2),
            podgroup("unused", 2),
        ],
        pods=[
            *pods(2, "train", job="uid-1"),
            pod("a-0", of="ring", job="half-a"),
            pod("b-0", of="ring", job="half-b"),
            pod("native-0", group=native),
            pod("solo"),
            pod("free", ns="plain", gated=False),
            pod("loose", gated=False),
            pod("over", job="done", phase="Succeeded"),
        ],
        namespaces=[gang(), gang(name="there"), NamespaceFacts("plain")],
    )


def found(reference, namespace="team"):
    facts = world()
    return find.group(facts, groups_of(facts), reference, namespace).key


@pytest.mark.parametrize(
    "reference, key",
    [
        ("uid-1", "Job/team/uid-1"),
        ("train-0", "Job/team/uid-1"),
        ("ganggate-uid-1", "Job/team/uid-1"),
        ("podgroup/ganggate-uid-1", "Job/team/uid-1"),
        ("job/uid-1", "Job/team/uid-1"),
        ("Job/team/uid-1", "Job/team/uid-1"),
        ("team/train-1", "Job/team/uid-1"),
        ("pod/train-1", "Job/team/uid-1"),
        ("po/team/train-1", "Job/team/uid-1"),
        ("jobs.batch/uid-1", "Job/team/uid-1"),
        ("ring", "PodGroup/team/ring"),
        ("pg/ring", "PodGroup/team/ring"),
        ("podgroups.scheduling.volcano.sh/ring", "PodGroup/team/ring"),
        ("half-b", "PodGroup/team/ring"),
        ("job/half-a", "PodGroup/team/ring"),
        ("b-0", "PodGroup/team/ring"),
        ("podgroup/native", "NativePodGroup/team/native"),
        ("NativePodGroup/team/native", "NativePodGroup/team/native"),
        ("solo", "Pod/team/team/solo"),
        ("there/twin-2", "Job/there/twin-2"),
    ],
)
def test_every_way_to_name_a_group(reference, key):
    assert found(reference) == key


def test_a_name_that_fits_several_lists_them():
    with pytest.raises(Misuse) as refused:
        found("twin", namespace=None)
    assert refused.value.message == "GROUP: 'twin' fits 2 groups: job/team/twin, job/there/twin"
    assert found("twin") == "Job/team/twin-1"


def test_a_controller_that_is_gone_and_its_namesake_are_told_apart_by_key():
    identity = Identity("Job", "team", "train", "old-uid", how="controller Job train")
    facts = snapshot(jobs=[job("new-uid", 1, name="train")], pods=[pod("left", group=identity, owner="old-uid")])
    with pytest.raises(Misuse, match=r"Job/team/\w+-uid, Job/team/\w+-uid"):
        find.group(facts, groups_of(facts), "train", "team")


def test_many_candidates_are_cut():
    facts = snapshot(
        jobs=[job(f"u{i}", 1, name="same", ns=f"ns{i}") for i in range(12)],
        namespaces=[gang(name=f"ns{i}") for i in range(12)],
    )
    with pytest.raises(Misuse, match="fits 12 groups: .* and 2 more$"):
        find.group(facts, groups_of(facts), "same", None)


@pytest.mark.parametrize(
    "reference, namespace, said",
    [
        ("nothing", "team", "no group, pod, owner or PodGroup 'nothing' in namespace team"),
        ("nothing", None, "no group, pod, owner or PodGroup 'nothing' in any namespace"),
        ("plain/twin", "team", "no 'plain/twin' in namespace plain; there is job/team/twin, job/there/twin"),
        ("job/plain/twin", "team", "no 'job/plain/twin' in namespace plain; there is job/team/twin, job/there/twin"),
        ("twin", "plain", "no 'twin' in namespace plain; there is job/team/twin, job/there/twin"),
        ("done", "team", "Job team/done is finished or being deleted: it has no live pods and no group"),
        ("job/held", "team", "Job team/held is suspended: its group is judged when it is resumed"),
        (
            "outside",
            "plain",
            f"Job plain/outside makes no group: namespace plain has no label {names.NAMESPACE_POLICY}=gang (or hybrid)",
        ),
        (
            "free",
            "plain",
            f"pod plain/free is in no group: namespace plain has no label {names.NAMESPACE_POLICY}=gang (or hybrid), and no gate of ours holds it",
        ),
        (
            "loose",
            "team",
            "pod team/loose stands alone: it names no group, no controller of a known kind makes it, and no gate holds it",
        ),
        ("over", "team", "pod team/over has finished or is being deleted: it is in no group any more"),
        ("unused", "team", "PodGroup team/unused exists, and no live pod or owner names it"),
        ("pod/uid-1", "team", "no 'pod/uid-1' in namespace team; there is job/team/train"),
    ],
)
def test_what_there_is_instead(reference, namespace, said):
    with pytest.raises(NotFound) as refused:
        found(reference, namespace)
    assert refused.value.message == f"GROUP: {said}"


@pytest.mark.parametrize(
    "reference, namespace",
    [("x", ""), ("job/x", ""), ("pods/x", ""), ("pg/x", ""), ("team/x", "team"), ("job/team/x", "team")],
)
def test_the_namespace_that_a_reference_names(reference, namespace):
    assert find.namespace_in(reference) == namespace


def test_an_address_finds_its_group_again():
    facts = world()
    groups = groups_of(facts)
    for group in groups.values():
        if group.identity.name != "twin":
            assert find.group(facts, groups, find.address(group), None) is group
