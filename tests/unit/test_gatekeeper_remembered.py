"""The size of an owner's last member, kept for when no pod is left to ask."""

import msgspec

from policy.gatekeeper.cache import Delta
from policy.gatekeeper.remembered import Remembered
from policy.rules.membership.family import Size
from policy.rules.model import OwnerFacts, PartFacts, PodFacts, SeenFacts, Shape

OWNER = OwnerFacts(
    "Job", "team", "j", "owner", "batch/v1", 0.0, Size(1, 1, "spec"), (PartFacts(1, 1, Shape(), "as it is"),)
)
POD = PodFacts("p", "team", "j-0", Shape(requests={"cpu": 3}), owner="owner")


def remembered():
    return Remembered({"owner": OWNER}.get)


def test_a_pod_that_goes_leaves_its_size():
    found = remembered()
    found.pod(Delta("p", None, POD))
    assert found.all() == {}, "while it stands, it can be asked"
    going = msgspec.structs.replace(POD, deleted=1.0)
    found.pod(Delta("p", POD, going))
    assert found.all() == {"owner": SeenFacts("as it is", POD.shape)}
    found.pod(Delta("p", going, None))
    assert found.all() == {"owner": SeenFacts("as it is", POD.shape)}


def test_a_pod_of_no_owner_that_we_know_leaves_nothing():
    found = remembered()
    found.pod(Delta("p", msgspec.structs.replace(POD, owner="other"), None))
    assert found.all() == {}


def test_what_is_kept_of_an_owner_goes_with_it():
    found = remembered()
    found.pod(Delta("p", POD, None))
    found.owner(Delta("owner", OWNER, OWNER))
    assert found.all() != {}
    found.owner(Delta("owner", OWNER, None))
    assert found.all() == {}
