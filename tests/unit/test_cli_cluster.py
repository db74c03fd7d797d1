"""The real cluster behind the commands, as far as no server is needed: where it looks, and how errors are worded."""

import pytest
from click.testing import CliRunner

from policy.cli import kubeconfig
from policy.cli.cluster import Cluster, answered
from policy.cli.failures import Failure
from policy.cli.main import cli
from policy.cli.options import Flags
from policy.cli.world import Denied
from policy.gatekeeper.errors import ApiError, ConfigError, StreamError, TransportError
from policy.gatekeeper.observe import ForbiddenError, Within

CONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: here, context: {cluster: c, user: u, namespace: mine}}
- {name: bare, context: {cluster: c, user: u}}
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config"
    path.write_text(CONFIG)
    return str(path)


@pytest.fixture
def in_a_pod(tmp_path, monkeypatch):
    """As in a pod without kubeconfig: nothing at home, the service's address in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.delenv("KUBECONFIG", raising=False)


def test_the_namespace_is_the_option_s_else_the_context_s_else_default(config):
    assert Cluster(Flags(config, namespace="given")).namespace == "given"
    assert Cluster(Flags(config)).namespace == "mine"
    assert Cluster(Flags(config, context="bare")).namespace == "default"


def test_a_client_speaks_to_the_context_s_server(config):
    assert Cluster(Flags(config)).client.host == "https://127.0.0.1:1"


def test_in_a_pod_the_own_account_is_used_unless_a_kubeconfig_is_named(in_a_pod, config, monkeypatch):
    with pytest.raises(Failure, match="^service account: "):
        Cluster(Flags()).client
    assert Cluster(Flags()).namespace == "default"
    assert Cluster(Flags(config)).namespace == "mine"
    monkeypatch.setenv(kubeconfig.VARIABLE, config)
    assert Cluster(Flags()).namespace == "mine"


@pytest.mark.parametrize(
    "raised, told, said",
    [
        (ConfigError("kubeconfig x: bad"), Failure, "kubeconfig x: bad"),
        (
            ForbiddenError("list", "nodes", "", ApiError(403, "Forbidden", "nodes is forbidden")),
            Denied,
            "you may not list nodes in the whole cluster: nodes is forbidden",
        ),
        (TransportError("GET /x: refused"), Failure, "API server https://h: no answer: GET /x: refused"),
        (ApiError(401, "Unauthorized", "Unauthorized"), Failure, "API server https://h: Unauthorized: Unauthorized"),
        (StreamError("list: not JSON"), Failure, "API server https://h: unreadable answer: list: not JSON"),
    ],
)
def test_every_error_becomes_one_line(raised, told, said):
    class World:
        class client:
            host = "https://h"

    with pytest.raises(told) as failed, answered(World()):
        raise raised
    assert failed.value.message == said


def test_a_server_that_does_not_answer_is_named(config):
    result = CliRunner().invoke(cli, ["--kubeconfig", config, "status", "-A"], prog_name="ganggate")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: API server https://127.0.0.1:1: no answer: ")
    assert result.stderr.count("\n") == 1


def test_a_resource_within_a_namespace_has_its_path():
    assert Within("", "v1", "pods", object, namespace="a").path == "/api/v1/namespaces/a/pods"
    assert Within("batch", "v1", "jobs", object).path == "/apis/batch/v1/jobs"
