"""The shape of a pod: what quota scopes and the scheduler's filters look at, shared by pods of one template.

Interning keeps 50,000 pods small and lets placement treat equal pods as one class by identity. May know objects,
resources, quota_traits and the model; one pod at a time.
"""

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from policy import names
from policy.rules import quantity, quota_traits, resources
from policy.rules.model import PodFacts, Shape
from policy.rules.objects import (
    Container,
    LabelSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    SelectorRequirement,
    TopologySpreadConstraint,
)

ANY_ADDRESS = "0.0.0.0"  # a host port without address is bound to all
_NODE_NAME_FIELD = "metadata.name"


def shape_of(pod: Pod) -> Shape:
    """Raises nothing: a pod with a quantity that does not parse asks for nothing and is unverifiable, and says so."""
    spec = pod.spec
    alone, repels, afar = _repelled(pod)
    beside, attracted = _attracted(pod)
    spread, uneven = _spread(pod)
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
                repels_afar=afar,
                beside=beside,
                spread=spread,
                unverifiable=(
                    *broken,
                    *_unverifiable(pod, wanted),
                    *uneven,
                    *(f"pod anti-affinity by {t.topology_key}" for t in afar),
                    *(f"pod affinity by {t.topology_key}" for t in attracted),
                ),
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


def _repelled(pod: Pod) -> tuple[_Terms, _Terms, _Terms]:
    """Anti-affinity on the hostname to pods like itself, to others there, and the rest, which cannot be judged."""
    affinity = pod.spec.affinity
    terms = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()
    judged = [t for t in terms if _is_local(t)]
    own = pod.metadata.labels or {}
    return (
        tuple(t for t in judged if selects(t, own)),
        tuple(t for t in judged if not selects(t, own)),
        tuple(t for t in terms if t not in judged),
    )


def _attracted(pod: Pod) -> tuple[_Terms, _Terms]:
    """Affinity that puts all pods like this one on one node; or, where any term asks for more, what cannot be judged.

    Only a pod that all of its own terms select may be the first of its kind (satisfiesSelfAffinityCheck in
    pkg/scheduler/framework/plugins/interpodaffinity/filtering.go).
    """
    affinity = pod.spec.affinity
    terms = affinity.pod_affinity.required if affinity and affinity.pod_affinity else ()
    own = pod.metadata.labels or {}
    others = tuple(t for t in terms if not (_is_local(t) and selects(t, own)))
    return ((), others) if others else (terms, ())


def _spread(pod: Pod) -> tuple[TopologySpreadConstraint | None, tuple[str, ...]]:
    """The one hard spread over pods like itself, or what cannot be judged."""
    hard = [c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]
    if len(hard) == 1 and _is_even(hard[0], pod.metadata.labels or {}):
        return hard[0], ()
    return None, tuple(f"hard topology spread by {c.topology_key}" for c in hard)


def _is_even(constraint: TopologySpreadConstraint, own: dict[str, str]) -> bool:
    """By default policies, without minDomains, over pods by labels that it spells out and the pod itself has."""
    selector = constraint.label_selector
    plain = constraint.node_affinity_policy == "Honor" and constraint.node_taints_policy == "Ignore"
    plain = plain and constraint.min_domains is None and not constraint.match_label_keys
    stated = selector is not None and bool(selector.match_labels or selector.match_expressions)
    return plain and stated and picks(selector, own)


def _is_local(term: PodAffinityTerm) -> bool:
    """The term looks at one node, and there at pods of its own namespace, by labels that it spells out."""
    elsewhere = term.namespaces or term.namespace_selector is not None
    plain = not (elsewhere or term.match_label_keys or term.mismatch_label_keys)
    return plain and term.topology_key == names.HOSTNAME_LABEL


def selects(term: PodAffinityTerm, labels: dict[str, str]) -> bool:
    """True when the term's selector picks a pod with these labels."""
    return picks(term.label_selector, labels)


def picks(selector: LabelSelector | None, labels: dict[str, str]) -> bool:
    """An empty selector picks all, none picks none (LabelSelectorAsSelector in apimachinery's meta/v1)."""
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


def _unverifiable(pod: Pod, wanted: dict[str, int]) -> tuple[str, ...]:
    spec = pod.spec
    found: list[str] = []
    if spec.resource_claims:
        found.append("resource claims")
    found += [of_device_class(name) for name in wanted if name.startswith(names.DEVICE_CLASS_PREFIX)]
    if any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes):
        found.append("volume affinity")
    return tuple(found)


def of_device_class(name: str) -> str:
    """An extended resource that no node tells of, among what cannot be verified."""
    return f"{name} of a DeviceClass"


def shapes_of(pods: Iterable[PodFacts]) -> list[Shape]:
    """Each object once: pods of one template share theirs."""
    return list({id(pod.shape): pod.shape for pod in pods}.values())
