"""The command line over a cluster made by hand: a World of facts, and one way to run a command."""

import textwrap
from dataclasses import dataclass, field

from click.testing import CliRunner

from policy.cli.main import cli
from policy.cli.world import Denied
from policy.gatekeeper.config import Settings
from policy.gatekeeper.observe import Partial
from policy.rules.model import Snapshot
from tests.unit.rules_facts import NOW, NS

LACK = "you may not list pods in the whole cluster"


@dataclass
class FakeWorld:
    """What policy.cli.world.World promises, from memory."""

    facts: Snapshot = Snapshot()
    namespace: str = NS
    client: object = None
    report: object = None
    quiet: str = ""
    tenant: bool = False
    told: dict = field(default_factory=dict)
    unseen: tuple = ()
    asked: list = field(default_factory=list)
    settings: Settings = Settings()

    def now(self):
        return NOW

    def snapshot(self):
        if self.tenant:
            raise Denied(LACK, f"{LACK}: pods is forbidden")
        return self.facts

    def partial(self, namespace):
        self.asked.append(namespace)
        return Partial(self.facts, self.unseen), self.told

    def last_report(self, group):
        return self.report

    def silence(self):
        return self.quiet


def run(world, *args, stdin=None, env=None):
    """The result of one command; `world` may be a Snapshot."""
    world = FakeWorld(world) if isinstance(world, Snapshot) else world

    def made(flags):
        world.namespace = flags.namespace or world.namespace
        return world

    return CliRunner().invoke(cli, list(args), obj=made, input=stdin, env=env or {}, prog_name="ganggate")


def trimmed(text):
    """A golden text as it stands in a test: without the first line end, and unindented."""
    return textwrap.dedent(text).lstrip("\n")
