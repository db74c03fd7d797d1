"""The processes of one cluster and its state file, kept in step: what starts is on record before it is waited for.

Starts nothing by itself. Whoever opens the same folder later finds the same processes, by pid and start time.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from deploy.local import operators, plane, state
from deploy.local.errors import LocalError, NotFoundError
from deploy.local.paths import Layout
from deploy.local.process import Process, Program
from deploy.local.state import Run, State

MARKER: Final = "GANGGATE_LOCAL_CLUSTER"  # in the environment of every process of a cluster: its folder
INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR")


@dataclass(slots=True)
class Roster:
    """`processes` by program; `state` is what the state file holds."""

    layout: Layout
    state: State
    processes: dict[str, Process] = field(default_factory=dict)

    @classmethod
    def load(cls, layout: Layout) -> "Roster":
        """Find a cluster's processes again. Raises NotFoundError if there is no such cluster."""
        roster = cls(layout, state.load(layout.state))
        for program, run in roster.state.runs.items():
            roster.processes[program] = Process(roster._program(program, run), roster._record, run.identity)
        return roster

    def update(self, **changes: Any) -> None:
        """Change fields of the state, on disk first."""
        changed = msgspec.structs.replace(self.state, **changes)
        state.save(self.layout.state, changed)
        self.state = changed

    def enlist(self, program: str, argv: Sequence[str], extra: Mapping[str, str] | None = None) -> Process:
        """A process to be, for `program`; its former one must have ended. `extra` is added to its environment."""
        if (former := self.processes.get(program)) is not None and former.alive:
            raise LocalError(f"program: {program} runs already, as pid {former.pid}")
        run = Run(tuple(argv), {**self._environment(), **(extra or {})}, str(self.layout.log(program)))
        self.processes[program] = Process(self._program(program, run), self._record)
        self.update(runs={**self.state.runs, program: run})
        return self.processes[program]

    def get(self, program: str) -> Process:
        """Raises NotFoundError, naming those there are."""
        if program not in self.processes:
            raise NotFoundError(f"program: {program!r} is none of {', '.join(self.processes) or '(none yet)'}")
        return self.processes[program]

    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self.processes.items() if process.alive and process.pid}

    def wait_ready(self, programs: Iterable[str]) -> None:
        for program in programs:
            self.get(program).wait_ready()

    def _program(self, program: str, run: Run) -> Program:
        probe = operators.probe if program in operators.OPERATORS else plane.probe
        ready = probe(program, self.state.ports)
        return Program(name=program, argv=run.argv, env=run.env, log=Path(run.log), ready=ready)

    def _record(self, process: Process) -> None:
        run = msgspec.structs.replace(self.state.runs[process.name], identity=process.identity)
        self.update(runs={**self.state.runs, process.name: run})

    def _environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {**inherited, MARKER: str(self.layout.root)}
