"""Kubeconfig files, and the keys and certificates that a cluster needs. No process runs as administrator.

Issues with `certs.authority`; writes files that only their owner can read. Talks to no server.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from certs import authority
from certs.authority import Pair
from deploy.local.paths import Layout
from deploy.local.ports import LOOPBACK
from policy import names

LIFETIME: Final = timedelta(days=365)
ADMIN: Final = "admin"
MASTERS: Final = "system:masters"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
GATEKEEPER: Final = "gatekeeper"
WEBHOOK: Final = "webhook"
KWOK: Final = "kwok"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
SERVER_NAMES: Final = (LOOPBACK, "localhost", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class User:
    """Whom a client certificate speaks for."""

    name: str
    groups: tuple[str, ...] = ()


def service_account(name: str, namespace: str = names.SYSTEM_NAMESPACE) -> User:
    """The user and groups by which RBAC knows a ServiceAccount: shipped bindings hold unchanged."""
    groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


IDENTITIES: Final = {
    ADMIN: User("ganggate-local-admin", (MASTERS,)),
    CONTROLLER_MANAGER: User("system:kube-controller-manager"),
    SCHEDULER: User("system:kube-scheduler"),
    KWOK: User("ganggate-local-kwok"),
    GATEKEEPER: service_account("ganggate-gatekeeper"),
    WEBHOOK: service_account("ganggate-webhook"),
}


@dataclass(frozen=True, slots=True)
class Authority:
    """A cluster's own CA, in its folder, and what is issued from it."""

    layout: Layout
    now: datetime

    def create(self) -> None:
        """Make the CA, the key that signs ServiceAccount tokens, and the serving certificates."""
        self._write("ca", authority.new_ca("ganggate-local", now=self.now, lifetime=LIFETIME))
        self._write("service-account", authority.new_ca("service-account", now=self.now, lifetime=LIFETIME))
        for server in ("kube-apiserver", CONTROLLER_MANAGER, SCHEDULER, "etcd"):
            self._write(server, self._issue(User(server), server_names=SERVER_NAMES))

    def kubeconfig(self, identity: str, user: User, port: int) -> Path:
        """Issue a client certificate for `user` and write the kubeconfig that uses it."""
        return self._kubeconfig(identity, user, port, _credentials(self._issue(user)))

    def token_kubeconfig(self, identity: str, user: User, port: int, token: str) -> Path:
        """Write the kubeconfig of a user who is known by a token."""
        return self._kubeconfig(identity, user, port, {"token": token})

    def serving(self, folder: Path, user: User) -> None:
        """Issue a serving certificate and write it as a mounted Secret shows it: tls.crt and tls.key."""
        pair = self._issue(user, server_names=SERVER_NAMES)
        write_private(folder / "tls.crt", pair.certificate)
        write_private(folder / "tls.key", pair.key)

    def ca_bundle(self) -> str:
        """Whom to trust, as a webhook registration holds it."""
        return _text(self.certificate("ca").read_bytes())

    def certificate(self, name: str) -> Path:
        return self.layout.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.layout.pki / f"{name}.key"

    def _kubeconfig(self, identity: str, user: User, port: int, credentials: Mapping[str, str]) -> Path:
        path = self.layout.kubeconfig(identity)
        write_private(path, render(f"https://{LOOPBACK}:{port}", self._ca().certificate, user, credentials))
        return path

    def _ca(self) -> Pair:
        return Pair(self.certificate("ca").read_bytes(), self.key("ca").read_bytes())

    def _issue(self, user: User, server_names: Sequence[str] = ()) -> Pair:
        return authority.issue(
            self._ca(),
            user.name,
            names=server_names,
            organizations=user.groups,
            client=True,  # etcd dials itself with its serving certificate
            now=self.now,
            lifetime=LIFETIME,
        )

    def _write(self, name: str, pair: Pair) -> None:
        write_private(self.certificate(name), pair.certificate)
        write_private(self.key(name), pair.key)


def render(server: str, ca: bytes, user: User, credentials: Mapping[str, str]) -> bytes:
    """A kubeconfig as JSON, which every reader of kubeconfigs takes for the YAML it is."""
    context = "ganggate-local"
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{"name": context, "cluster": {"server": server, "certificate-authority-data": _text(ca)}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": user.name}}],
            "users": [{"name": user.name, "user": dict(credentials)}],
        },
        indent=1,
    ).encode()


def write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody but its owner can ever read, not even while it is made."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(content)


def _credentials(pair: Pair) -> dict[str, str]:
    return {"client-certificate-data": _text(pair.certificate), "client-key-data": _text(pair.key)}


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
