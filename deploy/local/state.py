"""A cluster's memory on disk: what was started, by whom, on which ports. Enough for `down` after any crash.

Reads and writes one JSON file, each time whole (written beside, then renamed). Starts and stops nothing.
"""

import os
from enum import StrEnum
from pathlib import Path

import msgspec

from deploy.local.errors import LocalError, NotFoundError
from deploy.local.procfs import Identity, alive


class Phase(StrEnum):
    """How far `up` has come. What still lives is asked of the kernel, never of this file."""

    STARTING = "starting"
    UP = "up"


class Run(msgspec.Struct, frozen=True):
    """One program of the cluster: how it was started last, and as which process (None: not running)."""

    argv: tuple[str, ...]
    env: dict[str, str]
    log: str
    identity: Identity | None = None


class State(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster. `tied` ones live no longer than the process that started them; tests make such."""

    name: str
    starter: Identity
    kubernetes_version: str = ""
    kubectl: str = ""
    addon_config: str | None = None
    ports: dict[str, int] = {}
    phase: Phase = Phase.STARTING
    tied: bool = False
    runs: dict[str, Run] = {}

    def with_run(self, program: str, run: Run) -> "State":
        return msgspec.structs.replace(self, runs={**self.runs, program: run})

    def abandoned(self) -> bool:
        """Tell whether nobody is left who would take this cluster down."""
        return (self.tied or self.phase is Phase.STARTING) and not alive(self.starter)


def save(path: Path, state: State) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    draft.replace(path)


def load(path: Path) -> State:
    """Read a cluster's state. Raises NotFoundError without the file, LocalError when it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        raise NotFoundError(f"name: no cluster {path.parent.name!r} (no {path})") from None
    except msgspec.MsgspecError as error:
        raise LocalError(f"{path}: {error}") from error
