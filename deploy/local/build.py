"""Builds programs, a control plane's or operators, once per user, version and toolchain, into the cache.

Each program is built under a lock to a draft name and then renamed: an interrupted build leaves nothing half
done, and the next `up` goes on with the first program that is missing (Go's own cache keeps what was compiled).
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deploy.local import modules, toolchain
from deploy.local.errors import LocalError, UsageError
from deploy.local.locking import locked
from deploy.local.modules import Module
from deploy.local.paths import private
from deploy.local.process import attend, tail
from deploy.local.toolchain import Go, Say

REPORT_SECONDS: Final = 15.0
TAIL_LINES: Final = 30
COLD: Final = "a cold build of all programs takes 6-9 minutes on two cores, once per user and version"
COLD_OPERATORS: Final = "a cold build takes one to three minutes each on two cores, once per user and version"


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

    @property
    def version(self) -> str:
        return self.module.origin(self.name)[1]


@dataclass(frozen=True, slots=True)
class Built:
    """A program, and the folder of the module that it was built from: its manifests lie there too."""

    binary: Path
    sources: Path


def ensure(cache: Path, kubernetes_version: str | None, say: Say) -> Mapping[str, Path]:
    """Paths of all programs by name, built where missing. Raises LocalError with the build log's tail."""
    go = toolchain.find_go(private(cache), say)
    wanted = targets(cache, modules.catalogue(kubernetes_version), go)
    _build_missing(cache, wanted, go, say, COLD)
    return {target.name: target.binary for target in wanted}


def ensure_operators(cache: Path, names: Iterable[str], say: Say) -> Mapping[str, Built]:
    """The operators `names`, built where missing, with their sources. Raises LocalError as `ensure` does."""
    go = toolchain.find_go(private(cache), say)
    known = {each.name: each for each in targets(cache, modules.operators(), go)}
    wanted = [_named(known, name) for name in names]
    _build_missing(cache, wanted, go, say, COLD_OPERATORS)
    return {each.name: Built(each.binary, sources(cache, each, go, say)) for each in wanted}


def operator_targets(cache: Path) -> list[Target]:
    """All operators there are; whether one is built is asked of its binary. Empty without a Go: nothing is built."""
    go = toolchain.present(cache)
    return targets(cache, modules.operators(), go) if go else []


def targets(cache: Path, catalogue: Sequence[Module], go: Go) -> list[Target]:
    """What has to be built, in order; equal inputs lie at equal paths, anything else elsewhere."""
    return [
        Target(name, package, module, cache / "programs" / key(module, name, go) / name)
        for module in catalogue
        for name, package in module.programs.items()
    ]


def key(module: Module, program: str, go: Go) -> str:
    """Folder of a program in the cache: readable in front, exact behind."""
    exact = [module.module, module.version, program, go.version, go.target, modules.build_flags(module)]
    return f"{program}-{module.origin(program)[1]}-{_digest(exact + _beside(module))}"


def sources(cache: Path, target: Target, go: Go, say: Say) -> Path:
    """Folder of the module that a program comes from, in the version that its go.mod chose; fetched if it is gone."""
    folder = _prepare(cache, target.module, go, say)
    waiting = f"{target.name}: something is being built with the same go.mod; waiting"
    with locked(folder / ".lock", waiting=lambda: say(waiting)):  # go rewrites go.mod and go.sum
        return Path(_download(target.module.origin(target.name)[0], go, folder)["Dir"])


def build(cache: Path, target: Target, go: Go, say: Say) -> None:
    """Build one program, unless somebody else has done so while we waited for the lock."""
    lock = private(cache / "locks") / f"{target.binary.parent.name}.lock"
    with locked(lock, waiting=lambda: say(f"{target.name}: another process is building it; waiting")):
        if not target.binary.exists():
            for draft in private(target.binary.parent).glob(f".{target.name}.*"):
                draft.unlink()  # of a build that was killed
            _compile(target, go, _prepare(cache, target.module, go, say), say)


def _named(known: Mapping[str, Target], name: str) -> Target:
    if name not in known:
        raise UsageError(f"operator: {name!r} is none of {', '.join(known)}")
    return known[name]


def _build_missing(cache: Path, wanted: Sequence[Target], go: Go, say: Say, cold: str) -> None:
    missing = [target for target in wanted if not target.binary.exists()]
    if missing:
        say(f"building {len(missing)} of {len(wanted)} programs with {go.version}; {cold}")
    for number, target in enumerate(missing, 1):
        build(cache, target, go, _numbered(say, f"[{number}/{len(missing)}]"))


def _prepare(cache: Path, module: Module, go: Go, say: Say) -> Path:
    """Folder with the go.mod for `module`. Several programs share it, so a lock covers its making."""
    beside = _beside(module)
    version = f"{module.version}-{_digest(beside)}" if beside else module.version
    folder = private(cache / "modules" / f"{module.name}-{version}-{go.version}")
    with locked(private(cache / "locks") / f"{folder.name}.lock"):
        if not (folder / "go.mod").exists():
            published = [_published(path, pin, go, folder, say) for path, pin in module.pins.items()]
            draft = folder / ".go.mod"
            draft.write_text(modules.render(module, *published))
            draft.replace(folder / "go.mod")
    return folder


def _published(path: str, version: str, go: Go, folder: Path, say: Say) -> str:
    """The go.mod with which a module was published."""
    say(f"downloading {path} {version}")
    return Path(_download(f"{path}@{version}", go, folder)["GoMod"]).read_text()


def _download(module: str, go: Go, folder: Path) -> dict[str, Any]:
    """Fetch a module into Go's cache, and what Go says of it; without @version it is the one `folder` builds with."""
    answer = subprocess.run(
        [go.command, "mod", "download", "-json", module],
        cwd=folder,
        env=environment(),
        capture_output=True,
        check=False,
        text=True,
    )
    if answer.returncode != 0:
        raise LocalError(f"cannot download {module}:\n{answer.stdout}{answer.stderr}")
    said: dict[str, Any] = json.loads(answer.stdout)
    return said


def _beside(module: Module) -> list[object]:
    """What tells this choice of libraries from another: modules in one go.mod raise each other's."""
    return [sorted(module.beside.items())] if module.beside else []


def _digest(exact: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(exact).encode()).hexdigest()[:12]


def _compile(target: Target, go: Go, folder: Path, say: Say) -> None:
    draft = target.binary.with_name(f".{target.name}.{os.getpid()}")
    command = [str(go.command), "build", "-v", *modules.build_flags(target.module), "-o", str(draft), target.package]
    say(f"building {target.name} {target.version}")
    try:
        with locked(folder / ".lock"), target.log.open("wb") as log:  # go build rewrites go.mod and go.sum
            child = subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)
            code = attend(child, lambda seconds: say(_progress(target, seconds)), REPORT_SECONDS)
        if code != 0:
            end = tail(target.log, TAIL_LINES)
            raise LocalError(f"{target.name}: go build failed; end of {target.log}:\n{end}")
        draft.replace(target.binary)
    finally:
        draft.unlink(missing_ok=True)


def _numbered(say: Say, prefix: str) -> Say:
    return lambda text: say(f"{prefix} {text}")


def _progress(target: Target, seconds: float) -> str:
    """`go build -v` prints one line for each package that it compiles."""
    packages = target.log.read_bytes().count(b"\n")
    return f"building {target.name} {target.version}: {seconds:.0f} s, {packages} packages compiled"


def environment() -> dict[str, str]:
    """Go's environment: the user's own, but for what would change the result."""
    fixed = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "GOWORK": "off", "GO111MODULE": "on"}
    return {**os.environ, **fixed}
