"""The effective request of a pod, against the vectors of the API's own calculation."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.rules import quantity, resources
from policy.rules.objects import Pod


def pod(containers, init=(), overhead=None, level=None, status=None):
    spec = {"containers": containers, "initContainers": list(init), "overhead": overhead, "resources": level}
    return msgspec.convert({"spec": spec, "status": status or {}}, Pod)


def c(requests=None, limits=None, *, sidecar=False, name="c"):
    found = {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}}
    return found | ({"restartPolicy": "Always"} if sidecar else {})


def cpu(amount, **kw):
    return c({"cpu": amount}, **kw)


TWO = [cpu("1"), cpu("500m")]
VECTORS = {
    1: (pod(TWO, [cpu("2")]), {"cpu": "2"}),
    2: (pod(TWO, [cpu("300m", sidecar=True), cpu("2")]), {"cpu": "2300m"}),
    3: (pod(TWO, [cpu("2"), cpu("300m", sidecar=True)]), {"cpu": "2"}),
    4: (pod(TWO, [cpu("300m", sidecar=True), cpu("2")], overhead={"cpu": "250m"}), {"cpu": "2550m"}),
    5: (
        pod([*TWO, c({"nvidia.com/gpu": 1})], [cpu("300m", sidecar=True), cpu("2")], level={"requests": {"cpu": "4"}}),
        {"cpu": "4", "nvidia.com/gpu": "1"},
    ),
    6: (
        pod(
            [*TWO, c({"nvidia.com/gpu": 1})],
            [cpu("300m", sidecar=True), cpu("2")],
            overhead={"cpu": "250m"},
            level={"requests": {"cpu": "4"}},
        ),
        {"cpu": "4250m", "nvidia.com/gpu": "1"},
    ),
    7: (pod([c({"nvidia.com/gpu": 1})], [c({"nvidia.com/gpu": 2})]), {"nvidia.com/gpu": "2"}),
    10: (pod([cpu("100m")], [cpu("100m", sidecar=True), cpu("100m"), cpu("500m", sidecar=True)]), {"cpu": "700m"}),
}


@pytest.mark.parametrize("number", VECTORS)
def test_check_vectors(number):
    given_pod, expected = VECTORS[number]
    assert resources.requests(given_pod) == resources.read(expected)


def test_overhead_is_added_onto_a_limit_that_is_present():
    found = resources.limits(pod([c(limits={"cpu": "2"}), c()], overhead={"cpu": "250m"}))
    assert found == resources.read({"cpu": "2250m"})


def test_overhead_makes_no_limit_where_there_is_none():
    assert resources.limits(pod([c()], overhead={"cpu": "250m"})) == {}


def test_a_resize_charges_the_larger_of_spec_and_what_the_kubelet_allocated():
    status = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}
    assert resources.requests(pod([cpu("2")], status=status)) == resources.read({"cpu": "3"})


def test_an_infeasible_resize_leaves_the_spec_out():
    status = {
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
    }
    assert resources.requests(pod([cpu("64")], status=status)) == resources.read({"cpu": "1"})


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("1", 10**9),
        ("1500m", 1_500_000_000),
        ("0.1", 10**8),
        ("1Ki", 1024 * 10**9),
        ("1e3", 10**12),
        ("1E", 10**27),
        ("1n", 1),
        ("0.1n", 1),
        ("-1", -(10**9)),
        (".5", 5 * 10**8),
        ("5.", 5 * 10**9),
        (3, 3 * 10**9),
    ],
)
def test_quantities(text, nano):
    assert quantity.parse(text) == nano


@pytest.mark.parametrize("text", ["", "1_000", "NaN", " 1", "1 ", "1e3Ki", "٣", "1Kib", "--1", "1" * 65, "Infinity"])
def test_what_is_no_quantity_is_refused_with_its_text(text):
    with pytest.raises(quantity.QuantityError, match="not a quantity"):
        quantity.parse(text)


def test_a_bad_amount_names_its_resource():
    with pytest.raises(quantity.QuantityError, match="^cpu: not a quantity: '1x'$"):
        resources.read({"cpu": "1x"})


@given(st.integers(0, 10**15))
def test_text_reads_back(nano):
    assert quantity.parse(quantity.text(nano)) == nano
    assert quantity.parse(quantity.text(nano, "memory")) == nano


@given(st.lists(st.sampled_from(["100m", "1", "250m", "3"]), min_size=1, max_size=6))
def test_ten_tenths_are_one(amounts):
    found = resources.requests(pod([cpu(a) for a in amounts]))
    assert found["cpu"] == sum(quantity.parse(a) for a in amounts)
