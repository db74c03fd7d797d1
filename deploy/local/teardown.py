"""Takes a cluster down, whole, whatever state it is in: also one whose starter was killed half-way.

Ends what the state file names, then whatever else bears the cluster's mark, then gives back ports and folder.
"""

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from deploy.local import addon, ports, procfs
from deploy.local.errors import LocalError, NotFoundError
from deploy.local.locking import BusyError, busy, locked
from deploy.local.paths import Home, Layout
from deploy.local.process import POLL_SECONDS, Process, stop_all
from deploy.local.roster import MARKER, Roster

GRACE_SECONDS: Final = 5.0


def down(home: Home, name: str, roster: Roster | None = None) -> None:
    """Take the cluster `name` down. Raises NotFoundError if there is none.

    Its starter hands over its own `roster`, so that its children do not stay behind as zombies.
    """
    layout = home.cluster(name)
    with locked(home.lock(name)):
        if not layout.root.is_dir():
            raise NotFoundError(f"name: no cluster {name!r} in {home.clusters}")
        clear(home, layout, roster)


def reap(home: Home) -> list[str]:
    """Take down every cluster that nobody would: its `up` was killed, or its tied starter is dead."""
    return [name for name in listed(home) if _reap(home, name)]


def listed(home: Home) -> list[str]:
    """Names of the clusters there are."""
    return sorted(each.name for each in home.clusters.iterdir()) if home.clusters.is_dir() else []


def clear(home: Home, layout: Layout, roster: Roster | None = None) -> None:
    """End all processes of the folder and remove it. The caller holds the cluster's lock."""
    with suppress(LocalError):  # no state file, or none that can be read: the mark is enough
        _stop((roster or Roster.load(layout)).processes)
    _sweep(layout)
    ports.release(home.ports, layout.root)
    shutil.rmtree(layout.root)


def keep_logs(home: Home, layout: Layout) -> Path:
    """Keep the logs of a failed `up` where `clear` does not remove them: <state>/failed/<name>."""
    kept = home.state / "failed" / layout.root.name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(layout.logs, kept)
    return kept


def _reap(home: Home, name: str) -> bool:
    """Whoever holds the lock is alive and at work on the cluster: it is left alone."""
    layout = home.cluster(name)
    with suppress(LocalError, BusyError), locked(home.lock(name), waiting=busy):
        if Roster.load(layout).state.abandoned():
            clear(home, layout)
            return True
    return False


def _stop(processes: dict[str, Process]) -> None:
    """The add-on first, so that it hands back its lease while there is an API server to take it."""
    ours = [each for name, each in processes.items() if name.startswith(addon.PROGRAMS)]
    stop_all(ours)
    rest = [each for each in reversed(processes.values()) if each not in ours]
    for process in rest:
        process.kill()  # their data goes with the folder: nothing to flush, nobody to tell


def _sweep(layout: Layout) -> None:
    """Kill what was started in the moment before its starter died, and so is on no record."""
    deadline = time.monotonic() + GRACE_SECONDS
    while left := list(procfs.marked(MARKER, str(layout.root))):
        if time.monotonic() > deadline:
            raise LocalError(f"name: {layout.root.name}: processes {left} cannot be killed")
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
