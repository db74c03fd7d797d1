"""What the gatekeeper counts and measures: names, labels and buckets, on a registry given from outside.

Knows prometheus_client and nothing of how a figure comes about. Seconds and base units throughout; label values are
names of queues, namespaces, quotas and resources, never of pods or groups, so that series stay few.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, Info, ProcessCollector

_WAIT: Final = (1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
_SHORT: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_PASS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_SIZES: Final = ((1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"))
_LARGEST: Final = "513+"


L = TypeVar("L", bound=tuple[str, ...])


class _Table(Generic[L]):
    """A gauge whose series are given whole each time: those no longer given disappear."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._shown: set[L] = set()

    def show(self, values: Mapping[L, float]) -> None:
        for labels, value in values.items():
            self._gauge.labels(*labels).set(value)
        for labels in self._shown - values.keys():
            self._gauge.remove(*labels)
        self._shown = set(values)


class Metrics:
    """Every `ganggate_*` metric of this process; methods are cheap and may be called from any thread."""

    def __init__(self, registry: CollectorRegistry, version: str) -> None:
        self._groups: _Table[tuple[str, str]] = _Table(
            Gauge("ganggate_groups", "Groups by state and reason.", ["state", "reason"], registry=registry)
        )
        self._queue_measures(registry)
        self._group_measures(registry)
        self._process_measures(registry)
        Info("ganggate_build", "Version of this process.", registry=registry).info({"version": version})

    def _group_measures(self, registry: CollectorRegistry) -> None:
        self._wait = Histogram(
            "ganggate_group_wait_seconds",
            "From the group's creation until minMember of its pods were bound.",
            ["queue", "size"],
            buckets=_WAIT,
            registry=registry,
        )
        self._decision = Histogram(
            "ganggate_complete_to_decision_seconds",
            "From the creation of the pod that completed the group until it was admitted.",
            buckets=_SHORT + _WAIT[5:],
            registry=registry,
        )
        self._lift = Histogram(
            "ganggate_decision_to_last_lift_seconds",
            "From the decision to admit a group until its last gate was lifted.",
            buckets=_SHORT,
            registry=registry,
        )
        self._spread = Histogram(
            "ganggate_lift_spread_seconds",
            "Between the first and the last lifted gate of a group.",
            buckets=_SHORT,
            registry=registry,
        )
        self._bound = Counter("ganggate_groups_bound", "Groups that were bound whole.", ["queue"], registry=registry)
        self._lost = Counter(
            "ganggate_lift_lost_to_outsider",
            "Lifted groups that did not bind because pods that we do not gate took their place.",
            registry=registry,
        )

    def _queue_measures(self, registry: CollectorRegistry) -> None:
        by_queue = ["queue", "resource"]
        self._allocated: _Table[tuple[str, str]] = _Table(
            Gauge("ganggate_queue_allocated", "Charged to the queue, base units.", by_queue, registry=registry)
        )
        self._capability: _Table[tuple[str, str]] = _Table(
            Gauge("ganggate_queue_capability", "The queue's capability, base units.", by_queue, registry=registry)
        )
        self._shortfall: _Table[tuple[str, str, str]] = _Table(
            Gauge(
                "ganggate_quota_shortfall",
                "What the first waiting group lacks in a ResourceQuota, base units.",
                ["namespace", "quota", "resource"],
                registry=registry,
            )
        )

    def _process_measures(self, registry: CollectorRegistry) -> None:
        self._pulls = Counter(
            "ganggate_levers",
            "Writes to owners, by kind (suspend, resume, wake, note) and result.",
            ["kind", "result"],
            registry=registry,
        )
        self._patches = Counter("ganggate_patches", "Patches of pods, by result.", ["result"], registry=registry)
        self._pass = Histogram("ganggate_pass_seconds", "Time of one decision pass.", buckets=_PASS, registry=registry)
        self._ages: _Table[tuple[str]] = _Table(
            Gauge(
                "ganggate_watch_age_seconds",
                "Since the last sign of life of a watch.",
                ["resource"],
                registry=registry,
            )
        )
        self._expiry = Gauge(
            "ganggate_certificate_expiry_timestamp_seconds",
            "End of a certificate's validity, Unix time.",
            ["certificate"],
            registry=registry,
        )
        self._leader = Gauge("ganggate_leader", "1 while this process may lift.", registry=registry)
        self._events = Counter("ganggate_events", "Events, by result.", ["result"], registry=registry)

    # --- groups ----------------------------------------------------------------------------------------------

    def groups(self, counts: Mapping[tuple[str, str], int]) -> None:
        """How many groups are in each (state, reason), all of them."""
        self._groups.show(counts)

    def waited(self, queue: str, size: int, seconds: float) -> None:
        """A group of `size` members is bound."""
        self._wait.labels(queue, size_class(size)).observe(seconds)
        self._bound.labels(queue).inc()

    def decided(self, seconds: float) -> None:
        """A group was admitted that long after it was complete."""
        self._decision.observe(seconds)

    def lifted(self, seconds: float, spread: float) -> None:
        """A group's last gate is gone, `seconds` after the decision and `spread` after its first."""
        self._lift.observe(seconds)
        self._spread.observe(spread)

    def lost_to_outsider(self) -> None:
        self._lost.inc()

    # --- queues and quotas -----------------------------------------------------------------------------------

    def queues(self, allocated: Mapping[tuple[str, str], float], capability: Mapping[tuple[str, str], float]) -> None:
        """By (queue, resource), all of them."""
        self._allocated.show(allocated)
        self._capability.show(capability)

    def shortfalls(self, values: Mapping[tuple[str, str, str], float]) -> None:
        """By (namespace, quota, resource), all of them."""
        self._shortfall.show(values)

    # --- the process -----------------------------------------------------------------------------------------

    def patched(self, result: str) -> None:
        """A patch ended; `result` is one of few words, such as `ok`, `conflict`, `refused`, `unanswered`."""
        self._patches.labels(result).inc()

    def pulled(self, kind: str, result: str) -> None:
        """A write to an owner ended."""
        self._pulls.labels(kind, result).inc()

    def passed(self, seconds: float) -> None:
        self._pass.observe(seconds)

    def watches(self, ages: Mapping[str, float]) -> None:
        """Seconds since the last sign of life, by resource, all of them."""
        self._ages.show({(resource,): age for resource, age in ages.items()})

    def certificate(self, name: str, not_after: datetime) -> None:
        self._expiry.labels(name).set(not_after.timestamp())

    def leading(self, *, valid: bool) -> None:
        self._leader.set(valid)

    def event(self, result: str) -> None:
        """An event ended as the Recorder says: `written`, `dropped` or `refused`."""
        self._events.labels(result).inc()


def size_class(size: int) -> str:
    """The label under which groups of that many members are counted."""
    return next((name for most, name in _SIZES if size <= most), _LARGEST)


def new_registry() -> CollectorRegistry:
    """A registry that shows memory, CPU and garbage collection of this process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
