"""The one process type: how every program of a cluster is started, waited for, frozen and ended.

Knows nothing of Kubernetes. A process leads its own session, so signals reach its children too and none
of the starter's terminal reach it; it may outlive its starter and be taken up again by its identity.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deploy.local import procfs
from deploy.local.errors import LocalError
from deploy.local.procfs import Identity

POLL_SECONDS: Final = 0.05
TAIL_LINES: Final = 25

Probe = Callable[[], str | None]  # None when ready, else what is missing


def always_ready() -> str | None:
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """What to run, and what counts as started and as stopped. Limits are in seconds."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    log: Path
    ready: Probe = always_ready
    start_limit: float = 120.0  # on a machine that builds or tests beside it; an exit is noticed at once
    stop_limit: float = 10.0


class ProcessError(LocalError):
    """A program did not start; the text ends with the tail of its log."""


@dataclass
class Process:
    """A program and the process that runs it, if one does. `changed` is told of every new identity."""

    program: Program
    changed: Callable[["Process"], None]
    identity: Identity | None = None
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def pid(self) -> int | None:
        return self.identity.pid if self.identity else None

    @property
    def alive(self) -> bool:
        self._reap()
        return self.identity is not None and procfs.alive(self.identity)

    @property
    def memory(self) -> int:
        """Resident bytes, children included; 0 when it does not run."""
        return procfs.resident_bytes(self.identity.pid) if self.identity and self.alive else 0

    def start(self, *, wait: bool = True) -> None:
        """Start the program unless it runs, and wait until it is ready. Raises ProcessError if it is not."""
        if not self.alive:
            self._spawn()
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait for readiness within the start limit; an exit is noticed at once."""
        deadline = time.monotonic() + self.program.start_limit
        while (missing := self.program.ready()) is not None:
            if not self.alive:
                raise self._error(f"exited {self._status()} before it was ready")
            if time.monotonic() > deadline:
                raise self._error(f"was not ready within {self.program.start_limit:g} s: {missing}")
            time.sleep(POLL_SECONDS)
        if not self.alive:  # somebody else answers on its port
            raise self._error(f"exited {self._status()} while something else answered its readiness probe")

    def stop(self) -> None:
        """End it: TERM, and KILL when the stop limit has passed."""
        stop_all([self])

    def terminate(self) -> None:
        """Ask it to end. A frozen process is thawed to hear that."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it, children included, without any chance to clean up."""
        self._signal(signal.SIGKILL)
        self.wait_gone(self.program.stop_limit)

    def pause(self) -> None:
        """Freeze it where it stands: it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def wait_gone(self, seconds: float) -> bool:
        """Wait until neither it nor a child of it runs; tell whether that came true in time."""
        deadline = time.monotonic() + seconds
        while (running := self._group_runs()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return not running

    def tail(self, lines: int = TAIL_LINES) -> str:
        return tail(self.program.log, lines)

    def _spawn(self) -> None:
        with self.program.log.open("ab") as log:
            self._child = subprocess.Popen(
                list(self.program.argv),
                env=dict(self.program.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.identity = procfs.identify(self._child.pid)
        self.changed(self)

    def _signal(self, number: signal.Signals) -> None:
        """Signal the whole group, unless the pid has become somebody else's."""
        if self.identity is not None and self._group_runs():
            with suppress(ProcessLookupError):
                os.killpg(self.identity.pid, number)

    def _group_runs(self) -> bool:
        """A group keeps its number until its last member is gone, so children of a dead leader are found."""
        self._reap()
        if self.identity is None:
            return False
        leader = procfs.identify(self.identity.pid)
        if leader is not None:
            return leader == self.identity
        return self.identity.boot == procfs.boot() and any(procfs.group(self.identity.pid))

    def _reap(self) -> None:
        if self._child is not None:
            self._child.poll()

    def _status(self) -> str:
        code = self._child.returncode if self._child else None
        if code is None:
            return "with unknown status"
        return f"with status {code}" if code >= 0 else f"by {signal.Signals(-code).name}"

    def _error(self, what: str) -> ProcessError:
        return ProcessError(f"{self.name} {what}; end of {self.program.log}:\n{self.tail()}")


def stop_all(processes: Sequence[Process]) -> None:
    """End several at the same time, each with its own stop limit counted from now."""
    started = time.monotonic()
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait_gone(started + process.program.stop_limit - time.monotonic())
        process.kill()


def attend(child: "subprocess.Popen[bytes]", report: Callable[[float], None], every: float) -> int:
    """Wait for a child that ends by itself, for its status; `report` is told the seconds now and then.

    An interruption ends the child too.
    """
    started = said = time.monotonic()
    try:
        while child.poll() is None:
            time.sleep(POLL_SECONDS)
            if (now := time.monotonic()) - said >= every:
                said = now
                report(now - started)
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    return child.returncode


def tail(log: Path, lines: int) -> str:
    """Last lines of a log, at most 64 KiB of it; empty without the file."""
    with suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 65_536))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    return ""
