"""Builds the programs of a control plane once per user, version and toolchain, into the cache.

Each program is built under a lock to a draft name and then renamed: an interrupted build leaves nothing half
done, and the next `up` goes on with the first program that is missing (Go's own cache keeps what was compiled).
"""

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local import modules, toolchain
from deploy.local.errors import LocalError
from deploy.local.locking import locked
from deploy.local.modules import Module
from deploy.local.paths import private
from deploy.local.process import tail
from deploy.local.toolchain import Go, Say

REPORT_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.1
TAIL_LINES: Final = 30
COLD: Final = "a cold build of all programs takes 6-9 minutes on two cores, once per user and version"


@dataclass(frozen=True, slots=True)
class Target:
    """One program to build, and where it will lie."""

    name: str
    package: str
    module: Module
    binary: Path

    @property
    def log(self) -> Path:
        return self.binary.with_name("build.log")


def ensure(cache: Path, kubernetes_version: str | None, say: Say) -> Mapping[str, Path]:
    """Paths of all programs by name, built where missing. Raises LocalError with the build log's tail."""
    go = toolchain.find_go(private(cache), say)
    wanted = targets(cache, modules.catalogue(kubernetes_version), go)
    missing = [target for target in wanted if not target.binary.exists()]
    if missing:
        say(f"building {len(missing)} of {len(wanted)} programs with {go.version}; {COLD}")
    for number, target in enumerate(missing, 1):
        build(cache, target, go, _numbered(say, f"[{number}/{len(missing)}]"))
    return {target.name: target.binary for target in wanted}


def targets(cache: Path, catalogue: tuple[Module, ...], go: Go) -> list[Target]:
    """What has to be built, in order; equal inputs lie at equal paths, anything else elsewhere."""
    return [
        Target(name, package, module, cache / "programs" / key(module, name, go) / name)
        for module in catalogue
        for name, package in module.programs.items()
    ]


def key(module: Module, program: str, go: Go) -> str:
    """Folder of a program in the cache: readable in front, exact behind."""
    exact = json.dumps([module.module, module.version, program, go.version, go.target, modules.build_flags(module)])
    return f"{program}-{module.version}-{hashlib.sha256(exact.encode()).hexdigest()[:12]}"


def build(cache: Path, target: Target, go: Go, say: Say) -> None:
    """Build one program, unless somebody else has done so while we waited for the lock."""
    lock = private(cache / "locks") / f"{target.binary.parent.name}.lock"
    with locked(lock, waiting=lambda: say(f"{target.name}: another process is building it; waiting")):
        if not target.binary.exists():
            for draft in private(target.binary.parent).glob(f".{target.name}.*"):
                draft.unlink()  # of a build that was killed
            _compile(target, go, _prepare(cache, target.module, go, say), say)


def _prepare(cache: Path, module: Module, go: Go, say: Say) -> Path:
    """Folder with the go.mod for `module`. Several programs share it, so a lock covers its making."""
    folder = private(cache / "modules" / f"{module.name}-{module.version}-{go.version}")
    with locked(private(cache / "locks") / f"{folder.name}.lock"):
        if not (folder / "go.mod").exists():
            say(f"downloading {module.module} {module.version}")
            draft = folder / ".go.mod"
            draft.write_text(modules.render(module, _published(module, go, folder)))
            draft.replace(folder / "go.mod")
    return folder


def _published(module: Module, go: Go, folder: Path) -> str:
    """The go.mod with which the module was published."""
    answer = subprocess.run(
        [go.command, "mod", "download", "-json", f"{module.module}@{module.version}"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        check=False,
        text=True,
    )
    if answer.returncode != 0:
        raise LocalError(f"cannot download {module.module} {module.version}:\n{answer.stdout}{answer.stderr}")
    return Path(json.loads(answer.stdout)["GoMod"]).read_text()


def _compile(target: Target, go: Go, folder: Path, say: Say) -> None:
    draft = target.binary.with_name(f".{target.name}.{os.getpid()}")
    command = [str(go.command), "build", "-v", *modules.build_flags(target.module), "-o", str(draft), target.package]
    say(f"building {target.name} {target.module.version}")
    try:
        with locked(folder / ".lock"), target.log.open("wb") as log:  # go build rewrites go.mod and go.sum
            child = subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)
            code = _wait(child, lambda seconds: say(_progress(target, seconds)))
        if code != 0:
            end = tail(target.log, TAIL_LINES)
            raise LocalError(f"{target.name}: go build failed; end of {target.log}:\n{end}")
        draft.replace(target.binary)
    finally:
        draft.unlink(missing_ok=True)


def _wait(child: "subprocess.Popen[bytes]", report: Callable[[float], None]) -> int:
    """Wait for a build, reporting now and then; an interruption ends the build too."""
    started = said = time.monotonic()
    try:
        while child.poll() is None:
            time.sleep(POLL_SECONDS)
            if (now := time.monotonic()) - said >= REPORT_SECONDS:
                said = now
                report(now - started)
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    return child.returncode


def _numbered(say: Say, prefix: str) -> Say:
    return lambda text: say(f"{prefix} {text}")


def _progress(target: Target, seconds: float) -> str:
    """`go build -v` prints one line for each package that it compiles."""
    packages = target.log.read_bytes().count(b"\n")
    return f"building {target.name} {target.module.version}: {seconds:.0f} s, {packages} packages compiled"


def environment() -> dict[str, str]:
    """Go's environment: the user's own, but for what would change the result."""
    fixed = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "GOWORK": "off", "GO111MODULE": "on"}
    return {**os.environ, **fixed}
