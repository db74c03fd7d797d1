"""The CEL policies against a real API server, with real identities and no webhook: each rule refuses and admits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy import names
from policy.rules.membership.identify import NAMING_ANNOTATIONS, NAMING_LABELS
from tests.cluster.admission import (
    BINPACK,
    FREE,
    GANG,
    GATES,
    HYBRID,
    LIFT,
    OTHER_GATE,
    PLAIN,
    World,
    bare_world,
    namespace_object,
    owner,
    pod,
)
from tests.cluster.calls import Answer
from tests.cluster.conftest import MakeCluster, wait_until

POLICIES = Path(__file__).parents[2] / "deploy" / "policies"


@pytest.fixture(scope="module")
def world(make_cluster: MakeCluster) -> Iterator[World]:
    with bare_world(make_cluster) as world:
        world.cluster.kubectl.apply(shipped())
        in_force(world)
        yield world


def shipped() -> list[dict[str, Any]]:
    return [each for path in sorted(POLICIES.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())]


def in_force(world: World) -> None:
    """A policy binds a moment after it was created: wait until each has been seen to act."""
    marked, bare = {"annotations": {names.ANNOTATION_LIFTED: "x"}}, {"spec": {"schedulingGates": []}}
    gated = world.pod()
    dry = "?dryRun=All"
    pods = f"/api/v1/namespaces/{GANG}/pods"
    wait_until(lambda: not world.tenant.create(pods + dry, pod(**marked)).ok, what="marks")
    wait_until(
        lambda: not world.tenant.create(pods + dry, pod(**bare, ownerReferences=owner())).ok, what="gate-required"
    )
    wait_until(lambda: not world.tenant.patch(gated + dry, LIFT).ok, what="gate-removal")
    wrong = namespace_object("p-probe", "gong")
    wait_until(lambda: world.admin.create(f"/api/v1/namespaces{dry}", wrong).warning, what="namespace-policy")


def refused(answer: Answer, *parts: str) -> None:
    """Refused by one of our policies, in one line that holds each part."""
    assert answer.code == 403, answer.body
    assert "ValidatingAdmissionPolicy 'ganggate-" in answer.message
    assert "\n" not in answer.message
    for part in parts:
        assert part in answer.message


# --- what the server thinks of the expressions ---------------------------------------------------------------


def test_every_expression_is_type_checked_without_a_warning(world: World) -> None:
    def checked() -> list[dict[str, Any]] | None:
        path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
        items = world.admin("GET", path).body["items"]
        seen = [each["metadata"]["generation"] == each.get("status", {}).get("observedGeneration") for each in items]
        return items if all(seen) else None

    items = wait_until(checked, what="type checks")
    assert {each["metadata"]["name"]: each["status"]["typeChecking"] for each in items} == {
        "ganggate-gate-removal": {},
        "ganggate-gate-required": {},
        "ganggate-marks": {},
        "ganggate-namespace-policy": {},
    }


# --- removing the gate ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", [GANG, BINPACK, FREE])
def test_a_namespace_admin_cannot_remove_the_gate_wherever_the_pod_is(world: World, namespace: str) -> None:
    path = world.pod(namespace)
    refused(world.tenant.patch(path, LIFT), names.GATE, '"tenant"', namespace, '"lift"')
    assert world.admin("GET", path).body["spec"]["schedulingGates"] == GATES


@pytest.mark.parametrize("way", ["strategic merge", "merge", "put"])
def test_no_way_of_writing_removes_it(world: World, way: str) -> None:
    path = world.pod()
    if way == "put":
        whole = world.admin("GET", path).body
        whole["spec"].pop("schedulingGates")
        answer = world.tenant("PUT", path, whole)
    else:
        none = {"spec": {"schedulingGates": None}}
        kind = "application/merge-patch+json" if way == "merge" else "application/strategic-merge-patch+json"
        answer = world.tenant.patch(path, none, kind)
    refused(answer, names.GATE)


def test_the_holder_of_lift_removes_it(world: World) -> None:
    assert world.lifter.patch(world.pod(GANG), LIFT).ok


def test_lift_holds_only_where_it_was_granted(world: World) -> None:
    refused(world.lifter.patch(world.pod(HYBRID), LIFT), HYBRID)


def test_a_cluster_admin_removes_it_without_a_grant(world: World) -> None:
    assert world.admin.patch(world.pod(), LIFT).ok


def test_gates_of_others_are_no_matter_of_ours(world: World) -> None:
    path = world.pod(spec={"schedulingGates": [*GATES, {"name": OTHER_GATE}]})
    assert world.tenant.patch(path, {"spec": {"schedulingGates": [{"name": OTHER_GATE, "$patch": "delete"}]}}).ok


def test_a_pod_that_is_being_deleted_passes(world: World) -> None:
    path = world.pod(finalizers=["example.com/wait"])
    assert world.tenant("DELETE", path).ok
    assert world.tenant.patch(path, LIFT | {"metadata": {"annotations": {names.ANNOTATION_LIFTED: "x"}}}).ok
    assert world.tenant.patch(path, {"metadata": {"finalizers": None}}).ok


# --- what the gatekeeper believes ----------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", [GANG, FREE])
@pytest.mark.parametrize("value", ["true", ""])
@pytest.mark.parametrize(("field", "key"), [("annotations", names.ANNOTATION_LIFTED), ("labels", names.LABEL_EXEMPT)])
def test_marks_are_written_with_lift_alone(world: World, namespace: str, field: str, key: str, value: str) -> None:
    marked = {field: {key: value}}
    refused(world.create(world.tenant, namespace, **marked), f"metadata.{field}[{key}]", f'"{value}"', '"lift"')
    path = world.pod(namespace)
    refused(world.tenant.patch(path, {"metadata": marked}), f"metadata.{field}[{key}]", '"tenant"')
    refused(world.writer.patch(f"{path}/status", {"metadata": marked}), f"metadata.{field}[{key}]")
    assert world.admin.patch(path, {"metadata": marked}).ok
    refused(world.tenant.patch(path, {"metadata": {field: {key: None}}}), f"metadata.{field}[{key}]")
    assert world.tenant.patch(path, {"metadata": marked}).ok, "writing what stands there already changes nothing"


def test_the_holder_of_lift_writes_marks(world: World) -> None:
    assert world.create(world.lifter, labels={names.LABEL_EXEMPT: "true"}).ok
    lifted = {"metadata": {"annotations": {names.ANNOTATION_LIFTED: "x", names.GROUP_NAME: "g"}}}
    assert world.lifter.patch(world.pod(), lifted | LIFT).ok


def test_the_group_label_is_fixed_after_creation(world: World) -> None:
    path, other = world.pod(labels={names.LABEL_GROUP: "a"}), {"metadata": {"labels": {names.LABEL_GROUP: "b"}}}
    refused(world.tenant.patch(path, other), f"metadata.labels[{names.LABEL_GROUP}]", '"a"', '"b"')
    refused(world.writer.patch(f"{path}/status", other), names.LABEL_GROUP)
    refused(world.tenant.patch(path, {"metadata": {"labels": {names.LABEL_GROUP: None}}}), names.LABEL_GROUP)
    refused(world.tenant.patch(world.pod(), other), names.LABEL_GROUP)
    assert world.lifter.patch(path, other).ok


NAMED = [*(("annotations", key) for key in NAMING_ANNOTATIONS), *(("labels", key) for key in NAMING_LABELS)]


@pytest.mark.parametrize(("field", "key"), NAMED)
def test_names_of_group_and_queue_are_fixed_once_the_pod_is_taken_in(world: World, field: str, key: str) -> None:
    was, now = {"metadata": {field: {key: "a"}}}, {"metadata": {field: {key: "b"}}}
    path = world.pod(**was["metadata"])
    refused(world.tenant.patch(path, now), f'metadata.{field}[{key}]: "b"')
    refused(world.writer.patch(f"{path}/status", now), key)
    refused(world.tenant.patch(path, {"metadata": {field: {key: None}}}), key)
    refused(world.tenant.patch(world.pod(), now), key)
    assert world.lifter.patch(path, now).ok


@pytest.mark.parametrize(
    "mark", [{"labels": {names.LABEL_GROUP: "a"}}, {"annotations": {names.ANNOTATION_LIFTED: "a"}}]
)
def test_a_lifted_pod_counts_as_taken_in(world: World, mark: dict[str, Any]) -> None:
    path = world.pod(spec={"schedulingGates": []}, **mark)
    refused(world.tenant.patch(path, {"metadata": {"annotations": {names.GROUP_NAME: "b"}}}), names.GROUP_NAME)


def test_pods_of_a_live_volcano_may_be_named_late(world: World) -> None:
    path = world.pod(spec={"schedulingGates": [], "schedulerName": "volcano"})
    assert world.tenant.patch(path, {"metadata": {"annotations": {names.GROUP_NAME: "podgroup-1"}}}).ok


# --- a member must be gated ----------------------------------------------------------------------------------

BARE = {"schedulingGates": []}


@pytest.mark.parametrize("namespace", [GANG, HYBRID])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"ownerReferences": owner()}, 'Job "train"'),
        ({"annotations": {names.GROUP_NAME: "g"}}, f'metadata.annotations[{names.GROUP_NAME}]: it names "g"'),
        ({"annotations": {names.VOLCANO_PODGROUP: "g"}}, names.VOLCANO_PODGROUP),
        ({"annotations": {names.VOLCANO_GROUP_NAME: "g"}}, names.VOLCANO_GROUP_NAME),
        ({"labels": {names.COSCHEDULING_LABEL: "g"}}, names.COSCHEDULING_LABEL),
        ({"labels": {names.COSCHEDULING_OLD_LABEL: "g"}}, names.COSCHEDULING_OLD_LABEL),
        ({"labels": {names.COSCHEDULING_LITE_NAME: "g"}}, names.COSCHEDULING_LITE_NAME),
    ],
)
def test_a_member_without_gate_is_refused(world: World, namespace: str, fields: dict[str, Any], named: str) -> None:
    refused(world.create(world.tenant, namespace, spec=BARE, **fields), named, names.GATE, namespace)
    other = {"schedulingGates": [{"name": OTHER_GATE}]}
    refused(world.create(world.tenant, namespace, spec=other, **fields), named)
    assert world.create(world.tenant, namespace, **fields).ok
    for elsewhere in (BINPACK, FREE):
        assert world.create(world.tenant, elsewhere, spec=BARE, **fields).ok


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, {}),
        ({}, {"annotations": {names.GROUP_NAME: ""}}),
        ({}, {"ownerReferences": owner(controller=False)}),
        ({}, {"ownerReferences": owner("ReplicaSet", "apps/v1")}),
        ({}, {"ownerReferences": owner("Workflow", "argoproj.io/v1alpha1")}),
        ({}, {"ownerReferences": owner("CloneSet", "apps.example.com/v1alpha1")}),
        ({"schedulerName": "volcano"}, {"ownerReferences": owner()}),
        ({}, {"ownerReferences": owner(), "labels": {names.KUEUE_MANAGED: "true"}}),
        ({}, {"ownerReferences": owner(), "labels": {names.KUEUE_QUEUE_NAME: "q"}}),
    ],
)
def test_what_only_the_webhook_can_judge_passes(world: World, spec: dict[str, Any], fields: dict[str, Any]) -> None:
    assert world.create(world.tenant, spec=BARE | spec, **fields).ok


def test_the_binpack_profile_is_one_of_the_default_scheduler(world: World) -> None:
    spec = BARE | {"schedulerName": names.BINPACK_SCHEDULER}
    refused(world.create(world.tenant, spec=spec, ownerReferences=owner()), 'Job "train"')


def test_an_exempt_member_passes_with_lift(world: World) -> None:
    exempt = {"ownerReferences": owner(), "labels": {names.LABEL_EXEMPT: "true"}}
    assert world.create(world.lifter, spec=BARE, **exempt).ok
    refused(world.create(world.tenant, spec=BARE, **exempt), names.LABEL_EXEMPT)


def test_a_mirror_pod_passes_from_a_node_and_not_from_a_tenant(world: World) -> None:
    spec = BARE | {"nodeName": "node-0"}
    mirror = {"annotations": {names.MIRROR_ANNOTATION: "x", names.GROUP_NAME: "g"}}
    assert world.create(world.node, spec=spec, **mirror).ok
    refused(world.create(world.tenant, spec=spec, **mirror), names.GROUP_NAME)
    refused(world.create(world.tenant, spec=spec, ownerReferences=owner()), 'Job "train"')


def test_a_daemonset_pod_passes_from_its_controller_alone(world: World) -> None:
    fields = {"ownerReferences": owner("DaemonSet", "apps/v1"), "annotations": {names.GROUP_NAME: "g"}}
    assert world.create(world.daemons, spec=BARE, **fields).ok
    refused(world.create(world.tenant, spec=BARE, **fields), names.GROUP_NAME)
    other = {"ownerReferences": owner("ReplicaSet", "apps/v1"), "annotations": {names.GROUP_NAME: "g"}}
    refused(world.create(world.daemons, spec=BARE, **other), names.GROUP_NAME)


# --- controllers and kubelets --------------------------------------------------------------------------------


def job(name: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1.36"}], **spec}}
    return {"metadata": {"name": name}, "spec": {"parallelism": 3, "completions": 3, "template": template}}


def test_a_job_whose_pods_came_past_the_webhook_is_told_why(world: World) -> None:
    assert world.tenant.create(f"/apis/batch/v1/namespaces/{GANG}/jobs", job("bypass")).ok

    def told() -> list[str]:
        events = world.admin("GET", f"/api/v1/namespaces/{GANG}/events?fieldSelector=reason=FailedCreate").body["items"]
        return [each["message"] for each in events if 'its controller is Job "bypass"' in each["message"]]

    assert names.GATE in wait_until(told, what="FailedCreate")[0]


def test_the_job_controller_and_the_kubelet_are_not_in_the_way(world: World) -> None:
    """A gated Job is created, lifted, bound, run and finished: each of their writes passes the policies."""
    jobs, pods = f"/apis/batch/v1/namespaces/{PLAIN}/jobs", f"/api/v1/namespaces/{PLAIN}/pods"
    assert world.tenant.create(jobs, job("whole", schedulingGates=GATES)).ok
    selector = "?labelSelector=job-name%3Dwhole"

    def three() -> list[dict[str, Any]] | None:
        items = world.admin("GET", pods + selector).body["items"]
        return items if len(items) == 3 else None

    for each in wait_until(three, what="three pods"):
        lifted = LIFT | {"metadata": {"annotations": {names.ANNOTATION_LIFTED: "x"}}}
        assert world.lifter.patch(f"{pods}/{each['metadata']['name']}", lifted).ok
    wait_until(lambda: world.admin("GET", f"{jobs}/whole").body["status"].get("succeeded") == 3, what="completion")
    wait_until(lambda: not any("finalizers" in each["metadata"] for each in three() or []), what="no finalizer is left")


def test_a_kubelet_writes_status(world: World) -> None:
    path = world.pod(PLAIN, spec=BARE | {"nodeName": "node-0"}, annotations={names.GROUP_NAME: "g"})
    condition = {"type": "Ready", "status": "True"}
    assert world.node.patch(f"{path}/status", {"status": {"conditions": [condition]}}).ok


# --- the namespace's label -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["gong", "", "Gang"])
def test_an_unknown_policy_is_warned_of_and_admitted(world: World, value: str) -> None:
    answer = world.admin.create("/api/v1/namespaces?dryRun=All", namespace_object("p-new", value))
    assert answer.ok
    assert f'metadata.labels[{names.NAMESPACE_POLICY}]: \\"{value}\\"' in answer.warning
    assert "gang, binpack, hybrid" in answer.warning


@pytest.mark.parametrize("value", [*names.Policy, None])
def test_known_policies_and_no_policy_are_not(world: World, value: str | None) -> None:
    answer = world.admin.create("/api/v1/namespaces?dryRun=All", namespace_object("p-new", value))
    assert (answer.ok, answer.warning) == (True, "")


def test_the_warning_comes_with_the_label_and_not_with_every_update(world: World) -> None:
    path = f"/api/v1/namespaces/{FREE}"
    label = {"metadata": {"labels": {names.NAMESPACE_POLICY: "gong"}}}
    assert "gong" in world.admin.patch(path, label).warning
    assert world.admin.patch(path, {"metadata": {"labels": {"a": "b"}}}).warning == ""
    assert world.admin.patch(path, {"metadata": {"labels": {names.NAMESPACE_POLICY: None}}}).warning == ""
