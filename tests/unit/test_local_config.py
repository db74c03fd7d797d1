"""What is handed to the programs: nodes, scheduler profiles, manifests, flags, identities, settings."""

import base64
import json
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from deploy.local import addon, kubeconfig, manifests, nodes, plane, scheduler
from deploy.local.addon import Addon
from deploy.local.errors import UsageError
from deploy.local.kubeconfig import Authority, User, service_account
from deploy.local.paths import Layout
from deploy.local.plane import Plane
from deploy.local.settings import Settings

PORTS = {name: 20_000 + number for number, name in enumerate(plane.PORTS)}
WEBHOOK = {
    "name": "gang.example",
    "failurePolicy": "Fail",
    "clientConfig": {"service": {"name": "hook", "namespace": "system", "path": "/mutate/gang", "port": 443}},
}


# --- nodes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gpus", "shown"), [(8, "8"), (0, None)])
def test_a_node_offers_the_gpus_that_were_asked_for(gpus: int, shown: str | None) -> None:
    node = nodes.manifest("node-3", gpus)
    assert node["status"]["capacity"] == node["status"]["allocatable"]
    assert node["status"]["capacity"].get("nvidia.com/gpu") == shown
    assert node["status"]["capacity"] | {"nvidia.com/gpu": "8"} == {
        "cpu": "64",
        "memory": "512Gi",
        "ephemeral-storage": "1Ti",
        "pods": "110",
        "nvidia.com/gpu": "8",
    }
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-3"


@given(st.sets(st.integers(0, 50)), st.integers(1, 20))
def test_new_names_are_never_in_use(taken: set[int], count: int) -> None:
    existing = [f"node-{number}" for number in taken] + ["other", "node-x"]
    added = nodes.next_names(existing, count)
    assert len(set(added)) == count
    assert not set(added) & set(existing)


@pytest.mark.parametrize(
    ("ready", "taints", "expected"),
    [
        ("True", [], True),
        ("True", [{"key": "node.kubernetes.io/unschedulable"}], True),  # cordoned, but up
        ("True", [{"key": "node.kubernetes.io/not-ready"}], False),
        ("False", [], False),
        (None, [], False),
    ],
)
def test_schedulable(ready: str | None, taints: list[dict[str, str]], expected: bool) -> None:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    assert nodes.schedulable({"spec": {"taints": taints}, "status": {"conditions": conditions}}) is expected


# --- scheduler -----------------------------------------------------------------------------------------------


def test_the_shipped_profiles_keep_everything_but_the_connection() -> None:
    shipped = scheduler.load_profiles(manifests.ROOT / "scheduler" / "config.yaml")
    merged = scheduler.merge(shipped, Path("/k"), 1_000)
    assert merged["profiles"] == shipped["profiles"]
    assert {each["schedulerName"] for each in merged["profiles"]} == {"default-scheduler", "binpack-scheduler"}
    assert merged["clientConnection"] == {"kubeconfig": "/k", "qps": 1_000, "burst": 1_000}
    assert merged["leaderElection"] == {"leaderElect": False}


def test_without_shipped_profiles_there_is_the_default(tmp_path: Path) -> None:
    merged = scheduler.merge(scheduler.load_profiles(tmp_path / "none.yaml"), Path("/k"), 5)
    assert merged["profiles"] == [{"schedulerName": "default-scheduler"}]
    assert (merged["apiVersion"], merged["kind"]) == ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration")


# --- manifests -----------------------------------------------------------------------------------------------


def test_webhooks_are_called_by_url_and_otherwise_unchanged() -> None:
    configuration = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "n"}, "webhooks": [WEBHOOK]}
    [webhook] = manifests.by_url(configuration, 20_123)["webhooks"]
    assert webhook == WEBHOOK | {"clientConfig": {"url": "https://127.0.0.1:20123/mutate/gang"}}
    assert "service" in WEBHOOK["clientConfig"]


@pytest.mark.parametrize(
    ("bundles", "complete"), [([], True), (["Q0E=", "Q0E="], True), (["Q0E=", ""], False), ([None], False)]
)
def test_ca_bundles(bundles: list[str | None], complete: bool) -> None:
    webhooks = [{"clientConfig": {"caBundle": bundle} if bundle is not None else {}} for bundle in bundles]
    assert manifests.has_ca_bundle({"webhooks": webhooks}) is complete


def test_only_what_needs_no_kubelet_is_installed_and_in_order(tmp_path: Path) -> None:
    write(tmp_path / "crds" / "a.yaml", {"kind": "CustomResourceDefinition"})
    write(
        tmp_path / "kustomize/base" / "all.yaml",
        None,
        {"kind": "Deployment"},
        {"kind": "Service"},
        {"kind": "Namespace"},
    )
    write(tmp_path / "kustomize/base" / "kustomization.yaml", {"resources": ["all.yaml"]})
    write(tmp_path / "kustomize/base" / "rbac.yaml", {"kind": "ClusterRole"}, {"kind": "PodDisruptionBudget"})
    write(tmp_path / "kustomize/base" / "hooks.yaml", {"kind": "ValidatingWebhookConfiguration", "webhooks": [WEBHOOK]})
    write(tmp_path / "policies" / "p.yaml", {"kind": "ValidatingAdmissionPolicy"})
    first, then, webhooks = manifests.stages(manifests.shipped(tmp_path), 1)
    assert [each["kind"] for each in first] == ["CustomResourceDefinition", "Namespace"]
    assert [each["kind"] for each in then] == ["ClusterRole", "ValidatingAdmissionPolicy"]
    assert [each["webhooks"][0]["clientConfig"]["url"] for each in webhooks] == ["https://127.0.0.1:1/mutate/gang"]


