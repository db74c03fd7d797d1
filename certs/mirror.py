"""Writes the serving Secret into a directory as a kubelet does, for places where no kubelet mounts it.

A new generation is a new directory; the link `..data` is swapped to it in one rename, so that a reader who resolves
the link once never sees a certificate of one generation beside a key of another. Takes any Secret, ours or not.
"""

import base64
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from certs.api import Api, ApiError
from certs.outcome import Outcome
from certs.rotate import Clock
from certs.store import CA_CERT, TLS_CERT, TLS_KEY
from policy import names

DATA: Final = "..data"
LOOK_EVERY: Final = 1.0  # seconds; of a local cluster only, where a rotation should not take a minute
_FILES: Final = (TLS_CERT, TLS_KEY, CA_CERT)


@dataclass(frozen=True, slots=True)
class Mirror:
    """One Secret into one directory; `step` brings it up to date."""

    api: Api
    namespace: str
    directory: Path
    clock: Clock
    secret: str = names.CERT_SECRET

    def step(self) -> Outcome:
        """Write what has changed. An absent Secret is waited for; errors of API and disk are in the outcome."""
        try:
            files = self._read()
            if not files or files == current(self.directory):
                return Outcome(LOOK_EVERY)
            swap(self.directory, files, f"{self.clock.now():%Y_%m_%d_%H_%M_%S.%f}")
        except (ApiError, OSError, msgspec.MsgspecError) as error:
            return Outcome(LOOK_EVERY, error=str(error))
        return Outcome(LOOK_EVERY, did=f"wrote {', '.join(files)} to {self.directory}")

    def _read(self) -> dict[str, bytes]:
        path = f"/api/v1/namespaces/{self.namespace}/secrets/{self.secret}"
        try:
            found: dict[str, Any] = msgspec.json.decode(self.api.request("GET", path))
        except ApiError as error:
            if error.absent:
                return {}
            raise
        data = found.get("data") or {}
        return {name: base64.b64decode(data[name]) for name in _FILES if name in data}


def current(directory: Path) -> dict[str, bytes]:
    """The files of the generation that is mounted now; none if there is none yet."""
    found = (directory / DATA).resolve()
    return {name: (found / name).read_bytes() for name in _FILES if (found / name).is_file()}


def swap(directory: Path, files: Mapping[str, bytes], generation: str) -> None:
    """Make `files` the content of `directory`, all at once; earlier generations are removed. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = directory / f"..{generation}"
    fresh.mkdir(mode=0o700)
    for name, content in files.items():
        _write_private(fresh / name, content)
    _link(directory / DATA, fresh.name)
    for name in files:
        _link(directory / name, f"{DATA}/{name}")
    for old in directory.glob("..[0-9]*"):
        if old != fresh:
            shutil.rmtree(old)


def _write_private(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _link(path: Path, target: str) -> None:
    """Point `path` at `target`; a rename is the only way to do that without a moment when nothing is there."""
    if path.is_symlink() and path.readlink() == Path(target):
        return
    beside = path.with_name(f"..tmp-{path.name}")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    beside.replace(path)
