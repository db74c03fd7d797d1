"""From one object to its facts: what is read, and what an object that cannot be read becomes."""

import msgspec
import pytest

from policy import names
from policy.rules import facts, objects, owner_facts, refusal
from policy.rules.membership import families
from policy.rules.membership.family import Size
from policy.rules.membership.identity import LITE, PODGROUP, Identity
from policy.rules.membership.job import count_indexes
from policy.rules.model import Lifted, ScopeFact
from policy.rules.quantity import NANO

GPU = "nvidia.com/gpu"
NOON = "2026-01-01T12:00:00Z"
NOON_EPOCH = 1767268800.0


def pod(spec=None, status=None, **metadata):
    whole = {"metadata": {"name": "p", "namespace": "n", "uid": "u"} | metadata, "spec": spec or {}}
    return facts.pod(msgspec.convert(whole | {"status": status or {}}, objects.Pod))


def job(spec=None, template=None, status=None, **metadata):
    body = {
        "metadata": {"name": "train", "namespace": "n", "uid": "j", "creationTimestamp": NOON} | metadata,
        "spec": {"parallelism": 8, "template": template or {}} | (spec or {}),
        "status": status or {},
    }
    return owner_facts.owner(families.KNOWN.of("batch", "Job"))(msgspec.convert(body, objects.Job))


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        (NOON, NOON_EPOCH),
        ("2026-01-01T12:00:00.250000Z", NOON_EPOCH + 0.25),
        ("2026-01-01T14:00:00+02:00", NOON_EPOCH),
        (None, 0.0),
        ("yesterday", 0.0),
        ("2026-13-01T12:00:00Z", 0.0),
    ],
)
def test_times_are_seconds_since_the_epoch_and_what_is_no_time_is_zero(stamp, seconds):
    assert facts.epoch(stamp) == seconds


def test_a_pod_is_gated_by_our_gate_alone():
    found = pod({"schedulingGates": [{"name": "a.com/x"}, {"name": names.GATE}]})
    assert (found.gated, found.foreign_gates) == (True, ("a.com/x",))
    assert not pod({"schedulingGates": [{"name": "a.com/x"}]}).gated


def test_quota_counts_a_deleted_pod_until_its_grace_is_over():
    assert pod(deletionTimestamp=NOON, deletionGracePeriodSeconds=30).deleted == NOON_EPOCH + 30


def test_what_the_lift_wrote_is_read_back():
    assert pod(annotations={names.ANNOTATION_LIFTED: '{"min":8,"at":2.5}'}).lifted == Lifted(8, 2.5)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"min":"8","at":1}', '{"at":1}', '{"min":1e400,"at":1}'])
def test_a_broken_lift_annotation_still_marks_a_beginning(text):
    assert pod(annotations={names.ANNOTATION_LIFTED: text}).lifted == Lifted(1, 0.0)


def test_labels_and_role_are_read():
    assert pod(labels={"app": "a"}).labels == {"app": "a"}
    assert pod().labels == {}
    assert pod(annotations={names.TASK_SPEC: "worker"}).role == "worker"
    assert pod(labels={names.TASK_SPEC: "worker"}).role == "worker"
    assert pod().role == ""


@pytest.mark.parametrize(
    ("index", "found"), [("0", 0), ("17", 17), ("-1", -1), ("x", -1), ("", -1), ("٣", -1), ("9" * 10, -1)]
)
def test_the_completion_index_is_a_natural_number_or_none(index, found):
    assert pod(annotations={names.COMPLETION_INDEX: index}).index == found


def test_names_that_disagree_are_a_problem_of_that_pod():
    found = pod(annotations={names.VOLCANO_PODGROUP: "a", names.GROUP_NAME: "b"})
    assert found.group is None
    assert found.problem == (
        "annotation volcano.sh/podgroup says 'a' and annotation scheduling.k8s.io/group-name says 'b': give one name"
    )


def test_members_of_one_group_share_its_identity():
    first, second = (pod(annotations={names.VOLCANO_PODGROUP: "g"}, name=name) for name in "ab")
    assert first.group is second.group


def test_queues_that_disagree_are_a_problem_of_that_pod():
    found = pod(annotations={names.QUEUE_NAME: "a"}, labels={names.QUEUE_NAME: "b"})
    assert (found.group, found.queue) == (None, "")
    assert "volcano.sh/queue-name says 'a'" in found.problem


@pytest.mark.parametrize(("text", "minimum"), [("4", 4), ("0", 0), ("-4", 0), ("x", 0), ("", 0)])
def test_the_size_label_of_a_group_without_object(text, minimum):
    labels = {names.COSCHEDULING_LITE_NAME: "g", names.COSCHEDULING_LITE_MIN: text}
    found = pod(labels=labels)
    assert (found.group.kind, found.task_min) == (LITE, minimum)


