"""`ganggate local`: a real control plane on this machine, brought up, looked at and taken down.

One JSON object on standard output, progress on standard error, exit codes: 0 done, 1 failed, 2 wrong usage,
3 not found. Parses and prints; everything else is `deploy.local`.
"""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
import msgspec
import yaml
from rich.console import Console
from rich.table import Table

from deploy.local import build, logs, modules, operators, teardown, tools
from deploy.local.cluster import Cluster
from deploy.local.errors import LocalError
from deploy.local.paths import home
from deploy.local.settings import DEFAULT_NAME, Settings
from deploy.local.status import Health, Status
from deploy.local.toolchain import Say

MEBIBYTE = 1 << 20

named = click.option(
    "--name", default=DEFAULT_NAME, show_default=True, metavar="NAME", help="Which cluster; several may be up."
)
gpus_option = click.option("--gpus", default=8, show_default=True, metavar="N", help="nvidia.com/gpu of each node.")


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error of ours into its text on standard error and its exit code."""
    try:
        yield
    except LocalError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


@click.group()
def local() -> None:
    """A real control plane on loopback, for trials, tests and benchmarks."""


@local.command()
@named
@gpus_option
@click.option("--nodes", default=8, show_default=True, metavar="N", help="How many nodes kwok simulates.")
@click.option("--kubernetes-version", metavar="vX.Y.Z", help="Version to build; the default is the one that is tested.")
@click.option("--feature-gates", default="", metavar="A=true,…", help="Handed to all three Kubernetes programs.")
@click.option("--runtime-config", default="", metavar="GROUP/V=true,…", help="Handed to kube-apiserver.")
@click.option("--addon/--no-addon", default=True, help="Whether to install and start ganggate too.")
@click.option("--addon-config", type=click.Path(path_type=Path), metavar="FILE", help="Handed to ganggate's processes.")
@reported()
def up(**options: Any) -> None:
    """Bring a cluster up; the first time ever, build it (6-9 minutes on two cores)."""
    signal.signal(signal.SIGTERM, interrupted)
    cluster = Cluster(Settings(**options), say=progress())
    cluster.up()
    found = cluster.status()
    emit({field: getattr(found, field) for field in ("name", "kubeconfig", "kubectl", "pids", "ports")})


@local.command(name="build")
@click.option("--kubernetes-version", metavar="vX.Y.Z", help="Version to build; the default is the one that is tested.")
@reported()
def build_programs(kubernetes_version: str | None) -> None:
    """Build what a cluster runs into the cache, and start nothing (6-9 minutes on two cores)."""
    found = build.ensure(home().cache, kubernetes_version, progress())
    emit({name: str(path) for name, path in found.items()})


@local.command()
@named
@reported()
def down(name: str) -> None:
    """Take a cluster down, whatever state it is in, and clean away those whose starter died."""
    place = home()
    reaped = teardown.reap(place)
    if name in teardown.listed(place) or not reaped:
        teardown.down(place, name)
    emit({"name": name, "reaped": reaped})


@local.command()
@named
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@reported()
def status(name: str, output: str) -> None:
    """Show a cluster's programs; exit code 1 unless all of them run."""
    found = Cluster.open(name).status()
    if output == "table":
        show(found)
    else:
        emit(msgspec.to_builtins(found), output)
    sys.exit(0 if found.health is Health.UP else 1)


@local.command(name="list")
@reported()
def list_clusters() -> None:
    """List the clusters there are, with their health."""
    emit({name: Cluster.open(name).status().health for name in teardown.listed(home())})


@local.command(name="logs")
@named
@click.argument("program", required=False)
@click.option("-n", "--lines", type=click.IntRange(min=1), default=25, show_default=True)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is appended; needs PROGRAM.")
@reported()
def show_logs(name: str, program: str | None, lines: int, follow: bool) -> None:
    """Print the end of PROGRAM's log, or of every program's."""
    roster = Cluster.open(name).roster
    if program is None:
        for each, process in roster.processes.items():
            click.echo(f"==> {each} <==\n{logs.last(process, lines)}\n")
        return
    click.echo(logs.last(roster.get(program), lines))
    for text in logs.follow(roster.get(program)) if follow else ():
        click.echo(text, nl=False)


