"""Members that were preempted, kept for when no pod is left to tell of it."""

import msgspec
import pytest

from policy.gatekeeper.cache import Delta
from policy.gatekeeper.fallen import KEPT_SECONDS, Fallen
from policy.rules.model import Lifted, PodFacts, Shape
from tests.virtual_clock import VirtualClock

POD = PodFacts("p", "team", "j-0", Shape(), lifted=Lifted(2, 1.0), preempted=True, deleted=1.0)


@pytest.fixture
def clock():
    return VirtualClock()


def test_it_is_kept_from_its_mark_on_for_ten_minutes(clock):
    fallen = Fallen(clock)
    fallen.pod(Delta("p", msgspec.structs.replace(POD, preempted=False), POD))
    assert fallen.all() == (POD,)
    fallen.pod(Delta("p", msgspec.structs.replace(POD, phase="Failed"), None))
    assert fallen.all() == (POD,)
    clock.advance(KEPT_SECONDS + 1)
    assert fallen.all() == ()


@pytest.mark.parametrize("change", [{"preempted": False}, {"lifted": None}])
def test_others_are_not(clock, change):
    fallen = Fallen(clock)
    fallen.pod(Delta("p", msgspec.structs.replace(POD, **change), None))
    assert fallen.all() == ()


def test_it_is_forgotten_when_its_group_is_whole_again(clock):
    fallen = Fallen(clock)
    fallen.pod(Delta("p", None, POD))
    fallen.forget(["p", "q"])
    assert fallen.all() == ()
    fallen.pod(Delta("p", POD, None))
    assert fallen.all() == (), "what is left of it is no news"
