"""What a rotator is told: who makes the certificate, for which names, and where the replicas are. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from certs import endpoints
from certs.world import Policy
from policy import names


class Mode(StrEnum):
    """Who makes the serving certificate: we, or somebody else whose Secret is only mounted."""

    ISSUED = "issued"
    MOUNTED = "mounted"


@dataclass(frozen=True, slots=True)
class Config:
    """What a rotator is told. `endpoints` are host:port; when empty, those of the Service are used."""

    policy: Policy
    namespace: str = names.SYSTEM_NAMESPACE
    endpoints: tuple[str, ...] = ()
    mode: Mode = Mode.ISSUED


def service_names(namespace: str, service: str = names.WEBHOOK_SERVICE) -> frozenset[str]:
    """The names under which API servers call the Service."""
    return frozenset({service, f"{service}.{namespace}", f"{service}.{namespace}.svc"})


def configure(namespace: str, given: tuple[str, ...] = (), mode: Mode = Mode.ISSUED) -> Config:
    """Make the usual Config: the Service's names and the hosts of `given` endpoints. Raises ValueError."""
    hosts = frozenset(endpoints.split(each)[0] for each in given)
    return Config(Policy(service_names(namespace) | hosts), namespace, given, mode)
