"""What is written into a pod, read back from the patched pod."""

import pytest

from policy import names
from tests.unit.webhook_support import (
    DAEMON_SET,
    DAEMONS,
    GPU,
    JOB,
    KUBELET,
    annotation_of,
    applied,
    facts,
    gates,
    label_of,
    pod,
    typed,
)
from webhook import mutate
from webhook.eligibility import Gate, Refusal
from webhook.patch import change_map, pointer

OTHER_GATE = {"name": "example.com/other"}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def after(document, **about):
    change = mutate.change(typed(document), facts(**about))
    assert not isinstance(change.verdict, Refusal)
    return applied(document, change.operations)


def terms(document):
    return document["spec"]["affinity"]["podAffinity"][PREFERRED]


def test_a_member_is_gated_and_labelled_with_the_hash_of_its_group():
    document = pod(controller=JOB)
    result = after(document)
    change = mutate.change(typed(document), facts())
    assert gates(result) == [names.GATE]
    assert label_of(result) == change.verdict.identity.label
    assert annotation_of(result, names.GROUP_NAME) is None, "a Job's PodGroup is named by the gatekeeper"


def test_foreign_gates_labels_and_annotations_stay():
    document = pod(controller=JOB, labels={"app": "x"}, annotations={"a/b~c": "x"}, schedulingGates=[OTHER_GATE])
    result = after(document)
    assert gates(result) == ["example.com/other", names.GATE]
    assert result["metadata"]["labels"]["app"] == "x"
    assert result["metadata"]["annotations"] == {"a/b~c": "x"}


@pytest.mark.parametrize("present", [[{"name": names.GATE}], [OTHER_GATE, {"name": names.GATE}]])
def test_a_pod_that_carries_our_gate_keeps_one(present):
    result = after(pod(controller=JOB, schedulingGates=present))
    assert gates(result).count(names.GATE) == 1


def test_a_forged_label_is_replaced_or_taken_off():
    assert label_of(after(pod(controller=JOB, labels={names.LABEL_GROUP: "forged"}))) == label_of(
        after(pod(controller=JOB))
    )
    assert label_of(after(pod(labels={names.LABEL_GROUP: "forged"}))) is None
    assert label_of(after(pod(gpus=1, labels={names.LABEL_GROUP: "forged"}))) is None
    assert label_of(after(pod(labels={names.LABEL_GROUP: "forged"}, schedulerName="mine"))) is None
    assert label_of(after(pod(labels={names.LABEL_GROUP: "forged"}), policy="binpack")) is None


@pytest.mark.parametrize(
    "where",
    [
        {"labels": {names.COSCHEDULING_LABEL: "g"}},
        {"labels": {names.COSCHEDULING_LITE_NAME: "g"}},
        {"annotations": {names.VOLCANO_PODGROUP: "g"}},
        {"annotations": {names.GROUP_NAME: "g"}},
    ],
)
def test_a_named_pod_group_stands_under_the_key_that_everybody_reads(where):
    assert annotation_of(after(pod(**where)), names.GROUP_NAME) == "g"


def test_a_native_pod_group_is_not_named_as_if_it_were_volcanos():
    document = pod(schedulingGroup={"podGroupName": "g"})
    result = after(document)
    assert annotation_of(result, names.GROUP_NAME) is None
    assert gates(result) == [names.GATE]


@pytest.mark.parametrize(
    "where",
    [
        {"labels": {names.QUEUE_NAME: "q"}},
        {"annotations": {names.QUEUE_NAME_LONG: "q"}},
        {"annotations": {names.QUEUE_NAME: "q"}},
    ],
)
def test_a_named_queue_stands_under_the_key_that_everybody_reads(where):
    assert annotation_of(after(pod(**where)), names.QUEUE_NAME) == "q"


def test_a_queue_that_nobody_named_is_not_written():
    assert annotation_of(after(pod(controller=JOB)), names.QUEUE_NAME) is None


