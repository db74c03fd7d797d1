"""The command line decides with the gatekeeper's settings where the caller may read them, else with the defaults."""

import json

import pytest

from policy.cli import settings
from policy.gatekeeper.config import Settings
from policy.gatekeeper.errors import ApiError

DEPLOYMENT = "/apis/apps/v1/namespaces/ganggate-system/deployments/ganggate-gatekeeper"
CONFIG = "/api/v1/namespaces/ganggate-system/configmaps/ganggate-config-abc"
VOLUMES = [{"name": "tls", "secret": {}}, {"name": "config", "configMap": {"name": "ganggate-config-abc"}}]


class Server:
    def __init__(self, text, volumes=VOLUMES):
        self.answers = {
            DEPLOYMENT: {"spec": {"template": {"spec": {"volumes": volumes}}}},
            CONFIG: {"data": {"config.yaml": text}},
        }

    def get(self, path):
        found = self.answers[path]
        if isinstance(found, Exception):
            raise found
        return json.dumps(found).encode()


def test_they_are_those_of_the_deployment_s_config_map():
    assert settings.running(Server("placement: false\nbindTimeoutSeconds: 7")).deciding().bind_timeout_seconds == 7
    assert not settings.running(Server("placement: false")).deciding().placement


@pytest.mark.parametrize("path", [DEPLOYMENT, CONFIG])
@pytest.mark.parametrize("status", [403, 404])
def test_who_may_not_read_them_gets_the_defaults(path, status):
    server = Server("placement: false")
    server.answers[path] = ApiError(status, "No", "no")
    assert settings.running(server) == Settings()


@pytest.mark.parametrize("server", [Server("placement: 3"), Server("a: ["), Server(None), Server("", volumes=[])])
def test_settings_of_another_version_are_the_defaults(server):
    assert settings.running(server) == Settings()


def test_a_server_that_does_not_answer_is_told():
    server = Server("")
    server.answers[DEPLOYMENT] = ApiError(503, "ServiceUnavailable", "down")
    with pytest.raises(ApiError):
        settings.running(server)
