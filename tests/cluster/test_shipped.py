"""The shipped manifests on a real API server: they build, apply without a warning, and grant what they say."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local.kubectl import KubectlError
from policy import names
from tests.cluster.admission import FREE, World, bare_world
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import MakeCluster, wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
ACCOUNT = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:ganggate-"
VOLCANO = f"/apis/{names.VOLCANO_API}/{names.VOLCANO_VERSION}"
COSCHEDULING = [
    f"/apis/{group}/{names.COSCHEDULING_VERSION}" for group in (names.COSCHEDULING_API, names.COSCHEDULING_OLD_API)
]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def world(make_cluster: MakeCluster) -> Iterator[World]:
    with bare_world(make_cluster) as world:
        world.cluster.install()
        # Registered by URL, which cannot be applied over by Service; and nobody would answer.
        kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
        world.cluster.kubectl("delete", kinds, "--all")
        yield world


def built(world: World, *components: str, at: Path = DEPLOY) -> list[dict[str, Any]]:
    """What kustomize makes of the base with these components, in a copy: an overlay must lie beside its base."""
    copy = at / "deploy"
    shutil.copytree(DEPLOY, copy, ignore=shutil.ignore_patterns("local", "__pycache__"), dirs_exist_ok=True)
    overlay = copy / "kustomize" / "overlay"
    overlay.mkdir()
    chosen = {"resources": ["../base"], "components": [f"../components/{each}" for each in components]}
    (overlay / "kustomization.yaml").write_text(json.dumps(chosen))
    return list(yaml.safe_load_all(world.cluster.kubectl("kustomize", str(overlay))))


def by_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


# --- kustomize -----------------------------------------------------------------------------------------------


def test_the_base_applies_without_a_warning(world: World) -> None:
    """Pod security among them: the namespace warns of what is not restricted, and server-side apply of unknown fields."""
    base = world.cluster.kubectl("kustomize", str(DEPLOY / "kustomize" / "base"))
    flags = ("--server-side", "--force-conflicts", "--dry-run=server", "--warnings-as-errors", "-f", "-")
    applied = world.cluster.kubectl("apply", *flags, stdin=base).splitlines()
    assert len(applied) == len(list(yaml.safe_load_all(base)))


def test_the_base_names_its_image_and_its_configuration(world: World, tmp_path: Path) -> None:
    objects = built(world, at=tmp_path)
    (config,) = by_kind(objects, "ConfigMap")
    assert config.startswith("ganggate-config-"), "a hash, so that a changed configuration rolls the pods"
    for deployment in by_kind(objects, "Deployment").values():
        pod = deployment["spec"]["template"]["spec"]
        assert [each["image"] for each in pod["containers"]] == ["ganggate:0.1.0"]
        assert [each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each] == [config]
    assert by_kind(objects, "CustomResourceDefinition") == {}
    assert len(by_kind(objects, "ValidatingAdmissionPolicy")) == 4


def test_the_crds_are_a_component_of_their_own(world: World, tmp_path: Path) -> None:
    assert len(by_kind(built(world, "crds", at=tmp_path), "CustomResourceDefinition")) == 4


def test_fail_open_leaves_gate_removal_closed(world: World, tmp_path: Path) -> None:
    objects = built(world, "fail-open", at=tmp_path)
    policies = {
        kind: [each["failurePolicy"] for each in by_kind(objects, kind)["ganggate"]["webhooks"]]
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    }
    assert list(policies.values()) == [["Ignore"] * 3, ["Ignore"] * 3 + ["Fail"]]


# --- CRDs ----------------------------------------------------------------------------------------------------


def podgroup(api: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api.removeprefix("/apis/"), "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def test_volcanos_status_is_part_of_the_object(world: World) -> None:
    path = f"{VOLCANO}/namespaces/{FREE}/podgroups"
    assert world.admin.create(path, podgroup(VOLCANO, "status") | {"status": {"phase": "Running"}}).body["status"]
    answer = world.admin.patch(f"{path}/status", {"status": {"phase": "Inqueue"}}, MERGE)
    assert answer.body["status"]["phase"] == "Inqueue"
    assert world.admin.patch(f"{path}/status/status", {"status": {}}, MERGE).code == 404


@pytest.mark.parametrize("api", COSCHEDULING)
def test_coscheduling_has_a_status_of_its_own(world: World, api: str) -> None:
    path = f"{api}/namespaces/{FREE}/podgroups"
    assert "status" not in world.admin.create(path, podgroup(api, "status") | {"status": {"phase": "Running"}}).body
    answer = world.admin.patch(f"{path}/status/status", {"status": {"phase": "Pending"}}, MERGE)
    assert answer.body["status"]["phase"] == "Pending"


@pytest.mark.parametrize("api", [VOLCANO, *COSCHEDULING])
def test_unknown_fields_survive(world: World, api: str) -> None:
    path = f"{api}/namespaces/{FREE}/podgroups"
    made = world.admin.create(path, podgroup(api, "unknown", minMember=1, novel={"deep": [1]}) | {"topNovel": 1})
    assert (made.body["spec"]["novel"], made.body["topNovel"]) == ({"deep": [1]}, 1)


@pytest.mark.parametrize(
    ("api", "spec", "field"),
    [
        (VOLCANO, {"minMember": -1}, "spec.minMember"),
        (VOLCANO, {"queue": "Team A"}, "spec.queue"),
        (VOLCANO, {"minResources": {"cpu": "lots"}}, "spec.minResources.cpu"),
        (COSCHEDULING[0], {"minMember": 0}, "spec.minMember"),
        (COSCHEDULING[1], {"minMember": 0}, "spec.minMember"),
    ],
)
def test_bad_podgroups_are_refused_by_field(world: World, api: str, spec: dict[str, Any], field: str) -> None:
    answer = world.admin.create(f"{api}/namespaces/{FREE}/podgroups", podgroup(api, "bad", **spec))
    assert (answer.code, f"{field}: Invalid value" in answer.message) == (422, True), answer.message


@pytest.mark.parametrize("spec", [{"minMember": 0}, {}, {"minMember": 3, "minResources": {"cpu": 2, "memory": "4Gi"}}])
def test_volcano_podgroups_are_admitted(world: World, spec: dict[str, Any]) -> None:
    path = f"{VOLCANO}/namespaces/{FREE}/podgroups?dryRun=All"
    assert world.admin.create(path, podgroup(VOLCANO, "good", **spec)).body["spec"] == {"queue": "default"} | spec


def queue(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": VOLCANO.removeprefix("/apis/"), "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}


@pytest.mark.parametrize("field", ["capability", "deserved"])
@pytest.mark.parametrize("quantity", ["lots", "1.2.3", "-1", "1Gib", "1e", " 1", ""])
def test_a_quantity_that_does_not_parse_is_refused_by_field(world: World, field: str, quantity: str) -> None:
    answer = world.admin.create(f"{VOLCANO}/queues?dryRun=All", queue(**{field: {"nvidia.com/gpu": quantity}}))
    assert answer.code == 422
    assert f"spec.{field}.nvidia.com/gpu" in answer.message


@pytest.mark.parametrize("quantity", [0, 32, "32", "0.5", "500m", "1.5Gi", "1e3", "+1", ".5", "5.", "2E2", "3E"])
def test_quantities_are_admitted(world: World, quantity: int | str) -> None:
    answer = world.admin.create(f"{VOLCANO}/queues?dryRun=All", queue(capability={"cpu": quantity}))
    assert answer.ok, answer.message


def test_a_guarantee_without_deserved_is_admitted(world: World) -> None:
    """Volcano's webhook of today refuses it; Queues of older releases have it."""
    answer = world.admin.create(f"{VOLCANO}/queues?dryRun=All", queue(guarantee={"resource": {"nvidia.com/gpu": 4}}))
    assert answer.ok, answer.message
    assert (answer.body["spec"]["weight"], answer.body["spec"]["reclaimable"]) == (1, True)


