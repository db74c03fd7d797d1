"""Which group and queue a pod names: every given name, their order, and names that cannot be believed."""

import msgspec
import pytest

from policy import names
from policy.rules.membership import families
from policy.rules.membership.identify import identify, named_queue
from policy.rules.membership.identity import (
    LITE,
    NATIVE,
    PODGROUP,
    DisagreementError,
    Identity,
    ReservedNameError,
)
from policy.rules.objects import OwnerReference, Pod

JOB = {"kind": "Job", "name": "train", "uid": "j-1", "apiVersion": "batch/v1", "controller": True}


def pod(labels=None, annotations=None, owners=(), **spec):
    metadata = {"labels": labels, "annotations": annotations, "ownerReferences": list(owners)}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


ANNOTATIONS = [names.VOLCANO_PODGROUP, names.GROUP_NAME, names.VOLCANO_GROUP_NAME]
LABELS = [names.COSCHEDULING_LABEL, names.COSCHEDULING_OLD_LABEL, names.COSCHEDULING_LITE_NAME]
FIELDS = {
    "field spec.schedulingGroup.podGroupName": {"schedulingGroup": {"podGroupName": "g"}},
    "field spec.workloadRef.name": {"workloadRef": {"name": "g", "podGroup": "x"}},
}


@pytest.mark.parametrize("key", ANNOTATIONS)
def test_an_annotation_names_a_podgroup(key):
    assert identify(pod(annotations={key: "g"}), "n") == Identity(PODGROUP, "n", "g", how=f"annotation {key}")


@pytest.mark.parametrize("key", LABELS)
def test_a_label_names_a_podgroup(key):
    assert identify(pod(labels={key: "g"}), "n") == Identity(PODGROUP, "n", "g", how=f"label {key}")


@pytest.mark.parametrize("how", FIELDS)
def test_a_field_names_a_native_podgroup(how):
    assert identify(pod(**FIELDS[how]), "n") == Identity(NATIVE, "n", "g", how=how)


def test_a_group_name_and_size_as_labels_need_no_object():
    labels = {names.COSCHEDULING_LITE_NAME: "g", names.COSCHEDULING_LITE_MIN: "4"}
    assert identify(pod(labels=labels), "n").kind == LITE


def test_it_stays_without_object_once_the_webhook_has_written_the_common_annotation():
    labels = {names.COSCHEDULING_LITE_NAME: "g", names.COSCHEDULING_LITE_MIN: "4"}
    assert identify(pod(labels, {names.GROUP_NAME: "g"}), "n").kind == LITE


def test_a_size_label_without_its_name_label_makes_no_group_of_its_own():
    labels = {names.COSCHEDULING_LABEL: "g", names.COSCHEDULING_LITE_MIN: "4"}
    assert identify(pod(labels=labels), "n").kind == PODGROUP


PRECEDENCE = [
    *((f"annotation {k}", {"annotations": {k: "g"}}) for k in (names.VOLCANO_PODGROUP, names.VOLCANO_GROUP_NAME)),
    *((f"label {k}", {"labels": {k: "g"}}) for k in LABELS),
    *FIELDS.items(),
]


@pytest.mark.parametrize("index", range(len(PRECEDENCE)), ids=[how for how, _ in PRECEDENCE])
def test_the_first_of_several_equal_names_is_told(index):
    merged: dict = {}
    for _, part in PRECEDENCE[index:]:
        for key, value in part.items():
            merged[key] = merged.get(key, {}) | value
    labels, annotations = merged.pop("labels", None), merged.pop("annotations", None)
    assert identify(pod(labels, annotations, **merged), "n").how == PRECEDENCE[index][0]


def test_the_annotation_that_ganggate_itself_writes_is_told_only_where_nothing_else_names_the_group():
    """The lift writes it beside the label that the pod came with: the dialect must not change by that."""
    both = pod({names.COSCHEDULING_LABEL: "g"}, {names.GROUP_NAME: "g"})
    assert identify(both, "n").how == f"label {names.COSCHEDULING_LABEL}"


def test_a_given_name_comes_before_the_controller():
    assert identify(pod(labels={names.COSCHEDULING_LABEL: "g"}, owners=[JOB]), "n").kind == PODGROUP


def test_the_controller_makes_the_group_where_no_name_is_given():
    found = identify(pod(owners=[JOB]), "n")
    assert found == Identity("Job", "n", "train", "j-1", how="controller Job train")
    assert found.key == "Job/n/j-1"


