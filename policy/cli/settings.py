"""The settings that the gatekeeper of a cluster runs with, found by way of its Deployment.

Most callers may not read them, and a gatekeeper may run outside any Deployment: then the defaults stand. Reads only.
"""

from typing import Final, Protocol

import msgspec

from policy import names
from policy.gatekeeper.config import Settings, parsed
from policy.gatekeeper.errors import ApiError, ConfigError

_DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{names.SYSTEM_NAMESPACE}/deployments/ganggate-gatekeeper"
_CONFIG_MAPS: Final = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps"
_KEY: Final = "config.yaml"


class Api(Protocol):
    """What we need of the client."""

    def get(self, path: str) -> bytes: ...


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class _Source(msgspec.Struct):
    name: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    name: str = ""
    config_map: _Source | None = None


class _PodSpec(msgspec.Struct):
    volumes: tuple[_Volume, ...] = ()


class _Template(msgspec.Struct):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class _DeploymentSpec(msgspec.Struct):
    template: _Template = msgspec.field(default_factory=_Template)


class _Deployment(msgspec.Struct):
    spec: _DeploymentSpec = msgspec.field(default_factory=_DeploymentSpec)


def running(client: Api) -> Settings:
    """The cluster's settings, else the defaults. Raises ApiError where the server gives no answer."""
    try:
        deployment = msgspec.json.decode(client.get(_DEPLOYMENT), type=_Deployment)
        volumes = deployment.spec.template.spec.volumes
        name = next((v.config_map.name for v in volumes if v.config_map and v.name == "config"), "")
        data = msgspec.json.decode(client.get(f"{_CONFIG_MAPS}/{name}"), type=_ConfigMap).data if name else {}
        return parsed(data.get(_KEY, ""), f"ConfigMap {name}")
    except ApiError as error:
        if error.is_forbidden or error.is_not_found:
            return Settings()
        raise
    except (ConfigError, msgspec.MsgspecError):
        return Settings()  # written for another version: the gatekeeper says so in its log, and does not start
