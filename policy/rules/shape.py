"""The shape of a pod: what quota scopes and the scheduler's filters look at, shared by pods of one template.

Interning keeps 50,000 pods small and lets placement treat equal pods as one class by identity. May know objects,
resources, quota_traits and the model; one pod at a time.
"""

from functools import lru_cache

import msgspec

from policy import names
from policy.rules import quantity, quota_traits, resources
from policy.rules.model import Shape
from policy.rules.objects import Container, NodeSelectorTerm, Pod, PodAffinityTerm, SelectorRequirement

ANY_ADDRESS = "0.0.0.0"  # a host port without address is bound to all
_NODE_NAME_FIELD = "metadata.name"


def shape_of(pod: Pod) -> Shape:
    """Raises nothing: a pod with a quantity that does not parse asks for nothing and is unverifiable, and says so."""
    spec = pod.spec
    alone, repels, others = _inter_pod(pod)
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
                repels=repels,
                unverifiable=broken + _unverifiable(pod) + others,
                scheduler=spec.scheduler_name,
                priority=spec.priority,
                priority_class=spec.priority_class_name,
                terminating=quota_traits.terminating(pod),
                best_effort=quota_traits.best_effort(pod),
                cross_namespace=quota_traits.cross_namespace(pod),
                unstated=quota_traits.unstated(pod),
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


def _lasting(pod: Pod) -> tuple[Container, ...]:
    """Containers that run for the pod's whole life: ordinary init containers hold no host port against others."""
    sidecars = (c for c in pod.spec.init_containers if c.restart_policy == "Always")
    return (*sidecars, *pod.spec.containers)


def _host_ports(pod: Pod) -> tuple[str, ...]:
    found = {
        f"{port.protocol}/{port.host_port}/{port.host_ip or ANY_ADDRESS}"
        for container in _lasting(pod)
        for port in container.ports
        if port.host_port
    }
    return tuple(sorted(found))


_Terms = tuple[PodAffinityTerm, ...]


def _inter_pod(pod: Pod) -> tuple[_Terms, _Terms, tuple[str, ...]]:
    """Plain anti-affinity on the hostname, to oneself and to others, can be judged; other required terms cannot."""
    affinity = pod.spec.affinity
    anti = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()
    attracted = affinity.pod_affinity.required if affinity and affinity.pod_affinity else ()
    judged = [t for t in anti if t.topology_key == names.HOSTNAME_LABEL and _is_plain(t)]
    own = pod.metadata.labels or {}
    others = [f"pod anti-affinity by {t.topology_key}" for t in anti if t not in judged]
    others += [f"pod affinity by {t.topology_key}" for t in attracted]
    return (
        tuple(t for t in judged if selects(t, own)),
        tuple(t for t in judged if not selects(t, own)),
        tuple(others),
    )


def _is_plain(term: PodAffinityTerm) -> bool:
    """The term looks at pods of its own namespace, by labels that it spells out."""
    return not (term.namespaces or term.match_label_keys or term.mismatch_label_keys) and not term.namespace_selector


def selects(term: PodAffinityTerm, labels: dict[str, str]) -> bool:
    """True when a plain term picks a pod of the same namespace with these labels; no selector picks none."""
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
    if any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes):
        found.append("volume affinity")
    if any(c.when_unsatisfiable == "DoNotSchedule" for c in spec.topology_spread_constraints):
        found.append("hard topology spread")
    return tuple(found)
