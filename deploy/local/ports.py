"""Loopback ports that no other cluster of this user takes, even one that starts at the same moment.

A port is a file, made exclusively, that holds its cluster's folder; it is stale when that folder is gone.
The range lies below the kernel's ephemeral ports, so no outgoing connection takes one in between.
"""

import os
import random
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from deploy.local.errors import LocalError

LOOPBACK: Final = "127.0.0.1"
RANGE: Final = range(20_000, 30_000)


def reserve(
    folder: Path, owner: Path, names: Sequence[str], *, candidates: Iterable[int] | None = None
) -> dict[str, int]:
    """Reserve one free port for each of `names` until `release`, on behalf of the cluster folder `owner`.

    Raises LocalError when the candidates (default: the whole range, shuffled) run out.
    """
    pool = iter(candidates if candidates is not None else random.sample(RANGE, len(RANGE)))
    return {name: _next(folder, owner, pool, name) for name in names}


def release(folder: Path, owner: Path) -> None:
    """Give back every port of `owner`."""
    for entry in folder.iterdir():
        if _owner(entry) == str(owner):
            entry.unlink(missing_ok=True)


def free(port: int) -> bool:
    """Tell whether the port can be bound on loopback now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _next(folder: Path, owner: Path, pool: Iterator[int], name: str) -> int:
    for port in pool:
        if free(port) and _claim(folder / str(port), owner):
            return port
    raise LocalError(f"port of {name}: none of the candidates is free on {LOOPBACK}")


def _claim(entry: Path, owner: Path) -> bool:
    """Link the finished file into place: no reader ever sees a claim without its owner."""
    if _stale(entry):
        entry.unlink(missing_ok=True)
    draft = entry.with_name(f".{entry.name}.{os.getpid()}.{threading.get_ident()}")
    draft.write_text(str(owner))
    try:
        entry.hardlink_to(draft)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _stale(entry: Path) -> bool:
    owner = _owner(entry)
    return owner is not None and not Path(owner).is_dir()


def _owner(entry: Path) -> str | None:
    with suppress(FileNotFoundError):
        return entry.read_text()
    return None
