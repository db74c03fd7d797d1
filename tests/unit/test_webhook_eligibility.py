"""Design section 3, "Gated or not", one case per sentence."""

import pytest

from policy import names
from policy.rules.membership.identity import LITE, NATIVE, PODGROUP, POD
from tests.unit.webhook_support import (
    ALICE,
    DAEMON_SET,
    DAEMONS,
    GPU,
    JOB,
    KUBELET,
    REPLICA_SET,
    facts,
    owner,
    pod,
    typed,
)
from webhook.eligibility import Gate, Pass, Refusal, Spared, judge

KCM = ("system:kube-controller-manager", ("system:authenticated",))


def verdict(document, **about):
    return judge(typed(document), facts(**about))


@pytest.mark.parametrize(
    ("document", "kind", "name"),
    [
        (pod(annotations={names.VOLCANO_PODGROUP: "g"}), PODGROUP, "g"),
        (pod(annotations={names.GROUP_NAME: "g"}), PODGROUP, "g"),
        (pod(annotations={names.VOLCANO_GROUP_NAME: "g"}), PODGROUP, "g"),
        (pod(labels={names.COSCHEDULING_LABEL: "g"}), PODGROUP, "g"),
        (pod(labels={names.COSCHEDULING_OLD_LABEL: "g"}), PODGROUP, "g"),
        (pod(labels={names.COSCHEDULING_LITE_NAME: "g"}), PODGROUP, "g"),
        (pod(labels={names.COSCHEDULING_LITE_NAME: "g", names.COSCHEDULING_LITE_MIN: "8"}), LITE, "g"),
        (pod(schedulingGroup={"podGroupName": "g"}), NATIVE, "g"),
        (pod(workloadRef={"name": "g", "podGroup": "workers"}), NATIVE, "g"),
        (pod(controller=JOB), "Job", "pytorch-train"),
        (pod(controller=JOB, annotations={names.VOLCANO_PODGROUP: "g"}), PODGROUP, "g"),
        (pod(controller=REPLICA_SET, labels={names.COSCHEDULING_LABEL: "g"}), PODGROUP, "g"),
    ],
)
def test_a_pod_with_a_group_is_gated(document, kind, name):
    found = verdict(document)
    assert isinstance(found, Gate)
    assert (found.identity.kind, found.identity.name, found.identity.namespace) == (kind, name, "training")


@pytest.mark.parametrize("policy", ["gang", "hybrid"])
@pytest.mark.parametrize(
    "document",
    [
        pod(gpus=1),
        pod(controller=REPLICA_SET, gpus=1),
        pod(annotations={names.QUEUE_NAME: "team-a"}),
        pod(annotations={names.QUEUE_NAME_LONG: "team-a"}),
        pod(labels={names.QUEUE_NAME: "team-a"}),
    ],
)
def test_a_pod_alone_is_gated_for_an_extended_resource_or_a_queue(document, policy):
    found = verdict(document, policy=policy)
    assert isinstance(found, Gate)
    assert found.identity is None


def test_an_init_container_can_ask_for_the_extended_resource():
    document = pod(initContainers=[{"name": "i", "resources": {"limits": {"example.com/fpga": "1"}}}])
    assert isinstance(verdict(document), Gate)


@pytest.mark.parametrize(
    "document",
    [
        pod(),
        pod(controller=REPLICA_SET),
        pod(controller=owner("Workflow", version="argoproj.io/v1alpha1")),
        pod(controller={**JOB, "controller": False}),  # an owner, but not the controller
        pod(annotations={names.VOLCANO_PODGROUP: ""}),
    ],
)
def test_a_pod_without_group_queue_or_extended_resource_passes(document):
    assert verdict(document) == Pass(Spared.ALONE)


@pytest.mark.parametrize("namespace", ["kube-system", names.SYSTEM_NAMESPACE])
def test_the_system_namespaces_are_never_touched(namespace):
    assert verdict(pod(controller=JOB, gpus=1), namespace=namespace) == Pass(Spared.SYSTEM_NAMESPACE)


