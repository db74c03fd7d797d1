"""Rules that bind nodes together: all members on one, spread evenly, kept apart by pods of other kinds."""

import msgspec
import pytest

from policy.names import HOSTNAME_LABEL
from policy.rules.objects import LabelSelector, NodeSelectorTerm, PodAffinityTerm, SelectorRequirement
from policy.rules.placement import place, scatter
from policy.rules.pool import Pool, columns_of
from policy.rules.shortage import NodesShort
from policy.rules.verdict import unverifiable
from tests.unit.rules_facts import GPU, node, pod, pods, shape, spread_of

MINE = {"app": "a"}


def machines(*gpus, **fields):
    """Nodes n0, n1, … of so many GPUs, in zones a and b by turns."""
    return [
        node(f"n{i}", gpu=count, labels={HOSTNAME_LABEL: f"n{i}", "zone": "ab"[i % 2]}, **fields)
        for i, count in enumerate(gpus)
    ]


def pool(given, *shapes):
    return Pool(given, columns_of(s.requests for s in (*shapes, shape(gpu=1, memory=1))))


def placed(found):
    assert not isinstance(found, NodesShort), found
    counts: dict = {}
    for where in found.values():
        counts[where] = counts.get(where, 0) + 1
    return dict(sorted(counts.items()))


BESIDE = shape(beside=(PodAffinityTerm(HOSTNAME_LABEL, LabelSelector(MINE)),))


# --- all on one node -----------------------------------------------------------------------------------------


def test_all_go_to_the_fullest_node_that_takes_all():
    assert placed(place(pool(machines(8, 3, 5)), pods(4, like=BESIDE, labels=MINE))) == {"n2": 4}


def test_where_no_node_takes_all_the_roomiest_is_told():
    found = place(pool(machines(4, 3, 8, 0)), pods(9, like=BESIDE, labels=MINE))
    assert (found.wanted, found.fit, found.empty_fit, found.on) == (9, 8, 8, 1)
    assert found.reasons == {"with room for fewer": 3, f"without {GPU}": 1}


def test_they_join_their_like_where_some_run():
    given = pool(machines(8, 8, 8))
    given.charge("n1", pod("there", labels=MINE))
    assert placed(place(given, pods(4, like=BESIDE, labels=MINE))) == {"n1": 4}
    found = place(given, pods(4, "q", like=BESIDE, labels=MINE))
    assert (found.fit, found.reasons) == (3, {"away from the pods that they must join": 2})


def test_several_nodes_may_have_their_like():
    given = pool(machines(4, 4, 4))
    for name in ("n0", "n2"):
        given.charge(name, pod(name, labels=MINE))
    assert placed(place(given, pods(6, like=BESIDE, labels=MINE))) == {"n0": 3, "n2": 3}


@pytest.mark.parametrize(("ns", "labels"), [("other", MINE), ("team", {"app": "b"})])
def test_who_is_not_meant_gives_no_node(ns, labels):
    given = pool(machines(8, 8))
    given.charge("n1", pod("there", like=shape(gpu=0), ns=ns, labels=labels))
    assert placed(place(given, pods(4, like=BESIDE, labels=MINE))) == {"n0": 4}


def test_a_node_without_hostname_is_in_no_domain():
    found = place(pool([node("n0")]), pods(1, like=BESIDE, labels=MINE))
    assert (found.never, found.reasons) == (True, {f"without label {HOSTNAME_LABEL}": 1})
    assert found.unknown.key == HOSTNAME_LABEL


def test_members_that_differ_go_to_one_node_that_takes_all_of_them():
    """The fullest node takes the first kind and not the second: the whole is looked at first."""
    large = shape(gpu=2, beside=BESIDE.beside)
    members = [*pods(1, "large", like=large, labels=MINE), *pods(4, like=BESIDE, labels=MINE)]
    assert placed(place(pool(machines(3, 6, 8)), members)) == {"n1": 5}
    assert isinstance(place(pool(machines(5, 5)), members), NodesShort)


# --- even spread ---------------------------------------------------------------------------------------------


