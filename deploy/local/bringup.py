"""The order in which a cluster comes up. Each step stands on the one before; unwinding is the caller's.

Starts programs through the roster, so that every step is on record as it happens.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.local import addon, manifests, nodes, plane, scheduler
from deploy.local.addon import Addon
from deploy.local.errors import LocalError
from deploy.local.kubeconfig import GATEKEEPER, IDENTITIES, SCHEDULER, WEBHOOK, Authority
from deploy.local.kubectl import Kubectl
from deploy.local.plane import Plane
from deploy.local.roster import Roster
from deploy.local.settings import Settings
from deploy.local.toolchain import Say

SHIPPED_PROFILES: Final = manifests.ROOT / "scheduler" / "config.yaml"
KWOK_RBAC: Final = Path(__file__).with_name("kwok-rbac.yaml")
POLL_SECONDS: Final = 0.1
LIMIT_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Bringup:
    """One `up`. `binaries` are the built programs by name."""

    roster: Roster
    authority: Authority
    settings: Settings
    binaries: Mapping[str, Path]
    kubectl: Kubectl
    say: Say

    def run(self) -> None:
        self.say("issuing certificates")
        self._identities()
        self.say("starting the control plane")
        self._control_plane()
        self._nodes()
        if self.settings.addon:
            self.say("installing ganggate")
            install(self.kubectl, self.roster.state.ports[WEBHOOK])
            self._addon()

    def _identities(self) -> None:
        self.authority.create()
        port = self.roster.state.ports[plane.API_SERVER]
        for identity, user in IDENTITIES.items():
            self.authority.kubeconfig(identity, user, port)

    def _control_plane(self) -> None:
        """etcd, then the API server, then all that only needs the API server, side by side."""
        self._write_scheduler_config()
        flags = Plane(self.roster.layout, self.authority, self.settings, self.roster.state.ports, self.binaries)
        for program in (plane.ETCD, plane.API_SERVER):
            self.roster.enlist(program, flags.argv(program), plane.ENVIRONMENT).start()
        self.kubectl.apply(manifests.read(KWOK_RBAC), validate=False)
        clients = [program for program in plane.PROGRAMS if program not in self.roster.processes]
        for program in clients:
            self.roster.enlist(program, flags.argv(program), plane.ENVIRONMENT).start(wait=False)
        if self.settings.nodes:
            fresh = nodes.next_names((), self.settings.nodes)
            self.kubectl.create((nodes.manifest(name, self.settings.gpus) for name in fresh), validate=False)
        self.roster.wait_ready(clients)

    def _write_scheduler_config(self) -> None:
        kubeconfig = self.roster.layout.kubeconfig(SCHEDULER)
        merged = scheduler.merge(scheduler.load_profiles(SHIPPED_PROFILES), kubeconfig, plane.CLIENT_LIMIT)
        (self.roster.layout.config / plane.SCHEDULER_CONFIG).write_text(yaml.safe_dump(merged))

    def _nodes(self) -> None:
        """A pod can be created and bound only once its namespace has an account and the taints are gone."""
        until(lambda: missing_nodes(self.kubectl), "nodes")
        until(lambda: missing_account(self.kubectl, "default"), "namespace default")

    def _addon(self) -> None:
        command = Addon(self.roster.layout, self.roster.state.ports, self.settings.addon_config)
        start_addon(self.roster, command)
        until(lambda: missing_ca_bundles(self.kubectl), "webhook configurations")


def install(kubectl: Kubectl, webhook_port: int) -> None:
    """Apply what ganggate ships: definitions and namespace, then all else, the webhooks last."""
    first, then, webhooks = manifests.stages(manifests.shipped(), webhook_port)
    kubectl.apply(first)
    definitions = [each["metadata"]["name"] for each in first if each["kind"] == manifests.DEFINITIONS]
    if definitions:
        kubectl("wait", "--for=condition=Established", "--timeout=30s", "customresourcedefinition", *definitions)
    if then or webhooks:
        kubectl.apply([*then, *webhooks])


def start_addon(roster: Roster, command: Addon) -> None:
    """Start gatekeeper and webhook; the webhook waits for the certificate that the gatekeeper's leader issues."""
    argvs = {GATEKEEPER: command.gatekeeper(GATEKEEPER, GATEKEEPER), WEBHOOK: command.webhook()}
    for program, argv in argvs.items():
        roster.enlist(program, argv, addon.environment()).start(wait=False)
    roster.wait_ready(argvs)


def missing_nodes(kubectl: Kubectl) -> str | None:
    """The first node to which nothing can be bound yet, or None."""
    items: list[dict[str, Any]] = kubectl.raw("/api/v1/nodes")["items"]
    waiting = [each["metadata"]["name"] for each in items if not nodes.schedulable(each)]
    return f"{len(waiting)} of {len(items)} not schedulable, the first is {waiting[0]}" if waiting else None


def missing_account(kubectl: Kubectl, namespace: str) -> str | None:
    """Whether pods of `namespace` would be refused for want of its default ServiceAccount."""
    accounts = kubectl.raw(f"/api/v1/namespaces/{namespace}/serviceaccounts")["items"]
    return None if any(each["metadata"]["name"] == "default" for each in accounts) else "no ServiceAccount default"


def missing_ca_bundles(kubectl: Kubectl) -> str | None:
    """The webhook configurations of ours that the API server cannot call yet, or None."""
    items = kubectl.json("get", "mutatingwebhookconfigurations,validatingwebhookconfigurations")["items"]
    waiting = [each["metadata"]["name"] for each in items if not manifests.has_ca_bundle(each)]
    return f"no caBundle in {', '.join(waiting)}" if waiting else None


def until(missing: Callable[[], str | None], what: str) -> None:
    """Wait until nothing is missing. Raises LocalError, with what still is, after two minutes."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while (answer := missing()) is not None:
        if time.monotonic() > deadline:
            raise LocalError(f"{what}: not ready within {LIMIT_SECONDS:g} s: {answer}")
        time.sleep(POLL_SECONDS)
