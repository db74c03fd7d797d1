"""The namespace's ResourceQuota against members that do not exist yet: keys, scopes, what is still charged."""

import msgspec
import pytest

from policy.rules.conclusions import Absent
from policy.rules.model import ScopeFact, Shape
from policy.rules.namespace_quota import (
    QuotaShort,
    QuotaUnstated,
    cost,
    counted,
    matches,
    shortages,
    still_charged,
    tally,
)
from policy.rules.quantity import NANO
from tests.unit.rules_facts import GPU, NOW, amounts, pod, quota, shape

FULL = Shape(
    requests=amounts(cpu=1, memory="1Gi", gpu=2) | {"ephemeral-storage": NANO, "hugepages-2Mi": 4 * NANO},
    limits=amounts(cpu=2, memory="2Gi", gpu=2) | {"ephemeral-storage": 2 * NANO, "hugepages-2Mi": 4 * NANO},
)


@pytest.mark.parametrize(
    ("key", "charged"),
    [
        ("pods", NANO),
        ("count/pods", NANO),
        ("cpu", NANO),
        ("requests.cpu", NANO),
        ("limits.cpu", 2 * NANO),
        ("memory", 2**30 * NANO),
        ("requests.memory", 2**30 * NANO),
        ("limits.memory", 2**31 * NANO),
        ("ephemeral-storage", NANO),
        ("requests.ephemeral-storage", NANO),
        ("limits.ephemeral-storage", 2 * NANO),
        ("hugepages-2Mi", 4 * NANO),
        ("requests.hugepages-2Mi", 4 * NANO),
        (f"requests.{GPU}", 2 * NANO),
        (GPU, None),
        (f"limits.{GPU}", None),
        ("limits.hugepages-2Mi", None),
        ("persistentvolumeclaims", None),
    ],
)
def test_what_a_pod_charges_under_each_key(key, charged):
    assert cost(FULL).get(key) == charged


def test_a_pod_that_asks_for_nothing_charges_its_place_alone():
    assert cost(Shape()) == {"pods": NANO, "count/pods": NANO}


def scope(name, operator="Exists", *values):
    return ScopeFact(name, operator, values)


PLAIN = Shape()
HIGH = Shape(priority_class="high")
SCOPES = [
    (scope("Terminating"), Shape(terminating=True), PLAIN),
    (scope("NotTerminating"), PLAIN, Shape(terminating=True)),
    (scope("BestEffort"), Shape(best_effort=True), PLAIN),
    (scope("NotBestEffort"), PLAIN, Shape(best_effort=True)),
    (scope("PriorityClass"), HIGH, PLAIN),
    (scope("PriorityClass", "Exists"), HIGH, PLAIN),
    (scope("PriorityClass", "DoesNotExist"), PLAIN, HIGH),
    (scope("PriorityClass", "In", "high", "top"), HIGH, Shape(priority_class="low")),
    (scope("PriorityClass", "In", "high"), HIGH, PLAIN),
    (scope("PriorityClass", "NotIn", "high"), Shape(priority_class="low"), HIGH),
    (scope("PriorityClass", "NotIn", "high"), PLAIN, HIGH),
    (scope("CrossNamespacePodAffinity"), Shape(cross_namespace=True), PLAIN),
]


@pytest.mark.parametrize(("one", "inside", "outside"), SCOPES, ids=[f"{s.name} {s.operator}" for s, _, _ in SCOPES])
def test_each_scope(one, inside, outside):
    restricted = quota(scopes=(one,), pods=1)
    assert matches(restricted, inside)
    assert not matches(restricted, outside)


def test_a_scope_of_other_objects_counts_no_pod():
    assert not matches(quota(scopes=(scope("VolumeAttributesClass"),), pods=1), PLAIN)


def test_a_quota_counts_what_is_in_all_its_scopes():
    both = quota(scopes=(scope("Terminating"), scope("BestEffort")), pods=1)
    assert matches(both, Shape(terminating=True, best_effort=True))
    assert not matches(both, Shape(terminating=True))


@pytest.mark.parametrize(
    ("fields", "charged"),
    [
        ({}, True),
        ({"phase": "Running"}, True),
        ({"phase": "Succeeded"}, False),
        ({"phase": "Failed"}, False),
        ({"deleted": NOW + 1}, True),
        ({"deleted": NOW}, True),
        ({"deleted": NOW - 1}, False),
        ({"deleted": NOW + 1, "phase": "Failed"}, False),
    ],
)
def test_a_pod_is_charged_until_it_is_over_or_its_grace_is(fields, charged):
    """QuotaV1Pod in pkg/quota/v1/evaluator/core/pods.go."""
    assert still_charged(pod("p", **fields), NOW) is charged