def test_mirror_pods_and_what_nodes_place_are_never_touched():
    mirror = pod(gpus=1, annotations={names.MIRROR_ANNOTATION: "hash"}, nodeName="n1")
    assert verdict(mirror, user=KUBELET) == Pass(Spared.NODE)
    assert verdict(pod(gpus=1, nodeName="n1"), user=KUBELET) == Pass(Spared.NODE)


def test_the_mirror_annotation_of_a_tenant_proves_nothing():
    mirror = pod(gpus=1, annotations={names.MIRROR_ANNOTATION: "hash"}, nodeName="n1")
    assert isinstance(verdict(mirror), Refusal)
    assert isinstance(verdict(pod(controller=JOB, annotations={names.MIRROR_ANNOTATION: "hash"})), Gate)


@pytest.mark.parametrize("user", [DAEMONS, KCM])
def test_daemon_set_pods_are_never_touched_when_their_controller_asks(user):
    assert verdict(pod(controller=DAEMON_SET, gpus=1), user=user) == Pass(Spared.DAEMON_SET)


def test_a_forged_daemon_set_owner_does_not_pass():
    assert isinstance(verdict(pod(controller=DAEMON_SET, gpus=1)), Gate)
    assert isinstance(verdict(pod(controller=owner("DaemonSet", version="evil/v1"), gpus=1), user=DAEMONS), Gate)
    assert isinstance(verdict(pod(controller={**DAEMON_SET, "controller": False}, gpus=1), user=DAEMONS), Gate)


@pytest.mark.parametrize("key", [names.KUEUE_MANAGED, names.KUEUE_QUEUE_NAME])
def test_kueue_keeps_its_pods_only_where_it_runs(key):
    document = pod(controller=JOB, labels={key: "true"})
    assert verdict(document, kueue=True) == Pass(Spared.KUEUE)
    assert isinstance(verdict(document, kueue=False), Gate)
    assert isinstance(verdict(pod(controller=JOB), kueue=True), Gate)


def test_a_foreign_scheduler_keeps_its_pods_and_every_profile_is_ours():
    assert verdict(pod(controller=JOB, schedulerName="mine")) == Pass(Spared.OTHER_SCHEDULER)
    assert isinstance(verdict(pod(controller=JOB, schedulerName="binpack-scheduler")), Gate)
    assert isinstance(
        verdict(pod(controller=JOB, schedulerName="mine"), scheduler_profiles=("default-scheduler", "mine")), Gate
    )
    assert isinstance(verdict(pod(controller=JOB, schedulerName="")), Gate)  # the API server's default comes later


@pytest.mark.parametrize("name", sorted(names.REWRITTEN_SCHEDULERS))
def test_gang_schedulers_are_ours_unless_they_live_here(name):
    document = pod(controller=JOB, schedulerName=name)
    assert isinstance(verdict(document), Gate)
    assert verdict(document, live_schedulers=(name,)) == Pass(Spared.OTHER_SCHEDULER)


@pytest.mark.parametrize(
    ("document", "sign"),
    [
        (pod(controller=JOB, nodeName="n1"), 'a group (controller Job pytorch-train: "pytorch-train")'),
        (pod(annotations={names.QUEUE_NAME: "q"}, nodeName="n1"), f'a queue (annotation {names.QUEUE_NAME}: "q")'),
        (pod(gpus=1, nodeName="n1"), f"an extended resource ({GPU})"),
    ],
)
def test_a_node_named_by_hand_is_refused_where_it_would_bypass_the_gate(document, sign):
    found = verdict(document)
    assert isinstance(found, Refusal)
    assert (found.code, found.why) == (403, "node-name")
    assert found.message == f'spec.nodeName: "n1" would bypass the gate of a pod with {sign}: leave it out'


def test_a_node_named_by_hand_passes_on_a_pod_alone():
    assert verdict(pod(nodeName="n1")) == Pass(Spared.BOUND)


@pytest.mark.parametrize("about", [{"schedulerName": "mine"}, {"labels": {names.KUEUE_MANAGED: "true"}}])
def test_neither_a_foreign_scheduler_nor_kueue_excuses_a_node_named_by_hand(about):
    assert isinstance(verdict(pod(gpus=1, nodeName="n1", **about), kueue=True), Refusal)


def test_a_daemon_set_pod_may_name_its_node_if_its_controller_asks():
    assert verdict(pod(controller=DAEMON_SET, gpus=1, nodeName="n1"), user=DAEMONS) == Pass(Spared.DAEMON_SET)


