"""The webhook's part of the configuration file that it shares with the gatekeeper.

Keys are camelCase; a key that is not ours belongs to the gatekeeper and is passed over. May know names; reads one file
at start and nothing afterwards.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from policy import names
from policy.rules.membership import families
from policy.rules.membership.custom import OwnerKind
from policy.rules.membership.families import Kinds


class ConfigError(ValueError):
    """The file cannot be used; the message names the file, the key and the value."""


class Config(msgspec.Struct, frozen=True, rename="camel"):
    """What an operator decides. Each default is what deploy/kustomize/base/config.yaml shows."""

    scheduler_profiles: tuple[str, ...] = (names.DEFAULT_SCHEDULER, names.BINPACK_SCHEDULER)
    binpack_scheduler_name: str = ""  # "": a preferred pod affinity instead
    kueue: bool = False
    live_schedulers: tuple[str, ...] = ()
    owner_kinds: tuple[OwnerKind, ...] = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def __post_init__(self) -> None:
        if not self.scheduler_profiles or "" in self.scheduler_profiles:
            raise ConfigError(f"schedulerProfiles: {list(self.scheduler_profiles)}: needs names, at least one")
        if self.binpack_scheduler_name and self.binpack_scheduler_name not in self.scheduler_profiles:
            raise ConfigError(
                f"binpackSchedulerName: {self.binpack_scheduler_name!r} is none of schedulerProfiles: "
                f"{list(self.scheduler_profiles)}"
            )
        for name in self.live_schedulers:
            if name in self.scheduler_profiles:
                raise ConfigError(f"liveSchedulers: {name!r} stands in schedulerProfiles too: it cannot be both")

        self.kinds  # noqa: B018 -- one that cannot be used is found at start

    @property
    def kinds(self) -> Kinds:
        """Owners whose pods start together."""
        try:
            return families.kinds(self.owner_kinds)
        except ValueError as error:
            raise ConfigError(f"ownerKinds: {error}") from None

    @property
    def default_scheduler(self) -> str:
        """The profile that pods of a scheduler which does not run here are given."""
        default = names.DEFAULT_SCHEDULER
        return default if default in self.scheduler_profiles else self.scheduler_profiles[0]


def load(path: Path | None) -> Config:
    """Read the file at `path`, or the defaults without one. Raises ConfigError."""
    if path is None:
        return Config()
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from None


def parse(text: str) -> Config:
    """Decode YAML. Raises ConfigError when it is no mapping or one of our keys has a wrong value."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"no YAML: {' '.join(str(error).split())}") from None
    if document is None:
        return Config()
    if not isinstance(document, dict):
        raise ConfigError(f"expected a mapping of keys, got {type(document).__name__}")
    fields = msgspec.structs.fields(Config)
    return Config(**{f.name: _value(f, document[f.encode_name]) for f in fields if f.encode_name in document})


def _value(field: msgspec.structs.FieldInfo, value: object) -> Any:
    try:
        return msgspec.convert(value, field.type)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{field.encode_name}: {value!r}: {error}") from None
