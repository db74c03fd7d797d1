"""Whether a node takes pods of a shape at all: selectors, affinity, taints, cordon, readiness.

The scheduler's static filters (plugins nodename, nodeaffinity, tainttoleration, nodeunschedulable of
k8s.io/kubernetes pkg/scheduler/framework/plugins), asked of one shape and one node. Amounts are placement's question.
"""

from collections.abc import Iterator, Mapping

import msgspec

from policy import names
from policy.rules.model import NodeFacts, Shape
from policy.rules.objects import NodeSelectorTerm, SelectorRequirement, Taint, Toleration

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_HARD_EFFECTS = ("NoSchedule", "NoExecute")
_STATES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")  # taints that tell a node's own state
_INT64 = 1 << 63
NAME = "/name"  # among labels, stands for the node's name: no label's key begins with a slash


def refusal(node: NodeFacts, shape: Shape) -> str:
    """Why the node takes no such pod, worded to follow "3 nodes"; "" when it does."""
    if not node.ready:
        return "not ready"
    if node.cordoned and not tolerated(_UNSCHEDULABLE, shape.tolerations):
        return "cordoned"
    for taint in node.taints:
        if taint.effect in _HARD_EFFECTS and not tolerated(taint, shape.tolerations):
            return f"tainted {taint.key}"
    if not selected(node, shape):
        return "not matching " + selector_text(shape)
    return next((f"without label {key}" for key in _topologies(shape) if key not in node.labels), "")


def passing(node: NodeFacts, shape: Shape) -> bool:
    """Whether the node takes the shape once it is up: ready, uncordoned, rid of the taints of its own state."""
    lasting = tuple(t for t in node.taints if not t.key.startswith(_STATES))
    return not refusal(msgspec.structs.replace(node, ready=True, cordoned=False, taints=lasting), shape)


def referenced(shape: Shape) -> tuple[str, ...]:
    """The labels of a node that the shape looks at; NAME among them where it looks at the name."""
    terms = shape.node_terms
    labels = {*shape.node_selector, *(r.key for t in terms for r in t.match_expressions), *_topologies(shape)}
    return tuple(sorted(labels | {NAME} if any(t.match_fields for t in terms) else labels))


def _topologies(shape: Shape) -> Iterator[str]:
    """Labels that a node must have, whatever their value, to be in any domain (both plugins' Filter)."""
    if shape.spread:
        yield shape.spread.topology_key
    if shape.beside:
        yield names.HOSTNAME_LABEL


def requirements(shape: Shape) -> list[list[SelectorRequirement]]:
    """All that a node must meet, one list for each alternative; NAME stands for the key of the node's name."""
    common = [SelectorRequirement(key, "In", (value,)) for key, value in sorted(shape.node_selector.items())]
    common += [SelectorRequirement(key, "Exists") for key in _topologies(shape)]
    terms = [t for t in shape.node_terms if t.match_expressions or t.match_fields]
    return [common + _whole(term) for term in terms] or [common]


def _whole(term: NodeSelectorTerm) -> list[SelectorRequirement]:
    return [*term.match_expressions, *(SelectorRequirement(NAME, f.operator, f.values) for f in term.match_fields)]


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
    """Comparing operators (KEP-5471, off by default) tolerate nothing here: never a yes that the scheduler denies."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    equal = toleration.operator in ("", "Equal") and toleration.value == taint.value
    return equal or toleration.operator == "Exists"


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
    have, bound = _integer(value), _integer(requirement.values[0] if len(requirement.values) == 1 else None)
    if have is None or bound is None:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound


def _integer(text: str | None) -> int | None:
    """A 64-bit decimal number; Python's int() would also read spaces, underscores and other scripts' digits."""
    digits = text[1:] if text and text[0] in "+-" else text
    if not text or not digits or not digits.isascii() or not digits.isdigit() or len(digits) > len(str(_INT64)):
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None
