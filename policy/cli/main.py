"""The entry of `ganggate` and `kubectl gang`: finds the command, and turns every failure into a line and an exit code.

Commands are imported when they are called: `--help` and the commands that need no cluster must not pay for the
kubernetes package, whose import takes most of a second.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import click

from policy.cli.failures import Exit, line
from policy.cli.options import WHERE, where

_INTERRUPTED: Final = 130


class Entry(NamedTuple):
    """Where a command lives, and its line in the list of commands."""

    module: str
    name: str
    help: str


COMMANDS: Final[dict[str, Entry]] = {
    "status": Entry("policy.cli.status", "status", "List groups: state, reason, members, position in their queue."),
    "why": Entry("policy.cli.why", "why", "Explain one group: what it waits for, with figures, and what would help."),
    "queues": Entry("policy.cli.queues", "queues", "Show the tree of queues: capability, allocated, free, groups."),
    "release": Entry("policy.cli.release", "release", "Remove ganggate's gate by hand: the way out when it is down."),
    "local": Entry("policy.cli.local", "local", "A real control plane on loopback, for trials, tests and benchmarks."),
}


class Commands(click.Group):
    """A group that knows its commands by name and imports only the one that is called."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run one command and exit as it answers: what it returns is the exit code."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            click.echo(line(error), err=True)
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            sys.exit(_INTERRUPTED)
        sys.exit(code if isinstance(code, int) else Exit.OK)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ganggate", message="%(prog)s %(version)s")
@where
@click.option("-o", "--output", metavar="FORMAT", help="Default format of the command's output.")
@click.pass_context
def cli(ctx: click.Context, /, **given: Any) -> None:
    """All-or-nothing admission of pod groups on the default kube-scheduler: what waits, why, and what would help.

    The same program as `ganggate` and as `kubectl gang`. Exit codes: 0 done (why: admitted or running), 1 failed,
    2 wrong usage, 3 not found, 4 the group waits, 5 it can never fit.
    """
    if "NO_COLOR" in os.environ:
        ctx.color = False
    common = {name: given[name] for name in (*WHERE, "output") if given[name]}
    ctx.default_map = dict.fromkeys(COMMANDS, common)


def run() -> NoReturn:
    """Entry of both console scripts."""
    cli(prog_name="kubectl gang" if Path(sys.argv[0]).name.startswith("kubectl") else "ganggate")
    sys.exit(Exit.OK)


if __name__ == "__main__":
    run()
