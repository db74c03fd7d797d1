"""What operators run beside themselves: found on this machine or fetched into the cache, told by their folders."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from deploy.local import java, packages
from deploy.local.operators import JAVA, SPARK
from deploy.local.toolchain import Say


def ensure(cache: Path, names: Iterable[str], say: Say) -> Mapping[str, Path]:
    """Folders of the tools of these names, fetched where missing."""
    return {name: _FOUND_BY[name](cache, say) for name in sorted(names)}


def _spark(cache: Path, say: Say) -> Path:
    return packages.ensure(cache, packages.catalogue()[SPARK], say)


_FOUND_BY: Final[Mapping[str, Callable[[Path, Say], Path]]] = {JAVA: java.find, SPARK: _spark}