NODE = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", GPU: "8", "pods": 110}}}


def node(**parts):
    return facts.node(msgspec.convert(NODE | parts, objects.Node))


def test_a_node_offers_what_it_allocates():
    assert node().allocatable == {"cpu": 8 * NANO, GPU: 8 * NANO, "pods": 110 * NANO}


def test_an_amount_that_does_not_parse_is_no_capacity():
    assert node(status={"allocatable": {"cpu": "eight", GPU: "8"}}).allocatable == {GPU: 8 * NANO}


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_is_ready_when_it_says_so(status, ready):
    assert node(status={"conditions": [{"type": "Ready", "status": status}]}).ready is ready


def test_a_node_has_its_labels_and_states():
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    found = node(metadata={"name": "n1", "labels": {"zone": "a"}}, spec={"unschedulable": True, "taints": [taint]})
    assert (found.name, found.labels, found.cordoned) == ("n1", {"zone": "a"}, True)
    assert [(t.key, t.value, t.effect) for t in found.taints] == [("k", "v", "NoSchedule")]
    assert node().labels == {}


def test_a_node_without_conditions_counts_as_ready():
    assert node().ready


def test_a_namespace_lists_its_queues_the_default_first():
    metadata = {
        "name": "n",
        "labels": {names.NAMESPACE_POLICY: "gang"},
        "annotations": {names.ANNOTATION_QUEUES: " team-a, ,team-b,"},
    }
    found = facts.namespace(msgspec.convert({"metadata": metadata}, objects.Namespace))
    assert (found.policy, found.queues) == ("gang", ("team-a", "team-b"))


def test_a_quota_is_what_its_status_enforces():
    body = {
        "metadata": {"name": "q", "namespace": "n"},
        "spec": {
            "hard": {"pods": "9"},
            "scopes": ["NotTerminating"],
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
            },
        },
        "status": {"hard": {"pods": "8", "cpu": "x"}, "used": {"pods": "3"}},
    }
    found = facts.quota(msgspec.convert(body, objects.ResourceQuota))
    assert (found.hard, found.used) == ({"pods": 8 * NANO}, {"pods": 3 * NANO})
    assert found.scopes == (ScopeFact("NotTerminating"), ScopeFact("PriorityClass", "In", ("high",)))


def test_a_queue_whose_capability_does_not_parse_says_so():
    body = {"metadata": {"name": "q"}, "spec": {"capability": {"cpu": "4 cores"}}}
    found = facts.queue(msgspec.convert(body, objects.Queue))
    assert (found.capability, found.problem) == ({}, "spec.capability: cpu: not a quantity: '4 cores'")


@pytest.mark.parametrize(("given", "minimum"), [({}, 1), ({"minMember": 0}, 1), ({"minMember": 8}, 8)])
def test_a_podgroup_without_size_is_one(given, minimum):
    found = facts.podgroup(msgspec.convert({"spec": given}, objects.PodGroup), names.VOLCANO_API)
    assert (found.min_member, found.problem) == (minimum, "")


@pytest.mark.parametrize(("label", "ours"), [(names.MANAGER, True), ("Helm", False), ("", False)])
def test_a_podgroup_is_ours_by_its_label(label, ours):
    metadata = {"labels": {names.LABEL_MANAGED: label}}
    assert facts.podgroup(msgspec.convert({"metadata": metadata}, objects.PodGroup), "x").ours is ours


def test_a_negative_size_is_a_problem_with_its_value():
    found = facts.podgroup(msgspec.convert({"spec": {"minMember": -3}}, objects.PodGroup), names.VOLCANO_API)
    assert found.problem == "spec.minMember is -3: it must be 1 or more"


