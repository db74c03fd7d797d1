"""Metrics: names and labels that dashboards rest on, and series that end with what they showed."""

from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from policy.gatekeeper.lift import Lift
from policy.gatekeeper.measure import Measures
from policy.gatekeeper.metrics import Metrics, new_registry, size_class
from policy.rules.decide import decide
from policy.rules.model import Config
from tests.unit.rules_facts import NOW, job, lifted, nodes, pod, pods, shape, snapshot


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return Metrics(registry, "1.2.3")


def value(registry, name, **labels):
    return registry.get_sample_value(name, labels)


def test_a_state_that_no_group_is_in_any_more_disappears(registry, metrics):
    metrics.groups({("held", "NodesShort"): 3, ("running", "GangRunning"): 1})
    metrics.groups({("running", "GangRunning"): 4})
    assert value(registry, "ganggate_groups", state="held", reason="NodesShort") is None
    assert value(registry, "ganggate_groups", state="running", reason="GangRunning") == 4


def test_a_bound_group_is_counted_with_its_wait(registry, metrics):
    metrics.waited("team-a", 64, 45.0)
    assert value(registry, "ganggate_groups_bound_total", queue="team-a") == 1
    bucket = {"queue": "team-a", "size": "9-64"}
    assert value(registry, "ganggate_group_wait_seconds_bucket", le="30.0", **bucket) == 0
    assert value(registry, "ganggate_group_wait_seconds_bucket", le="60.0", **bucket) == 1


@pytest.mark.parametrize(
    ("size", "name"), [(1, "1"), (2, "2-8"), (8, "2-8"), (9, "9-64"), (64, "9-64"), (512, "65-512"), (513, "513+")]
)
def test_size_classes(size, name):
    assert size_class(size) == name


def test_queues_and_quotas(registry, metrics):
    metrics.queues({("a", "nvidia.com/gpu"): 8}, {("a", "nvidia.com/gpu"): 32})
    metrics.shortfalls({("ns", "q", "requests.cpu"): 2.5})
    labels = {"queue": "a", "resource": "nvidia.com/gpu"}
    assert value(registry, "ganggate_queue_allocated", **labels) == 8
    assert value(registry, "ganggate_queue_capability", **labels) == 32
    assert value(registry, "ganggate_quota_shortfall", namespace="ns", quota="q", resource="requests.cpu") == 2.5
    metrics.shortfalls({})
    assert value(registry, "ganggate_quota_shortfall", namespace="ns", quota="q", resource="requests.cpu") is None


def test_lifts_and_passes(registry, metrics):
    metrics.decided(0.2)
    metrics.lifted(1.5, 1.2)
    metrics.passed(0.004)
    metrics.patched("ok")
    metrics.patched("ok")
    metrics.lost_to_outsider()
    assert value(registry, "ganggate_complete_to_decision_seconds_sum") == 0.2
    assert value(registry, "ganggate_decision_to_last_lift_seconds_sum") == 1.5
    assert value(registry, "ganggate_lift_spread_seconds_sum") == 1.2
    assert value(registry, "ganggate_pass_seconds_count") == 1
    assert value(registry, "ganggate_patches_total", result="ok") == 2
    assert value(registry, "ganggate_lift_lost_to_outsider_total") == 1


def test_the_process(registry, metrics):
    metrics.watches({"pods": 3.5, "queues.scheduling.volcano.sh": 1.0})
    metrics.watches({"pods": 0.5})
    metrics.certificate("serving", datetime(2027, 1, 1, tzinfo=UTC))
    metrics.leading(valid=True)
    metrics.event("written")
    assert value(registry, "ganggate_watch_age_seconds", resource="pods") == 0.5
    assert value(registry, "ganggate_watch_age_seconds", resource="queues.scheduling.volcano.sh") is None
    assert value(registry, "ganggate_certificate_expiry_timestamp_seconds", certificate="serving") == 1798761600
    assert value(registry, "ganggate_leader") == 1
    metrics.leading(valid=False)
    assert value(registry, "ganggate_leader") == 0
    assert value(registry, "ganggate_events_total", result="written") == 1
    assert value(registry, "ganggate_build_info", version="1.2.3") == 1


def test_the_registry_shows_what_the_process_uses():
    assert new_registry().get_sample_value("process_resident_memory_bytes") > 1e6


def test_two_registries_do_not_meet(metrics):
    Metrics(CollectorRegistry(), "1").event("written")


def lost_place(job_fields):
    """A gang of two, lifted long ago, whose node an outsider has filled."""
    members = [lifted(p, "n0", 2, NOW - 500, bound=False) for p in pods(2, "j", job="j")]
    outsider = pod("d", ns="free", gated=False, node="n0", like=shape(gpu=8))
    found = snapshot(pods=[*members, outsider], nodes=nodes(1), jobs=[job("j", 2, **job_fields)])
    return decide(found, Config(), NOW), found


def test_a_group_that_lost_its_place_to_others_counts_once(registry, metrics):
    measures = Measures(metrics)
    outcome, found = lost_place({"lever": ("spec", "suspend")})
    for _ in range(3):
        measures.passed(outcome, found, [], NOW, 0.1)
    assert value(registry, "ganggate_lift_lost_to_outsider_total") == 1
    measures.passed(*lost_place({}), [], NOW, 0.1)  # it is told of, and not given back
    measures.passed(outcome, found, [], NOW, 0.1)
    assert value(registry, "ganggate_lift_lost_to_outsider_total") == 2


def test_a_lift_that_was_only_tried_out_is_no_lift(registry, metrics):
    Measures(metrics).lifted(Lift("g", 1.0, [], 0, ["refused"], ended=2.0, dry=True))
    assert value(registry, "ganggate_decision_to_last_lift_seconds_count") == 0
    Measures(metrics).lifted(Lift("g", 1.0, [], 0, lifted=2, first=1.5, ended=2.0))
    assert value(registry, "ganggate_decision_to_last_lift_seconds_count") == 1
