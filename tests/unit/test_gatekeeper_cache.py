"""The cache: newest version wins, what is deleted stays deleted, readiness falls with the watch."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.gatekeeper.cache import TOMBSTONE_SECONDS, Corrupt, Delta, Store, as_version, identity
from policy.rules.objects import ObjectMeta
from tests.virtual_clock import VirtualClock


@dataclass(frozen=True)
class Thing:
    metadata: ObjectMeta
    text: str = ""


def thing(uid, version, name=None, text=""):
    return Thing(ObjectMeta(name=name or uid, namespace="ns", uid=uid, resource_version=str(version)), text)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def store(clock):
    return Store(identity, clock)


def held(store):
    return {t.metadata.uid: as_version(t.metadata.resource_version) for t in store.items()}


def test_events_are_applied_and_found_by_uid_and_name(store):
    assert store.apply("ADDED", thing("a", 1))
    assert store.apply("MODIFIED", thing("a", 3, text="new"))
    assert store.by_uid("a").text == store.by_name("ns", "a").text == "new"
    assert store.by_uid("b") is store.by_name("ns", "b") is None
    assert (store.observed, store.version_of("a"), store.version_of("b"), len(store)) == (3, 3, 0, 1)


@pytest.mark.parametrize("late", [1, 2])
def test_an_event_that_is_not_newer_changes_nothing(store, late):
    store.apply("ADDED", thing("a", 2, text="kept"))
    generation = store.generation
    assert not store.apply("MODIFIED", thing("a", late, text="late"))
    assert store.by_uid("a").text == "kept"
    assert store.generation == generation


def test_versions_compare_as_numbers_not_as_text(store):
    store.apply("ADDED", thing("a", 9))
    assert store.apply("MODIFIED", thing("a", 10))


def test_our_own_write_is_there_at_once_and_its_event_changes_nothing(store):
    store.apply("ADDED", thing("a", 1))
    assert store.assume(thing("a", 5, text="ours"))
    assert store.observed == 1, "the watch has not shown it yet"
    assert not store.apply("MODIFIED", thing("a", 4))
    assert not store.apply("MODIFIED", thing("a", 5))
    assert store.by_uid("a").text == "ours"
    assert store.observed == 5


def test_a_late_answer_does_not_bring_back_what_was_deleted(store):
    store.apply("ADDED", thing("a", 1))
    store.apply("DELETED", thing("a", 4))
    assert not store.assume(thing("a", 3))
    assert not store.assume(thing("a", 9)), "left the selection: no event will ever take it out again"
    assert not store.apply("MODIFIED", thing("a", 3))
    assert not store.items()


def test_an_object_may_leave_the_selection_and_come_back(store):
    store.apply("ADDED", thing("a", 1))
    store.apply("DELETED", thing("a", 4))
    assert store.apply("ADDED", thing("a", 6))
    assert held(store) == {"a": 6}


def test_a_deletion_older_than_what_we_hold_is_ignored(store):
    store.apply("ADDED", thing("a", 1))
    store.assume(thing("a", 6))
    assert not store.apply("DELETED", thing("a", 4))
    assert held(store) == {"a": 6}


def test_a_name_used_again_is_another_object(store):
    store.apply("ADDED", thing("old", 1, name="n"))
    store.assume(thing("new", 5, name="n"))
    assert store.by_name("ns", "n").metadata.uid == "new"
    store.apply("MODIFIED", thing("old", 3, name="n"))
    assert store.by_name("ns", "n").metadata.uid == "new", "the older object's event comes late"
    store.apply("DELETED", thing("old", 4, name="n"))
    assert store.by_name("ns", "n").metadata.uid == "new"


def test_tombstones_do_not_pile_up(store, clock):
    for n in range(1000):
        store.apply("DELETED", thing(f"u{n}", n + 1))
    clock.advance(TOMBSTONE_SECONDS + 1)
    for n in range(1000, 1501):
        store.apply("DELETED", thing(f"u{n}", n + 1))
    assert len(store._tombstones) <= 501


def test_a_list_takes_out_what_it_lacks_but_nothing_newer_than_itself(store):
    store.apply("ADDED", thing("gone", 1))
    store.apply("ADDED", thing("stays", 2))
    store.assume(thing("created-later", 30))
    store.assume(thing("changed-later", 31, text="ours"))
    store.replace([thing("stays", 2), thing("new", 15), thing("changed-later", 12)], 20)
    assert held(store) == {"stays": 2, "new": 15, "created-later": 30, "changed-later": 31}
    assert store.synced
    assert store.observed == 20


def test_a_list_from_before_what_was_shown_means_that_history_was_set_back(store):
    store.apply("ADDED", thing("a", 500))
    store.apply("ADDED", thing("b", 501))
    store.apply("DELETED", thing("b", 502))
    store.replace([thing("a", 90, text="restored"), thing("b", 91)], 100)
    assert held(store) == {"a": 90, "b": 91}
    assert store.apply("MODIFIED", thing("a", 101))


def test_items_is_the_same_tuple_until_something_changes(store):
    store.apply("ADDED", thing("a", 1))
    first = store.items()
    store.alive(50)
    assert store.items() is first
    store.apply("ADDED", thing("b", 2))
    assert len(first) == 1
    assert len(store.items()) == 2


def test_projection_runs_once_a_version_and_may_hide_or_refuse(clock):
    calls = []

    def project(item):
        calls.append(item.metadata.uid)
        if item.text == "hidden":
            return None
        return int(item.text)

    store = Store(project, clock)
    store.replace([thing("a", 1, text="1"), thing("b", 2, text="hidden"), thing("c", 3, text="x")], 3)
    for _ in range(3):
        assert store.items() == (1,)
    assert calls == ["a", "b", "c"]
    (bad,) = store.corrupt()
    assert bad.metadata.uid == "c"
    assert bad.metadata.name == "c"
    assert bad.error.startswith("ValueError: invalid literal")
    store.apply("MODIFIED", thing("c", 4, text="3"))
    assert store.items() == (1, 3)
    assert store.corrupt() == ()


def test_an_object_that_does_not_decode_is_kept_apart(store):
    meta = ObjectMeta(name="q", uid="q", resource_version="7")
    store.apply("ADDED", thing("q", 6))
    store.apply("MODIFIED", Corrupt(meta, "Expected `int`"))
    assert store.items() == ()
    assert store.corrupt() == (Corrupt(meta, "Expected `int`"),)
    store.apply("DELETED", Corrupt(ObjectMeta(name="q", uid="q", resource_version="8"), "Expected `int`"))
    assert store.corrupt() == ()


def test_listeners_learn_of_each_change_once(clock):
    heard = []
    store = Store(identity, clock, listeners=[heard.append])
    one, two = thing("a", 1), thing("a", 2)
    store.apply("ADDED", one)
    store.apply("ADDED", one)
    store.apply("MODIFIED", two)
    store.apply("DELETED", thing("a", 3))
    assert heard == [Delta("a", None, one), Delta("a", one, two), Delta("a", two, None)]
    more = []
    store.subscribe(more.append)
    store.replace([thing("b", 5)], 9)
    store.replace([], 12)
    assert [(d.uid, d.before is None, d.after is None) for d in more] == [("b", True, False), ("b", False, True)]


def test_readiness_needs_a_list_and_falls_some_time_after_the_watch_ended(store, clock):
    assert not store.ready
    store.watching(on=True)
    assert not store.ready, "a watch without a list"
    store.replace([], 1)
    clock.advance(80)
    assert store.ready, "open and quiet: bookmarks come once a minute"
    store.alive(2)
    store.watching(on=False)
    clock.advance(29)
    assert store.ready, "a clean reconnect must not flap"
    clock.advance(2)
    assert not store.ready
    assert store.age() == 31


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("", 0), ("-1", 0), ("x1", 0), ("٣", 0)])
def test_versions(text, number):
    assert as_version(text) == number


@st.composite
def histories(draw):
    """What one server did to three objects, as watch events, and the answers to our writes among them."""
    events, answers, alive, version = [], [], set(), 0
    for _ in range(draw(st.integers(0, 25))):
        uid, version = draw(st.sampled_from("abc")), version + draw(st.integers(1, 3))
        if uid not in alive:
            kind = "ADDED"
        else:
            kind = draw(st.sampled_from(["MODIFIED", "MODIFIED", "DELETED"]))
        (alive.discard if kind == "DELETED" else alive.add)(uid)
        events.append((kind, uid, version))
        if kind == "MODIFIED" and draw(st.booleans()):
            answers.append((draw(st.integers(0, 40)), uid, version))
    return events, answers


@settings(max_examples=300)
@given(histories())
def test_whenever_answers_arrive_the_cache_ends_as_the_server(history):
    """An answer may come before its event or long after, also after the object's deletion.

    (An object that is deleted and comes back with the same uid is one that left and re-entered a selection.)
    """
    events, answers = history
    store = Store(identity, VirtualClock())
    expected = {}
    for position in range(41):
        for when, uid, version in answers:
            if when == position:
                store.assume(thing(uid, version))
        if position < len(events):
            kind, uid, version = events[position]
            store.apply(kind, thing(uid, version))
            expected.pop(uid, None)
            if kind != "DELETED":
                expected[uid] = version
    assert held(store) == expected
    assert {store.by_name("ns", uid).metadata.uid for uid in expected} == set(expected)


@settings(max_examples=200)
@given(histories(), st.integers(0, 25))
def test_a_list_at_any_moment_leaves_what_the_server_had(history, position):
    """The watch broke before `position`; the list is made there; the rest is watched from the list on."""
    events, answers = history
    store, server, version = Store(identity, VirtualClock()), {}, 0
    for kind, uid, rv in events[: position // 2]:
        store.apply(kind, thing(uid, rv))
    for kind, uid, rv in events[:position]:
        version = rv
        server.pop(uid, None)
        if kind != "DELETED":
            server[uid] = rv
    for _, uid, rv in answers:
        if rv <= version:
            store.assume(thing(uid, rv))
    store.replace([thing(uid, rv) for uid, rv in server.items()], version)
    assert held(store) == server
    for kind, uid, rv in events[position:]:
        store.apply(kind, thing(uid, rv))
        server.pop(uid, None)
        if kind != "DELETED":
            server[uid] = rv
    assert held(store) == server
