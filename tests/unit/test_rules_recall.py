"""What a Recall lets go of: each thing that a group may depend on, changed between two passes, is seen in the second."""

import msgspec
import pytest

from policy import names
from policy.rules import grouping
from policy.rules.decide import decide
from policy.rules.model import Config, LimitRangeFacts, Ref, RefusalFacts, SeenFacts
from policy.rules.recall import Recall
from tests.unit.rules_facts import (
    GPU,
    NOW,
    amounts,
    gang,
    job,
    lifted,
    nodes,
    pod,
    pods,
    podgroup,
    queue,
    shape,
    snapshot,
)


def world(**more):
    found = {
        "pods": [*pods(2, job="j"), *pods(3, "q", of="named")],
        "jobs": [job("j", 4, queue="q", like=shape(priority_class="high"), created=2.0), job("none", 2)],
        "podgroups": [podgroup("named", 3)],
        "queues": [queue("q")],
        "nodes": nodes(2),
        "classes": {"high": 5},
    }
    return snapshot(**(found | more))


def with_(snapshot_, **fields):
    return msgspec.structs.replace(snapshot_, **fields)


BEFORE = world()
TEMPLATE = BEFORE.owners["none"].parts[0].template
CHANGES = {
    "a pod more": with_(BEFORE, pods=(*BEFORE.pods, pod("p-9", job="j"))),
    "a pod less": with_(BEFORE, pods=BEFORE.pods[1:]),
    "another object of the owner": with_(BEFORE, owners=BEFORE.owners | {"j": job("j", 6)}),
    "no owner any more": with_(BEFORE, owners={"none": BEFORE.owners["none"]}),
    "another minMember": with_(BEFORE, podgroups=(podgroup("named", 9),)),
    "no PodGroup": with_(BEFORE, podgroups=()),
    "a namespace without gangs": with_(BEFORE, namespaces={"team": gang(policy="")}),
    "a namespace that may use another queue": with_(BEFORE, namespaces={"team": gang("other")}),
    "no namespace": with_(BEFORE, namespaces={}),
    "a queue that takes members singly": with_(
        BEFORE, queues={"q": msgspec.structs.replace(BEFORE.queues["q"], policy=names.Policy.BINPACK)}
    ),
    "another class of priority": with_(BEFORE, pods=(), priority_classes={"high": 9}),
    "a default class": with_(BEFORE, default_priority_class="high"),
    "an owner above": with_(
        BEFORE,
        owners=BEFORE.owners | {"j": job("j", 4, above=Ref("jobset.x-k8s.io", "JobSet", "set", "set"))},
        unreadable={"JobSet.jobset.x-k8s.io": "list jobsets"},
    ),
    "a refused create": with_(
        BEFORE, refusals={"none": RefusalFacts("none", NOW, "no", "", {f"requests.{GPU}": 3 * 10**9})}
    ),
    "a member that was larger": with_(BEFORE, seen={"none": SeenFacts(TEMPLATE, shape(gpu=3))}),
    "an overhead": with_(BEFORE, overheads={"kata": {"cpu": "1"}}),
    "a LimitRange": with_(BEFORE, limit_ranges=(LimitRangeFacts("team", "l", default_request={"memory": "1Gi"}),)),
}


@pytest.mark.parametrize("after", CHANGES.values(), ids=CHANGES)
def test_what_changed_is_seen(after):
    recall = Recall()
    recall.look(BEFORE)
    recall.look(after)
    assert recall.groups == grouping.groups_of(after)
    assert list(recall.groups) == list(grouping.groups_of(after))
    recall.look(BEFORE)
    assert recall.groups == grouping.groups_of(BEFORE)


@pytest.mark.parametrize("name", [name for name in CHANGES if name.startswith(("a queue that", "another", "a member"))])
def test_the_change_makes_a_difference(name):
    """Else the test above would say nothing about it."""
    assert grouping.groups_of(CHANGES[name]) != grouping.groups_of(BEFORE)


def test_a_group_of_which_nothing_changed_is_the_very_object():
    recall = Recall()
    recall.look(BEFORE)
    named = recall.groups["PodGroup/team/named"]
    recall.look(CHANGES["another object of the owner"])
    assert recall.groups["PodGroup/team/named"] is named


def test_a_group_at_rest_is_told_of_anew_when_it_is_another():
    recall = Recall()
    running = [lifted(member, "n0", 3) for member in pods(4, job="j")]
    first = world(pods=running, jobs=[job("j", 4)])
    assert decide(first, Config(), NOW, recall).decisions[0].message == "4 of 3 pods lifted, 4 bound"
    after = with_(first, pods=first.pods[:3], owners={"j": job("j", 3)})
    assert grouping.groups_of(after)["Job/team/j"].rests
    (rests,) = [d for d in decide(after, Config(), NOW, recall).decisions if d.group == "Job/team/j"]
    assert rests.message == "3 of 3 pods lifted, 3 bound"


def test_a_snapshot_that_cannot_be_understood_spoils_nothing(monkeypatch):
    recall = Recall()
    recall.look(BEFORE)
    with monkeypatch.context() as patch:
        patch.setattr(grouping, "built", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            recall.look(CHANGES["a pod more"])
    assert recall.groups == grouping.groups_of(BEFORE)
    recall.look(CHANGES["a pod more"])
    assert recall.groups == grouping.groups_of(CHANGES["a pod more"])
