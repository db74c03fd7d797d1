"""The shape of a pod: what quota scopes and the scheduler's filters look at, shared by pods of one template.

Interning keeps 50,000 pods small and lets placement treat equal pods as one class by identity. May know objects,
resources and the model; one pod at a time.
"""

from functools import lru_cache

import msgspec

from policy import names
from policy.rules import quantity, resources
from policy.rules.model import Shape
from policy.rules.objects import (
    Container,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    Quantities,
    SelectorRequirement,
)

ANY_ADDRESS = "0.0.0.0"  # a host port without address is bound to all
_NODE_NAME_FIELD = "metadata.name"
_STATED = ("cpu", "memory")  # resources that a quota demands every container to state


def shape_of(pod: Pod) -> Shape:
    """Raises nothing: a pod with a quantity that does not parse asks for nothing and is unverifiable, and says so."""
    spec = pod.spec
    alone, others = _inter_pod(pod)
    broken: tuple[str, ...] = ()
    try:
        wanted, limited = resources.requests(pod), resources.limits(pod)
    except quantity.QuantityError as error:
        wanted, limited, broken = {}, {}, (str(error),)
    return _interned(
        _frozen(
            Shape(
                requests=wanted,
                limits=limited,
                node_selector=spec.node_selector or {},
                node_terms=_own_terms(pod),
                tolerations=spec.tolerations,
                host_ports=_host_ports(pod),
                alone_on_node=alone,
                unverifiable=broken + _unverifiable(pod) + others,
                scheduler=spec.scheduler_name,
                priority=spec.priority,
                priority_class=spec.priority_class_name,
                terminating=spec.active_deadline_seconds is not None,
                cross_namespace=_cross_namespace(pod),
                unstated=_unstated(pod),
            )
        )
    )


def _frozen(shape: Shape) -> bytes:
    """JSON, since MessagePack holds no integer of 64 bits and more: 20 GB of memory, in nano units."""
    return msgspec.json.encode(shape, order="sorted")


@lru_cache(maxsize=20_000)
def _interned(encoded: bytes) -> Shape:
    return msgspec.json.decode(encoded, type=Shape)


def node_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    return required.node_selector_terms if required else ()


def single_node(pod: Pod) -> str:
    """The one node that every required term names; "" when there are several or none."""
    found = {_named_node(term) for term in node_terms(pod)}
    return found.pop() or "" if len(found) == 1 else ""


def _named_node(term: NodeSelectorTerm) -> str | None:
    for field in term.match_fields:
        if _is_pin(field):
            return field.values[0]
    return None


def _is_pin(field: SelectorRequirement) -> bool:
    return field.key == _NODE_NAME_FIELD and field.operator == "In" and len(field.values) == 1


def _own_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """The terms that the user wrote: a lifted pod keeps the shape it had before our pin, so siblings stay one class."""
    terms = node_terms(pod)
    if pod.metadata.annotation(names.ANNOTATION_LIFTED) is None:
        return terms
    bare = tuple(
        NodeSelectorTerm(t.match_expressions, tuple(f for f in t.match_fields if not _is_pin(f))) for t in terms
    )
    return tuple(t for t in bare if t.match_expressions or t.match_fields)


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _host_ports(pod: Pod) -> tuple[str, ...]:
    found = {
        f"{port.protocol}/{port.host_port}/{port.host_ip or ANY_ADDRESS}"
        for container in _containers(pod)
        for port in container.ports
        if port.host_port
    }
    return tuple(sorted(found))


def _inter_pod(pod: Pod) -> tuple[tuple[PodAffinityTerm, ...], tuple[str, ...]]:
    """Self anti-affinity on the hostname can be judged; every other required term cannot."""
    affinity = pod.spec.affinity
    alone: list[PodAffinityTerm] = []
    others: list[str] = []
    if affinity and affinity.pod_anti_affinity:
        for term in affinity.pod_anti_affinity.required:
            judged = term.topology_key == names.HOSTNAME_LABEL and selects(term, pod.metadata.labels or {})
            alone.append(term) if judged else others.append(f"pod anti-affinity by {term.topology_key}")
    if affinity and affinity.pod_affinity:
        others += [f"pod affinity by {term.topology_key}" for term in affinity.pod_affinity.required]
    return tuple(alone), tuple(others)


def selects(term: PodAffinityTerm, labels: dict[str, str]) -> bool:
    """True when the term picks a pod of the same namespace with these labels, and is plain enough to say."""
    if term.namespaces or term.namespace_selector or term.match_label_keys or term.mismatch_label_keys:
        return False
    selector = term.label_selector
    if selector is None:
        return False
    by_labels = all(labels.get(k) == v for k, v in (selector.match_labels or {}).items())
    return by_labels and all(_meets(r, labels) for r in selector.match_expressions)


def _meets(requirement: SelectorRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case _:
            return value is None


def _unverifiable(pod: Pod) -> tuple[str, ...]:
    spec = pod.spec
    found: list[str] = []
    if spec.resource_claims:
        found.append("resource claims")
    if any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes):
        found.append("volume affinity")
    if any(c.when_unsatisfiable == "DoNotSchedule" for c in spec.topology_spread_constraints):
        found.append("hard topology spread")
    return tuple(found)


def _cross_namespace(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    groups = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    return any(t.namespaces or t.namespace_selector is not None for g in groups if g for t in g.required)


def _unstated(pod: Pod) -> tuple[str, ...]:
    """Which of cpu and memory some container leaves open: a quota on them refuses such a pod."""
    if pod.spec.resources and (pod.spec.resources.requests or pod.spec.resources.limits):
        return ()
    return tuple(
        f"{field}.{name}"
        for field in ("requests", "limits")
        for name in _STATED
        if any(name not in _stated(c, field) for c in _containers(pod))
    )


def _stated(container: Container, field: str) -> Quantities:
    found = container.resources
    amounts = (found.requests if field == "requests" else found.limits) if found else None
    return amounts or {}
