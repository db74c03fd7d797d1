"""Controllers of kinds that nobody told of are looked up: paced, bounded, and again and again."""

import json
import threading

import pytest

from policy.gatekeeper import lookup, strangers
from policy.gatekeeper.cache import Delta
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.lookup import Asked, Lookup
from policy.gatekeeper.strangers import Strangers
from policy.rules.membership.families import KNOWN
from policy.rules.model import Lifted, Ref
from tests.virtual_clock import VirtualClock
from tests.unit.rules_facts import pod

REF = Ref("example.com", "Fleet", "f", "u")
BASE = "/apis/example.com/v1/namespaces/team/fleets/f"
GROUP = {"preferredVersion": {"version": "v1"}}
FLEETS = {"name": "fleets", "kind": "Fleet", "namespaced": True}
SCALE = {"name": "fleets/scale", "kind": "Scale", "namespaced": True}


def fleet(uid="u", **spec):
    return {"metadata": {"name": "f", "namespace": "team", "uid": uid, "resourceVersion": "1"}, "spec": spec}


class Server:
    """Answers from a table; what is not in it is not found."""

    def __init__(self, *resources, **answers):
        self.asked = []
        self.answers = {"/apis/example.com": GROUP, "/apis/example.com/v1": {"resources": list(resources)}}

    def request(self, method, path):
        self.asked.append(path)
        found = self.answers.get(path, ApiError(404, "NotFound", f"{path} not found"))
        if isinstance(found, Exception):
            raise found
        return json.dumps(found).encode()


def ask(server, ref=REF, clock=None):
    return Lookup(server, clock or VirtualClock()).ask(Asked("team", ref))


def test_spec_replicas_is_a_size():
    server = Server(FLEETS)
    server.answers[BASE] = fleet(replicas=3)
    found = ask(server)
    assert (found.owner.kind, found.owner.size.minimum, found.owner.uid, found.why) == ("Fleet", 3, "u", "")
    assert server.asked == ["/apis/example.com", "/apis/example.com/v1", BASE]


def test_the_scale_subresource_counts_before_it():
    server = Server(FLEETS, SCALE)
    server.answers[BASE] = fleet(replicas=3, size=5)
    server.answers[f"{BASE}/scale"] = fleet(replicas=5)
    assert ask(server).owner.size.minimum == 5
    server.answers[f"{BASE}/scale"] = fleet()  # Go leaves a zero out
    assert ask(server).owner.size.minimum == 0


FORBIDDEN = ApiError(403, "Forbidden", 'fleets.example.com "f" is forbidden: cannot get resource "fleets"')


@pytest.mark.parametrize(
    ("resources", "body", "why"),
    [
        ((FLEETS,), fleet(), "it has neither a scale subresource nor spec.replicas"),
        ((FLEETS,), fleet(uid="other", replicas=1), "there is another one of that name, uid other"),
        ((FLEETS,), FORBIDDEN, FORBIDDEN.message),
        ((FLEETS,), {"metadata": {"uid": "u"}, "spec": 3}, "Expected `object`, got `int` - at `$.spec`"),
        ((FLEETS,), None, "not found"),
        ((), fleet(replicas=1), "example.com has no kind Fleet"),
        (({**FLEETS, "namespaced": False},), fleet(replicas=1), "example.com has no kind Fleet"),
    ],
)
def test_why_a_size_cannot_be_read(resources, body, why):
    server = Server(*resources)
    if body is not None:
        server.answers[BASE] = body
    found = ask(server)
    assert found.owner is None
    assert not found.failed
    assert found.why.startswith("the size of Fleet f cannot be read: ")
    assert found.why.endswith(why)


def test_a_replica_count_that_is_none_is_a_problem_of_the_group():
    server = Server(FLEETS)
    server.answers[BASE] = fleet(replicas="many")
    assert ask(server).owner.problem == "spec.replicas: 'many' is no number of pods"


@pytest.mark.parametrize(
    "ref",
    [
        Ref("example.com", "Fleet", "../../secrets/s", "u"),
        Ref("example.com/../..", "Fleet", "f", "u"),
        Ref("", "Fleet", "f", "u"),
        Ref("example.com", "Fleet", "", "u"),
        Ref("example.com", "Fleet", "..", "u"),
    ],
)
def test_a_name_that_a_tenant_made_up_becomes_no_path(ref):
    server = Server(FLEETS)
    assert ask(server, ref).why.endswith("no object can have that name")
    assert server.asked == []