def write(path: Path, *documents: dict[str, Any] | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump_all(documents))


# --- flags ---------------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(Layout(tmp_path), datetime.now(UTC))
    made.create()
    return made


def flags(authority: Authority, program: str, **settings: Any) -> dict[str, str]:
    binaries = {name: Path("/bin", name) for name in plane.PROGRAMS}
    argv = Plane(authority.layout, authority, Settings(**settings), PORTS, binaries).argv(program)
    assert argv[0] == f"/bin/{program}"
    return dict(flag.removeprefix("--").split("=", 1) for flag in argv[1:])


@pytest.mark.parametrize("program", plane.PROGRAMS)
def test_nothing_listens_but_on_loopback(authority: Authority, program: str) -> None:
    listening = ("bind-address", "server-address", "advertise", "listen-", "node-ip")
    given_flags = flags(authority, program)
    addresses = {name: value for name, value in given_flags.items() if any(part in name for part in listening)}
    assert addresses
    assert all("127.0.0.1" in value for value in addresses.values()), addresses


@pytest.mark.parametrize("program", [plane.API_SERVER, kubeconfig.CONTROLLER_MANAGER, kubeconfig.SCHEDULER])
def test_feature_gates_reach_all_three(authority: Authority, program: str) -> None:
    assert flags(authority, program, feature_gates="GenericWorkload=true")["feature-gates"] == "GenericWorkload=true"
    assert "feature-gates" not in flags(authority, program)


def test_runtime_config_reaches_the_api_server_only(authority: Authority) -> None:
    for program in plane.PROGRAMS:
        passed = flags(authority, program, runtime_config="api/all=true").get("runtime-config")
        assert passed == ("api/all=true" if program == plane.API_SERVER else None)


def test_add_on_command_lines_name_ports_identity_and_certificates(tmp_path: Path) -> None:
    ports = PORTS | {"gatekeeper-b": 29_999}
    command = Addon(Layout(tmp_path), ports, Path("/config.yaml"))
    gatekeeper = command.gatekeeper("gatekeeper-b", "b", ["--once"])
    assert gatekeeper[-3:] == ("--config", "/config.yaml", "--once")
    assert pairs(gatekeeper) == {
        "--kubeconfig": str(tmp_path / "kubeconfig/gatekeeper.yaml"),
        "--bind": "127.0.0.1:29999",
        "--namespace": "ganggate-system",
        "--identity": "b",
        "--webhook-endpoint": f"127.0.0.1:{PORTS['webhook']}",
        "--mirror-cert-dir": str(tmp_path / "serving/webhook"),
        "--config": "/config.yaml",
    }
    assert pairs(command.webhook())["--cert-dir"] == str(tmp_path / "serving/webhook")
    assert "--config" not in Addon(Layout(tmp_path), ports).webhook()
    assert Path(addon.environment()["PYTHONPATH"], "policy", "names.py").is_file()


def pairs(argv: tuple[str, ...]) -> dict[str, str]:
    return {
        name: value for name, value in zip(argv, argv[1:], strict=False) if name.startswith("--") and name != "--once"
    }


# --- identities ----------------------------------------------------------------------------------------------


def test_a_kubeconfig_speaks_for_its_user_and_groups_and_is_private(authority: Authority) -> None:
    path = authority.kubeconfig("tenant", User("alice", ("team-a", "team-b")), 23_456)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:23456"
    subject = certificate(content).subject
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
    assert {each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)} == {"team-a", "team-b"}


def certificate(content: dict[str, Any]) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(content["users"][0]["user"]["client-certificate-data"]))


def test_only_the_administrator_is_one() -> None:
    masters = {name for name, user in kubeconfig.IDENTITIES.items() if kubeconfig.MASTERS in user.groups}
    assert masters == {"admin"}


def test_add_on_identities_are_those_that_rbac_knows_service_accounts_by() -> None:
    assert service_account("ganggate-gatekeeper") == User(
        "system:serviceaccount:ganggate-system:ganggate-gatekeeper",
        ("system:serviceaccounts", "system:serviceaccounts:ganggate-system"),
    )


def test_keys_are_private_from_the_first_moment(authority: Authority) -> None:
    files = [path for path in authority.layout.pki.iterdir() if path.suffix == ".key"]
    assert {path.stem for path in files} >= {"ca", "service-account", "etcd", "kube-apiserver"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(authority.layout.pki.stat().st_mode) == 0o700


# --- settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodes", -1),
        ("nodes", 5_001),
        ("gpus", -1),
        ("gpus", 65),
        ("feature_gates", "A"),
        ("feature_gates", "A=yes"),
        ("feature_gates", "A=true,"),
        ("runtime_config", "api/all"),
        ("runtime_config", "x=1"),
        ("addon_config", Path("/no/such/file")),
    ],
)
def test_a_value_that_no_program_could_use_is_named_with_its_field(field: str, value: Any) -> None:
    with pytest.raises(UsageError) as refusal:
        Settings(**{field: value}).check()
    assert str(refusal.value).startswith(f"{field.replace('_', '-')}: ")
    assert str(value) in str(refusal.value)


def test_what_can_be_used_passes(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.touch()
    Settings(nodes=0, gpus=64, feature_gates="A=true,B=false", runtime_config="a.b/v1=true,api/all=false").check()
    Settings(addon_config=config).check()
