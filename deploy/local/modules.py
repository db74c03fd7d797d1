"""Which programs make a control plane and which operators may join it, and the go.mod and link flags of each.

Pure but for reading `programs.toml` and `operators.toml`. Runs nothing.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from deploy.local.errors import UsageError

CATALOGUE: Final = Path(__file__).with_name("programs.toml")
OPERATORS: Final = Path(__file__).with_name("operators.toml")
KUBERNETES_VERSION: Final = re.compile(r"v1\.(?P<minor>\d{1,3})\.(?P<patch>\d{1,3})")
_REPLACED: Final = re.compile(r"^\s*(?:replace\s+)?(?P<path>\S+)\s+=>\s+\./", re.MULTILINE)
_PINNED: Final = re.compile(r"^\s*(?:replace\s+)?(?P<line>\S+(?: v\S+)?\s+=>\s+[^\s./]\S*\s+v\S+)", re.MULTILINE)
_GO: Final = re.compile(r"^go\s+(?P<version>\S+)$", re.MULTILINE)
_GODEBUG: Final = re.compile(r"^godebug\s+default=(?P<default>\S+)$", re.MULTILINE)
BUILD_DATE: Final = "2026-01-01T00:00:00Z"  # fixed, so that equal inputs give equal programs


@dataclass(frozen=True, slots=True)
class Module:
    """What one go.mod builds; `programs` maps each program's name to its main package.

    Its own module comes first; `beside` holds further modules, path to version, that are built with one choice of
    libraries. `staging`, `replacing` and `stamp` are explained in the tables.
    """

    name: str
    module: str
    version: str
    programs: Mapping[str, str] = field(hash=False)
    beside: Mapping[str, str] = field(default_factory=dict, hash=False)
    staging: bool = False
    replacing: bool = False
    stamp: str | None = None

    @property
    def pins(self) -> Mapping[str, str]:
        """Every module that is asked for by version, its own first."""
        return {self.module: self.version, **self.beside}

    def origin(self, program: str) -> tuple[str, str]:
        """Path and version of the module that a program comes from."""
        package = self.programs[program]
        path = max((each for each in self.pins if f"{package}/".startswith(f"{each}/")), key=len)
        return path, self.pins[path]


def operators() -> tuple[Module, ...]:
    """The modules of `operators.toml`."""
    return _read(OPERATORS)


def operator_versions() -> Mapping[str, str]:
    """Every operator that can be built, with the version of its own module."""
    return {name: module.origin(name)[1] for module in operators() for name in module.programs}


def catalogue(kubernetes_version: str | None = None) -> tuple[Module, ...]:
    """The modules of `programs.toml`, Kubernetes at `kubernetes_version` (v1.<minor>.<patch>) if given."""
    modules = _read(CATALOGUE)
    if kubernetes_version is None:
        return modules
    if not KUBERNETES_VERSION.fullmatch(kubernetes_version):
        raise UsageError(f"kubernetes-version: {kubernetes_version!r} is not of the form v1.37.2")
    return tuple(replace(each, version=kubernetes_version) if each.staging else each for each in modules)


def default_kubernetes_version() -> str:
    return next(module.version for module in catalogue() if module.staging)


def staging_version(version: str) -> str:
    """Version under which Kubernetes' libraries are published: v1.37.2 -> v0.37.2."""
    return re.sub(r"^v1\.", "v0.", version)


def replaced(go_mod: str) -> tuple[str, ...]:
    """Modules that a go.mod replaces by folders of its own."""
    return tuple(dict.fromkeys(match["path"] for match in _REPLACED.finditer(go_mod)))


def pinned(go_mod: str) -> tuple[str, ...]:
    """What a go.mod replaces by published versions, as the lines say it: `path => path v1.2.3`."""
    return tuple(dict.fromkeys(" ".join(match["line"].split()) for match in _PINNED.finditer(go_mod)))


def render(module: Module, published: str, *beside: str) -> str:
    """The go.mod that builds `module`; `published` is the go.mod that the module itself was published with.

    The godebug default and the language version are the module's own, as in its official builds; the latter is raised
    where a module `beside` it, of which the published go.mod is given too, needs more.
    """
    lines = [f"module local/{module.name}", "", f"go {_go_version(published, *beside)}", ""]
    if default := _GODEBUG.search(published):
        lines += [f"godebug default={default['default']}", ""]
    lines += [f"tool {package}" for package in module.programs.values()]
    lines += ["", *(f"require {path} {version}" for path, version in module.pins.items()), ""]
    lines += [f"replace {each}" for each in _replacements(module, published)]
    return "\n".join(lines).rstrip() + "\n"


def build_flags(module: Module) -> Sequence[str]:
    """Flags of `go build`: no paths of this machine, no symbols, the version stamped."""
    return ("-trimpath", "-ldflags", " ".join(("-s", "-w", *_stamps(module))))


def _stamps(module: Module) -> list[str]:
    if module.stamp is None:
        return []
    major, minor, _ = module.version.removeprefix("v").split(".", 2)
    values = {
        "gitVersion": module.version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "unknown",
        "gitTreeState": "clean",
        "buildDate": BUILD_DATE,
    }
    return [f"-X {module.stamp}.{name}={value}" for name, value in values.items()]


def _read(tables: Path) -> tuple[Module, ...]:
    return tuple(Module(name=name, **table) for name, table in tomllib.loads(tables.read_text()).items())


def _replacements(module: Module, published: str) -> list[str]:
    """Replacements are not inherited from a module that is required: what it was built with is said again."""
    version = staging_version(module.version)
    folders = [f"{path} => {path} {version}" for path in replaced(published)] if module.staging else []
    return [*folders, *(pinned(published) if module.replacing else ())]


def _go_version(*published: str) -> str:
    """The highest of them, at least 1.24, the first that knows `tool` lines."""
    found = [match["version"] for each in published if (match := _GO.search(each))]
    return max([*found, "1.24.0"], key=lambda each: tuple(int(part) for part in each.split(".")))
