"""The order of a rotation, step by step: each row of the story is one look at the world and the one thing to do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from certs.plan import AddAuthority, KeepAuthorities, Publish, StoreBundle, StoreLeaf, Wait, next_action
from certs.world import Authority, Endpoint, Leaf, Policy, World, due

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
POLICY = Policy(names=frozenset({"svc"}))


def ca(name: str, issued: datetime = NOW, **fields) -> Authority:
    return Authority(name, issued, issued + POLICY.ca_lifetime, **fields)


def leaf(serial: int, issuer: str | None, issued: datetime = NOW, **fields) -> Leaf:
    return Leaf(serial, issuer, issued, issued + POLICY.leaf_lifetime, fields.pop("names", POLICY.names))


OLD, NEW = ca("old"), ca("new")
AT_REST = World(
    NOW,
    (OLD,),
    leaf(1, "old"),
    ("old",),
    (("old",), ("old",)),
    unchanged=DAY,
    served=(Endpoint("a", 1), Endpoint("b", 1)),
)
BOTH = ("new", "old")
ROTATING = replace(AT_REST, authorities=(NEW, OLD), published=(BOTH, BOTH), bundle=BOTH)
MOVED = replace(ROTATING, leaf=leaf(2, "new"), served=(Endpoint("a", 2), Endpoint("b", 2)))


def ask(world: World, **changes) -> object:
    return next_action(replace(world, **changes), POLICY)


@pytest.mark.parametrize(
    ("world", "action"),
    [
        (World(NOW), AddAuthority()),
        (World(NOW, (OLD,)), StoreLeaf("old")),
        (World(NOW, (OLD,), leaf(1, "old"), ("old",), ((), ())), Publish()),
        (AT_REST, Wait(POLICY.look_every)),
        # asked for a new CA
        (replace(AT_REST, renew_ca=True), AddAuthority()),
        (replace(AT_REST, authorities=(NEW, OLD)), Publish()),
        (replace(AT_REST, authorities=(NEW, OLD), published=(BOTH, ("old",))), Publish()),
        (replace(AT_REST, authorities=(NEW, OLD), published=(BOTH, BOTH)), StoreBundle()),
        (replace(ROTATING, unchanged=59 * SECOND), Wait(SECOND, "letting caBundle and leaf settle")),
        (replace(ROTATING, unchanged=60 * SECOND), StoreLeaf("new")),
        (replace(MOVED, unchanged=0 * SECOND), Wait(10 * SECOND, "letting caBundle and leaf settle")),
        (MOVED, KeepAuthorities(("new",))),
        (replace(MOVED, authorities=(NEW,)), Publish()),
        (replace(MOVED, authorities=(NEW,), published=(("new",),) * 2), StoreBundle()),
        (replace(MOVED, authorities=(NEW,), published=(("new",),) * 2, bundle=("new",)), Wait(POLICY.look_every)),
    ],
)
def test_the_story_of_a_rotation(world: World, action: object) -> None:
    assert next_action(world, POLICY) == action


@pytest.mark.parametrize(
    ("served", "reason"),
    [
        ((Endpoint("a", 2), Endpoint("b", 1)), "waiting for b (serves 1) to serve certificate 2"),
        ((Endpoint("a", None), Endpoint("b", 2)), "waiting for a (no answer) to serve certificate 2"),
        ((), "waiting for a replica to serve certificate 2"),
    ],
)
def test_the_old_ca_stays_until_every_replica_is_seen_to_serve_the_new_leaf(served, reason: str) -> None:
    assert ask(MOVED, served=served) == Wait(POLICY.look_every, reason)


def test_an_overwritten_bundle_is_published_again_at_any_stage() -> None:
    for world in (AT_REST, ROTATING, MOVED):
        for strange in ((), ("stranger",), (*world.trusted, "stranger")):
            assert ask(world, published=(world.trusted, strange)) == Publish()


def test_a_leaf_is_renewed_at_two_thirds_of_its_life_by_the_same_ca() -> None:
    old = leaf(1, "old", NOW - 60 * DAY)
    assert due(old.issued, old.ends) == NOW
    assert ask(AT_REST, leaf=old) == StoreLeaf("old")
    assert ask(AT_REST, leaf=old, now=NOW - SECOND) == Wait(POLICY.look_every)


def test_a_ca_is_renewed_at_two_thirds_of_its_life() -> None:
    at = due(OLD.issued, OLD.ends)
    fresh = leaf(1, "old", at - DAY)
    assert ask(AT_REST, leaf=fresh, now=at) == AddAuthority()
    assert ask(AT_REST, leaf=fresh, now=at - SECOND) == Wait(POLICY.look_every)


def test_a_leaf_that_cannot_be_used_is_replaced_at_once() -> None:
    for broken in (None, leaf(1, None), leaf(1, "old", NOW - 91 * DAY), leaf(1, "old", names=frozenset({"other"}))):
        assert ask(AT_REST, leaf=broken) == StoreLeaf("old")


def test_more_names_than_wanted_are_no_reason_for_a_new_leaf() -> None:
    assert ask(AT_REST, leaf=leaf(1, "old", names=POLICY.names | {"more"})) == Wait(POLICY.look_every)


def test_while_the_new_ca_is_not_trusted_everywhere_the_old_one_signs() -> None:
    unsettled = replace(ROTATING, published=(BOTH, ("old",)), unchanged=DAY)
    assert ask(unsettled, renew_leaf=True) == StoreLeaf("old")
    assert ask(ROTATING, renew_leaf=True, unchanged=SECOND) == StoreLeaf("old")
    assert ask(ROTATING, renew_leaf=True) == StoreLeaf("new")


def test_once_a_leaf_is_of_the_new_ca_there_is_no_way_back() -> None:
    assert ask(MOVED, renew_leaf=True, unchanged=0 * SECOND, published=((), ())) == StoreLeaf("new")


def test_without_the_old_key_a_lost_leaf_waits_until_the_new_ca_is_trusted() -> None:
    """The CA Secret was deleted: its CAs are known from the serving Secret, but can sign no more."""
    orphaned = replace(ROTATING, authorities=(NEW, replace(OLD, signs=False)))
    assert ask(orphaned, renew_leaf=True, unchanged=SECOND) == Wait(10 * SECOND, "letting caBundle and leaf settle")
    assert ask(orphaned, leaf=None, unchanged=SECOND) == Wait(10 * SECOND, "letting caBundle and leaf settle")
    assert ask(orphaned, leaf=None) == StoreLeaf("new")


def test_a_ca_without_its_key_is_replaced() -> None:
    assert ask(AT_REST, authorities=(replace(OLD, signs=False),)) == AddAuthority()


def test_one_rotation_at_a_time() -> None:
    assert ask(ROTATING, renew_ca=True, unchanged=SECOND) == Wait(10 * SECOND, "letting caBundle and leaf settle")


def test_a_ca_that_has_ended_is_forgotten_whatever_is_served() -> None:
    ended = Authority("ended", NOW - 400 * DAY, NOW - DAY)
    assert ask(AT_REST, authorities=(OLD, ended), served=()) == KeepAuthorities(("old",))


def test_without_webhook_configurations_there_is_nothing_to_wait_for() -> None:
    assert ask(ROTATING, published=()) == StoreLeaf("new")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("names", frozenset()),
        ("names", frozenset({"bücher.example"})),
        ("leaf_lifetime", timedelta(0)),
        ("leaf_lifetime", 122 * DAY),
        ("look_every", timedelta(0)),
    ],
)
def test_a_policy_that_cannot_work_names_the_field(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        replace(POLICY, **{field: value})
