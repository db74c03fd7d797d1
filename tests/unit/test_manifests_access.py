"""Who may do what, and what admission asks: the shipped RBAC, webhook registrations and CEL policies."""

import re
from pathlib import Path
from typing import Any

import pytest

from policy import names
from policy.gatekeeper.snapshot import PODGROUP_SOURCES, SOURCES, owner_sources
from policy.rules.membership.families import KNOWN
from policy.rules.membership.identify import NAMING_ANNOTATIONS, NAMING_LABELS
from tests.unit.shipped import DEPLOY, GATEKEEPER, condition, objects, quoted, the

READ = ("get", "list", "watch")
OWN_LABELS = {names.LABEL_GROUP, names.LABEL_EXEMPT}

# --- rights --------------------------------------------------------------------------------------------------

RIGHTS = {
    ("ClusterRole", GATEKEEPER): {
        ("", "pods"): (*READ, "patch"),
        ("", "nodes"): READ,
        ("", "namespaces"): READ,
        ("", "resourcequotas"): READ,
        ("", "limitranges"): READ,
        ("batch", "jobs"): (*READ, "patch"),
        ("apps", "statefulsets"): READ,
        ("jobset.x-k8s.io", "jobsets"): (*READ, "patch"),
        ("kubeflow.org", "pytorchjobs"): (*READ, "patch"),
        ("kubeflow.org", "tfjobs"): (*READ, "patch"),
        ("kubeflow.org", "xgboostjobs"): (*READ, "patch"),
        ("kubeflow.org", "paddlejobs"): (*READ, "patch"),
        ("kubeflow.org", "jaxjobs"): (*READ, "patch"),
        ("kubeflow.org", "mpijobs"): (*READ, "patch"),
        ("trainer.kubeflow.org", "trainjobs"): (*READ, "patch"),
        ("ray.io", "rayclusters"): (*READ, "patch"),
        ("ray.io", "rayjobs"): (*READ, "patch"),
        ("leaderworkerset.x-k8s.io", "leaderworkersets"): READ,
        ("sparkoperator.k8s.io", "sparkapplications"): READ,
        ("batch.volcano.sh", "jobs"): READ,
        ("scheduling.k8s.io", "priorityclasses"): READ,
        ("node.k8s.io", "runtimeclasses"): READ,
        ("resource.k8s.io", "deviceclasses"): READ,
        (names.VOLCANO_API, "podgroups"): (*READ, "create", "patch"),
        (names.COSCHEDULING_API, "podgroups"): READ,
        (names.COSCHEDULING_OLD_API, "podgroups"): READ,
        (names.VOLCANO_API, "podgroups/status"): ("patch",),
        (names.COSCHEDULING_API, "podgroups/status"): ("patch",),
        (names.COSCHEDULING_OLD_API, "podgroups/status"): ("patch",),
        (names.VOLCANO_API, "queues"): READ,
        (names.VOLCANO_API, "queues/status"): ("patch",),
        ("", "events"): READ,
        ("events.k8s.io", "events"): ("create", "patch"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", names.MUTATING_CONFIG): (*READ, "patch"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", names.VALIDATING_CONFIG): (*READ, "patch"),
        (names.DOMAIN, names.LIFT_RESOURCE): (names.LIFT_VERB,),
    },
    ("Role", GATEKEEPER): {
        ("coordination.k8s.io", "leases"): ("create",),
        ("coordination.k8s.io", "leases", names.LEASE_NAME): ("get", "patch"),
        ("", "secrets"): ("create",),
        ("", "secrets", names.CERT_SECRET, names.CA_SECRET): ("get", "update"),
        ("discovery.k8s.io", "endpointslices"): ("get", "list"),
    },
    ("ClusterRole", "ganggate-owners"): {},
    ("ClusterRole", "ganggate-view"): {
        (names.VOLCANO_API, "podgroups"): READ,
        (names.COSCHEDULING_API, "podgroups"): READ,
        (names.COSCHEDULING_OLD_API, "podgroups"): READ,
        (names.VOLCANO_API, "queues"): READ,
    },
    ("ClusterRole", "ganggate-edit"): {
        (group, "podgroups"): ("create", "update", "patch", "delete", "deletecollection")
        for group in (names.VOLCANO_API, names.COSCHEDULING_API, names.COSCHEDULING_OLD_API)
    },
    ("ClusterRole", "ganggate-lifter"): {(names.DOMAIN, names.LIFT_RESOURCE): (names.LIFT_VERB,)},
}


