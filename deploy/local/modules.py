"""Which programs make a control plane, and the go.mod and link flags that build each of them.

Pure but for reading `programs.toml`. Runs nothing.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from deploy.local.errors import UsageError

CATALOGUE: Final = Path(__file__).with_name("programs.toml")
KUBERNETES_VERSION: Final = re.compile(r"v1\.(?P<minor>\d{1,3})\.(?P<patch>\d{1,3})")
_REPLACED: Final = re.compile(r"^\s*(?:replace\s+)?(?P<path>\S+)\s+=>\s+\./", re.MULTILINE)
_GO: Final = re.compile(r"^go\s+(?P<version>\S+)$", re.MULTILINE)
_GODEBUG: Final = re.compile(r"^godebug\s+default=(?P<default>\S+)$", re.MULTILINE)
BUILD_DATE: Final = "2026-01-01T00:00:00Z"  # fixed, so that equal inputs give equal programs


@dataclass(frozen=True, slots=True)
class Module:
    """One Go module at one version; `programs` maps each program's name to its main package."""

    name: str
    module: str
    version: str
    programs: Mapping[str, str] = field(hash=False)
    staging: bool = False
    stamp: str | None = None


def catalogue(kubernetes_version: str | None = None) -> tuple[Module, ...]:
    """The modules of `programs.toml`, Kubernetes at `kubernetes_version` (v1.<minor>.<patch>) if given."""
    tables = tomllib.loads(CATALOGUE.read_text())
    modules = [Module(name=name, **table) for name, table in tables.items()]
    if kubernetes_version is None:
        return tuple(modules)
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


def render(module: Module, published: str) -> str:
    """The go.mod that builds `module`; `published` is the go.mod that the module itself was published with.

    The language version and the godebug default are the module's own, as in its official builds.
    """
    lines = [f"module local/{module.name}", "", f"go {_go_version(published)}", ""]
    if default := _GODEBUG.search(published):
        lines += [f"godebug default={default['default']}", ""]
    lines += [f"tool {package}" for package in module.programs.values()]
    lines += ["", f"require {module.module} {module.version}", ""]
    if module.staging:
        version = staging_version(module.version)
        lines += [f"replace {path} => {path} {version}" for path in replaced(published)]
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


def _go_version(published: str) -> str:
    """At least 1.24, the first that knows `tool` lines."""
    found = _GO.search(published)
    version = found["version"] if found else "1.24.0"
    return max(version, "1.24.0", key=lambda each: tuple(int(part) for part in each.split(".")))