@pytest.mark.parametrize("spec", [{"weight": 0}, {"weight": 65536}, {"priority": -1}, {"parent": "A b"}])
def test_bad_queues_are_refused_by_field(world: World, spec: dict[str, Any]) -> None:
    answer = world.admin.create(f"{VOLCANO}/queues?dryRun=All", queue(**spec))
    assert (answer.code, f"spec.{next(iter(spec))}" in answer.message) == (422, True)


@pytest.mark.parametrize("group", [names.VOLCANO_API, names.COSCHEDULING_API, names.COSCHEDULING_OLD_API])
def test_which_groups_need_the_approval(world: World, group: str) -> None:
    bare = {**world.admin("GET", f"{CRDS}/podgroups.{group}").body, "status": None}
    bare["metadata"] = {**bare["metadata"], "annotations": {}}
    answer = world.admin("PUT", f"{CRDS}/podgroups.{group}?dryRun=All", bare)
    assert answer.ok is (group != names.COSCHEDULING_OLD_API)
    assert (names.API_APPROVED in answer.message) is not answer.ok


def test_create_adds_the_missing_crd_and_leaves_the_others_alone(world: World) -> None:
    """The command of docs/install.md, in a cluster where Volcano's own CRD stands."""
    theirs, missing = f"{CRDS}/podgroups.{names.VOLCANO_API}", f"{CRDS}/podgroups.{names.COSCHEDULING_API}"
    foreign = world.admin.patch(theirs, {"metadata": {"labels": {names.LABEL_MANAGED: "somebody"}}}, MERGE)
    assert world.admin("DELETE", missing).ok
    wait_until(lambda: world.admin("GET", missing).code == 404, what="deletion")
    with pytest.raises(KubectlError, match="AlreadyExists"):
        world.cluster.kubectl("create", "-f", str(DEPLOY / "crds"))
    assert world.admin("GET", missing).body["metadata"]["labels"] == {names.LABEL_MANAGED: names.MANAGER}
    after = world.admin("GET", theirs).body["metadata"]
    assert after["resourceVersion"] == foreign.body["metadata"]["resourceVersion"]


