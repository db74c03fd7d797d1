"""What admission adds to a template's pod, and what a refused create tells."""

import msgspec
import pytest

from policy.rules import facts, owner_facts, refusal
from policy.rules.membership.job import FAMILY
from policy.rules.model import Claim, LimitRangeFacts, SeenFacts, Shape, Snapshot
from policy.rules.objects import Event, Job, ObjectReference
from policy.rules.quantity import parse
from policy.rules.template import Sizes, digest


def owner(containers, **spec):
    raw = {
        "metadata": {"name": "j", "namespace": "team", "uid": "u"},
        "spec": {"template": {"spec": {"containers": containers, **spec}}},
    }
    return owner_facts.owner(FAMILY)(msgspec.convert(raw, Job))


def limits(default=None, request=None, name="l", namespace="team"):
    return LimitRangeFacts(namespace, name, default or {}, request or {})


def sized(found, **given):
    return Sizes(Snapshot(**given)).of(found, found.parts[0])


def test_a_limit_range_fills_what_containers_leave_open():
    found = owner([{"resources": {"requests": {"cpu": "2"}}}, {}])
    shape = sized(found, limit_ranges=(limits({"cpu": "4"}, {"cpu": "1", "memory": "1Gi"}),))
    assert shape.requests == {"cpu": parse("3"), "memory": parse("2Gi")}
    assert shape.limits == {"cpu": parse("8")}


def test_the_template_s_own_limits_come_before_the_range_s_requests():
    """The API server copies limits to requests before LimitRanger looks."""
    found = owner([{"resources": {"limits": {"cpu": "2"}}}])
    assert sized(found, limit_ranges=(limits(request={"cpu": "1"}),)).requests == {"cpu": parse("2")}


def test_ranges_of_other_namespaces_are_nothing_to_it():
    found = owner([{}])
    assert sized(found, limit_ranges=(limits(request={"cpu": "1"}, namespace="other"),)).requests == {}


def test_the_runtime_class_adds_its_overhead():
    found = owner([{"resources": {"requests": {"cpu": "1"}}}], runtimeClassName="vm")
    assert sized(found, overheads={"vm": {"cpu": "250m"}}).requests == {"cpu": parse("1250m")}


def test_the_default_priority_class_gives_name_and_value():
    shape = sized(owner([{}]), default_priority_class="usual", priority_classes={"usual": 5})
    assert (shape.priority_class, shape.priority) == ("usual", 5)


LARGER = {"cpu": parse("3")}  # a webhook of somebody else's added a container


def test_a_member_that_was_seen_is_as_large_as_it_was():
    found = owner([{"resources": {"requests": {"cpu": "1"}}}])
    seen = {"u": SeenFacts(found.parts[0].template, Shape(requests=LARGER))}
    assert sized(found, seen=seen).requests == LARGER
    assert sized(found, seen={"other": seen["u"]}).requests == {"cpu": parse("1")}


def suspended(found, template):
    claim = Claim("g", "deadlock", 1.0, requests=LARGER, template=template)
    return msgspec.structs.replace(found, claim=claim)


def test_the_record_of_a_suspension_tells_its_size():
    found = owner([{"resources": {"requests": {"cpu": "1"}}}])
    assert sized(suspended(found, digest(found.parts[0].template))).requests == LARGER


def test_a_suspended_owner_may_be_given_another_template():
    """KEP-5440 lets users change the resources of a suspended Job: what was seen before is no more."""
    found = owner([{"resources": {"requests": {"cpu": "1"}}}])
    seen = {"u": SeenFacts("another", Shape(requests=LARGER))}
    assert sized(suspended(found, digest("another")), seen=seen).requests == {"cpu": parse("1")}


def event(message):
    return Event(involved_object=ObjectReference(uid="u"), message=message)


def test_a_quota_that_is_exceeded():
    text = (
        'Error creating: pods "j-x" is forbidden: exceeded quota: gpu-quota, requested: pods=1,requests.nvidia.com/gpu=2,'
        " used: pods=3,requests.nvidia.com/gpu=8, limited: pods=3,requests.nvidia.com/gpu=8"
    )
    found = refusal.read(event(text), 3.0)
    assert (found.owner, found.at, found.quota, found.unstated) == ("u", 3.0, "gpu-quota", False)
    assert found.requested == {"pods": parse("1"), "requests.nvidia.com/gpu": parse("2")}


@pytest.mark.parametrize(
    ("text", "unstated"),
    [
        ('Error creating: pods "j-x" is forbidden: failed quota: q: must specify requests.cpu for: c', True),
        ('Error creating: pods "j-x" is forbidden: maximum cpu usage per Pod is 1', False),
        ("exceeded quota: ", False),
    ],
)
def test_what_is_no_shortage(text, unstated):
    found = refusal.read(event(text), 3.0)
    assert (found.requested, found.unstated, found.message) == ({}, unstated, text)


@pytest.mark.parametrize(
    ("reason", "message", "tells"),
    [
        ("FailedCreate", 'Error creating: pods "j-x" is forbidden: no', True),
        ("FailedCreatePod", 'Error creating: pods "t-worker-0" is forbidden: no', True),
        ("FailedCreatePod", "Created worker pod: t-worker-0", False),  # so the training operator's MPI controller says
        ("FailedToCreateHeadPod", 'Failed to create head Pod team/r-head, pods "r-head" is forbidden: no', True),
        ("FailedToCreateWorkerPod", "Failed to create worker Pod for the cluster team/r, no", True),
        ("MPIJobFailed", 'worker pod created failed: pods "m-worker-0" is forbidden: no', True),
        ("MPIJobFailed", "MPIJob team/m has failed", False),
        ("FailedCreateService", "Error creating: no", False),
        ("", "Error creating: no", False),
    ],
)
def test_which_events_tell_of_a_refused_pod(reason, message, tells):
    found = msgspec.structs.replace(event(message), reason=reason)
    assert (facts.refused(found) is not None) is tells
