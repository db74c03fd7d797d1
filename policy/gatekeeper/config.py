"""The settings file, shared by both processes: one YAML document, read strictly.

A key that nobody knows is an error that names it: a setting that silently does nothing is worse than none.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from certs.config import Mode
from policy import names
from policy.gatekeeper import rehearsal
from policy.gatekeeper.errors import ConfigError
from policy.gatekeeper.lift import CONCURRENCY
from policy.rules.membership import families
from policy.rules.membership.custom import OwnerKind
from policy.rules.model import Config
from policy.rules.quantity import parse
from policy.rules.settings import AutoscaledPool


class Settings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Everything that the file may hold; units in the names."""

    scheduler_profiles: tuple[str, ...] = (names.DEFAULT_SCHEDULER, names.BINPACK_SCHEDULER)
    binpack_scheduler_name: str = ""
    live_schedulers: tuple[str, ...] = ()
    kueue: bool = False
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    placement: bool = True
    pin: bool = True
    own_pod_groups: bool = True
    queue_status: bool = True
    certificates: Mode = Mode.ISSUED  # or mounted: somebody else makes the Secret, such as cert-manager
    bind_timeout_seconds: float = 120.0
    preempted_give_back: bool = False  # what the scheduler's preemption leaves of a group, so that it does not idle
    dry_run: rehearsal.Mode = "auto"
    lift_concurrency: int = CONCURRENCY
    max_waiting_groups_per_namespace: int = 1000
    reservations: bool = True
    drain_after_seconds: float = 0.0
    ageing_points_per_hour: int = 0
    usage_half_life_seconds: float = 0.0
    autoscaled_pools: tuple[AutoscaledPool, ...] = ()
    owner_kinds: tuple[OwnerKind, ...] = ()  # whose pods start together, beside those of the table
    quota_patience_seconds: float = 360.0  # that a quota's status may differ from its pods: a resync, and a minute

    def deciding(self) -> Config:
        """The part that decisions depend on."""
        return Config(
            placement=self.placement,
            pin=self.pin,
            bind_timeout_seconds=self.bind_timeout_seconds,
            preempted_give_back=self.preempted_give_back,
            max_waiting_groups_per_namespace=self.max_waiting_groups_per_namespace,
            reservations=self.reservations,
            drain_after_seconds=self.drain_after_seconds,
            ageing_points_per_hour=self.ageing_points_per_hour,
            usage_half_life_seconds=self.usage_half_life_seconds,
            autoscaled_pools=self.autoscaled_pools,
        )


def load(path: str | None) -> Settings:
    """Read the file; no path means all defaults. Raises ConfigError naming the file, the key and the value."""
    if path is None:
        return Settings()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"settings file {path}: {error}") from error
    return parsed(text, f"settings file {path}")


def parsed(text: str, where: str) -> Settings:
    """Read a document, found at `where`. Raises ConfigError naming that, the key and the value."""
    try:
        document: Any = yaml.safe_load(text)
        settings = msgspec.convert(document or {}, Settings)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigError(f"{where}: {error}") from error
    return _checked(settings, where)


def _checked(settings: Settings, where: str) -> Settings:
    for name, value, least in (
        ("liftConcurrency", settings.lift_concurrency, 1),
        ("bindTimeoutSeconds", settings.bind_timeout_seconds, 1),
        ("quotaPatienceSeconds", settings.quota_patience_seconds, 1),
        ("maxWaitingGroupsPerNamespace", settings.max_waiting_groups_per_namespace, 1),
        ("drainAfterSeconds", settings.drain_after_seconds, 0),
        ("ageingPointsPerHour", settings.ageing_points_per_hour, 0),
        ("usageHalfLifeSeconds", settings.usage_half_life_seconds, 0),
    ):
        if value < least:
            raise ConfigError(f"{where}: {name} is {value}: it must be {least} or more")
    _check_pools(settings.autoscaled_pools, where)
    try:
        families.kinds(settings.owner_kinds)
    except ValueError as error:
        raise ConfigError(f"{where}: ownerKinds: {error}") from None
    return settings


def _check_pools(pools: tuple[AutoscaledPool, ...], where: str) -> None:
    seen: set[str] = set()
    for pool in pools:
        at = f"{where}: autoscaledPools: {pool.name!r}"
        if not pool.name or pool.name in seen:
            raise ConfigError(f"{at}: every pool needs a name of its own")
        seen.add(pool.name)
        if pool.scale_up_seconds < 1:
            raise ConfigError(f"{at}: scaleUpSeconds is {pool.scale_up_seconds}: it must be 1 or more")
        for resource, amount in pool.allocatable.items():
            try:
                parse(amount)
            except ValueError as error:
                raise ConfigError(f"{at}: allocatable {resource}: {error}") from None
