"""Makes operators part of a cluster: definitions, rights, webhooks, certificates and settings, then the processes.

Writes to the cluster as administrator, so that nothing but an operator's own work is done in its name. Starts
programs through the roster; what an operator needs it is told by `operators`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import yaml

from deploy.local import manifests, plane, ports
from deploy.local.build import Built
from deploy.local.errors import LocalError
from deploy.local.kubeconfig import LIFETIME, Authority, User, service_account
from deploy.local.kubectl import Kubectl
from deploy.local.manifests import Manifest
from deploy.local.operators import Operator, Place
from deploy.local.paths import private
from deploy.local.roster import Roster
from deploy.local.toolchain import Say

RBAC: Final = "rbac.authorization.k8s.io"
ACCOUNTS: Final = "kube-system"  # where the ServiceAccounts of operators that are known by a token lie
LIFETIME_HOURS: Final = LIFETIME // timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Setup:
    """One `operators up`. `built` holds programs and sources by name, `tools` folders.

    `flags` is what command lines end with. Ports are reserved already.
    """

    roster: Roster
    authority: Authority
    kubectl: Kubectl
    built: Mapping[str, Built]
    tools: Mapping[str, Path]
    say: Say
    flags: Mapping[str, Sequence[str]]

    def run(self, wanted: Sequence[Operator]) -> None:
        """Install and start these operators, none of which runs, and wait until all are ready."""
        if not wanted:
            return
        self.say(f"installing {', '.join(each.name for each in wanted)}")
        self._define(wanted)
        self.kubectl.apply(self._objects(wanted), validate=False)
        self.say("starting them")
        for each in wanted:
            self._start(each)
        self.roster.wait_ready(each.name for each in wanted)

    def _define(self, wanted: Sequence[Operator]) -> None:
        """A program that does not find its kinds served ends, so all are before any starts."""
        files = [file for each in wanted for file in definitions(each, self.built[each.name].sources)]
        self.kubectl.apply_files(files)
        self.kubectl.established(files)

    def _objects(self, wanted: Iterable[Operator]) -> list[Manifest]:
        """Webhooks too are there before their operator: whoever sees it ready is served by them."""
        return [
            manifest for each in wanted for manifest in (*identity(each), *each.objects, *self._registrations(each))
        ]

    def _registrations(self, operator: Operator) -> list[Manifest]:
        if operator.hooks is None:
            return []
        rendered = self.kubectl("kustomize", str(self.built[operator.name].sources / operator.hooks))
        port = self.roster.state.ports[operator.ports[1]]
        return registrations(rendered, operator, port, self.authority.ca_bundle())

    def _start(self, operator: Operator) -> None:
        place = self._place(operator)
        who = user(operator)
        kubeconfig = self._kubeconfig(operator, who)
        if operator.serves:
            self.authority.serving(private(place.certificates), who)
        if operator.looked_for is not None:
            show(operator.looked_for)
        if settings := operator.settings(place):
            place.settings.write_text(yaml.safe_dump(settings))
        argv = (str(self.built[operator.name].binary), *operator.flags(place), *self.flags.get(operator.name, ()))
        environment = {"KUBECONFIG": str(kubeconfig), "TMPDIR": str(place.folder), **operator.environment(place)}
        self.roster.enlist(operator.name, argv, environment).start(wait=False)

    def _kubeconfig(self, operator: Operator, who: User) -> Path:
        port = self.roster.state.ports[plane.API_SERVER]
        if not operator.token:
            return self.authority.kubeconfig(operator.name, who, port)
        token = self.kubectl("create", "token", account(operator), "-n", ACCOUNTS, f"--duration={LIFETIME_HOURS}h")
        return self.authority.token_kubeconfig(operator.name, who, port, token.strip())

    def _place(self, operator: Operator) -> Place:
        found = self.roster.state.ports
        folder, listens = self.roster.layout.operator(operator.name), [found[name] for name in operator.ports]
        return Place(folder, *listens, api_server=found[plane.API_SERVER], tools=self.tools)


def reserve(operator: Operator, folder: Path, owner: Path, taken: Mapping[str, int]) -> dict[str, int]:
    """Reserve the ports that are not `taken` yet. Raises LocalError where one that is fixed belongs to others."""
    names = [each for each in operator.ports if each not in taken]
    if operator.fixed_port is None or not names:
        return ports.reserve(folder, owner, names)
    try:
        return ports.reserve(folder, owner, names, candidates=[operator.fixed_port])
    except LocalError:
        raise LocalError(
            f"operator: {operator.name} listens on port {operator.fixed_port}, which it cannot be told to change and "
            f"something else on this machine has: end that first (another cluster with {operator.name}?)"
        ) from None


def show(file: Path) -> None:
    """Have the file exist, for any cluster and user of this machine: it is looked for, never read."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.touch()


def definitions(operator: Operator, sources: Path) -> list[Path]:
    """The files of its CustomResourceDefinitions. Raises LocalError if its sources hold none."""
    found = sorted(file for file in sources.glob(operator.crds) if file.name not in operator.but)
    if not found:
        raise LocalError(f"operator: {operator.name}: no {operator.crds} in {sources}")
    return found


def registrations(rendered: str, operator: Operator, port: int, bundle: str) -> list[Manifest]:
    """Its webhook configurations, called at its port; the operator's name in front, for theirs are all the same."""
    found = [each for each in manifests.parse(rendered) if each["kind"] in manifests.WEBHOOKS]
    return [
        manifests.by_url(each, port, caBundle=bundle)
        | {"metadata": {"name": f"{operator.name}-{each['metadata']['name']}"}}
        for each in found
    ]


def account(operator: Operator) -> str:
    return f"ganggate-local-operator-{operator.name}"


def user(operator: Operator) -> User:
    return service_account(account(operator), ACCOUNTS) if operator.token else User(account(operator))


def identity(operator: Operator) -> list[Manifest]:
    """What the API server has to know before it lets the operator do anything; a token is issued to an object."""
    metadata = {"name": account(operator), "namespace": ACCOUNTS}
    known: list[Manifest] = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}]
    return [*(known if operator.token else []), binding(user(operator))]


def binding(who: User) -> Manifest:
    """Every right there is: it is somebody else's program on a cluster for trials."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": who.name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": who.name}],
    }
