"""Whether the namespace's ResourceQuota takes the members that do not exist yet.

Kubernetes charges a pod when it is created, gated or not: members that exist are paid for, and counting them again
would hold their group for ever. Headroom is status.hard less the larger of status.used (it lags downwards and leaks
upwards) and our own count, less what groups ahead are promised.
Rules: k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go. May know the model; decides nothing about order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from policy.rules.conclusions import Absent
from policy.rules.model import PodFacts, QuotaFacts, Resources, ScopeFact, Shape
from policy.rules.quantity import NANO

PLAIN = ("cpu", "memory", "ephemeral-storage")  # with keys of their bare names, and of their limits


class QuotaShort(msgspec.Struct, frozen=True):
    """One quota key that the missing members do not fit into. Amounts in nano units."""

    quota: str
    key: str
    need: int
    hard: int
    taken: int
    promised: int
    missing: int
    whole: int = 0  # what the whole group charges, members that exist included

    @property
    def free(self) -> int:
        return max(0, self.hard - self.taken - self.promised)

    @property
    def never(self) -> bool:
        """Even an empty quota would not do."""
        return max(self.need, self.whole) > self.hard


class QuotaUnstated(msgspec.Struct, frozen=True):
    """The quota demands an amount that the pod does not state: no shortage, no waiting helps."""

    quota: str
    key: str


QuotaStop = QuotaShort | QuotaUnstated


def resource_of(key: str) -> str:
    """The resource that a quota's key is about."""
    return key.removeprefix("requests.").removeprefix("limits.")


def cost(shape: Shape) -> Resources:
    """What one pod of this shape charges, under every key that a quota may list."""
    charged: Resources = {"pods": NANO, "count/pods": NANO}
    for name, amount in shape.requests.items():
        charged[f"requests.{name}"] = amount
        if name in PLAIN or name.startswith("hugepages-"):
            charged[name] = amount
    for name, amount in shape.limits.items():
        if name in PLAIN:
            charged[f"limits.{name}"] = amount
    return charged


class Prices:
    """`cost`, worked out once for each of the interned shapes that one pass meets."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Shape, Resources]] = {}  # the shape beside its price, so that its id stays its own

    def __call__(self, shape: Shape) -> Resources:
        found = self._known.get(id(shape))
        if found is None:
            found = self._known[id(shape)] = (shape, cost(shape))
        return found[1]


Price = Callable[[Shape], Resources]


def matches(quota: QuotaFacts, shape: Shape) -> bool:
    """A quota applies when all its scopes do."""
    return not quota.scopes or all(_in_scope(scope, shape) for scope in quota.scopes)


def _in_scope(scope: ScopeFact, shape: Shape) -> bool:
    match scope.name:
        case "Terminating":
            return shape.terminating
        case "NotTerminating":
            return not shape.terminating
        case "BestEffort":
            return shape.best_effort
        case "NotBestEffort":
            return not shape.best_effort
        case "PriorityClass":
            return _priority_in_scope(scope, shape.priority_class)
        case "CrossNamespacePodAffinity":
            return shape.cross_namespace
        case _:
            return False  # scopes of other kinds of object, such as VolumeAttributesClass


def _priority_in_scope(scope: ScopeFact, name: str) -> bool:
    match scope.operator:
        case "In":
            return name in scope.values
        case "NotIn":
            return name not in scope.values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def charges(quota: QuotaFacts, shape: Shape, price: Price) -> bool:
    """Whether a pod of this shape takes anything of the quota."""
    return matches(quota, shape) and any(amount and key in quota.hard for key, amount in price(shape).items())


def idle_keys(quota: QuotaFacts) -> list[str]:
    """Keys that never bind: of extended resources only requests are counted (evaluator/core/pods.go)."""
    limits = (key for key in quota.hard if key.startswith("limits."))
    return sorted(key for key in limits if key.removeprefix("limits.") not in PLAIN)


def disagreements(quota: QuotaFacts, count: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Keys of pods where status.used and our own count differ: (used, counted)."""
    return {
        key: (quota.used[key], count[key])
        for key in sorted(quota.hard)
        if is_of_pods(key) and key in quota.used and quota.used[key] != count[key]
    }


def is_of_pods(key: str) -> bool:
    """Whether pods alone charge this key; storage and counts of other objects are not ours to check."""
    if key in ("pods", "count/pods"):
        return True
    name = resource_of(key)
    extended = "/" in name and key.startswith("requests.")
    return name in PLAIN or name.startswith("hugepages-") or extended


class Tally(msgspec.Struct):
    """How many pods of one shape a namespace has: those that are charged, and those that only count as objects."""

    shape: Shape
    charged: int = 0
    over: int = 0


def tally(pods: Iterable[PodFacts], now: float) -> list[Tally]:
    """The pods of a namespace by shape: a quota's count is then a sum over few lines."""
    found: dict[int, Tally] = {}
    for pod in pods:
        line = found.get(id(pod.shape))
        if line is None:
            line = found[id(pod.shape)] = Tally(pod.shape)
        if still_charged(pod, now):
            line.charged += 1
        else:
            line.over += 1
    return list(found.values())


def counted(quota: QuotaFacts, lines: Iterable[Tally], price: Price = cost) -> Resources:
    """Our own count of what the quota's namespace charges now."""
    found: Resources = dict.fromkeys(quota.hard, 0)
    for line in lines:
        if matches(quota, line.shape):
            for key, amount in price(line.shape).items():
                if key in found:
                    found[key] += amount * line.charged
            if "count/pods" in found:
                found["count/pods"] += NANO * line.over
    return found


def still_charged(pod: PodFacts, now: float) -> bool:
    """Charged until it has finished, or until its grace period is over even if the object is still there."""
    return not pod.over and (pod.deleted is None or pod.deleted >= now)


def shortages(
    quota: QuotaFacts,
    absent: Sequence[Absent],
    count: Mapping[str, int],
    promised: Mapping[str, int],
    price: Price = cost,
) -> Iterator[QuotaStop]:
    """Every key, in the order of names, that cannot take the members that do not exist yet."""
    counted_in = [a for a in absent if matches(quota, a.shape)]
    priced = [(price(a.shape), a.count) for a in counted_in]
    missing = sum(a.count for a in counted_in)
    for key in sorted(quota.hard) if missing else ():
        need = sum(charged.get(key, 0) * count for charged, count in priced)
        taken = max(quota.used.get(key, 0), count.get(key, 0))
        if any(demands(key, a.shape) for a in counted_in):
            yield QuotaUnstated(quota.name, key)
        elif need and taken + promised.get(key, 0) + need > quota.hard[key]:
            yield QuotaShort(quota.name, key, need, quota.hard[key], taken, promised.get(key, 0), missing)


def demands(key: str, shape: Shape) -> bool:
    """Whether a quota with this key refuses pods of the shape because a container does not state the amount."""
    full = key if key.startswith("limits.") else f"requests.{key.removeprefix('requests.')}"
    return full in shape.unstated
