"""Quota and capability against the plainest arithmetic: pod by pod, fraction by fraction."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.rules import queue_capacity
from policy.rules.conclusions import Absent
from policy.rules.model import PodFacts, QueueFacts, QuotaFacts, ScopeFact, Shape
from policy.rules.namespace_quota import QuotaShort, counted, shortages, tally
from policy.rules.quantity import NANO

NOW = 100.0
GPU = "nvidia.com/gpu"
RESOURCES = ["cpu", "memory", GPU, "hugepages-2Mi", "ephemeral-storage"]
KEYS = [
    "pods",
    "count/pods",
    "cpu",
    "requests.cpu",
    "limits.cpu",
    "memory",
    "limits.memory",
    f"requests.{GPU}",
    f"limits.{GPU}",
    GPU,
    "hugepages-2Mi",
    "requests.hugepages-2Mi",
    "requests.ephemeral-storage",
    "services",
]
SCOPES = [
    ScopeFact("Terminating"),
    ScopeFact("NotTerminating"),
    ScopeFact("BestEffort"),
    ScopeFact("NotBestEffort"),
    ScopeFact("PriorityClass", "In", ("high",)),
    ScopeFact("PriorityClass", "NotIn", ("high",)),
    ScopeFact("PriorityClass", "DoesNotExist"),
    ScopeFact("CrossNamespacePodAffinity"),
]
nano = st.integers(0, 5 * NANO)
amounts = st.dictionaries(st.sampled_from(RESOURCES), nano, max_size=4)
shapes = st.builds(
    Shape,
    requests=amounts,
    limits=amounts,
    priority_class=st.sampled_from(["", "high", "low"]),
    terminating=st.booleans(),
    best_effort=st.booleans(),
    cross_namespace=st.booleans(),
)
pods = st.builds(
    PodFacts,
    uid=st.uuids().map(str),
    namespace=st.just("n"),
    name=st.just("p"),
    shape=shapes,
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    deleted=st.sampled_from([None, None, NOW - 1, NOW, NOW + 1]),
)
quotas = st.builds(
    QuotaFacts,
    namespace=st.just("n"),
    name=st.just("q"),
    hard=st.dictionaries(st.sampled_from(KEYS), st.integers(0, 20 * NANO), max_size=4),
    used=st.dictionaries(st.sampled_from(KEYS), st.integers(0, 20 * NANO), max_size=4),
    scopes=st.lists(st.sampled_from(SCOPES), max_size=2).map(tuple),
)


def in_scope(scope, shape):
    has = shape.priority_class
    return {
        "Terminating": shape.terminating,
        "NotTerminating": not shape.terminating,
        "BestEffort": shape.best_effort,
        "NotBestEffort": not shape.best_effort,
        "CrossNamespacePodAffinity": shape.cross_namespace,
        "PriorityClass": {
            "In": has in scope.values,
            "NotIn": has not in scope.values,
            "DoesNotExist": not has,
            "Exists": bool(has),
        }[scope.operator],
    }[scope.name]


def charge(key, shape):
    """Pods (as a fraction, exact) that one pod of the shape takes of a key."""
    if key in ("pods", "count/pods"):
        return Fraction(1)
    field, _, name = key.rpartition(".") if key.startswith(("requests.", "limits.")) else ("", "", key)
    if key.startswith("requests."):
        return Fraction(shape.requests.get(key.removeprefix("requests."), 0), NANO)
    if key.startswith("limits."):
        name = key.removeprefix("limits.")
        return Fraction(shape.limits.get(name, 0) if name in ("cpu", "memory", "ephemeral-storage") else 0, NANO)
    plain = name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")
    return Fraction(shape.requests.get(name, 0) if plain else 0, NANO)


def alive(pod):
    return pod.phase in ("Pending", "Running") and (pod.deleted is None or pod.deleted >= NOW)


@settings(max_examples=300, deadline=None)
@given(quotas, st.lists(pods, max_size=6))
def test_what_we_count_is_what_the_quota_controller_counts(quota, given_pods):
    found = counted(quota, tally(given_pods, NOW))
    for key in quota.hard:
        inside = [p for p in given_pods if all(in_scope(s, p.shape) for s in quota.scopes)]
        naive = sum(charge(key, p.shape) for p in inside if alive(p) or key == "count/pods")
        assert Fraction(found[key], NANO) == naive, key


@settings(max_examples=500, deadline=None)
@given(
    quotas,
    st.lists(st.builds(Absent, shape=shapes, count=st.integers(1, 4)), max_size=3),
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 9 * NANO), max_size=3),
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 9 * NANO), max_size=3),
)
def test_a_quota_is_short_where_one_pod_after_the_other_would_be_refused(quota, absent, count, promised):
    found = {s.key: s for s in shortages(quota, absent, count, promised)}
    inside = [a.shape for a in absent for _ in range(a.count) if all(in_scope(s, a.shape) for s in quota.scopes)]
    for key, hard in quota.hard.items():
        taken = Fraction(max(quota.used.get(key, 0), count.get(key, 0)) + promised.get(key, 0), NANO)
        refused = False
        for shape in inside:
            cost = charge(key, shape)
            refused = refused or (cost > 0 and taken + cost > Fraction(hard, NANO))
            taken += cost
        assert (key in found) is refused, key
        if refused:
            short = found[key]
            assert isinstance(short, QuotaShort)
            assert Fraction(short.need, NANO) == sum(charge(key, s) for s in inside)
            assert short.missing == len(inside)
            assert 0 <= short.free <= hard
            assert not short.never or short.need > hard


names_of = st.sampled_from(["a", "b", "c", "root", ""])
queues = st.dictionaries(
    st.sampled_from(["a", "b", "c", "root"]),
    st.tuples(st.dictionaries(st.sampled_from(["cpu", GPU]), st.integers(0, 9 * NANO)), names_of),
)


@settings(max_examples=500, deadline=None)
@given(queues, st.lists(st.tuples(st.sampled_from(["a", "b", "default"]), amounts), max_size=5), amounts)
def test_capability_is_kept_at_every_level_by_charging_what_is_asked_of_below(drawn, charged, need):
    known = {name: QueueFacts(name, capability, parent) for name, (capability, parent) in drawn.items()}

    def ancestors(name):
        met = []
        while name and name not in met:
            met.append(name)
            if name == "root":  # whatever parent it says
                break
            parent = known[name].parent if name in known else ""
            name = parent or ("root" if "root" in known else "")
        return met

    allocated: dict = {}
    for name, wanted in charged:
        queue_capacity.charge(known, name, wanted, allocated)
    short = queue_capacity.shortage(known, "a", need, allocated)
    naive = [
        (level, resource)
        for level in ancestors("a")
        for resource, amount in sorted(need.items())
        if amount
        and level in known
        and (limit := known[level].capability.get(resource)) is not None
        and not (limit == 0 and resource in ("cpu", "memory"))
        and amount + sum(w.get(resource, 0) for n, w in charged if level in ancestors(n)) > limit
    ]
    assert (short and (short.queue, short.resource)) == (naive[0] if naive else None)
