"""The final object of a create, later updates, and the removal of our gate."""

import copy

import pytest

from policy import names
from tests.unit.webhook_support import (
    ALICE,
    DAEMON_SET,
    DAEMONS,
    JOB,
    KUBELET,
    applied,
    facts,
    owner,
    pod,
    typed,
)
from webhook import mutate, validate


def final(document, **about):
    """The pod as it is stored when nobody comes after our mutation."""
    return applied(document, mutate.change(typed(document), facts(**about)).operations)


def refusal(document, **about):
    return validate.created(typed(document), facts(**about))


@pytest.mark.parametrize("policy", list(names.Policy))
@pytest.mark.parametrize(
    "document",
    [
        pod(),
        pod(gpus=1),
        pod(controller=JOB),
        pod(controller=JOB, schedulerName="volcano"),
        pod(schedulerName="mine"),
        pod(labels={names.LABEL_GROUP: "forged", names.COSCHEDULING_LABEL: "g"}),
        pod(nodeName="n1"),
        pod(annotations={names.ANNOTATION_LIFTED: "forged"}, controller=JOB),
    ],
)
def test_what_the_mutating_half_made_passes(policy, document):
    assert refusal(final(document, policy=policy), policy=policy) is None


def test_a_missing_gate_is_refused():
    stored = final(pod(controller=JOB))
    del stored["spec"]["schedulingGates"]
    found = refusal(stored)
    assert (found.code, found.why) == (403, "gate-missing")
    assert found.message.startswith('spec.schedulingGates: "ganggate.io/gang" is missing')
    assert refusal(pod(controller=JOB)).why == "gate-missing", "the webhook was not asked at all"


@pytest.mark.parametrize("value", ["forged", None])
def test_a_wrong_or_missing_label_is_refused_naming_both_values(value):
    stored = final(pod(controller=JOB))
    right = stored["metadata"]["labels"].pop(names.LABEL_GROUP)
    if value:
        stored["metadata"]["labels"][names.LABEL_GROUP] = value
    found = refusal(stored)
    assert found.why == "label-wrong"
    assert f"metadata.labels[{names.LABEL_GROUP}]" in found.message
    assert right in found.message and (value or "missing") in found.message


@pytest.mark.parametrize("document", [pod(), pod(gpus=1), pod(schedulerName="mine")])
def test_a_label_on_a_pod_without_group_is_refused(document):
    stored = final(document)
    stored["metadata"].setdefault("labels", {})[names.LABEL_GROUP] = "forged"
    assert refusal(stored).why == "label-wrong"


@pytest.mark.parametrize("document", [pod(), pod(controller=JOB), pod(schedulerName="mine"), pod(nodeName="n1")])
def test_a_forged_lift_is_refused(document):
    stored = final(document)
    stored["metadata"].setdefault("annotations", {})[names.ANNOTATION_LIFTED] = "2026-01-01T00:00:00Z"
    found = refusal(stored)
    assert (found.code, found.why) == (403, "lifted-forged")
    assert '"2026-01-01T00:00:00Z"' in found.message


@pytest.mark.parametrize("document", [pod(), pod(controller=JOB)])
def test_a_scheduler_that_does_not_run_here_is_refused(document):
    stored = final(document)
    stored["spec"]["schedulerName"] = "volcano"
    found = refusal(stored)
    assert found.why == "scheduler-unserved"
    assert found.message == (
        'spec.schedulerName: "volcano" does not run here; known: default-scheduler, binpack-scheduler'
    )


def test_a_scheduler_changed_to_a_foreign_one_takes_the_pod_out():
    """Nobody of ours would ever schedule it, so there is nothing to hold: it is charged, not gated."""
    stored = final(pod())
    stored["spec"]["schedulerName"] = "mine"
    assert refusal(stored) is None


def test_a_node_named_by_a_later_webhook_is_refused():
    stored = final(pod(controller=JOB))
    stored["spec"]["nodeName"] = "n1"
    assert refusal(stored).why == "node-name"


def test_a_tenants_mirror_annotation_does_not_lead_past_the_gate():
    """The mutating entry's matchConditions spare mirror pods by annotation; this is where it is made good."""
    document = pod(controller=JOB, annotations={names.MIRROR_ANNOTATION: "hash"})
    assert refusal(document).why == "gate-missing"
    document["spec"]["nodeName"] = "n1"
    assert refusal(document).why == "node-name"


