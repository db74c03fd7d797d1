"""Whether a node takes pods of a shape at all: every operator, taint and state."""

import pytest

from policy.rules.model import Shape
from policy.rules.node_fit import meets, passing, refusal, tolerated
from policy.rules.objects import NodeSelectorTerm, SelectorRequirement, Taint, Toleration
from tests.unit.rules_facts import node

ZONE_A = SelectorRequirement("zone", "In", ("a",))


def requirement(operator, *values, key="k"):
    return SelectorRequirement(key, operator, values)


@pytest.mark.parametrize(
    ("operator", "values", "met"),
    [
        ("In", ("5", "6"), {"5"}),
        ("In", (), set()),
        ("NotIn", ("5", "6"), {"7", "x", None}),
        ("Exists", (), {"5", "7", "x"}),
        ("DoesNotExist", (), {None}),
        ("Gt", ("5",), {"7"}),
        ("Lt", ("7",), {"5"}),
        ("Gt", ("five",), set()),
        ("Gt", (), set()),
        ("Gt", ("1_0",), set()),
        ("Like", ("5",), set()),
    ],
)
def test_each_operator(operator, values, met):
    found = {v for v in ("5", "7", "x", None) if meets(requirement(operator, *values), {} if v is None else {"k": v})}
    assert found == met


@pytest.mark.parametrize("value", ["1_0", " 10", "10 ", "٣٠", "1e3", "10.5", "9" * 20, ""])
def test_a_label_that_is_no_64_bit_number_is_never_greater(value):
    """strconv.ParseInt in k8s.io/apimachinery pkg/labels/selector.go: underscores and spaces are no digits there."""
    assert not meets(requirement("Gt", "5"), {"k": value})


@pytest.mark.parametrize(("value", "greater"), [(2**63 - 1, True), (2**63, False), (-(2**63), False)])
def test_the_largest_numbers(value, greater):
    assert meets(requirement("Gt", "5"), {"k": str(value)}) is greater


@pytest.mark.parametrize("value", ["10", "+10", "0010"])
def test_other_ways_to_write_a_number(value):
    assert meets(requirement("Gt", "5"), {"k": value})
    assert not meets(requirement("Gt", "5"), {"k": "-" + value.lstrip("+")})


def shape(*terms, tolerations=(), **selector):
    return Shape(node_selector=selector, node_terms=terms, tolerations=tolerations)


def term(*expressions, fields=()):
    return NodeSelectorTerm(expressions, fields)


A = node("n1", labels={"zone": "a", "disk": "ssd"})


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (shape(), ""),
        (shape(zone="a"), ""),
        (shape(zone="a", disk="ssd"), ""),
        (shape(zone="b"), "not matching zone=b"),
        (shape(zone="a", disk="hdd"), "not matching disk=hdd, zone=a"),
        (shape(term(ZONE_A)), ""),
        (shape(term(SelectorRequirement("zone", "In", ("b",)))), "not matching required node affinity"),
        (shape(term(SelectorRequirement("zone", "In", ("b",))), term(ZONE_A)), ""),
        (shape(term(ZONE_A, SelectorRequirement("disk", "Exists"))), ""),
        (shape(term(ZONE_A, SelectorRequirement("gpu", "Exists"))), "not matching required node affinity"),
        (shape(term()), "not matching required node affinity"),
        (shape(term(), term(ZONE_A)), ""),
        (shape(term(fields=(SelectorRequirement("metadata.name", "In", ("n1",)),))), ""),
        (
            shape(term(fields=(SelectorRequirement("metadata.name", "In", ("n2",)),))),
            "not matching required node affinity",
        ),
        (shape(term(fields=(SelectorRequirement("metadata.name", "NotIn", ("n2",)),))), ""),
        (
            shape(term(SelectorRequirement("zone", "In", ("b",))), zone="b"),
            "not matching zone=b, required node affinity",
        ),
    ],
)
def test_selectors_and_affinity(wanted, why):
    assert refusal(A, wanted) == why


TAINT = Taint("dedicated", "ml", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "found"),
    [
        (Toleration("dedicated", "Equal", "ml", "NoSchedule"), True),
        (Toleration("dedicated", "", "ml", "NoSchedule"), True),
        (Toleration("dedicated", "Equal", "ml"), True),
        (Toleration("dedicated", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", effect="NoExecute"), False),
        (Toleration("dedicated", "Equal", "web"), False),
        (Toleration("dedicated", "Equal", "ml", "NoExecute"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("", "Equal", "ml"), True),
        (Toleration("dedicated", "Gt", "ml"), False),
        (Toleration("dedicated", "Lt", "ml"), False),
    ],
)
def test_tolerations(toleration, found):
    """ToleratesTaint in k8s.io/api core/v1/toleration.go; the comparing operators are off by default there."""
    assert tolerated(TAINT, (toleration,)) is found


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"taints": (TAINT,)}, "tainted dedicated"),
        ({"taints": (Taint("busy", "", "NoExecute"),)}, "tainted busy"),
        ({"taints": (Taint("slow", "", "PreferNoSchedule"),)}, ""),
        ({"cordoned": True}, "cordoned"),
        ({"ready": False}, "not ready"),
        ({"ready": False, "cordoned": True, "taints": (TAINT,)}, "not ready"),
    ],
)
def test_states_of_a_node(given, why):
    assert refusal(node("n1", **given), shape()) == why


def test_a_pod_that_tolerates_a_cordon_is_taken():
    tolerant = (Toleration("node.kubernetes.io/unschedulable", "Exists"),)
    assert refusal(node("n1", cordoned=True), shape(tolerations=tolerant)) == ""


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ({"ready": False}, True),
        ({"cordoned": True}, True),
        ({"taints": (Taint("node.kubernetes.io/memory-pressure", "", "NoSchedule"),)}, True),
        ({"taints": (Taint("node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule"),)}, True),
        ({"taints": (TAINT,)}, False),
        ({"labels": {"zone": "b"}, "ready": False}, False),
        ({"taints": (TAINT, Taint("node.kubernetes.io/not-ready", "", "NoExecute"))}, False),
        ({}, True),
    ],
)
def test_what_a_node_will_get_over_by_itself_or_by_its_operator(given, passes):
    """A cordoned or unready node is no reason to say that a group can never fit."""
    assert passing(node("n1", **({"labels": {"zone": "a"}} | given)), shape(zone="a")) is passes
