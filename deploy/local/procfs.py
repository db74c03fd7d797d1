"""Processes as the kernel shows them in /proc: who they are, whether they live, what they weigh.

Knows nothing of clusters. A pid alone names nobody, because pids are used again: pid, start time and boot do.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

PROC: Final = Path("/proc")
_DEAD: Final = frozenset("ZX")


class Identity(msgspec.Struct, frozen=True):
    """One process for ever: `started` is in clock ticks since the boot that `boot` names."""

    pid: int
    started: int
    boot: str


def identify(pid: int) -> Identity | None:
    """Identity of the process that has `pid` now; None if there is none or it is over."""
    fields = _stat(pid)
    if fields is None or _over(fields):
        return None
    return Identity(pid, int(fields[19]), boot())


def alive(identity: Identity) -> bool:
    """Tell whether this very process still runs."""
    return identify(identity.pid) == identity


def boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def resident_bytes(pid: int) -> int:
    """Resident memory of `pid` and of the processes in its group, shared pages counted in each."""
    return sum(_resident(member) for member in group(pid))


def group(pgid: int) -> Iterator[int]:
    """Living members of the process group `pgid`."""
    for pid in _pids():
        fields = _stat(pid)
        if fields is not None and not _over(fields) and int(fields[2]) == pgid:
            yield pid


def marked(variable: str, value: str) -> Iterator[int]:
    """Living processes of this user that were started with `variable=value` in their environment."""
    wanted = f"{variable}={value}".encode()
    for pid in _pids():
        with suppress(OSError):
            if wanted in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                yield pid


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal())


def _over(fields: list[str]) -> bool:
    """Tell whether nothing of it runs any more: it is a zombie, and no thread of it is left.

    The first thread of a killed process may be a zombie while others are still on their way out, and until the last
    has gone its sockets are open and its ports taken (proc_pid_stat(5): field 3 state, field 20 num_threads).
    """
    return fields[0] in _DEAD and int(fields[17]) <= 1


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat from the third (state) on: the second may hold blanks and brackets."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _resident(pid: int) -> int:
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0