def even(key="zone", skew=1, **fields):
    return shape(spread=spread_of(key, skew, LabelSelector(MINE)), **fields)


def zones(found, given):
    by_name = {each.name: each.labels.get("zone") for each in given}
    counts: dict = {}
    for where in found.values():
        counts[by_name[where]] = counts.get(by_name[where], 0) + 1
    return counts


def test_zones_are_filled_evenly_and_nodes_one_after_the_other():
    given = machines(8, 8, 8, 8)
    found = place(pool(given), pods(7, like=even(), labels=MINE))
    assert sorted(zones(found, given).values()) == [3, 4]
    assert len(placed(found)) == 2


@pytest.mark.parametrize(("skew", "most"), [(1, 5), (2, 6), (9, 10)])
def test_a_zone_takes_no_more_than_the_smallest_allows(skew, most):
    found = place(pool(machines(8, 2)), pods(11, like=even(skew=skew), labels=MINE))
    assert (found.fit, found.reasons) == (most, {})
    assert placed(place(pool(machines(8, 2)), pods(most, like=even(skew=skew), labels=MINE)))["n1"] == 2


def test_a_zone_that_can_take_none_holds_all_back():
    """Taints and cordons are ignored by default: a node that takes nobody is a domain still."""
    given = [*machines(8), *machines(8, 8, cordoned=True)[1:]]
    found = place(pool(given), pods(3, like=even(), labels=MINE))
    assert (found.fit, found.empty_fit, found.up_fit) == (1, 1, 3)
    assert found.reasons == {"cordoned": 1}


def test_by_hostname_each_node_is_a_domain():
    by_host = even(HOSTNAME_LABEL)
    assert placed(place(pool(machines(8, 8, 8)), pods(7, like=by_host, labels=MINE))) == {"n0": 3, "n1": 2, "n2": 2}
    found = place(pool(machines(8, 0, 8)), pods(7, like=by_host, labels=MINE))
    assert (found.fit, found.reasons) == (2, {f"without {GPU}": 1})


def test_nodes_that_the_selector_leaves_out_are_no_domain():
    """nodeAffinityPolicy is Honor by default."""
    given = [*machines(8, 8), node("n2", gpu=0, labels={"zone": "c", "old": "yes"})]
    modern = NodeSelectorTerm((SelectorRequirement("old", "DoesNotExist"),))
    assert place(pool(given), pods(4, like=even(), labels=MINE)).fit == 2
    assert len(place(pool(given), pods(4, like=even(node_terms=(modern,)), labels=MINE))) == 4


def test_pods_that_are_there_count_but_those_that_go():
    def with_standing(**fields):
        given = pool(machines(8, 8))
        for i in range(2):
            given.charge("n0", pod(f"there-{i}", like=shape(gpu=0), **fields))
        return placed(place(given, pods(3, like=even(), labels=MINE)))

    assert with_standing(labels=MINE) == {"n0": 1, "n1": 2} or with_standing(labels=MINE) == {"n1": 3}
    assert with_standing(labels=MINE, deleted=5.0) in ({"n0": 2, "n1": 1}, {"n0": 1, "n1": 2})
    assert with_standing(labels=MINE, ns="other") == with_standing(labels=MINE, deleted=5.0)
    assert with_standing(labels={"app": "b"}) == with_standing(labels=MINE, deleted=5.0)


def test_a_domain_that_is_too_full_already_is_left_alone():
    given = pool(machines(8, 8))
    for i in range(5):
        given.charge("n0", pod(f"there-{i}", like=shape(gpu=0), labels=MINE))
    assert placed(place(given, pods(4, like=even(), labels=MINE))) == {"n1": 4}


def test_a_node_without_the_label_is_no_place():
    found = place(pool([node("n0"), *machines(1)[:1]]), pods(2, like=even(), labels=MINE))
    assert (found.fit, found.reasons) == (1, {"without label zone": 1})


def test_what_is_scattered_is_spread_as_well():
    given = pool(machines(8, 8))
    scatter(given, pods(6, like=even(), labels=MINE))
    assert [int(row) for row in given.free[:, given.columns.index(GPU)]] == [5, 5]


