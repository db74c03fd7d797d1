"""What of a pod decides which quotas count it and which refuse it: QoS class, scopes, amounts left open.

Rules: k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go and pkg/apis/core/v1/helper/qos. May know objects and
quantities; one pod at a time.
"""

from collections.abc import Iterator

from policy.rules import quantity
from policy.rules.objects import Container, Pod, Quantities, ResourceRequirements

_COMPUTE = ("cpu", "memory")  # what the QoS class looks at, and what a quota demands every container to state


def terminating(pod: Pod) -> bool:
    """The scope Terminating: the pod itself has a deadline; its Job's plays no part."""
    return pod.spec.active_deadline_seconds is not None


def best_effort(pod: Pod) -> bool:
    """No cpu and no memory is asked for or limited; where the pod level states amounts, it alone counts."""
    level = pod.spec.resources
    asked = (level,) if stated_for_pod(pod) else tuple(c.resources for c in containers(pod))
    return not any(
        _more_than_zero(amounts[name])
        for one in asked
        for amounts in _both(one)
        for name in _COMPUTE
        if name in amounts
    )


def stated_for_pod(pod: Pod) -> bool:
    """Whether spec.resources states anything that it may state (KEP-2837)."""
    return any(
        name in _COMPUTE or name.startswith("hugepages-") for amounts in _both(pod.spec.resources) for name in amounts
    )


def cross_namespace(pod: Pod) -> bool:
    """The scope CrossNamespacePodAffinity: any term, also a mere wish, that looks into other namespaces."""
    affinity = pod.spec.affinity
    groups = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    required = any(t.namespaces or t.namespace_selector is not None for g in groups if g for t in g.required)
    wishes = (w.get("podAffinityTerm") for g in groups if g for w in g.preferred)
    return required or any(
        isinstance(w, dict) and (w.get("namespaces") or w.get("namespaceSelector") is not None) for w in wishes
    )


def unstated(pod: Pod) -> tuple[str, ...]:
    """Which of cpu and memory some container leaves open: a quota on them refuses such a pod."""
    if stated_for_pod(pod):
        return ()
    return tuple(
        f"{field}.{name}"
        for index, field in enumerate(("requests", "limits"))
        for name in _COMPUTE
        if any(name not in tuple(_both(c.resources))[index] for c in containers(pod))
    )


def containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _both(stated: ResourceRequirements | None) -> Iterator[Quantities]:
    yield (stated.requests if stated else None) or {}
    yield (stated.limits if stated else None) or {}


def _more_than_zero(amount: str | int | float) -> bool:
    try:
        return quantity.parse(amount) != 0
    except quantity.QuantityError:
        return True  # something is asked for, whatever it is
