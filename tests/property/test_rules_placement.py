"""Placement against exhaustive search: never a yes that is none, and for pods of one kind never a no that is none."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.rules.company import clash
from policy.rules.model import NodeFacts, PodFacts, Shape
from policy.rules.objects import LabelSelector, PodAffinityTerm
from policy.rules.placement import NodesShort, place, scatter
from policy.rules.pool import Pool
from policy.rules.quantity import NANO
from policy.rules.shape import selects

GPU = "nvidia.com/gpu"
COLUMNS = (GPU, "cpu")
RESOURCES = (*COLUMNS, "pods")


def term(app):
    return PodAffinityTerm("kubernetes.io/hostname", LabelSelector({"app": app}))


def amounts(gpu, cpu):
    return {GPU: gpu * NANO, "cpu": cpu * NANO}


def pods_of(draw_shape, app, count, prefix):
    """Shapes are read from pods, so what a pod's terms say of itself is settled by its labels."""
    return [PodFacts(f"{prefix}{i}", "n", f"{prefix}{i}", draw_shape, labels={"app": app}) for i in range(count)]


@st.composite
def shapes(draw, app, plain):
    terms = [] if plain else draw(st.lists(st.sampled_from("abc"), max_size=1))
    own = tuple(term(t) for t in terms if t == app)
    return Shape(
        requests=amounts(draw(st.integers(0, 3)), draw(st.integers(0, 3))),
        node_selector=draw(st.sampled_from([{}, {}, {"zone": "a"}])),
        host_ports=() if plain else draw(st.sampled_from([(), (), ("TCP/80/0.0.0.0",), ("TCP/80/10.0.0.1",)])),
        alone_on_node=own,
        repels=tuple(term(t) for t in terms if t != app),
    )


@st.composite
def classes(draw, most, plain=False, size=3):
    found = []
    for number in range(draw(st.integers(1, most))):
        app = draw(st.sampled_from("ab"))
        found.append(pods_of(draw(shapes(app, plain)), app, draw(st.integers(1, size)), f"c{number}-"))
    return found


@st.composite
def node_lists(draw):
    return [
        NodeFacts(
            f"n{i}",
            {**amounts(draw(st.integers(0, 4)), draw(st.integers(0, 4))), "pods": draw(st.integers(0, 4)) * NANO},
            {"zone": draw(st.sampled_from("ab"))},
            cordoned=draw(st.sampled_from([False, False, False, True])),
        )
        for i in range(draw(st.integers(0, 4)))
    ]


# --- the naive oracle ------------------------------------------------------------------------------------------


def goes(pod, node, there):
    """Whether the pod may join those on the node."""
    if node.cordoned or any(node.labels.get(k) != v for k, v in pod.shape.node_selector.items()):
        return False
    everyone = [*there, pod]
    for resource in RESOURCES:
        asked = sum(NANO if resource == "pods" else p.shape.requests.get(resource, 0) for p in everyone)
        wants = resource == "pods" or pod.shape.requests.get(resource, 0)
        if wants and asked > node.allocatable[resource]:
            return False
    return not any(quarrel(pod, other) for other in there)


def quarrel(one, other):
    ports = any(clash(a, b) for a in one.shape.host_ports for b in other.shape.host_ports)
    return ports or repels(one, other) or repels(other, one)


def repels(one, other):
    return any(selects(t, other.labels) for t in (*one.shape.alone_on_node, *one.shape.repels))


def search(pods, nodes, on):
    """Every way to place the pods, one after another; true for the first that works."""
    if not pods:
        return True
    first, *rest = pods
    for node in nodes:
        if goes(first, node, on[node.name]):
            on[node.name].append(first)
            works = search(rest, nodes, on)
            on[node.name].pop()
            if works:
                return True
    return False


def pool_with(nodes, standing):
    """A pool, and who stands where; pods that find no node are left out."""
    pool = Pool(nodes, COLUMNS)
    on: dict = {n.name: [] for n in nodes}
    for pod in standing:
        home = next((n for n in nodes if goes(pod, n, on[n.name])), None)
        if home:
            on[home.name].append(pod)
            pool.charge(home.name, pod)
    return pool, on


