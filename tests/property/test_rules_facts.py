"""No object of a cluster, however odd, stops the gatekeeper: it becomes facts, and facts survive being written down."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.rules import facts, objects, owner_facts
from policy.rules.membership import families
from policy.rules.model import Fact
from tests.property.objects import json_of

READERS = {
    "pod": (objects.Pod, facts.pod),
    "node": (objects.Node, facts.node),
    "namespace": (objects.Namespace, facts.namespace),
    "quota": (objects.ResourceQuota, facts.quota),
    "queue": (objects.Queue, facts.queue),
    "podgroup": (objects.PodGroup, lambda item: facts.podgroup(item, "scheduling.example.com")),
    "job": (objects.Job, owner_facts.owner(families.KNOWN.of("batch", "Job"))),
}


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_any_object_becomes_facts_that_can_be_written_and_read(kind, data):
    wire, read = READERS[kind]
    found = read(msgspec.json.decode(msgspec.json.encode(data.draw(json_of(wire))), type=wire))
    assert isinstance(found, Fact)
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
