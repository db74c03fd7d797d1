"""One lock per file, held by a process, given back by the kernel even when that process is killed."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class BusyError(Exception):
    """Somebody else holds the lock."""


@contextmanager
def locked(path: Path, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock `path`; `waiting` is called once if somebody else holds it first."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def busy() -> None:
    """As `waiting`: do not wait. Raises BusyError."""
    raise BusyError
