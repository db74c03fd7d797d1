"""One cluster: brought up in order, unwound when that fails, found again by name, and taken down for good.

The way in for tests, benchmarks and the command line:

    cluster = Cluster(Settings(name="trial", nodes=2))
    cluster.up()
    cluster.processes["gatekeeper"].kill()
    cluster.down()
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from deploy.local import addon, bringup, build, modules, nodes, operator_setup, plane, ports, procfs, teardown, tools
from deploy.local.addon import Addon
from deploy.local.bringup import Bringup
from deploy.local.errors import LocalError
from deploy.local.kubeconfig import ADMIN, GATEKEEPER, WEBHOOK, Authority, User
from deploy.local.kubectl import Kubectl
from deploy.local.locking import locked
from deploy.local.operator_setup import Setup
from deploy.local.operators import chosen
from deploy.local.paths import Home, Layout, home, private
from deploy.local.process import Process
from deploy.local.roster import MARKER, Roster
from deploy.local.settings import MAX_GPUS, MAX_NODES, Settings, within
from deploy.local.state import Phase, State
from deploy.local.status import Status, examine
from deploy.local.toolchain import Say


def silent(_: str) -> None:
    """Say nothing of the progress."""


@dataclass(slots=True)
class Cluster:
    """A cluster by its settings; `open` finds one that is up by its name."""

    settings: Settings
    home: Home = field(default_factory=home)
    say: Say = silent
    _roster: Roster | None = field(default=None, repr=False)

    @classmethod
    def open(cls, name: str, *, at: Home | None = None, say: Say = silent) -> "Cluster":
        """The cluster `name`, whoever started it. Raises NotFoundError if there is none."""
        place = at or home()
        roster = Roster.load(place.cluster(name))
        config = roster.state.addon_config
        return cls(Settings(name=name, addon_config=Path(config) if config else None), place, say, roster)

    # --- life ------------------------------------------------------------------------------------------------

    def up(self) -> None:
        """Build what is missing, start everything and wait until it is ready; on failure leave nothing behind.

        Raises LocalError, with the end of the log where a program is to blame.
        """
        self.settings.check()
        binaries = build.ensure(self.home.cache, self.settings.kubernetes_version, self.say)
        with locked(self.home.lock(self.name), waiting=lambda: self.say(f"waiting for the lock of {self.name}")):
            self._refuse_if_alive()
            private(self.layout.root)
            with ExitStack() as unwinding:
                unwinding.callback(self._unwind)
                self._bring_up(binaries)
                unwinding.pop_all()

    def down(self) -> None:
        """End everything and remove the folder. Raises NotFoundError if the cluster is not there."""
        teardown.down(self.home, self.name, self._roster)
        self._roster = None

    def status(self) -> Status:
        return examine(Roster.load(self.layout))

    # --- what it is ------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def layout(self) -> Layout:
        return self.home.cluster(self.name)

    @property
    def ports(self) -> Mapping[str, int]:
        return self.roster.state.ports

    @property
    def processes(self) -> Mapping[str, Process]:
        """By program: etcd, kube-apiserver, …, gatekeeper, webhook."""
        return self.roster.processes

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.layout.kubeconfig(ADMIN)

    @property
    def kubectl(self) -> Kubectl:
        """The cluster's kubectl as administrator."""
        return self._kubectl(self.kubeconfig)

    @property
    def roster(self) -> Roster:
        if self._roster is None:
            self._roster = Roster.load(self.layout)
        return self._roster

    # --- who else may use it ---------------------------------------------------------------------------------

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Mint the kubeconfig of a user, who may do what RBAC grants to that name and those groups."""
        identity = hashlib.sha256(repr((user, *groups)).encode()).hexdigest()[:12]
        who = User(user, tuple(groups))
        return self._authority().kubeconfig(f"user-{identity}", who, self.ports[plane.API_SERVER])

    def kubectl_as(self, user: str, groups: Sequence[str] = ()) -> Kubectl:
        return self._kubectl(self.kubeconfig_for(user, groups))

    # --- the add-on ------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Apply what ganggate ships, webhooks included, to a cluster that came up without the add-on."""
        bringup.install(self.kubectl, self.ports[WEBHOOK])

    def start_gatekeeper(
        self,
        identity: str = GATEKEEPER,
        *,
        env: Mapping[str, str] | None = None,
        extra_args: Sequence[str] = (),
        wait: bool = True,
    ) -> Process:
        """Start one more replica, or the ended one of that identity anew; it is `processes[<identity>]`.

        `identity` is `gatekeeper` or begins with `gatekeeper-`.
        """
        self._reserve(identity)
        argv = self._addon().gatekeeper(identity, identity, extra_args)
        process = self.roster.enlist(identity, argv, addon.environment() | dict(env or {}))
        process.start(wait=wait)
        return process

    def start_webhook(
        self, *, env: Mapping[str, str] | None = None, extra_args: Sequence[str] = (), wait: bool = True
    ) -> Process:
        """Start the webhook, which must have ended, with other arguments or another environment."""
        argv = (*self._addon().webhook(), *extra_args)
        process = self.roster.enlist(WEBHOOK, argv, addon.environment() | dict(env or {}))
        process.start(wait=wait)
        return process

    # --- operators of others ---------------------------------------------------------------------------------

    def start_operators(self, names: Sequence[str], *, flags: Mapping[str, Sequence[str]] | None = None) -> None:
        """Start these operators and those they need, built where missing, and wait until they are ready.

        What runs already is left alone; `flags` adds to the command line of those that are started, by name.
        """
        wanted = chosen(names)
        built = build.ensure_operators(self.home.cache, [each.name for each in wanted], self.say)
        found = tools.ensure(self.home.cache, {tool for each in wanted for tool in each.tools}, self.say)
        with locked(self.home.lock(self.name), waiting=lambda: self.say(f"waiting for the lock of {self.name}")):
            ended = [each for each in wanted if each.name not in self.roster.pids()]
            for each in ended:
                added = operator_setup.reserve(each, self.home.ports, self.layout.root, self.ports)
                self.roster.update(ports={**self.ports, **added})
            setup = Setup(self.roster, self._authority(), self.kubectl, built, found, self.say, flags or {})
            setup.run(ended)

    # --- nodes -----------------------------------------------------------------------------------------------

    def add_nodes(self, count: int, gpus: int = 8) -> list[str]:
        """Add nodes and wait until pods can be bound to them; their names."""
        within("count", count, 1, MAX_NODES)
        within("gpus", gpus, 0, MAX_GPUS)
        existing = self.kubectl("get", "nodes", "-o", "name").split()
        added = nodes.next_names((each.removeprefix("node/") for each in existing), count)
        self.kubectl.create((nodes.manifest(name, gpus) for name in added), validate=False)
        bringup.until(lambda: bringup.missing_nodes(self.kubectl), "nodes")
        return added

    def remove_nodes(self, names: Sequence[str]) -> None:
        """Delete Node objects; their pods are collected by the controller manager, as when a machine is lost."""
        self.kubectl("delete", "node", *names)

    def cordon_nodes(self, names: Sequence[str], *, undo: bool = False) -> None:
        self.kubectl("uncordon" if undo else "cordon", *names)

    # --- inside ----------------------------------------------------------------------------------------------

    def _refuse_if_alive(self) -> None:
        """Clear the remains of a cluster of that name; refuse while any of its programs runs."""
        if not self.layout.root.is_dir():
            return
        running = sorted(procfs.marked(MARKER, str(self.layout.root)))
        if running:
            raise LocalError(
                f"name: cluster {self.name!r} is already there, with {len(running)} processes: "
                f"take it down first (ganggate local down --name {self.name})"
            )
        teardown.clear(self.home, self.layout)

    def _bring_up(self, binaries: Mapping[str, Path]) -> None:
        starter = procfs.identify(os.getpid())
        if starter is None:
            raise LocalError(f"pid {os.getpid()} is not in {procfs.PROC}: only Linux is supported")
        config = self.settings.addon_config
        self._roster = Roster(self.layout, State(name=self.name, starter=starter))
        self._roster.update(
            kubernetes_version=self.settings.kubernetes_version or modules.default_kubernetes_version(),
            kubectl=str(binaries["kubectl"]),
            addon_config=str(config.absolute()) if config else None,
            tied=self.settings.tied,
            ports=ports.reserve(self.home.ports, self.layout.root, plane.PORTS),
        )
        Bringup(self._roster, self._authority(), self.settings, binaries, self.kubectl, self.say).run()
        self._roster.update(phase=Phase.UP)

    def _unwind(self) -> None:
        self.say(f"failed; its logs are kept in {teardown.keep_logs(self.home, self.layout)}")
        teardown.clear(self.home, self.layout, self._roster)
        self._roster = None

    def _reserve(self, program: str) -> None:
        if program != GATEKEEPER and not program.startswith(f"{GATEKEEPER}-"):
            raise LocalError(f"identity: {program!r} does not begin with {GATEKEEPER}-")
        if program not in self.ports:
            added = ports.reserve(self.home.ports, self.layout.root, (program,))
            self.roster.update(ports={**self.ports, **added})

    def _addon(self) -> Addon:
        return Addon(self.layout, self.ports, self.settings.addon_config)

    def _authority(self) -> Authority:
        return Authority(self.layout, datetime.now(UTC))

    def _kubectl(self, kubeconfig: Path) -> Kubectl:
        return Kubectl(Path(self.roster.state.kubectl), kubeconfig, self.layout.kubectl_cache)