def check_yes(places, pods, nodes, on):
    """Every member has a node, and the nodes take them, in any order and all together."""
    by_name = {n.name: n for n in nodes}
    assert places.keys() == {p.uid for p in pods}
    there = {name: list(found) for name, found in on.items()}
    for pod in pods:
        assert goes(pod, by_name[places[pod.uid]], there[places[pod.uid]]), (pod.uid, places)
        there[places[pod.uid]].append(pod)


@settings(max_examples=400, deadline=None)
@given(node_lists(), classes(2), classes(3))
def test_a_yes_is_a_yes_and_a_no_leaves_no_trace(nodes, standing, groups):
    pool, on = pool_with(nodes, [p for members in standing for p in members])
    pods = [p for members in groups for p in members]
    before = pool.free.copy()
    found = place(pool, pods)
    if isinstance(found, NodesShort):
        assert (pool.free == before).all()
        again, _ = pool_with(nodes, [p for members in standing for p in members])
        assert place(pool, pods[:1]) == place(again, pods[:1]), "ports and company as they were"
    else:
        check_yes(found, pods, nodes, on)
        assert (pool.free[:, :1] >= 0).all(), "never over the number of pods"


@settings(max_examples=400, deadline=None)
@given(node_lists(), classes(2, plain=True), classes(1, plain=True, size=5))
def test_for_one_class_the_answer_is_exact(nodes, standing, groups):
    pool, on = pool_with(nodes, [p for members in standing for p in members])
    (pods,) = groups
    found = place(pool, pods)
    most = max(n for n in range(len(pods) + 1) if search(pods[:n], nodes, on))
    if isinstance(found, NodesShort):
        assert (found.wanted, found.fit) == (len(pods), most)
        assert found.fit < found.wanted
    else:
        assert most == len(pods)


@settings(max_examples=300, deadline=None)
@given(node_lists(), classes(2), classes(1, size=4))
def test_for_one_class_it_is_exact_also_where_pods_mind_each_other(nodes, standing, groups):
    pool, on = pool_with(nodes, [p for members in standing for p in members])
    (pods,) = groups
    assert isinstance(place(pool, pods), NodesShort) is not search(pods, nodes, on)


@settings(max_examples=200, deadline=None)
@given(node_lists(), classes(3), st.randoms())
def test_what_is_scattered_is_nowhere_too_much(nodes, groups, order):
    pods = [p for members in groups for p in members]
    order.shuffle(pods)
    pool = Pool(nodes, COLUMNS)
    scatter(pool, pods)
    assert (pool.free >= 0).all()


@settings(max_examples=200, deadline=None)
@given(node_lists(), classes(2), st.randoms())
def test_the_order_of_nodes_and_members_is_nothing_to_it(nodes, groups, order):
    pods = [p for members in groups for p in members]
    first = place(Pool(nodes, COLUMNS), pods)
    mixed = list(nodes)
    order.shuffle(mixed)
    assert place(Pool(mixed, COLUMNS), pods) == first


def test_how_often_a_no_for_several_classes_is_none():
    """Vector packing is hard and the answer has to come at once: a wrong no waits for the next change, no more.

    Measured over 3,000 instances of 2 to 4 nodes and 2 to 3 classes: of 620 that fit, 3 were refused (40 when the
    largest class went first, and only once).
    """
    draw = random.Random(7)
    refused = fitting = 0
    for _ in range(3000):
        nodes = [
            NodeFacts(
                f"n{i}",
                {**amounts(draw.randint(1, 6), draw.randint(1, 6)), "pods": 9 * NANO},
                {"zone": draw.choice("ab")},
            )
            for i in range(draw.randint(2, 4))
        ]
        pods = []
        for number in range(draw.randint(2, 3)):
            shape = Shape(
                requests=amounts(draw.randint(0, 4), draw.randint(0, 4)),
                node_selector=draw.choice([{}, {}, {"zone": "a"}]),
            )
            pods += pods_of(shape, "a", draw.randint(1, 3), f"c{number}-")
        if search(pods, nodes, {n.name: [] for n in nodes}):
            fitting += 1
            refused += isinstance(place(Pool(nodes, COLUMNS), pods), NodesShort)
    assert fitting > 500
    assert refused <= fitting * 0.01, f"{refused} of {fitting} that fit were refused"
