"""A node for every member, or which nodes fall short and why."""

import msgspec
import pytest

from policy.rules.company import clash
from policy.rules.model import Shape
from policy.rules.objects import LabelSelector, NodeSelectorTerm, PodAffinityTerm, SelectorRequirement, Taint
from policy.rules.placement import NodesShort, place, scatter
from policy.rules.pool import Pool, columns_of
from policy.rules.quantity import NANO
from tests.unit.rules_facts import GPU, amounts, node, nodes, pod, pods, shape


def pool(given, *shapes):
    return Pool(given, columns_of(s.requests for s in (*shapes, shape(gpu=1, cpu=1, memory=1))))


def placed(found):
    """Members by node."""
    assert not isinstance(found, NodesShort), found
    counts: dict = {}
    for where in found.values():
        counts[where] = counts.get(where, 0) + 1
    return counts


def test_the_fullest_nodes_are_filled_first():
    given = pool(nodes(3))
    given.charge("n1", pod("other", like=shape(gpu=6)))
    assert placed(place(given, pods(5))) == {"n1": 2, "n0": 3}


def test_equal_nodes_go_by_name():
    assert placed(place(pool([node("b"), node("a")]), pods(8))) == {"a": 8}


def test_full_is_told_by_the_extended_resource():
    given = pool([node("a", gpu=8, cpu="10"), node("b", gpu=4, cpu="60")])
    assert placed(place(given, pods(2))) == {"b": 2}
    assert placed(place(given, pods(2, like=shape(gpu=0)))) == {"a": 2}


def test_many_members_go_the_same_way_as_few():
    many = place(pool(nodes(9)), pods(40))
    few = pool(nodes(9))
    one_by_one = {uid: where for p in pods(40) for uid, where in place(few, [p]).items()}
    assert many == one_by_one


def test_a_term_may_name_nodes():
    elsewhere = NodeSelectorTerm((), (SelectorRequirement("metadata.name", "NotIn", ("n0", "n1")),))
    assert placed(place(pool(nodes(3)), pods(2, like=shape(node_terms=(elsewhere,))))) == {"n2": 2}


def test_a_node_that_takes_one_more_lacks_nothing():
    found = place(pool(nodes(2, gpu=1)), pods(3))
    assert (found.fit, found.on, found.reasons) == (2, 2, {})


def test_members_take_their_places_in_order():
    found = place(pool(nodes(2, gpu=1)), pods(2))
    assert list(found.items()) == [("team/p-0", "n0"), ("team/p-1", "n1")]


def test_what_was_placed_is_charged():
    given = pool(nodes(1))
    assert placed(place(given, pods(5))) == {"n0": 5}
    assert place(given, pods(4, "q")).fit == 3


def test_what_falls_short_leaves_the_pool_as_it_was():
    given = pool(nodes(1))
    before = given.free.copy()
    large, small = pods(1, "large", like=shape(gpu=8)), pods(1)
    assert isinstance(place(given, [*large, *small]), NodesShort)
    assert (given.free == before).all()
    assert placed(place(given, pods(8))) == {"n0": 8}


def test_several_classes_go_largest_first():
    mixed = [*pods(8, like=shape(gpu=1)), *pods(1, "large", like=shape(gpu=8))]
    assert placed(place(pool(nodes(2)), mixed)) == {"n0": 1, "n1": 8}


def test_the_number_of_pods_a_node_takes_is_a_resource():
    found = place(pool(nodes(1, pods=3)), pods(4))
    assert (found.fit, found.reasons) == (3, {})
    assert place(pool(nodes(1, pods=0)), pods(1)).reasons == {"without places for pods": 1}


def test_a_node_that_is_gone_takes_its_charge_along():
    given = pool(nodes(1))
    given.charge("gone", pod("other"))
    assert placed(place(given, pods(8))) == {"n0": 8}


def test_cpu_counts_in_thousandths_and_is_rounded_up():
    given = pool(nodes(1, cpu="1"))
    assert place(given, pods(3, like=shape(gpu=0, cpu="334m"))).fit == 2
    assert placed(place(given, pods(2, like=shape(gpu=0, cpu="499900u")))) == {"n0": 2}


def test_memory_counts_whole_and_is_rounded_up():
    small = shape(gpu=0, memory="1500m")
    given = Pool([node("n0")], ["memory"])
    assert int(given.vector(small)[given.columns.index("memory")]) == 2