def test_count_pods_counts_what_is_over_as_well():
    found = counted(
        with_count(),
        tally([pod("a"), pod("b", phase="Succeeded"), pod("c", deleted=NOW - 5)], NOW),
    )
    assert found == {"pods": NANO, "count/pods": 3 * NANO, f"requests.{GPU}": NANO}


def with_count():
    return msgspec.structs.replace(quota(), hard={"pods": NANO, "count/pods": NANO, f"requests.{GPU}": NANO})


def test_only_pods_in_scope_are_counted():
    restricted = quota(scopes=(scope("PriorityClass", "In", "high"),), pods=9)
    found = counted(restricted, tally([pod("a", like=shape(priority_class="high")), pod("b")], NOW))
    assert found == {"pods": NANO}


def short(given, absent, count=None, promised=None):
    return list(shortages(given, absent, count or {}, promised or {}))


def test_what_fits_exactly_is_not_short():
    assert short(quota(requests_gpu=8, used={"requests_gpu": 5}), [Absent(shape(), 3)]) == []


def test_one_too_many_is_short_with_every_figure():
    (found,) = short(quota(requests_gpu=8, used={"requests_gpu": 6}), [Absent(shape(), 3)])
    assert found == QuotaShort(
        quota="q",
        key=f"requests.{GPU}",
        need=3 * NANO,
        hard=8 * NANO,
        taken=6 * NANO,
        promised=0,
        missing=3,
    )
    assert found.free == 2 * NANO


def test_the_larger_of_status_and_our_own_count_is_taken():
    given = quota(pods=8, used={"pods": 2})
    assert short(given, [Absent(shape(), 3)], count={"pods": 6 * NANO})[0].taken == 6 * NANO
    assert short(given, [Absent(shape(), 7)], count={"pods": 1 * NANO})[0].taken == 2 * NANO


def test_what_groups_ahead_are_promised_is_not_free():
    given = quota(pods=8, used={"pods": 2})
    assert short(given, [Absent(shape(), 4)], promised={"pods": 2 * NANO}) == []
    (found,) = short(given, [Absent(shape(), 5)], promised={"pods": 2 * NANO})
    assert (found.promised, found.free) == (2 * NANO, 4 * NANO)


def test_members_of_several_shapes_are_summed():
    (found,) = short(quota(requests_gpu=8), [Absent(shape(gpu=4), 1), Absent(shape(gpu=1), 5)])
    assert (found.need, found.missing) == (9 * NANO, 6)


def test_members_outside_the_scope_ask_nothing_of_it():
    restricted = quota(scopes=(scope("BestEffort"),), pods=1)
    (found,) = short(restricted, [Absent(shape(best_effort=True), 2), Absent(shape(), 9)])
    assert (found.need, found.missing) == (2 * NANO, 2)


def test_every_short_key_is_told_in_the_order_of_names():
    found = short(quota(requests_gpu=1, pods=1, cpu=1), [Absent(shape(), 2)])
    assert [f.key for f in found] == ["cpu", "pods", f"requests.{GPU}"]


def test_a_key_that_costs_nothing_is_never_short():
    assert short(quota(memory=0, used={"memory": "5Gi"}), [Absent(shape(), 2)]) == []


def test_nothing_missing_is_never_short():
    assert short(quota(pods=0, used={"pods": 9}), []) == []


def test_a_quota_lowered_below_its_use_leaves_nothing_free():
    (found,) = short(quota(pods=2, used={"pods": 5}), [Absent(shape(), 1)])
    assert found.free == 0


@pytest.mark.parametrize(
    ("key", "unstated", "demanded"),
    [
        ("cpu", "requests.cpu", True),
        ("requests.cpu", "requests.cpu", True),
        ("memory", "requests.memory", True),
        ("limits.cpu", "limits.cpu", True),
        ("limits.memory", "limits.memory", True),
        ("limits.cpu", "requests.cpu", False),
        ("requests.cpu", "limits.cpu", False),
        ("pods", "requests.cpu", False),
    ],
)
def test_a_quota_on_cpu_or_memory_demands_a_statement(key, unstated, demanded):
    given = msgspec.structs.replace(quota(), hard={key: 99 * NANO})
    found = short(given, [Absent(Shape(unstated=(unstated,)), 1)])
    assert found == ([QuotaUnstated("q", key)] if demanded else [])


def test_a_quota_whose_scope_leaves_the_pod_out_demands_nothing():
    given = quota(scopes=(scope("Terminating"),), cpu=9)
    assert short(given, [Absent(Shape(unstated=("requests.cpu",)), 1)]) == []


@pytest.mark.parametrize(("need", "whole", "never"), [(3, 3, False), (3, 8, False), (3, 9, True), (9, 0, True)])
def test_more_than_the_whole_quota_can_never_fit(need, whole, never):
    found = QuotaShort("q", "pods", need, 8, 7, 0, need, whole)
    assert found.never is never
