"""The shipped YAML says what the code says. What a server makes of it: tests/cluster/test_policies.py."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from policy import names
from policy.gatekeeper.config import Settings
from policy.rules.membership import families
from tests.unit.shipped import BASE, DEPLOY, FILES, GATEKEEPER, NO_OBJECT, condition, documents, objects, quoted, the
from webhook.config import Config, parse

# A prefixed name of ours or of a project whose names we read; the API groups' versions and the CRDs are no names.
NAME = re.compile(
    r"(?:[a-z0-9-]+\.)*(?:ganggate\.io|volcano\.sh|x-k8s\.io|sigs\.k8s\.io|scheduling\.k8s\.io)/[\w.-]*\w"
)
VERSIONS = frozenset(
    {
        f"{names.NATIVE_API}/v1",
        f"{names.VOLCANO_API}/{names.VOLCANO_VERSION}",
        f"{names.COSCHEDULING_API}/{names.COSCHEDULING_VERSION}",
        f"{names.COSCHEDULING_OLD_API}/{names.COSCHEDULING_VERSION}",
    }
)
OF_OWNERS = frozenset({f"{family.group}/{family.kind}" for family in families.TABLE})
OF_KWOK = frozenset({"pod-complete.stage.kwok.x-k8s.io/delay"})  # a matter of the examples alone

# --- all files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_each_document_is_an_object_with_a_name(path: Path) -> None:
    if path in NO_OBJECT:
        assert len(documents(path)) == 1
        return
    for each in documents(path):
        assert each["apiVersion"]
        assert each["kind"] in {"Kustomization", "Component"} or each["metadata"]["name"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_prefixed_names_are_those_of_names_py(path: Path) -> None:
    known = {value for value in vars(names).values() if isinstance(value, str)} | VERSIONS | OF_OWNERS
    if path.is_relative_to(DEPLOY / "examples"):
        known |= OF_KWOK
    assert set(NAME.findall(path.read_text())) - known == set()


def test_the_search_for_names_finds_what_it_should() -> None:
    assert NAME.findall("a: {ganggate.io/gong: x}") == ["ganggate.io/gong"]
    assert NAME.findall("'pod-group.scheduling.sigs.k8s.io/nam'") == ["pod-group.scheduling.sigs.k8s.io/nam"]


def test_no_manifest_carries_a_ca_bundle() -> None:
    assert [str(path) for path in FILES if re.search(r"caBundle\s*:", path.read_text())] == []


@pytest.mark.parametrize("folder", [BASE, DEPLOY / "crds", DEPLOY / "policies"], ids=lambda path: path.name)
def test_each_kustomization_lists_every_file_beside_it(folder: Path) -> None:
    (itself,) = (path for path in folder.iterdir() if path.stem.lower() == "kustomization")
    (kustomization,) = documents(itself)
    generated = [file for each in kustomization.get("configMapGenerator", []) for file in each["files"]]
    listed = {entry for entry in [*kustomization["resources"], *generated] if entry.endswith(".yaml")}
    assert listed == {path.name for path in folder.glob("*.yaml") if path != itself}


def test_images_name_no_registry() -> None:
    images = re.findall(r"image: (\S+)", "".join(path.read_text() for path in FILES))
    assert set(images) == {"ganggate", "busybox:1.36"}


# --- CRDs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "scope", "short", "status"),
    [
        ("podgroups.scheduling.volcano.sh", names.VOLCANO_VERSION, "Namespaced", ["pg", "podgroup-v1beta1"], False),
        ("queues.scheduling.volcano.sh", names.VOLCANO_VERSION, "Cluster", ["q", "queue-v1beta1"], True),
        ("podgroups.scheduling.x-k8s.io", names.COSCHEDULING_VERSION, "Namespaced", ["pg", "pgs"], True),
        ("podgroups.scheduling.sigs.k8s.io", names.COSCHEDULING_VERSION, "Namespaced", ["pg", "pgs"], True),
    ],
)
def test_crd(name: str, version: str, scope: str, short: list[str], status: bool) -> None:
    crd = the("CustomResourceDefinition", name)
    assert crd["metadata"]["labels"] == {names.LABEL_MANAGED: names.MANAGER}
    assert (crd["spec"]["scope"], crd["spec"]["names"]["shortNames"]) == (scope, short)
    (served,) = crd["spec"]["versions"]
    assert served["name"] == version
    assert ("status" in served["subresources"]) is status
    schema = served["schema"]["openAPIV3Schema"]
    for part in (schema, schema["properties"]["spec"], schema["properties"]["status"]):
        assert part["x-kubernetes-preserve-unknown-fields"] is True


def test_only_the_protected_group_carries_an_approval() -> None:
    crds = objects(kind="CustomResourceDefinition")
    approved = {each["spec"]["group"] for each in crds if names.API_APPROVED in each["metadata"].get("annotations", {})}
    assert approved == {names.COSCHEDULING_OLD_API}


# --- processes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [names.WEBHOOK_SERVICE, GATEKEEPER])
def test_each_process_is_restricted_probed_and_doubled(name: str) -> None:
    spec = the("Deployment", name)["spec"]
    pod, (container,) = spec["template"]["spec"], spec["template"]["spec"]["containers"]
    assert spec["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    assert pod["terminationGracePeriodSeconds"] > container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}


def test_labels_and_ports_join_what_belongs_together() -> None:
    webhook = the("Deployment", names.WEBHOOK_SERVICE)["spec"]["template"]
    selecting = [the("Service", names.WEBHOOK_SERVICE)["spec"]["selector"]]
    for kind, field in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        selecting.append(the(kind, names.WEBHOOK_SERVICE)["spec"][field]["matchLabels"])
    for labels in selecting:
        assert labels.items() <= webhook["metadata"]["labels"].items()
    (container,) = webhook["spec"]["containers"]
    assert f"--bind=0.0.0.0:{container['ports'][0]['containerPort']}" in container["args"]


def test_the_certificate_volume_is_optional() -> None:
    volumes = the("Deployment", names.WEBHOOK_SERVICE)["spec"]["template"]["spec"]["volumes"]
    (tls,) = (each["secret"] for each in volumes if "secret" in each)
    assert (tls["secretName"], tls["optional"]) == (names.CERT_SECRET, True)


def test_the_shipped_configuration_names_the_profiles_of_the_shipped_scheduler() -> None:
    (config,), (scheduler,) = documents(BASE / "config.yaml"), documents(DEPLOY / "scheduler" / "config.yaml")
    profiles = [each["schedulerName"] for each in scheduler["profiles"]]
    assert config == {"schedulerProfiles": profiles}
    assert profiles == [names.DEFAULT_SCHEDULER, names.BINPACK_SCHEDULER]
    policy = the("ValidatingAdmissionPolicy", "ganggate-gate-required")["spec"]
    assert quoted(condition(policy, "served-by-the-default-scheduler")) == set(profiles)


def test_the_policy_knows_every_kind_of_owner_that_the_webhook_gates() -> None:
    variables = the("ValidatingAdmissionPolicy", "ganggate-gate-required")["spec"]["variables"]
    (text,) = (each["expression"] for each in variables if each["name"] == "controller")
    kinds = set(re.findall(r"'([\w.-]+/\w+)'", text))
    assert kinds == {f"{family.group}/{family.kind}" for family in families.TABLE} | {"v1/Pod"}


def uncommented() -> str:
    return re.sub(r"^# (?=\w+: \S+$)", "", (BASE / "config.yaml").read_text(), flags=re.MULTILINE)


def test_every_setting_is_shown_with_its_default() -> None:
    shown = yaml.safe_load(uncommented())
    assert shown.keys() == {field.encode_name for field in msgspec.structs.fields(Settings)}
    shown["logLevel"] = Settings().log_level  # whose case is a matter of taste
    assert msgspec.convert(shown, Settings) == Settings()


def test_both_processes_read_the_settings_shown() -> None:
    assert parse(uncommented()) == parse((BASE / "config.yaml").read_text()) == Config()


# --- examples ------------------------------------------------------------------------------------------------

EXAMPLES = DEPLOY / "examples"


def test_examples_use_namespaces_and_queues_that_they_define() -> None:
    defined = {each["metadata"]["name"]: each for each in objects(EXAMPLES, "Namespace")}
    queues = {each["metadata"]["name"] for each in objects(EXAMPLES, "Queue")} | {names.DEFAULT_QUEUE}
    assert {each["metadata"]["labels"][names.NAMESPACE_POLICY] for each in defined.values()} == set(names.Policy)
    used = {each["metadata"]["namespace"] for each in objects(EXAMPLES) if "namespace" in each["metadata"]}
    assert used == defined.keys() - {"team-b"}  # shown for its annotation, and run in by hand
    named = {each["metadata"].get("annotations", {}).get(names.ANNOTATION_QUEUES) for each in defined.values()}
    named |= {each["spec"]["queue"] for each in objects(EXAMPLES, "PodGroup") if "queue" in each["spec"]}
    assert named - {None} == queues


def test_examples_name_podgroups_that_they_define() -> None:
    groups = {each["metadata"]["name"] for each in objects(EXAMPLES, "PodGroup")}
    keys = {names.VOLCANO_PODGROUP, names.GROUP_NAME, names.COSCHEDULING_LABEL, names.COSCHEDULING_OLD_LABEL}
    named = set()
    for job in objects(EXAMPLES, "Job"):
        metadata = job["spec"]["template"]["metadata"]
        marks = metadata["annotations"] | metadata.get("labels", {})
        named |= {value for key, value in marks.items() if key in keys}
    assert named == groups
