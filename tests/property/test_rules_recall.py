"""A Recall gives what a look at the whole snapshot gives, whatever changed between two passes."""

from collections import Counter

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.rules import charges
from policy.rules.charges import Taken
from policy.rules.decide import decide
from policy.rules.grouping import groups_of
from policy.rules.kin import kins, ties
from policy.rules.model import Config, Snapshot
from policy.rules.recall import Recall
from tests.property.snapshots import NOW, snapshots

TABLES = ("queues", "namespaces", "priority_classes", "limit_ranges", "refusals", "seen", "unsized", "unreadable")
many = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@many
@given(snapshots())
def test_groups_are_those_of_the_whole(snapshot):
    recall = Recall()
    recall.look(snapshot)
    assert list(recall.groups.items()) == list(groups_of(snapshot).items())


@many
@given(st.lists(snapshots(), min_size=2, max_size=4), st.randoms())
def test_what_it_kept_changes_no_answer(several, random):
    recall = Recall()
    for snapshot in passes(several, random):
        assert decide(snapshot, Config(), NOW, recall) == decide(snapshot, Config(), NOW)


def passes(several, random):
    """Each sees a mixture of what was and what is new: most facts are the very objects of before."""
    before = several[0]
    for world in several:
        before = mixed(before, world, random)
        yield before


def mixed(old: Snapshot, new: Snapshot, random) -> Snapshot:
    """Of either some: objects of one uid or name are there once."""
    return msgspec.structs.replace(
        new,
        pods=some(old.pods, new.pods, lambda pod: pod.uid, random),
        podgroups=some(old.podgroups, new.podgroups, lambda one: (one.api, one.namespace, one.name), random),
        owners={
            o.uid: o for o in some(tuple(old.owners.values()), tuple(new.owners.values()), lambda o: o.uid, random)
        },
        **{name: getattr(random.choice((old, new)), name) for name in TABLES},
    )


def some(old, new, key, random):
    kept = {key(fact): fact for fact in old if random.random() < 0.8}  # noqa: S311 -- no secret
    added = {key(fact): fact for fact in new if random.random() < 0.4}  # noqa: S311
    return tuple((kept | added).values())


@many
@given(snapshots())
def test_facts_of_two_kins_have_no_tie(snapshot):
    facts = [*snapshot.pods, *snapshot.owners.values(), *snapshot.podgroups]
    found = kins(facts)
    assert sorted(id(f) for kin in found for f in kin.facts) == sorted(map(id, facts))
    seen = [tie for kin in found for tie in kin.ties]
    assert len(seen) == len(set(seen))
    for kin in found:
        assert {tie for fact in kin.facts for tie in ties(fact)} == set(kin.ties)


@many
@given(st.lists(snapshots(), min_size=2, max_size=4), st.randoms())
def test_what_is_taken_is_what_the_whole_takes(several, random):
    recall = Recall()
    for snapshot in passes(several, random):
        recall.look(snapshot)
        assert booked(recall.taken) == booked(Taken([charges.of_pods(snapshot, snapshot.pods, recall.groups)]))
    recall.look(Snapshot())
    assert booked(recall.taken) == booked(Taken())


def booked(taken: Taken):
    """All that the books say, in no order."""
    return (
        Counter({(queue, id(shape)): pods for queue, shape, pods in taken.asked()}),
        Counter((node, pod.uid) for nodes, pods in taken.fixed() for node, pod in zip(nodes, pods, strict=True)),
        Counter(pod.uid for pod in taken.adrift()),
        taken.wanted(),
        Counter((queue, pod.uid) for queue, pod in taken.ending()),
        Counter((queue, pod.uid) for queue, pod in taken.holders()),
    )