@pytest.mark.parametrize(
    "owner",
    [
        {**JOB, "controller": False},
        {**JOB, "apiVersion": "batch.example.com/v1"},
        {**JOB, "kind": "Workflow", "apiVersion": "argoproj.io/v1alpha1"},
        {**JOB, "kind": "ReplicaSet", "apiVersion": "apps/v1"},
    ],
    ids=["an owner that does not control", "another group's Job", "a kind nobody knows", "a ReplicaSet"],
)
def test_a_pod_of_any_other_owner_stands_alone(owner):
    assert identify(pod(owners=[owner]), "n") is None


def test_another_version_of_the_same_api_is_the_same_family():
    assert families.KNOWN.of_owner(OwnerReference(kind="Job", name="a", api_version="batch/v2")) is not None


def test_a_pod_without_owner_and_name_stands_alone():
    assert identify(pod(), "n") is None


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (
            pod(annotations={names.VOLCANO_PODGROUP: "a", names.VOLCANO_GROUP_NAME: "b"}),
            "annotations",
            "annotation volcano.sh/podgroup says 'a' and annotation scheduling.volcano.sh/group-name says 'b': "
            "give one name",
        ),
        (
            pod({names.COSCHEDULING_LABEL: "b"}, {names.VOLCANO_PODGROUP: "a"}),
            "annotation and label",
            "annotation volcano.sh/podgroup says 'a' and label scheduling.x-k8s.io/pod-group says 'b': give one name",
        ),
        (
            pod({names.COSCHEDULING_LABEL: "a"}, schedulingGroup={"podGroupName": "b"}),
            "label and field",
            "label scheduling.x-k8s.io/pod-group says 'a' and field spec.schedulingGroup.podGroupName says 'b': "
            "give one name",
        ),
    ],
)
def test_two_names_that_differ_are_refused_with_both(one, other, words):
    with pytest.raises(DisagreementError) as caught:
        identify(one, "n")
    assert str(caught.value) == words, other


def test_names_of_any_length_stay_readable_in_the_refusal():
    long = pod(annotations={names.VOLCANO_PODGROUP: "a" * 200_000, names.VOLCANO_GROUP_NAME: "b" * 200_000})
    with pytest.raises(DisagreementError) as caught:
        identify(long, "n")
    assert "a" * 253 + "…" in str(caught.value)
    assert len(str(caught.value)) < 800


def test_a_name_of_253_characters_is_a_group_and_a_label_value():
    name = "a" * 253
    found = identify(pod(annotations={names.VOLCANO_PODGROUP: name}), "n")
    assert found.name == name
    assert len(found.label) == 40


def test_a_pod_without_controller_may_not_name_a_podgroup_of_ours():
    with pytest.raises(ReservedNameError, match=r"^PodGroup names starting with 'ganggate-' are ganggate's: "):
        identify(pod(annotations={names.GROUP_NAME: "ganggate-j-1"}), "n")


def test_the_name_of_ours_that_the_lift_wrote_leaves_the_controller_to_decide():
    assert identify(pod(annotations={names.GROUP_NAME: "ganggate-other"}, owners=[JOB]), "n").uid == "j-1"


def test_identities_of_two_lives_of_one_name_differ():
    first, second = (Identity("Job", "n", "train", uid) for uid in ("j-1", "j-2"))
    assert first.key != second.key
    assert first.label != second.label


def test_where_a_name_stands_makes_no_other_group():
    by_label = identify(pod(labels={names.COSCHEDULING_LABEL: "g"}), "n")
    by_annotation = identify(pod(annotations={names.VOLCANO_PODGROUP: "g"}), "n")
    assert by_label.key == by_annotation.key
    assert by_label.label == by_annotation.label


@pytest.mark.parametrize(
    ("where", "given"),
    [
        (f"annotation {names.QUEUE_NAME}", pod(annotations={names.QUEUE_NAME: "q"})),
        (f"annotation {names.QUEUE_NAME_LONG}", pod(annotations={names.QUEUE_NAME_LONG: "q"})),
        (f"label {names.QUEUE_NAME}", pod(labels={names.QUEUE_NAME: "q"})),
    ],
)
def test_a_queue_is_named_by(where, given):
    found = named_queue(given.metadata)
    assert (found.name, found.where) == ("q", where)


def test_no_queue_is_named():
    assert named_queue(pod().metadata) is None


def test_two_queues_that_differ_are_refused_with_both():
    with pytest.raises(DisagreementError) as caught:
        named_queue(pod({names.QUEUE_NAME: "b"}, {names.QUEUE_NAME: "a"}).metadata)
    assert str(caught.value) == (
        "annotation volcano.sh/queue-name says 'a' and label volcano.sh/queue-name says 'b': give one name"
    )