@pytest.mark.parametrize("document", [pod(controller=JOB), pod(), pod(schedulerName="mine"), pod(gpus=1)])
def test_a_lifted_annotation_is_taken_off_and_said(document):
    document["metadata"]["annotations"] = {names.ANNOTATION_LIFTED: "now", "keep": "me"}
    change = mutate.change(typed(document), facts())
    assert applied(document, change.operations)["metadata"]["annotations"] == {"keep": "me"}
    assert mutate.WARN_LIFTED in change.warnings


@pytest.mark.parametrize(
    "about",
    [
        (pod(controller=DAEMON_SET, gpus=1), {"user": DAEMONS}),
        (pod(annotations={names.MIRROR_ANNOTATION: "h"}, nodeName="n"), {"user": KUBELET}),
        (pod(controller=JOB), {"namespace": "kube-system"}),
    ],
)
def test_what_the_cluster_itself_writes_is_not_touched_at_all(about):
    document, request = about
    document["metadata"].setdefault("labels", {})[names.LABEL_GROUP] = "whatever"
    assert after(document, **request) == document


@pytest.mark.parametrize("name", sorted(names.REWRITTEN_SCHEDULERS))
def test_gang_schedulers_become_the_default_one_unless_they_live_here(name):
    document = pod(controller=JOB, schedulerName=name)
    assert after(document)["spec"]["schedulerName"] == "default-scheduler"
    assert after(pod(schedulerName=name))["spec"]["schedulerName"] == "default-scheduler", "nor may a pod alone wait"
    assert after(document, scheduler_profiles=("own",))["spec"]["schedulerName"] == "own"
    assert after(document, live_schedulers=(name,)) == document


def test_a_foreign_scheduler_stays():
    assert after(pod(controller=JOB, schedulerName="mine"))["spec"]["schedulerName"] == "mine"


@pytest.mark.parametrize("policy", ["binpack", "hybrid"])
@pytest.mark.parametrize("document", [pod(), pod(gpus=1), pod(gpus=1, schedulerName="volcano")])
def test_a_configured_profile_packs(policy, document):
    result = after(document, policy=policy, binpack_scheduler_name="binpack-scheduler")
    assert result["spec"]["schedulerName"] == "binpack-scheduler"
    assert "affinity" not in result["spec"]


@pytest.mark.parametrize("policy", ["binpack", "hybrid"])
def test_without_a_profile_a_preferred_affinity_packs_pods_with_extended_resources(policy):
    result = after(pod(gpus=1), policy=policy)
    assert terms(result) == [
        {
            "weight": 100,
            "podAffinityTerm": {
                "labelSelector": {"matchLabels": {names.LABEL_BINPACK: "true"}},
                "topologyKey": "kubernetes.io/hostname",
            },
        }
    ]
    assert result["metadata"]["labels"][names.LABEL_BINPACK] == "true"
    assert "affinity" not in after(pod(), policy=policy)["spec"]


def test_gang_packs_nothing():
    result = after(pod(gpus=1), policy="gang", binpack_scheduler_name="binpack-scheduler")
    assert result["spec"]["schedulerName"] == "default-scheduler"
    assert "affinity" not in after(pod(gpus=1), policy="gang")["spec"]


FOREIGN_TERM = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}}


@pytest.mark.parametrize(
    "affinity",
    [
        {},
        {"nodeAffinity": {}},
        {"podAffinity": {}},
        {"podAffinity": {PREFERRED: []}},
        {"podAffinity": {PREFERRED: [FOREIGN_TERM]}},
        {"podAntiAffinity": {PREFERRED: [FOREIGN_TERM]}},
    ],
)
def test_the_affinity_joins_what_is_there(affinity):
    document = pod(gpus=1, affinity=affinity)
    result = after(document, policy="binpack")
    foreign = affinity.get("podAffinity", {}).get(PREFERRED, [])
    assert terms(result)[: len(foreign)] == foreign
    assert len(terms(result)) == len(foreign) + 1
    assert {k: v for k, v in result["spec"]["affinity"].items() if k != "podAffinity"} == {
        k: v for k, v in affinity.items() if k != "podAffinity"
    }