def test_two_different_names_are_refused_naming_both():
    found = verdict(pod(annotations={names.VOLCANO_PODGROUP: "left"}, labels={names.COSCHEDULING_LABEL: "right"}))
    assert isinstance(found, Refusal)
    assert (found.code, found.why) == (422, "names-disagree")
    assert found.message == (
        f"annotation {names.VOLCANO_PODGROUP} says 'left' and label {names.COSCHEDULING_LABEL} says 'right': "
        "give one name"
    )


def test_two_different_names_of_any_length_are_both_seen():
    found = verdict(pod(annotations={names.VOLCANO_PODGROUP: "left" * 9000, names.GROUP_NAME: "right" * 9000}))
    assert "leftleft" in found.message
    assert "rightright" in found.message
    assert len(found.message) <= 1000


def test_two_equal_names_are_one():
    found = verdict(pod(annotations={names.VOLCANO_PODGROUP: "g"}, labels={names.COSCHEDULING_LABEL: "g"}))
    assert isinstance(found, Gate)


def test_two_different_queues_are_refused_naming_both():
    found = verdict(pod(annotations={names.QUEUE_NAME: "a"}, labels={names.QUEUE_NAME: "b"}))
    assert isinstance(found, Refusal)
    assert "'a'" in found.message and "'b'" in found.message


@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_our_own_pod_group_names_are_reserved(place):
    key = names.GROUP_NAME if place == "annotations" else names.COSCHEDULING_LABEL
    borrowed = {place: {key: names.OWN_PODGROUP_PREFIX + "7"}}
    found = verdict(pod(**borrowed))
    assert isinstance(found, Refusal)
    assert found.why == "reserved-name"
    assert names.OWN_PODGROUP_PREFIX + "7" in found.message
    with_job = verdict(pod(controller=JOB, **borrowed))
    assert with_job.identity.kind == "Job", "a name of ours adds nothing: the controller decides"


@pytest.mark.parametrize("value", ["0", "-3", "eight", "1.5", "", "99999999999", "4294967296", "٣"])
def test_a_minimum_that_is_no_number_of_members_is_refused_naming_label_and_value(value):
    found = verdict(pod(labels={names.COSCHEDULING_LITE_NAME: "g", names.COSCHEDULING_LITE_MIN: value}))
    assert isinstance(found, Refusal)
    assert found.why == "bad-minimum"
    assert (
        found.message == f'metadata.labels[{names.COSCHEDULING_LITE_MIN}]: "{value}" is no number of members: 1 or more'
    )


def test_a_minimum_of_any_length_is_shown_cut():
    found = verdict(pod(labels={names.COSCHEDULING_LITE_MIN: "9" * 5000}))
    assert found.why == "bad-minimum"
    assert len(found.message) <= 1000


def test_a_refusal_is_one_line():
    found = verdict(pod(annotations={names.VOLCANO_PODGROUP: "a\nb", names.GROUP_NAME: "c\x00d"}))
    assert found.message.isprintable()


def test_the_exempt_label_from_whoever_reaches_us_changes_nothing():
    assert isinstance(verdict(pod(controller=JOB, labels={names.LABEL_EXEMPT: "true"}), user=ALICE), Gate)


def test_binpack_gates_nothing_and_refuses_no_name():
    assert verdict(pod(controller=JOB, gpus=1), policy="binpack") == Pass(Spared.BINPACK)
    both = pod(annotations={names.VOLCANO_PODGROUP: "a", names.GROUP_NAME: "b"})
    assert verdict(both, policy="binpack") == Pass(Spared.BINPACK)
    assert verdict(pod(gpus=1, nodeName="n1"), policy="binpack") == Pass(Spared.BOUND)
    assert verdict(pod(schedulerName="mine"), policy="binpack") == Pass(Spared.OTHER_SCHEDULER)


def test_the_group_of_a_controller_is_its_uid_not_its_name():
    first = verdict(pod(controller=owner("Job", uid="a"))).identity
    again = verdict(pod(controller=owner("Job", uid="b"))).identity
    assert first.label != again.label
    assert POD not in (first.kind, again.kind)
