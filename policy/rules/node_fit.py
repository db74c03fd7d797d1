"""Whether a node takes pods of a shape at all: selectors, affinity, taints, cordon, readiness.

The scheduler's static filters (plugins nodename, nodeaffinity, tainttoleration, nodeunschedulable of
k8s.io/kubernetes pkg/scheduler/framework/plugins), asked of one shape and one node. Amounts are placement's question.
"""

from collections.abc import Mapping

from policy.rules.model import NodeFacts, Shape
from policy.rules.objects import NodeSelectorTerm, SelectorRequirement, Taint, Toleration

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_HARD_EFFECTS = ("NoSchedule", "NoExecute")


def refusal(node: NodeFacts, shape: Shape) -> str:
    """Why the node takes no such pod, worded to follow "3 nodes"; "" when it does."""
    if not node.ready:
        return "not ready"
    if node.cordoned and not tolerated(_UNSCHEDULABLE, shape.tolerations):
        return "cordoned"
    for taint in node.taints:
        if taint.effect in _HARD_EFFECTS and not tolerated(taint, shape.tolerations):
            return f"tainted {taint.key}={taint.value}" if taint.value else f"tainted {taint.key}"
    if not selected(node, shape):
        return "not matching " + selector_text(shape)
    return ""


def selected(node: NodeFacts, shape: Shape) -> bool:
    by_selector = all(node.labels.get(k) == v for k, v in shape.node_selector.items())
    return by_selector and (not shape.node_terms or any(_term(t, node) for t in shape.node_terms))


def selector_text(shape: Shape) -> str:
    parts = [f"{k}={v}" for k, v in sorted(shape.node_selector.items())]
    if shape.node_terms:
        parts.append("required node affinity")
    return ", ".join(parts)


def tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates(t, taint) for t in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.key == taint.key and toleration.value == taint.value


def _term(term: NodeSelectorTerm, node: NodeFacts) -> bool:
    """All of a term; an empty term matches nothing (API doc of NodeSelectorTerm)."""
    if not term.match_expressions and not term.match_fields:
        return False
    by_label = all(meets(r, node.labels) for r in term.match_expressions)
    return by_label and all(meets(r, {"metadata.name": node.name}) for r in term.match_fields)


def meets(requirement: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    """One node selector requirement against labels (or fields)."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compared(requirement, value)
        case _:
            return False


def _compared(requirement: SelectorRequirement, value: str | None) -> bool:
    try:
        have, bound = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return have > bound if requirement.operator == "Gt" else have < bound
