"""The programs of a control plane: their flags, in the order in which they start, and how each shows readiness.

Pure but for paths: it says what to run and runs nothing. A flag that is not obvious has its reason beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local import probes
from deploy.local.errors import NotFoundError
from deploy.local.kubeconfig import CONTROLLER_MANAGER, KWOK, SCHEDULER, Authority
from deploy.local.paths import Layout
from deploy.local.ports import LOOPBACK
from deploy.local.process import Probe
from deploy.local.settings import Settings

ETCD: Final = "etcd"
API_SERVER: Final = "kube-apiserver"
PROGRAMS: Final = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK)
PORTS: Final = (*PROGRAMS, "etcd-peer", "etcd-metrics", "gatekeeper", "webhook")
SCHEDULER_CONFIG: Final = "scheduler.yaml"
CLIENT_LIMIT: Final = 1_000  # requests a second; the defaults (20, 50) would be all that a benchmark measures
ENVIRONMENT: Final = {"GOGC": "300"}  # a sixth of the API server's time went into collecting garbage; memory is cheap
_STAGES: Final = Path(__file__).with_name("kwok.yaml")


@dataclass(frozen=True, slots=True)
class Plane:
    """Everything that the flags depend on."""

    layout: Layout
    authority: Authority
    settings: Settings
    ports: Mapping[str, int]
    binaries: Mapping[str, Path]

    def argv(self, program: str) -> tuple[str, ...]:
        """Command line of `program`, one of PROGRAMS."""
        flags = {
            ETCD: self._etcd,
            API_SERVER: self._api_server,
            CONTROLLER_MANAGER: self._controller_manager,
            SCHEDULER: self._scheduler,
            KWOK: self._kwok,
        }[program]()
        return (str(self.binaries[program]), *(f"--{name}={value}" for name, value in flags.items()))

    def _etcd(self) -> dict[str, object]:
        client, peer = self._url(ETCD), self._url("etcd-peer")
        return {
            "data-dir": self.layout.data,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "listen-metrics-urls": f"http://{LOOPBACK}:{self.ports['etcd-metrics']}",
            "cert-file": self.authority.certificate(ETCD),
            "key-file": self.authority.key(ETCD),
            "client-cert-auth": "true",  # else every user of the machine could write to it
            "trusted-ca-file": self.authority.certificate("ca"),
            "peer-cert-file": self.authority.certificate(ETCD),
            "peer-key-file": self.authority.key(ETCD),
            "peer-client-cert-auth": "true",
            "peer-trusted-ca-file": self.authority.certificate("ca"),
            "unsafe-no-fsync": "true",  # the data dies with the cluster
            "log-level": "warn",
        }

    def _api_server(self) -> dict[str, object]:
        return {
            "bind-address": LOOPBACK,
            "advertise-address": LOOPBACK,
            "secure-port": self.ports[API_SERVER],
            "endpoint-reconciler-type": "none",  # an endpoint on loopback is refused
            "etcd-servers": self._url(ETCD),
            "etcd-cafile": self.authority.certificate("ca"),
            "etcd-certfile": self.authority.certificate(ETCD),
            "etcd-keyfile": self.authority.key(ETCD),
            **self._serving(API_SERVER),
            "client-ca-file": self.authority.certificate("ca"),
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": self.authority.certificate("service-account"),
            "service-account-signing-key-file": self.authority.key("service-account"),
            "service-cluster-ip-range": "10.96.0.0/16",
            "profiling": "false",
            **self._gates(),
            **({"runtime-config": self.settings.runtime_config} if self.settings.runtime_config else {}),
        }

    def _controller_manager(self) -> dict[str, object]:
        return {
            **self._component(CONTROLLER_MANAGER),
            "kubeconfig": self.layout.kubeconfig(CONTROLLER_MANAGER),
            "leader-elect": "false",
            "kube-api-qps": CLIENT_LIMIT,
            "kube-api-burst": CLIENT_LIMIT,
            "use-service-account-credentials": "true",
            "service-account-private-key-file": self.authority.key("service-account"),
            "root-ca-file": self.authority.certificate("ca"),
        }

    def _scheduler(self) -> dict[str, object]:
        return {**self._component(SCHEDULER), "config": self.layout.config / SCHEDULER_CONFIG}

    def _kwok(self) -> dict[str, object]:
        return {
            "kubeconfig": self.layout.kubeconfig(KWOK),
            "config": _STAGES,
            "manage-all-nodes": "true",
            "node-lease-duration-seconds": 40,
            "cidr": "10.244.0.1/16",
            "node-ip": LOOPBACK,
            "server-address": f"{LOOPBACK}:{self.ports[KWOK]}",
        }

    def _component(self, program: str) -> dict[str, object]:
        return {
            "bind-address": LOOPBACK,
            "secure-port": self.ports[program],
            "authentication-kubeconfig": self.layout.kubeconfig(program),
            "authorization-kubeconfig": self.layout.kubeconfig(program),
            "profiling": "false",
            **self._serving(program),
            **self._gates(),
        }

    def _serving(self, program: str) -> dict[str, object]:
        return {
            "tls-cert-file": self.authority.certificate(program),
            "tls-private-key-file": self.authority.key(program),
        }

    def _gates(self) -> dict[str, object]:
        return {"feature-gates": self.settings.feature_gates} if self.settings.feature_gates else {}

    def _url(self, port: str) -> str:
        return f"https://{LOOPBACK}:{self.ports[port]}"


def probe(program: str, ports: Mapping[str, int]) -> Probe:
    """How `program` shows that it is ready. Raises NotFoundError for a program without a port."""
    if program == ETCD:
        return probes.http_probe(ports["etcd-metrics"], "/health")
    if program not in ports:
        raise NotFoundError(f"program: {program!r} is none of {', '.join(ports)}")
    if program == KWOK:
        return probes.http_probe(ports[KWOK], "/healthz")
    if program.startswith("gatekeeper"):
        return probes.http_probe(ports[program], "/readyz")
    if program == CONTROLLER_MANAGER:
        return probes.https_probe(ports[program], "/healthz")
    return probes.https_probe(ports[program], "/readyz")
