"""What an operator of the cluster may choose, as far as decisions depend on it. May know objects."""

import msgspec

from policy.rules.objects import Taint


class AutoscaledPool(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Nodes that an autoscaler makes: what is true of each new one."""

    name: str  # for people
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, str | int | float] = {}  # quantities; an extended resource that is not there is none
    scale_up_seconds: float = 900.0  # that one may take to come


class Config(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Settings of the deciding half; units in the names."""

    give_back_after_seconds: float = 2.0  # of standstill: pods of one Job come in waves

    placement: bool = True
    pin: bool = True
    bind_timeout_seconds: float = 120.0
    preempted_give_back: bool = False
    max_waiting_groups_per_namespace: int = 1000
    reservations: bool = True  # for the first group that does not fit, where ends are known
    drain_after_seconds: float = 0.0  # of waiting, before it holds nodes whatever runs there; 0: never
    ageing_points_per_hour: int = 0  # of priority, that a group gains in the order by waiting; 0: none
    usage_half_life_seconds: float = 0.0  # of what queues used, for their shares; 0: what they use now counts
    autoscaled_pools: tuple[AutoscaledPool, ...] = ()