def test_the_affinity_is_never_doubled():
    once = after(pod(gpus=1), policy="hybrid")
    terms(once)[0]["podAffinityTerm"]["mismatchLabelKeys"] = ["added/later"]
    assert len(terms(after(once, policy="hybrid"))) == 1


@pytest.mark.parametrize("policy", list(names.Policy))
@pytest.mark.parametrize("profile", ["", "binpack-scheduler"])
@pytest.mark.parametrize(
    "document",
    [
        pod(),
        pod(gpus=1),
        pod(controller=JOB, gpus=2),
        pod(labels={names.COSCHEDULING_LABEL: "g"}, schedulerName="volcano"),
        pod(annotations={names.QUEUE_NAME_LONG: "q", names.ANNOTATION_LIFTED: "x"}, labels={names.LABEL_GROUP: "y"}),
        pod(schedulingGroup={"podGroupName": "n"}),
        pod(labels={}, annotations={}, schedulingGates=[]),
    ],
)
def test_the_own_output_is_not_changed_again(policy, profile, document):
    result = after(document, policy=policy, binpack_scheduler_name=profile)
    again = mutate.change(typed(result), facts(policy, binpack_scheduler_name=profile))
    assert again.operations == ()


def test_a_refused_pod_gets_no_patch():
    change = mutate.change(typed(pod(gpus=1, nodeName="n1")), facts())
    assert isinstance(change.verdict, Refusal)
    assert change.operations == ()


def test_a_group_name_of_253_characters_works():
    name = "a" * 253
    result = after(pod(annotations={names.VOLCANO_PODGROUP: name}))
    assert annotation_of(result, names.GROUP_NAME) == name
    assert len(label_of(result)) <= 63


def test_a_thousand_annotations_cost_one_operation_for_ours():
    document = pod(controller=JOB, labels={"a": "b"}, annotations={f"key-{i}": "v" for i in range(1000)})
    change = mutate.change(typed(document), facts())
    assert len(change.operations) == 2
    assert len(applied(document, change.operations)["metadata"]["annotations"]) == 1000


def test_who_creates_a_pod_by_hand_is_told_that_it_waits():
    assert mutate.change(typed(pod(gpus=1)), facts()).warnings == (mutate.WARN_HELD,)
    assert mutate.change(typed(pod(controller=JOB)), facts()).warnings == (), "no person reads a controller's warnings"
    assert mutate.change(typed(pod()), facts()).warnings == ()


def test_an_exempt_label_without_the_right_is_said_to_be_void():
    change = mutate.change(typed(pod(controller=JOB, labels={names.LABEL_EXEMPT: "true"})), facts())
    assert isinstance(change.verdict, Gate)
    assert change.warnings == (mutate.WARN_EXEMPT,)


def test_warnings_fit_a_line_of_a_terminal():
    assert all(len(text) <= 120 for text in (mutate.WARN_HELD, mutate.WARN_LIFTED, mutate.WARN_EXEMPT))


def test_pointers_escape_what_rfc_6901_escapes():
    assert pointer("metadata", "labels", "a/b~c") == "/metadata/labels/a~1b~0c"


def test_an_absent_map_is_made_only_when_there_is_something_to_put_in():
    assert list(change_map(None, {"a": None}, "m")) == []
    assert [o.path for o in change_map(None, {"a": "1", "b": None}, "m")] == ["/m"]
    assert [(o.op, o.path) for o in change_map({"b": "2"}, {"a": "1", "b": None}, "m")] == [
        ("add", "/m/a"),
        ("remove", "/m/b"),
    ]
    assert list(change_map({"a": "1"}, {"a": "1"}, "m")) == []


def test_only_extended_resources_of_containers_count():
    assert "affinity" not in after(pod(resources={"limits": {"cpu": "1"}}), policy="binpack")["spec"]
    assert GPU in str(pod(gpus=1))
