"""What a cluster looks like now: the state file, checked against the kernel. Reads only."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from deploy.local.kubeconfig import ADMIN
from deploy.local.process import Process
from deploy.local.roster import Roster
from deploy.local.state import Phase, State


class Health(StrEnum):
    """One word for a cluster."""

    UP = "up"
    STARTING = "starting"
    DEGRADED = "degraded"  # a program has ended
    ABANDONED = "abandoned"  # its starter died: `down` will clean it


class ProcessStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One program; `memory_bytes` is resident memory, children included."""

    running: bool
    pid: int | None
    memory_bytes: int
    log: str


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """What `ganggate local status -o json` prints."""

    name: str
    health: Health
    kubernetes_version: str
    kubeconfig: str
    kubectl: str
    ports: dict[str, int]
    pids: dict[str, int]
    processes: dict[str, ProcessStatus]


def examine(roster: Roster) -> Status:
    """Look at every process of the cluster."""
    processes = {name: _examine(process) for name, process in roster.processes.items()}
    return Status(
        name=roster.state.name,
        health=_health(roster.state, processes.values()),
        kubernetes_version=roster.state.kubernetes_version,
        kubeconfig=str(roster.layout.kubeconfig(ADMIN)),
        kubectl=roster.state.kubectl,
        ports=roster.state.ports,
        pids=roster.pids(),
        processes=processes,
    )


def _examine(process: Process) -> ProcessStatus:
    running = process.alive
    return ProcessStatus(running, process.pid if running else None, process.memory, str(process.program.log))


def _health(state: State, processes: Iterable[ProcessStatus]) -> Health:
    if state.abandoned():
        return Health.ABANDONED
    if state.phase is Phase.STARTING:
        return Health.STARTING
    return Health.UP if all(each.running for each in processes) else Health.DEGRADED