def test_discovery_is_asked_once_a_minute_a_kind():
    server, clock = Server(FLEETS), VirtualClock()
    server.answers[BASE] = fleet(replicas=1)
    one = Lookup(server, clock)
    for _ in range(3):
        one.ask(Asked("team", REF))
    assert server.asked.count("/apis/example.com") == 1
    clock.advance(lookup.KIND_SECONDS)
    one.ask(Asked("team", REF))
    assert server.asked.count("/apis/example.com") == 2


# --- as long as there are pods -------------------------------------------------------------------------------


class World:
    """Strangers over a Server and a list of pods."""

    def __init__(self, *pods):
        self.server, self.clock, self.pods, self.changes = Server(FLEETS), VirtualClock(), list(pods), 0
        self.server.answers[BASE] = fleet(replicas=2)
        self.made = Strangers(Lookup(self.server, self.clock), lambda: self.pods, KNOWN, self.clock, self.changed)
        for each in pods:
            self.made.pod(Delta(each.uid, None, each))

    def changed(self):
        self.changes += 1

    def turn(self):
        self.made.turn(threading.Event())

    def reads(self):
        return self.server.asked.count(BASE)


def member(name="p", ref=REF, **fields):
    return pod(name, above=ref, owner=ref.uid, group=None, **fields)


def test_an_owner_is_read_when_its_first_pod_is_held():
    world = World(member())
    assert (world.made.owners(), world.made.unsized()) == ({}, {})
    world.turn()
    assert world.made.owners()["u"].size.minimum == 2
    assert (world.reads(), world.changes) == (1, 1)
    world.turn()
    assert (world.reads(), world.changes) == (1, 1)


def test_it_is_read_again_and_a_change_is_told():
    world = World(member())
    world.turn()
    world.clock.advance(strangers.AGAIN_SECONDS)
    world.turn()
    assert (world.reads(), world.changes) == (2, 1)
    world.server.answers[BASE] = fleet(replicas=4)
    world.clock.advance(strangers.AGAIN_SECONDS)
    world.turn()
    assert (world.made.owners()["u"].size.minimum, world.changes) == (4, 2)


def test_an_outage_leaves_what_was_known():
    world = World(member())
    world.turn()
    world.server.answers[BASE] = ApiError(503, "ServiceUnavailable", "down")
    world.clock.advance(strangers.AGAIN_SECONDS)
    world.turn()
    assert world.made.owners()["u"].size.minimum == 2


def test_of_one_that_could_not_be_asked_nothing_is_known_and_it_is_asked_soon():
    world = World(member())
    world.server.answers[BASE] = ApiError(503, "ServiceUnavailable", "down")
    world.turn()
    assert (world.made.owners(), world.made.unsized()) == ({}, {})
    world.server.answers[BASE] = fleet(replicas=2)
    world.clock.advance(strangers.FAILED_SECONDS)
    world.turn()
    assert world.made.owners()["u"].size.minimum == 2


def test_it_is_forgotten_with_its_last_pod():
    world = World(member())
    world.turn()
    world.pods.clear()
    world.turn()
    assert world.made.owners() == {}


@pytest.mark.parametrize(
    "pods",
    [
        [member(gated=False)],
        [member(ref=Ref("apps", "ReplicaSet", "r", "r"))],
        [member(ref=Ref("batch", "Job", "j", "j"))],
        [member(ref=Ref("", "Pod", "d", "d"))],
        [pod("alone", group=None)],
    ],
)
def test_pods_of_others_ask_nothing(pods):
    world = World(*pods)
    world.turn()
    assert world.server.asked == []


def test_lifted_members_keep_their_owner_known():
    world = World(member(gated=False, lifted=Lifted(1, 0.0)), member("q"))
    world.turn()
    world.pods.pop()
    world.turn()
    assert set(world.made.owners()) == {"u"}


def test_a_member_that_was_lifted_before_a_restart_is_enough_to_look():
    world = World(member(gated=False, lifted=Lifted(1, 0.0)))
    world.turn()
    assert set(world.made.owners()) == {"u"}


def test_no_more_than_a_bounded_number_is_looked_at(monkeypatch):
    monkeypatch.setattr(strangers, "MOST", 2)
    world = World(*(member(f"p{i}", Ref("example.com", "Fleet", f"f{i}", f"u{i}")) for i in range(4)))
    world.turn()
    assert sum(1 for why in world.made.unsized().values() if "is not looked up: more than 2 are" in why) == 2
    assert sum(1 for path in world.server.asked if "/fleets/" in path) == 2
    assert world.clock.monotonic() >= 3 / strangers.PER_SECOND
