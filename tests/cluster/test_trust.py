"""What a tenant writes is never believed: forged labels, annotations, statuses and PodGroups lift nothing early."""

import pytest

from policy import names
from tests.cluster import submissions
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import holds_for, wait_until

VOLCANO = f"{names.VOLCANO_API}/{names.VOLCANO_VERSION}"


@pytest.fixture
def tenant(cluster, gang_namespace) -> Caller:
    """An administrator of the namespace and of nothing else."""
    user = f"tenant-{gang_namespace}"
    cluster.kubectl("create", "rolebinding", "tenant", "--clusterrole=admin", f"--user={user}", "-n", gang_namespace)
    caller = Caller(cluster.kubeconfig_for(user))
    wait_until(lambda: caller("GET", path(gang_namespace)).ok, what="rights of the tenant")
    return caller


def pods(cluster, namespace: str) -> list[dict]:
    return cluster.kubectl.raw(f"/api/v1/namespaces/{namespace}/pods")["items"]


def gated(cluster, namespace: str) -> bool:
    found = pods(cluster, namespace)
    return bool(found) and all(p["spec"].get("schedulingGates") for p in found)


def path(namespace: str, kind: str = "pods", name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/{kind}" + (f"/{name}" if name else "")


def test_a_forged_group_label_joins_nobody(cluster, gang_namespace, tenant):
    """Three of four members exist; a pod that wears their label is no fourth."""
    cluster.kubectl.create([submissions.podgroup(VOLCANO, "four", 4, gang_namespace)])
    spec = submissions.template("four", "60s", annotations={names.GROUP_NAME: "four"})
    for serial in range(3):
        assert tenant.create(path(gang_namespace), submissions.pod(f"m{serial}", gang_namespace, spec)).ok
    label = pods(cluster, gang_namespace)[0]["metadata"]["labels"][names.LABEL_GROUP]
    forged = submissions.template("other", "60s", labels={names.LABEL_GROUP: label})
    assert tenant.create(path(gang_namespace), submissions.pod("forged", gang_namespace, forged)).ok
    wait_until(lambda: len(pods(cluster, gang_namespace)) == 4)

    def members_held() -> bool:
        return all(
            p["spec"].get("schedulingGates") for p in pods(cluster, gang_namespace) if p["metadata"]["name"] != "forged"
        )

    holds_for(members_held, 5, "a member was lifted with a forged fourth")
    worn = next(p for p in pods(cluster, gang_namespace) if p["metadata"]["name"] == "forged")["metadata"].get(
        "labels", {}
    )
    assert worn.get(names.LABEL_GROUP) != label


def test_a_forged_podgroup_status_lifts_nothing(cluster, gang_namespace, tenant):
    """Kubernetes' aggregated role gives a namespace administrator PodGroups only where one says so: say so."""
    rules = {"apiGroups": [names.VOLCANO_API], "resources": ["podgroups"], "verbs": ["*"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "pg", "namespace": gang_namespace},
        "rules": [rules],
    }
    cluster.kubectl.create([role])
    cluster.kubectl("create", "rolebinding", "pg", "--role=pg", f"--user=tenant-{gang_namespace}", "-n", gang_namespace)
    group = submissions.podgroup(VOLCANO, "four", 4, gang_namespace)
    base = f"/apis/{VOLCANO}/namespaces/{gang_namespace}/podgroups"
    wait_until(lambda: tenant.create(base, group).ok, what="the tenant's PodGroup")
    spec = submissions.template("four", "60s", annotations={names.GROUP_NAME: "four"})
    assert tenant.create(path(gang_namespace), submissions.pod("m0", gang_namespace, spec)).ok
    forged = {"status": {"phase": "Running", "running": 4, "conditions": [{"type": "Scheduled", "status": "True"}]}}
    assert tenant.patch(f"{base}/four", forged, MERGE).ok
    holds_for(lambda: gated(cluster, gang_namespace), 5, "lifted on a forged status")


def test_a_forged_lift_annotation_begins_no_lift(cluster, gang_namespace, tenant):
    """The annotation that marks a begun lift is stripped at creation and refused afterwards."""
    cluster.kubectl.create([submissions.podgroup(VOLCANO, "four", 4, gang_namespace)])
    marks = {names.GROUP_NAME: "four", names.ANNOTATION_LIFTED: '{"min":1,"at":1.0}'}
    spec = submissions.template("four", "60s", annotations=marks)
    answer = tenant.create(path(gang_namespace), submissions.pod("m0", gang_namespace, spec))
    assert not answer.ok or names.ANNOTATION_LIFTED not in answer.body["metadata"]["annotations"]
    plain = submissions.template("four", "60s", annotations={names.GROUP_NAME: "four"})
    assert tenant.create(path(gang_namespace), submissions.pod("m1", gang_namespace, plain)).ok
    later = tenant.patch(path(gang_namespace, name="m1"), {"metadata": {"annotations": marks}}, MERGE)
    assert later.code in (403, 422), later
    holds_for(lambda: gated(cluster, gang_namespace), 5, "lifted on a forged annotation")


def test_a_tenant_does_not_remove_the_gate(cluster, gang_namespace, tenant):
    cluster.kubectl.create([submissions.podgroup(VOLCANO, "four", 4, gang_namespace)])
    spec = submissions.template("four", "60s", annotations={names.GROUP_NAME: "four"})
    assert tenant.create(path(gang_namespace), submissions.pod("m0", gang_namespace, spec)).ok
    body = {"spec": {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}}
    answer = tenant.patch(path(gang_namespace, name="m0"), body)
    assert answer.code in (403, 422)
    assert "lift" in answer.message
    assert gated(cluster, gang_namespace)


def test_the_same_names_again_are_all_or_nothing_again(cluster, gang_namespace):
    """Old pods of the first run stay, Succeeded; the second run of the same PodGroup waits for all its members."""
    kubectl = cluster.kubectl
    kubectl.create([submissions.podgroup(VOLCANO, "run", 3, gang_namespace)])
    spec = submissions.template("run", "500ms", annotations={names.GROUP_NAME: "run"})
    kubectl.create([submissions.pod(f"a{i}", gang_namespace, spec) for i in range(3)])
    wait_until(
        lambda: all(p["status"]["phase"] == "Succeeded" for p in pods(cluster, gang_namespace)), what="the first run"
    )
    kubectl.create([submissions.pod(f"b{i}", gang_namespace, spec) for i in range(2)])

    def second() -> list[dict]:
        return [p for p in pods(cluster, gang_namespace) if p["metadata"]["name"].startswith("b")]

    holds_for(lambda: all(p["spec"].get("schedulingGates") for p in second()), 5, "torn second run")
    kubectl.create([submissions.pod("b2", gang_namespace, spec)])
    wait_until(lambda: all(p["status"]["phase"] == "Succeeded" for p in second()), what="the second run")
