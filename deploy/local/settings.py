"""What one asks of a cluster, checked before anything is started. Pure."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.errors import UsageError

DEFAULT_NAME: Final = "ganggate"
MAX_NODES: Final = 5_000
MAX_GPUS: Final = 64
_GATES: Final = re.compile(r"[A-Za-z0-9:]+=(true|false)(,[A-Za-z0-9:]+=(true|false))*")
_RUNTIME: Final = re.compile(r"[a-z0-9./]+=(true|false)(,[a-z0-9./]+=(true|false))*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """A cluster to bring up. A `tied` one may be cleaned away by anybody once its starter is dead."""

    name: str = DEFAULT_NAME
    nodes: int = 8
    gpus: int = 8
    kubernetes_version: str | None = None
    feature_gates: str = ""
    runtime_config: str = ""
    addon: bool = True
    addon_config: Path | None = None
    tied: bool = False

    def check(self) -> None:
        """Raise UsageError, naming field and value, for what no program could use."""
        within("nodes", self.nodes, 0, MAX_NODES)
        within("gpus", self.gpus, 0, MAX_GPUS)
        _matches("feature-gates", self.feature_gates, _GATES, "Name=true,Other=false")
        _matches("runtime-config", self.runtime_config, _RUNTIME, "group/version=true,api/all=false")
        if self.addon_config is not None and not self.addon_config.is_file():
            raise UsageError(f"addon-config: {self.addon_config} is no file")


def within(field: str, value: int, least: int, most: int) -> None:
    """Raise UsageError unless `least` <= value <= `most`."""
    if not least <= value <= most:
        raise UsageError(f"{field}: {value} is not within {least}..{most}")


def _matches(field: str, value: str, form: re.Pattern[str], example: str) -> None:
    if value and not form.fullmatch(value):
        raise UsageError(f"{field}: {value!r} is not of the form {example}")