@pytest.mark.parametrize("amount", ["100E", "9E", "1e30", 2**63, "8Ei"])
def test_what_no_node_has_fits_nowhere_and_breaks_no_arithmetic(amount):
    greedy = shape(cpu=amount, memory=amount)
    given = pool(nodes(2, allocatable=amounts(gpu=8, cpu=64, memory="1Ti", pods=110)), greedy)
    assert place(given, [pod("greedy", like=greedy)]).never
    for i in range(200):
        given.charge("n0", pod(f"g{i}", like=greedy))
    assert placed(place(given, pods(8, like=shape(memory="1Gi")))) == {"n1": 8}


def test_more_than_can_be_counted_is_more_than_any_node_has():
    vast = shape(gpu=0, cpu=1, memory="8Pi")
    assert place(pool(nodes(1, allocatable=amounts(cpu=64, memory="4Pi", pods=9)), vast), [pod("p", like=vast)]).never


def test_a_node_with_less_than_nothing_free_takes_nothing_more():
    given = pool(nodes(1))
    given.charge("n0", pod("other", like=shape(gpu=12)))
    assert place(given, pods(1)).fit == 0
    assert placed(place(given, pods(1, like=shape(gpu=0)))) == {"n0": 1}


def test_the_shortage_counts_nodes_by_reason_most_frequent_first():
    given = pool(
        [
            node("a", labels={"zone": "a"}),
            node("b", labels={"zone": "b"}),
            node("c", labels={"zone": "b"}),
            node("d", labels={"zone": "a"}, cordoned=True),
            node("e", labels={"zone": "a"}, gpu=1),
        ]
    )
    wanted = shape(gpu=2, node_selector={"zone": "a"})
    found = place(given, pods(9, like=wanted))
    assert (found.wanted, found.fit, found.on, found.empty_fit, found.up_fit) == (9, 4, 1, 4, 8)
    assert list(found.reasons.items()) == [
        ("not matching zone=a", 2),
        ("cordoned", 1),
        (f"with too little {GPU}", 1),
    ]


def test_of_several_lacking_resources_the_extended_one_is_told():
    assert place(pool(nodes(1, gpu=0, cpu=0)), pods(1)).reasons == {f"without {GPU}": 1}
    assert place(pool(nodes(1, cpu=0)), pods(1)).reasons == {"without cpu": 1}
    assert place(pool(nodes(1, cpu="500m")), pods(1)).reasons == {"with too little cpu": 1}


@pytest.mark.parametrize(
    ("given", "never"),
    [
        ([], True),
        ([node("n", gpu=0)], True),
        ([node("n", labels={"zone": "b"})], True),
        ([node("n", labels={"zone": "a"}, taints=(Taint("dedicated", "x", "NoSchedule"),))], True),
        ([node("n", labels={"zone": "a"}, cordoned=True)], False),
        ([node("n", labels={"zone": "a"}, ready=False)], False),
        ([node("n", labels={"zone": "a"}, ready=False, gpu=0)], True),
    ],
    ids=["no nodes", "too small", "no such label", "tainted", "cordoned", "not ready", "down and too small"],
)
def test_waiting_helps_where_a_node_may_come_up_again(given, never):
    assert place(pool(given), pods(1, like=shape(node_selector={"zone": "a"}))).never is never


def wants(*ports, **fields):
    return shape(host_ports=ports, **fields)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("TCP/80/0.0.0.0", "TCP/80/0.0.0.0", True),
        ("TCP/80/10.0.0.1", "TCP/80/10.0.0.1", True),
        ("TCP/80/10.0.0.1", "TCP/80/0.0.0.0", True),
        ("TCP/80/0.0.0.0", "TCP/80/::1", True),
        ("TCP/80/10.0.0.1", "TCP/80/10.0.0.2", False),
        ("TCP/80/0.0.0.0", "UDP/80/0.0.0.0", False),
        ("TCP/80/0.0.0.0", "TCP/81/0.0.0.0", False),
    ],
)
def test_host_ports_clash(one, other, found):
    assert clash(one, other) is found
    assert clash(other, one) is found
    given = pool(nodes(1))
    given.charge("n0", pod("there", like=wants(one)))
    assert isinstance(place(given, [pod("p", like=wants(other))]), NodesShort) is found


def test_pods_with_one_host_port_go_one_to_a_node():
    same = wants("TCP/80/0.0.0.0")
    assert placed(place(pool(nodes(3)), pods(3, like=same))) == {"n0": 1, "n1": 1, "n2": 1}
    assert place(pool(nodes(3)), pods(4, like=same)).fit == 3