@pytest.mark.parametrize(
    ("spec", "status", "size"),
    [
        ({}, {}, Size(8, 8, "min(spec.parallelism, completions still to come)")),
        ({"parallelism": None}, {}, Size(1, 1, "min(spec.parallelism, completions still to come)")),
        ({"completions": 20}, {}, Size(8, 8, "min(spec.parallelism, completions still to come)")),
        (
            {"completions": 20},
            {"succeeded": 15},
            Size(5, 5, "min(spec.parallelism, completions still to come)"),
        ),
        ({"completions": 4}, {}, Size(4, 4, "min(spec.parallelism, completions still to come)")),
        (
            {"completions": 8, "completionMode": "Indexed"},
            {"completedIndexes": "0-2", "failedIndexes": "7"},
            Size(4, 4, "min(spec.parallelism, completions still to come)"),
        ),
        ({}, {"succeeded": 1}, Size(0, 0, "min(spec.parallelism, completions still to come)")),
        ({"parallelism": 0}, {}, Size(0, 0, "min(spec.parallelism, completions still to come)")),
    ],
    ids=["work queue", "unset", "refills", "the tail", "few", "indexes gone", "work queue ending", "scaled to none"],
)
def test_the_size_of_a_job(spec, status, size):
    assert job(spec, status=status).size == size


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("3", 1), ("1,3-5,7", 5), ("0-999", 1000), ("3-1", 0), ("a-b,,-,4", 1), ("٣", 0), ("9" * 10, 0)],
)
def test_indexes_are_counted(text, count):
    assert count_indexes(text) == count


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_a_finished_job_makes_no_group(kind):
    assert job(status={"conditions": [{"type": kind, "status": "True"}]}).over
    assert not job(status={"conditions": [{"type": kind, "status": "False"}]}).over


def test_a_job_that_is_being_deleted_makes_no_group():
    assert job(deletionTimestamp=NOON).over


def test_a_suspended_job_is_held():
    assert job({"suspend": True}).held


TEMPLATE = {
    "spec": {
        "containers": [{"name": "c", "resources": {"limits": {GPU: 1, "cpu": "2"}, "requests": {"cpu": "1"}}}],
        "initContainers": [{"name": "i", "resources": {"limits": {"memory": "1Gi"}}}],
    }
}


def test_a_template_is_sized_as_the_api_server_will_default_its_pods():
    """Limits stand in for absent requests on pods only, not on templates (SetDefaults_Pod in pkg/apis/core/v1)."""
    assert job(template=TEMPLATE).parts[0].shape.requests == {"cpu": NANO, GPU: NANO, "memory": 2**30 * NANO}


def test_a_template_that_names_a_podgroup_names_it_in_the_jobs_namespace():
    found = job(template={"metadata": {"labels": {names.COSCHEDULING_LABEL: "g"}}})
    assert found.group == Identity(PODGROUP, "n", "g", how=f"label {names.COSCHEDULING_LABEL}")


def test_a_template_with_name_and_size_as_labels_tells_both():
    labels = {names.COSCHEDULING_LITE_NAME: "g", names.COSCHEDULING_LITE_MIN: "4"}
    found = job(template={"metadata": {"labels": labels}})
    assert (found.group.kind, found.task_min) == (LITE, 4)


def test_owners_of_a_template_are_not_those_of_its_pods():
    owner = {"kind": "Job", "name": "x", "uid": "x", "apiVersion": "batch/v1", "controller": True}
    assert job(template={"metadata": {"ownerReferences": [owner]}}).group is None


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_minimum_that_is_no_whole_number_is_a_problem_with_its_value(text):
    found = job(annotations={names.GROUP_MIN_MEMBER: text})
    assert found.min_member is None
    assert found.problem == f"annotation {names.GROUP_MIN_MEMBER} is {text!r}: it must be a whole number from 1"


def test_a_minimum_of_the_owner():
    assert job(annotations={names.GROUP_MIN_MEMBER: "6"}).min_member == 6


@pytest.mark.parametrize(
    ("condition", "preempted"),
    [
        ({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}, True),
        ({"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}, False),
        ({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}, False),
        ({"type": "Ready", "status": "True", "reason": "PreemptionByScheduler"}, False),
    ],
)
def test_a_pod_says_itself_that_it_was_preempted(condition, preempted):
    assert pod(status={"conditions": [condition]}).preempted is preempted


UID = "d8060558-8c7b-4b85-8458-7799f4c6a4d8"


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (f"Preempted by pod {UID} on node node-0", ("victim", UID)),
        (f"Preempted by podgroup {UID} on node node-0", ("victim", UID)),
        ("Preempted by a pod on node node-0", None),
    ],
)
def test_the_schedulers_event_names_who_takes_the_place(message, found):
    event = {"involvedObject": {"kind": "Pod", "uid": "victim"}, "reason": "Preempted", "message": message}
    assert refusal.preemption(msgspec.convert(event, objects.Event)) == found


@pytest.mark.parametrize(("api", "seconds"), [(names.COSCHEDULING_API, 30), (names.VOLCANO_API, 0)])
def test_only_coscheduling_says_how_long_binding_may_take(api, seconds):
    item = msgspec.convert({"spec": {"scheduleTimeoutSeconds": 30}}, objects.PodGroup)
    assert facts.podgroup(item, api).bind_timeout == seconds
