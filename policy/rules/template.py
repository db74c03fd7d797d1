"""What admission will make of a pod template: the shape of a member that nobody has seen yet.

LimitRanges fill what containers leave open (plugin/pkg/admission/limitranger of k8s.io/kubernetes), the RuntimeClass
adds its overhead (KEP-688), the default PriorityClass gives its name and value. Webhooks of others may add more: a
sibling, or the owner's refused create, tells. May know objects, resources, shape, the model and the keys
of quotas.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256

import msgspec

from policy.rules.model import LimitRangeFacts, OwnerFacts, PartFacts, RefusalFacts, Shape, Snapshot
from policy.rules.namespace_quota import PLAIN, resource_of
from policy.rules.objects import Container, Pod, Quantities, ResourceRequirements
from policy.rules.shape import shape_of


class _Surroundings(msgspec.Struct, frozen=True):
    """What a namespace and a cluster add to a pod."""

    ranges: tuple[LimitRangeFacts, ...]
    overhead: Quantities | None
    priority_class: str
    priority: int


class Sizes:
    """The shape of an owner's next member of each part, in one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._ranges: dict[str, tuple[LimitRangeFacts, ...]] = {}
        for one in sorted(snapshot.limit_ranges, key=lambda r: (r.namespace, r.name)):
            self._ranges[one.namespace] = (*self._ranges.get(one.namespace, ()), one)

    def of(self, owner: OwnerFacts, part: PartFacts) -> Shape:
        """As one was last seen of this very template, else what that tells; raised to what a refusal told."""
        seen = self._snapshot.seen.get(owner.uid)
        if seen is not None and seen.template == part.template:
            shape = seen.shape
        else:
            shape = _claimed(owner, part, self._admitted(owner.namespace, part))
        refusal = self._snapshot.refusals.get(owner.uid)
        return _corrected(shape, refusal) if refusal is not None and refusal.requested else shape

    def _admitted(self, namespace: str, part: PartFacts) -> Shape:
        snapshot = self._snapshot
        ranges = self._ranges.get(namespace, ())
        plain = not (ranges or snapshot.overheads or snapshot.default_priority_class or part.shape.priority_class)
        if plain or not part.template:
            return part.shape
        spec = _decoded(part.template).spec
        name = spec.priority_class_name or snapshot.default_priority_class
        around = _Surroundings(
            ranges, snapshot.overheads.get(spec.runtime_class_name), name, snapshot.priority_classes.get(name, 0)
        )
        return _admitted(part.template, msgspec.json.encode(around, order="sorted"))


@lru_cache(maxsize=5_000)
def digest(template: str) -> str:
    """Short name of a template, to tell whether it is still the same."""
    return sha256(template.encode()).hexdigest()[:16]


def _claimed(owner: OwnerFacts, part: PartFacts, shape: Shape) -> Shape:
    """With the amounts that were seen when we suspended the owner, unless somebody gave it another template since."""
    claim = owner.claim
    if claim is None or not (claim.requests or claim.limits) or claim.template != digest(part.template):
        return shape
    return msgspec.structs.replace(shape, requests=claim.requests, limits=claim.limits)


@lru_cache(maxsize=5_000)
def _decoded(template: str) -> Pod:
    return msgspec.json.decode(template, type=Pod)


@lru_cache(maxsize=5_000)
def _admitted(template: str, surroundings: bytes) -> Shape:
    pod, around = _decoded(template), msgspec.json.decode(surroundings, type=_Surroundings)
    spec = msgspec.structs.replace(
        pod.spec,
        containers=_filled(pod.spec.containers, around.ranges),
        init_containers=_filled(pod.spec.init_containers, around.ranges),
        overhead=around.overhead or pod.spec.overhead,
        priority_class_name=around.priority_class,
        priority=around.priority if around.priority_class else pod.spec.priority,
    )
    return shape_of(msgspec.structs.replace(pod, spec=spec))


def _filled(containers: Sequence[Container], ranges: Iterable[LimitRangeFacts]) -> tuple[Container, ...]:
    filled = tuple(containers)
    for one in ranges:
        filled = tuple(_with_defaults(container, one) for container in filled)
    return filled


def _with_defaults(container: Container, given: LimitRangeFacts) -> Container:
    stated = container.resources or ResourceRequirements()
    limits = {**given.default, **(stated.limits or {})}
    requests = {**given.default_request, **(stated.requests or {})}
    found = msgspec.structs.replace(stated, requests=requests or None, limits=limits or None)
    return msgspec.structs.replace(container, resources=found)


def _corrected(shape: Shape, refusal: RefusalFacts) -> Shape:
    """The event names only the keys that were exceeded; what it says of those is the truth."""
    requests, limits = dict(shape.requests), dict(shape.limits)
    for key, amount in refusal.requested.items():
        if key.startswith("limits."):
            limits[resource_of(key)] = amount
        elif key.startswith(("requests.", "hugepages-")) or key in PLAIN:
            requests[resource_of(key)] = amount
    if requests == shape.requests and limits == shape.limits:
        return shape
    return msgspec.structs.replace(shape, requests=requests, limits=limits)