def test_held_back_by_the_spread_is_told():
    given = pool(machines(8, 0))
    given.charge("n0", pod("there", labels=MINE))
    found = place(given, pods(2, like=even(), labels=MINE))
    assert found.reasons == {"held back by the spread over zone": 1, f"without {GPU}": 1}


# --- terms of pods that are there ----------------------------------------------------------------------------


def far(**fields):
    return PodAffinityTerm("zone", LabelSelector(MINE), **fields)


@pytest.mark.parametrize(
    ("term", "ns", "open_nodes"),
    [
        (far(), "team", {"n1"}),
        (far(), "other", {"n0", "n1", "n2"}),
        (far(namespaces=("team",)), "other", {"n1"}),
        (far(namespaces=("third",)), "team", {"n0", "n1", "n2"}),
        (far(namespace_selector=LabelSelector()), "other", {"n1"}),
        (PodAffinityTerm("rack", LabelSelector(MINE)), "team", {"n0", "n1", "n2"}),
    ],
)
def test_a_pod_that_is_there_keeps_its_zone_to_itself(term, ns, open_nodes):
    """Its own term could not be judged when it was placed; it repels all the same."""
    given = pool(machines(1, 1, 1))
    given.charge("n0", pod("there", ns=ns, like=shape(gpu=0, repels_afar=(term,))))
    found = place(given, pods(3, labels=MINE))
    assert (set(found.values()) if isinstance(found, dict) else {"n1"}) == open_nodes


def test_shapes_with_these_rules_survive_json():
    for each in (BESIDE, even(), shape(repels_afar=(far(),))):
        assert msgspec.json.decode(msgspec.json.encode(each), type=type(each)) == each


# --- what a plan cannot keep ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ([*pods(2, like=BESIDE, labels=MINE)], ()),
        ([*pods(2, like=BESIDE, labels=MINE), pod("b", labels={"app": "b"})], ()),
        (
            [*pods(2, like=BESIDE, labels=MINE), pod("b", labels=MINE)],
            (f"pod affinity by {HOSTNAME_LABEL} to pods that do not have it",),
        ),
        ([*pods(2, like=even(), labels=MINE)], ()),
        (
            [*pods(2, like=even(), labels=MINE), pod("b", labels={"app": "b"})],
            ("hard topology spread by zone of pods that differ",),
        ),
    ],
    ids=["one kind", "others", "followed", "spread", "spread of several"],
)
def test_what_cannot_be_kept_for_members_that_differ(members, what):
    assert unverifiable(members) == what
    copies = [msgspec.json.decode(msgspec.json.encode(m), type=type(m)) for m in members]
    assert unverifiable(copies) == what


def test_one_who_is_wanted_beside_others_goes_to_them():
    """Bound elsewhere and first, it would keep them from the node that they are pinned to."""
    given = pool(machines(8, 8))
    promised = pod("there", like=BESIDE, labels=MINE)
    given.charge("n1", promised)
    assert placed(place(given, pods(3, labels=MINE))) == {"n1": 3}
    bound = pool(machines(8, 8))
    bound.charge("n1", msgspec.structs.replace(promised, node="n1"))
    assert len(placed(place(bound, pods(15, labels=MINE)))) == 2


def test_nobody_is_bound_to_them_where_one_like_it_keeps_the_place():
    given = pool(machines(8, 8))
    given.charge("n1", pod("there", like=BESIDE, labels=MINE))
    given.charge("n1", pod("keeper", labels=MINE))
    assert placed(place(given, pods(14, labels=MINE))) == {"n0": 8, "n1": 6}


def test_equal_shapes_are_told_apart_by_what_their_own_group_minds():
    """One of two equal pods is repelled by a third member: a yes for one is none for the other."""
    minding = shape(gpu=1, repels=(PodAffinityTerm(HOSTNAME_LABEL, LabelSelector({"app": "b"})),))
    members = [pod("x", like=minding, labels={"app": "x"}), pod("a", labels=MINE), pod("b", labels={"app": "b"})]
    found = place(pool(machines(2, 2)), members)
    assert found["team/x"] != found["team/b"]