# --- rights --------------------------------------------------------------------------------------------------


def may(who: Caller, verb: str, group: str, resource: str, namespace: str = "", name: str = "") -> bool:
    resource, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    asked |= {"namespace": namespace, "name": name}
    body = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
    return bool(who.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body).body["status"]["allowed"])


SYSTEM, HOOKS = names.SYSTEM_NAMESPACE, "admissionregistration.k8s.io"


@pytest.mark.parametrize(
    ("allowed", "question"),
    [
        (True, ("patch", "", "pods", FREE)),
        (True, ("lift", names.DOMAIN, "groups", FREE)),
        (True, ("patch", names.COSCHEDULING_API, "podgroups/status", FREE)),
        (True, ("create", "events.k8s.io", "events", FREE)),
        (True, ("patch", "coordination.k8s.io", "leases", SYSTEM, names.LEASE_NAME)),
        (True, ("update", "", "secrets", SYSTEM, names.CERT_SECRET)),
        (True, ("patch", HOOKS, "mutatingwebhookconfigurations", "", names.MUTATING_CONFIG)),
        (False, ("patch", HOOKS, "mutatingwebhookconfigurations", "", "other")),
        (False, ("delete", HOOKS, "mutatingwebhookconfigurations", "", names.MUTATING_CONFIG)),
        (False, ("get", "", "secrets", SYSTEM, "other")),
        (False, ("get", "", "secrets", "kube-system", names.CERT_SECRET)),
        (False, ("list", "", "secrets", SYSTEM)),
        (False, ("patch", "coordination.k8s.io", "leases", "kube-system", names.LEASE_NAME)),
        (False, ("create", "", "pods", FREE)),
        (False, ("delete", "", "pods", FREE)),
        (False, ("patch", "", "pods/status", FREE)),
        (False, ("create", "", "pods/binding", FREE)),
        (True, ("patch", "batch", "jobs", FREE)),
        (False, ("delete", "batch", "jobs", FREE)),
        (False, ("create", names.VOLCANO_API, "queues")),
        (False, ("patch", names.VOLCANO_API, "queues")),
        (False, ("patch", names.COSCHEDULING_API, "podgroups", FREE)),
        (False, ("escalate", "rbac.authorization.k8s.io", "clusterroles")),
    ],
)
def test_what_the_gatekeeper_may(world: World, allowed: bool, question: tuple[str, ...]) -> None:
    assert may(world.someone(f"{ACCOUNT}gatekeeper"), *question) is allowed


