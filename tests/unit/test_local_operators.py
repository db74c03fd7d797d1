"""What operators are told: flags, settings, webhooks and ports, and which files define their kinds."""

import json
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from deploy.local import modules, operator_setup, operators, ports
from deploy.local.errors import LocalError, UsageError
from deploy.local.kubeconfig import Authority, User
from deploy.local.operators import OPERATORS, Operator, Place
from deploy.local.paths import Layout

TOOLS = {"java": Path("/java"), "spark": Path("/spark")}
PLACE = Place(Path("/folder"), 20_001, 20_002, api_server=20_003, tools=TOOLS)
HOOKS = """\
apiVersion: v1
kind: Service
metadata: {name: webhook-service}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: hooks, creationTimestamp: null}
webhooks:
- name: m.example
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate}}
- name: n.example
  clientConfig: {service: {name: webhook-service, namespace: system, path: /other}}
"""


def test_every_operator_can_be_built() -> None:
    assert set(OPERATORS) <= set(modules.operator_versions())


def test_what_is_needed_comes_before_and_once() -> None:
    assert [each.name for each in operators.chosen(["trainer", "jobset", "mpi", "trainer"])] == [
        "jobset",
        "trainer",
        "mpi",
    ]


@pytest.mark.parametrize("name", ["knative", "volcano", ""])
def test_a_name_that_cannot_be_started_is_refused_with_those_that_can(name: str) -> None:
    with pytest.raises(UsageError, match="jobset, lws, kuberay, mpi, trainer, training, spark") as refusal:
        operators.chosen(["jobset", name])
    assert repr(name) in str(refusal.value)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_its_ports_reach_it(operator: Operator) -> None:
    told = json.dumps([operator.flags(PLACE), operator.settings(PLACE)])
    assert ("127.0.0.1:20001" in told) is (operator.fixed_port is None)
    assert ("20002" in told) is operator.serves


@pytest.mark.parametrize("name", ["jobset", "lws", "trainer"])
def test_settings_are_read_from_the_file_that_is_written(name: str) -> None:
    operator = OPERATORS[name]
    assert operator.flags(PLACE) == (f"--config={PLACE.settings}",)
    settings = operator.settings(PLACE)
    assert settings == yaml.safe_load(yaml.safe_dump(settings))
    assert settings["kind"] == "Configuration"
    assert settings["leaderElection"] == {"leaderElect": False}
    assert settings["clientConnection"] == {"qps": 1_000, "burst": 1_000}


def test_webhooks_are_called_at_the_port_under_a_name_of_their_own() -> None:
    [configuration] = operator_setup.registrations(HOOKS, OPERATORS["lws"], 20_002, "Q0E=")
    assert configuration["metadata"] == {"name": "lws-hooks"}
    assert [each["clientConfig"] for each in configuration["webhooks"]] == [
        {"url": "https://127.0.0.1:20002/mutate", "caBundle": "Q0E="},
        {"url": "https://127.0.0.1:20002/other", "caBundle": "Q0E="},
    ]


def test_definitions_are_all_but_those_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "manifests/base/crds"
    folder.mkdir(parents=True)
    for name in ("kustomization.yaml", "kubeflow.org_mpijobs.yaml", "kubeflow.org_tfjobs.yaml", "README.md"):
        (folder / name).touch()
    assert [each.name for each in operator_setup.definitions(OPERATORS["training"], tmp_path)] == [
        "kubeflow.org_tfjobs.yaml"
    ]


def test_sources_without_definitions_are_told(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"operator: kuberay: no config/crd/bases/\*\.yaml in "):
        operator_setup.definitions(OPERATORS["kuberay"], tmp_path)


def test_an_operator_s_user_may_do_everything() -> None:
    bound = operator_setup.binding(User("u"))
    assert bound["roleRef"]["name"] == "cluster-admin"
    assert [each["name"] for each in bound["subjects"]] == ["u"]


def test_spark_is_told_where_its_tools_and_the_api_server_are() -> None:
    told = OPERATORS["spark"].environment(PLACE)
    assert (told["JAVA_HOME"], told["SPARK_HOME"]) == ("/java", "/spark")
    assert (told["KUBERNETES_SERVICE_HOST"], told["KUBERNETES_SERVICE_PORT"]) == ("127.0.0.1", "20003")


def test_those_that_need_a_large_package_are_not_among_the_light_ones() -> None:
    assert set(OPERATORS) - set(operators.LIGHT) == {"spark"}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_who_is_known_by_a_token_is_a_service_account(operator: Operator) -> None:
    *accounts, bound = operator_setup.identity(operator)
    (subject,) = bound["subjects"]
    assert [each["kind"] for each in accounts] == (["ServiceAccount"] if operator.token else [])
    assert subject["name"].startswith("system:serviceaccount:kube-system:") is operator.token
    for account in accounts:
        place = account["metadata"]
        assert subject["name"] == f"system:serviceaccount:{place['namespace']}:{place['name']}"


def test_the_kubeconfig_of_a_token_holds_no_key(tmp_path: Path) -> None:
    authority = Authority(Layout(tmp_path), datetime.now(UTC))
    authority.create()
    path = authority.token_kubeconfig("spark", User("u"), 20_003, "secret")
    config = json.loads(path.read_text())
    assert config["users"] == [{"name": "u", "user": {"token": "secret"}}]
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:20003"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_ports_are_reserved_once(tmp_path: Path) -> None:
    first = operator_setup.reserve(OPERATORS["jobset"], tmp_path, tmp_path, {})
    assert sorted(first) == ["jobset", "jobset-webhook"]
    assert operator_setup.reserve(OPERATORS["jobset"], tmp_path, tmp_path, first) == {}


def test_a_port_that_is_fixed_and_taken_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "free", lambda port: port == 8080)
    assert operator_setup.reserve(OPERATORS["mpi"], tmp_path, tmp_path, {}) == {"mpi": 8080}
    with pytest.raises(LocalError, match=r"operator: mpi listens on port 8080, .*another cluster with mpi"):
        operator_setup.reserve(OPERATORS["mpi"], tmp_path, tmp_path / "other", {})


def test_a_serving_certificate_lies_as_a_mounted_secret_does(tmp_path: Path) -> None:
    authority = Authority(Layout(tmp_path), datetime.now(UTC))
    authority.create()
    authority.serving(tmp_path, User("u"))
    assert (tmp_path / "tls.crt").read_bytes().startswith(b"-----BEGIN CERTIFICATE-----")
    assert stat.S_IMODE((tmp_path / "tls.key").stat().st_mode) == 0o600


def test_one_that_serves_webhooks_is_ready_once_it_answers_there_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hooks, healthy() as health, socket.create_server(("", 0)) as closed:
        open_port, closed_port = hooks.getsockname()[1], closed.getsockname()[1]
        closed.close()
        told = {"lws": health, "lws-webhook": closed_port}
        assert f"port {closed_port}: " in (operators.probe("lws", told)() or "")
        assert operators.probe("lws", told | {"lws-webhook": open_port})() is None
        assert f"GET /readyz on port {closed_port}: " in (operators.probe("kuberay", {"kuberay": closed_port})() or "")
        assert operators.probe("kuberay", {"kuberay": health})() is None


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def healthy() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