def test_a_failed_trial_gives_its_ports_back():
    given = pool(nodes(1))
    port = wants("TCP/80/0.0.0.0", gpu=4)
    assert isinstance(place(given, [pod("a", like=port), *pods(9, like=shape(gpu=1))]), NodesShort)
    assert placed(place(given, [pod("a", like=port)])) == {"n0": 1}


def term(**labels):
    return PodAffinityTerm("kubernetes.io/hostname", LabelSelector(labels))


ALONE = shape(alone_on_node=(term(app="a"),))
REPELS_B = shape(repels=(term(app="b"),))


def test_pods_that_want_no_company_of_their_own_go_one_to_a_node():
    assert placed(place(pool(nodes(2)), pods(2, like=ALONE, labels={"app": "a"}))) == {"n0": 1, "n1": 1}
    assert place(pool(nodes(2)), pods(3, like=ALONE, labels={"app": "a"})).fit == 2


def test_a_pod_avoids_the_nodes_of_those_it_repels():
    given = pool(nodes(2))
    given.charge("n0", pod("there", labels={"app": "b"}))
    assert placed(place(given, pods(8, like=REPELS_B, labels={"app": "a"}))) == {"n1": 8}


def test_a_pod_avoids_the_nodes_of_those_that_repel_it():
    """interpodaffinity, existing anti-affinity: the scheduler asks the pods that are there as well."""
    given = pool(nodes(2))
    given.charge("n0", pod("there", like=REPELS_B, labels={"app": "a"}))
    assert placed(place(given, pods(8, labels={"app": "b"}))) == {"n1": 8}
    found = place(given, pods(1, "q", labels={"app": "b"}))
    assert found.reasons == {"full": 1, "taken by a pod with the same port or anti-affinity": 1}


def test_members_of_one_group_may_repel_each_other():
    members = [*pods(1, "a", like=REPELS_B, labels={"app": "a"}), *pods(1, "b", labels={"app": "b"})]
    assert placed(place(pool(nodes(2)), members)) == {"n0": 1, "n1": 1}
    assert isinstance(place(pool(nodes(1)), members), NodesShort)


def test_equal_shapes_with_other_labels_are_told_apart_where_somebody_minds():
    given = pool(nodes(2, gpu=1))
    given.charge("n0", pod("there", like=shape(gpu=0, repels=(term(app="b"),)), labels={"app": "x"}))
    mixed = [pod("b", labels={"app": "b"}), pod("a", labels={"app": "a"})]
    assert place(given, mixed) == {"team/b": "n1", "team/a": "n0"}


@pytest.mark.parametrize(("ns", "labels"), [("other", {"app": "b"}), ("team", {"app": "c"}), ("team", {})])
def test_who_is_not_meant_is_company_enough(ns, labels):
    given = pool(nodes(1))
    given.charge("n0", pod("there", ns=ns, labels=labels))
    assert placed(place(given, pods(7, like=REPELS_B))) == {"n0": 7}


def test_shapes_that_are_equal_are_one_class_whatever_object_holds_them():
    """A snapshot read back from JSON holds a shape for each pod: the words must stay the same (promise I9)."""
    copies = [msgspec.json.decode(msgspec.json.encode(p), type=type(p)) for p in pods(9)]
    assert len({id(p.shape) for p in copies}) == 9
    assert place(pool(nodes(1)), copies) == place(pool(nodes(1)), pods(9))


def test_pods_without_a_place_are_charged_where_they_fit():
    given = pool(nodes(2))
    scatter(given, pods(10))
    assert [int(row) for row in given.free[:, given.columns.index(GPU)]] == [0, 6]


def test_those_that_fit_nowhere_are_charged_nowhere():
    given = pool(nodes(1))
    scatter(given, [*pods(1, like=shape(gpu=9)), *pods(12, "q")])
    assert [int(row) for row in given.free[:, given.columns.index(GPU)]] == [0]


def test_the_more_urgent_are_charged_first():
    given = pool([node("n0"), node("n1", gpu=2)])
    scatter(given, [*pods(8, created=0.0), *pods(1, "q", like=shape(gpu=8, priority=9), created=5.0)])
    assert [int(row) for row in given.free[:, given.columns.index(GPU)]] == [0, 0]


def test_a_pod_that_asks_for_nothing_goes_anywhere():
    assert placed(place(pool(nodes(1)), [pod("p", like=Shape())])) == {"n0": 1}


def test_units_of_a_node_are_rounded_down():
    given = Pool([node("n", allocatable={"cpu": NANO + 999_999, "memory": 2 * NANO - 1})], ["cpu", "memory"])
    assert given.total.tolist() == [[0, 1000, 1]]