def granted(role: dict[str, Any]) -> dict[tuple[str, ...], tuple[str, ...]]:
    return {
        (group, resource, *rule.get("resourceNames", [])): tuple(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_rights_are_these_and_no_others() -> None:
    roles = [*objects(kind="ClusterRole"), *objects(kind="Role")]
    assert {(each["kind"], each["metadata"]["name"]): granted(each) for each in roles} == RIGHTS


def test_what_the_gatekeeper_watches_it_may_read() -> None:
    rights = granted(the("ClusterRole", GATEKEEPER))
    for source in (*SOURCES.values(), *PODGROUP_SOURCES, *owner_sources(KNOWN).values()):
        assert set(READ) <= set(rights.get((source.group, source.plural), ())), source.name


def test_only_the_gatekeeper_is_bound_to_anything() -> None:
    bindings = [*objects(kind="ClusterRoleBinding"), *objects(kind="RoleBinding")]
    subject = {"kind": "ServiceAccount", "name": GATEKEEPER, "namespace": names.SYSTEM_NAMESPACE}
    assert {each["roleRef"]["name"] for each in bindings} == {GATEKEEPER, "ganggate-owners"}
    assert [each["subjects"] for each in bindings] == [[subject], [subject], [subject]]


def test_rights_to_other_kinds_of_owners_are_added_by_a_label() -> None:
    (selector,) = the("ClusterRole", "ganggate-owners")["aggregationRule"]["clusterRoleSelectors"]
    assert selector == {"matchLabels": {names.LABEL_AGGREGATE: "true"}}


def test_the_webhook_gets_no_token() -> None:
    account, deployment = the("ServiceAccount", names.WEBHOOK_SERVICE), the("Deployment", names.WEBHOOK_SERVICE)
    assert account["automountServiceAccountToken"] is False
    assert deployment["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


# --- admission -----------------------------------------------------------------------------------------------

MUTATING = [(policy.value, f"/mutate/{policy}", ["CREATE"]) for policy in names.Policy]
VALIDATING = [(policy.value, f"/validate/{policy}", ["CREATE", "UPDATE"]) for policy in names.Policy]


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("MutatingWebhookConfiguration", names.MUTATING_CONFIG, MUTATING),
        (
            "ValidatingWebhookConfiguration",
            names.VALIDATING_CONFIG,
            [*VALIDATING, ("gate-removal", "/validate/gate-removal", ["UPDATE"])],
        ),
    ],
)
def test_webhook_entries(kind: str, name: str, expected: list[tuple[str, str, list[str]]]) -> None:
    entries = the(kind, name)["webhooks"]
    assert [each["name"] for each in entries] == [f"{entry}.{names.WEBHOOK_DOMAIN}" for entry, *_ in expected]
    for each, (entry, path, operations) in zip(entries, expected, strict=True):
        service = each["clientConfig"]["service"]
        assert (service["namespace"], service["name"]) == (names.SYSTEM_NAMESPACE, names.WEBHOOK_SERVICE)
        assert service["path"] == path
        (rule,) = each["rules"]
        assert (rule["resources"], rule["operations"]) == (["pods"], operations)
        assert (each["timeoutSeconds"], each["sideEffects"], each["failurePolicy"]) == (3, "None", "Fail")
        assert each.get("reinvocationPolicy") == ("IfNeeded" if kind.startswith("Mutating") else None)
        assert selected(each) == ([entry] if entry in list(names.Policy) else None)


def selected(entry: dict[str, Any]) -> list[str] | None:
    """The values of the namespace label that an entry is for, once kube-system and our own are seen to be left out."""
    if "namespaceSelector" not in entry:
        return None
    policy, system = entry["namespaceSelector"]["matchExpressions"]
    assert (policy["key"], policy["operator"]) == (names.NAMESPACE_POLICY, "In")
    assert (system["key"], system["operator"]) == (names.NAMESPACE_NAME_LABEL, "NotIn")
    assert system["values"] == ["kube-system", names.SYSTEM_NAMESPACE]
    return policy["values"]


def test_requesters_that_are_spared_are_those_of_names_py() -> None:
    entries = [*the("MutatingWebhookConfiguration", names.MUTATING_CONFIG)["webhooks"]]
    entries += the("ValidatingWebhookConfiguration", names.VALIDATING_CONFIG)["webhooks"][:3]
    entries.append(the("ValidatingAdmissionPolicy", "ganggate-gate-required")["spec"])
    for entry in entries:
        assert quoted(condition(entry, "not-of-a-daemonset")) - {"CREATE"} == {
            *names.DAEMONSET_REQUESTERS,
            "DaemonSet",
            "apps/",
        }
        assert names.NODES_GROUP in quoted(condition(entry, "not-placed-by-a-node"))
        assert names.LABEL_EXEMPT in quoted(condition(entry, "not-exempt"))


@pytest.mark.parametrize("index", range(3))
def test_updates_that_the_webhook_sees(index: int) -> None:
    entry = the("ValidatingWebhookConfiguration", names.VALIDATING_CONFIG)["webhooks"][index]
    keys = quoted(condition(entry, "changes-what-is-ours"))
    guarded = OWN_LABELS | set(NAMING_ANNOTATIONS) | set(NAMING_LABELS) | {names.ANNOTATION_LIFTED, names.GATE}
    assert keys == guarded | {"UPDATE", names.DOMAIN, names.LIFT_RESOURCE, names.LIFT_VERB}


def test_marks_that_the_policy_guards() -> None:
    spec = the("ValidatingAdmissionPolicy", "ganggate-marks")["spec"]
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    lists = [quoted(each) for each in re.findall(r"\[('[^\]]+')\]\s*\.filter", variables["changedNames"])]
    assert lists == [set(NAMING_ANNOTATIONS), set(NAMING_LABELS)]
    own = {key for each in spec["validations"] for key in quoted(each["expression"])}
    assert own == OWN_LABELS | {names.ANNOTATION_LIFTED}


POLICIES = {
    "ganggate-gate-removal": ("Fail", ["Deny"]),
    "ganggate-marks": ("Fail", ["Deny"]),
    "ganggate-gate-required": ("Fail", ["Deny"]),
    "ganggate-namespace-policy": ("Ignore", ["Warn"]),
}


def test_each_policy_is_bound_under_its_own_name() -> None:
    failure = {p["metadata"]["name"]: p["spec"]["failurePolicy"] for p in objects(kind="ValidatingAdmissionPolicy")}
    bindings = list(objects(kind="ValidatingAdmissionPolicyBinding"))
    actions = {each["spec"]["policyName"]: each["spec"]["validationActions"] for each in bindings}
    assert [each["metadata"]["name"] for each in bindings] == list(actions)
    assert {name: (failure[name], actions[name]) for name in actions} == POLICIES
    assert failure.keys() == POLICIES.keys()


@pytest.mark.parametrize("path", sorted((DEPLOY / "policies").glob("*.yaml")), ids=lambda path: path.name)
def test_each_policy_file_begins_with_its_reason(path: Path) -> None:
    assert len(path.read_text().split("apiVersion:")[0].splitlines()) >= 2


@pytest.mark.parametrize("name", POLICIES)
def test_every_refusal_begins_with_the_field_and_is_one_line(name: str) -> None:
    fields = ("'metadata.", "'spec.", "variables.changedNames[0]", "variables.signs[0]")
    for each in the("ValidatingAdmissionPolicy", name)["spec"]["validations"]:
        assert each["messageExpression"].startswith(fields)
        assert "\\n" not in each["messageExpression"]


def test_the_warning_knows_every_policy() -> None:
    (rule,) = the("ValidatingAdmissionPolicy", "ganggate-namespace-policy")["spec"]["validations"]
    assert quoted(rule["expression"]) - {names.NAMESPACE_POLICY} == set(names.Policy)
    assert all(policy in rule["messageExpression"] for policy in names.Policy)