def test_the_webhook_may_nothing(world: World) -> None:
    webhook = world.someone(f"{ACCOUNT}webhook", "system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}")
    asked = (("get", "", "pods"), ("list", "", "namespaces"), ("get", "", "secrets"), ("get", "", "configmaps"))
    assert [question for question in asked if may(webhook, *question, SYSTEM)] == []
    assert not may(webhook, "lift", names.DOMAIN, "groups", FREE)


def test_a_namespace_admin_makes_podgroups_and_neither_queues_nor_lifts(world: World) -> None:
    for group in (names.VOLCANO_API, names.COSCHEDULING_API, names.COSCHEDULING_OLD_API):
        wait_until(
            lambda group=group: may(world.tenant, "create", group, "podgroups", FREE), what=f"edit holds {group}"
        )
        assert may(world.tenant, "list", group, "podgroups", FREE)
    assert not may(world.tenant, "create", names.VOLCANO_API, "queues")
    assert not may(world.tenant, "lift", names.DOMAIN, "groups", FREE)


def test_a_namespace_admin_cannot_grant_itself_lift(world: World) -> None:
    """RBAC lets nobody hand out what he lacks; were that otherwise, the verb would guard nothing."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{FREE}"
    rule = {"apiGroups": [names.DOMAIN], "resources": ["groups"], "verbs": ["lift"]}
    assert world.tenant.create(f"{rbac}/roles", {"metadata": {"name": "x"}, "rules": [rule]}).code == 403
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ganggate-lifter"}
    me = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}
    bound = {"metadata": {"name": "x"}, "roleRef": reference, "subjects": [me]}
    assert world.tenant.create(f"{rbac}/rolebindings", bound).code == 403


# --- fairness and examples -----------------------------------------------------------------------------------


def test_the_gatekeepers_calls_go_to_levels_of_their_own(world: World) -> None:
    """The API server says in a header which FlowSchema it chose."""
    schemas = world.admin("GET", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas").body["items"]
    named = {each["metadata"]["uid"]: each["metadata"]["name"] for each in schemas}
    gatekeeper = world.someone(f"{ACCOUNT}gatekeeper")
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/{names.LEASE_NAME}"

    def chosen(path: str) -> str | None:
        return named.get(gatekeeper("GET", path).headers["X-Kubernetes-PF-FlowSchema-UID"])

    wait_until(lambda: chosen("/api/v1/pods?limit=1") == "ganggate", what="pods")
    wait_until(lambda: chosen(lease) == "ganggate-leader-election", what="lease")


def test_every_example_is_accepted(world: World) -> None:
    examples = sorted((DEPLOY / "examples").glob("*.yaml"))
    world.cluster.kubectl("apply", "-f", str(examples[0]))
    for path in examples[1:]:
        answer = world.cluster.kubectl("create", "--dry-run=server", "--warnings-as-errors", "-f", str(path))
        assert len(answer.splitlines()) == len(list(yaml.safe_load_all(path.read_text())))