@pytest.mark.parametrize(
    "about",
    [
        (pod(controller=DAEMON_SET, gpus=1, annotations={names.ANNOTATION_LIFTED: "x"}), DAEMONS),
        (pod(gpus=1, nodeName="n1", annotations={names.MIRROR_ANNOTATION: "h"}), KUBELET),
    ],
)
def test_what_the_cluster_itself_writes_passes(about):
    document, user = about
    assert refusal(document, user=user) is None
    assert refusal(document, user=ALICE) is not None


def changed(document, field, key, value):
    result = copy.deepcopy(document)
    values = result["metadata"].setdefault(field, {})
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
    return result


def update(old, new):
    return validate.updated(typed(old), typed(new))


TAKEN_IN = final(pod(labels={names.COSCHEDULING_LABEL: "g"}, annotations={names.QUEUE_NAME_LONG: "q"}))
FREE = pod(labels={"app": "x"})


@pytest.mark.parametrize("value", ["forged", None])
@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("labels", names.LABEL_GROUP),
        ("labels", names.COSCHEDULING_LABEL),
        ("annotations", names.GROUP_NAME),
        ("annotations", names.QUEUE_NAME),
        ("annotations", names.QUEUE_NAME_LONG),
    ],
)
def test_what_decided_the_group_is_fixed(field, key, value):
    before = TAKEN_IN["metadata"][field][key]
    found = update(TAKEN_IN, changed(TAKEN_IN, field, key, value))
    assert found.code == 403
    after = f'"{value}"' if value else "none"
    assert found.message == (
        f'metadata.{field}[{key}]: fixed at creation: from "{before}" to {after} takes verb lift on groups.ganggate.io'
    )


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("annotations", names.ANNOTATION_LIFTED),
        ("labels", names.LABEL_EXEMPT),
        ("labels", names.LABEL_GROUP),
    ],
)
@pytest.mark.parametrize("document", [TAKEN_IN, FREE])
def test_our_marks_are_written_by_nobody_else(document, field, key):
    found = update(document, changed(document, field, key, "forged"))
    assert found.why == "mark-changed"
    assert f"metadata.{field}[{key}]" in found.message and '"forged"' in found.message


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_pod_that_was_not_taken_in_may_be_named_by_others(field):
    """A live Volcano writes its group name on pods that it was given, after they were created."""
    key = names.GROUP_NAME if field == "annotations" else names.COSCHEDULING_LABEL
    assert update(FREE, changed(FREE, field, key, "g")) is None


def test_a_lifted_member_stays_a_member():
    lifted = changed(TAKEN_IN, "annotations", names.ANNOTATION_LIFTED, "now")
    del lifted["spec"]["schedulingGates"]
    assert update(lifted, changed(lifted, "annotations", names.GROUP_NAME, "other")).why == "mark-changed"


def test_other_updates_pass():
    assert update(TAKEN_IN, changed(TAKEN_IN, "labels", "app", "y")) is None
    adopted = copy.deepcopy(TAKEN_IN)
    adopted["metadata"]["ownerReferences"] = [owner("Job")]
    assert update(TAKEN_IN, adopted) is None


def test_a_pod_that_is_being_deleted_may_change_in_any_way():
    going = copy.deepcopy(TAKEN_IN)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert update(going, changed(going, "labels", names.LABEL_GROUP, None)) is None
    bare = copy.deepcopy(going)
    del bare["spec"]["schedulingGates"]
    assert validate.gate_removed(typed(going), typed(bare)) is None


def test_removing_our_gate_is_refused():
    held = copy.deepcopy(TAKEN_IN)
    held["metadata"]["name"] = "train-0"
    held["spec"]["schedulingGates"].append({"name": "example.com/other"})
    bare = copy.deepcopy(held)
    bare["spec"]["schedulingGates"] = [{"name": "example.com/other"}]
    found = validate.gate_removed(typed(held), typed(bare))
    assert (found.code, found.why) == (403, "gate-removal")
    assert found.message == (
        'spec.schedulingGates: removing "ganggate.io/gang" takes verb lift on groups.ganggate.io; '
        "kubectl describe pod train-0 says what its group waits for"
    )


def test_removing_somebody_elses_gate_is_none_of_our_business():
    held = copy.deepcopy(TAKEN_IN)
    held["spec"]["schedulingGates"].append({"name": "example.com/other"})
    assert validate.gate_removed(typed(held), typed(TAKEN_IN)) is None
    assert validate.gate_removed(typed(FREE), typed(FREE)) is None