@local.group()
def nodes() -> None:
    """Add, remove and cordon simulated nodes."""


@nodes.command()
@named
@gpus_option
@click.argument("count", type=int)
@reported()
def add(name: str, gpus: int, count: int) -> None:
    """Add COUNT nodes and wait until pods can be bound to them."""
    emit({"name": name, "added": Cluster.open(name).add_nodes(count, gpus)})


@nodes.command()
@named
@click.argument("node", nargs=-1, required=True)
@reported()
def remove(name: str, node: tuple[str, ...]) -> None:
    """Delete nodes, as if their machines were lost."""
    Cluster.open(name).remove_nodes(node)
    emit({"name": name, "removed": node})


@nodes.command()
@named
@click.option("--undo", is_flag=True, help="Uncordon.")
@click.argument("node", nargs=-1, required=True)
@reported()
def cordon(name: str, undo: bool, node: tuple[str, ...]) -> None:
    """Cordon nodes: what runs there stays, nothing new comes."""
    Cluster.open(name).cordon_nodes(node, undo=undo)
    emit({"name": name, "uncordoned" if undo else "cordoned": node})


@local.group(name="operators")
def operators_group() -> None:
    """Real operators of others, whose jobs ganggate admits: built from their published modules, run as processes."""


@operators_group.command(name="up")
@named
@click.argument("operator", nargs=-1, required=True)
@reported()
def start_operators(name: str, operator: tuple[str, ...]) -> None:
    """Start operators on a cluster, and those they need; the first time, build them (1-3 minutes each)."""
    signal.signal(signal.SIGTERM, interrupted)
    cluster = Cluster.open(name, say=progress())
    cluster.start_operators(operator)
    running = {each: pid for each, pid in cluster.roster.pids().items() if each in operators.OPERATORS}
    emit({"name": name, "pids": running, "ports": {each: cluster.ports[each] for each in running}})


@operators_group.command(name="build")
@click.argument("operator", nargs=-1)
@reported()
def build_operators(operator: tuple[str, ...]) -> None:
    """Build operators into the cache, by default all that need no large package beside them, and start nothing."""
    wanted = operators.chosen(operator or operators.LIGHT)
    found = build.ensure_operators(home().cache, [each.name for each in wanted], progress())
    tools.ensure(home().cache, {tool for each in wanted for tool in each.tools}, progress())
    emit({name: str(built.binary) for name, built in found.items()})


@operators_group.command(name="list")
@reported()
def list_operators() -> None:
    """List the operators there are, with version, whether they are built, and whether `up` can start them."""
    built = {each.name for each in build.operator_targets(home().cache) if each.binary.exists()}
    emit(
        {
            name: {"version": version, "built": name in built, "starts": name in operators.OPERATORS}
            for name, version in modules.operator_versions().items()
        }
    )


def interrupted(number: int, _: FrameType | None) -> None:
    """Unwind at TERM as at Ctrl-C: whoever cancels a job leaves neither a build nor half a cluster behind."""
    sys.exit(128 + number)


def progress() -> Say:
    """Lines on standard error, each with the seconds since the start."""
    started = time.monotonic()
    return lambda text: click.echo(f"{time.monotonic() - started:7.1f}s  {text}", err=True)


def emit(content: Any, output: str = "json") -> None:
    """Print the one object that a command answers."""
    plain = msgspec.to_builtins(content)
    text = yaml.safe_dump(plain, sort_keys=False) if output == "yaml" else encode(plain)
    click.echo(text.rstrip("\n"))


def encode(plain: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()


def show(found: Status) -> None:
    """Print a cluster for people."""
    click.echo(f"{found.name}: {found.health}, Kubernetes {found.kubernetes_version}\nKUBECONFIG={found.kubeconfig}")
    table = Table("PROGRAM", "PID", "PORT", "MEMORY", "STATE", box=None)
    for name, each in found.processes.items():
        port, pid = found.ports.get(name, ""), each.pid or ""
        memory = f"{each.memory_bytes / MEBIBYTE:.0f} MiB"
        table.add_row(name, str(pid), str(port), memory, "running" if each.running else "ended")
    Console().print(table)


if __name__ == "__main__":
    local(prog_name="ganggate local")
