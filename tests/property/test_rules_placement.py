"""Placement against exhaustive search: never a yes that is none, and for pods of one kind never a no that is none."""

import random

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policy.names import HOSTNAME_LABEL
from policy.rules.company import clash
from policy.rules.model import NodeFacts, PodFacts, Shape
from policy.rules.objects import LabelSelector, PodAffinityTerm
from policy.rules.placement import place, scatter
from policy.rules.pool import Pool
from policy.rules.quantity import NANO
from policy.rules.shape import picks, selects
from policy.rules.shortage import NodesShort
from policy.rules.verdict import unverifiable
from tests.unit.rules_facts import spread_of

GPU = "nvidia.com/gpu"
COLUMNS = (GPU, "cpu")
CASES = 2000
RESOURCES = (*COLUMNS, "pods")
SPREADS = ("zone", HOSTNAME_LABEL)


def term(app):
    return PodAffinityTerm(HOSTNAME_LABEL, LabelSelector({"app": app}))


def amounts(gpu, cpu):
    return {GPU: gpu * NANO, "cpu": cpu * NANO}


def pods_of(draw_shape, app, count, prefix):
    """Shapes are read from pods, so what a pod's terms say of itself is settled by its labels."""
    return [PodFacts(f"{prefix}{i}", "n", f"{prefix}{i}", draw_shape, labels={"app": app}) for i in range(count)]


@st.composite
def shapes(draw, app, plain):
    terms = [] if plain else draw(st.lists(st.sampled_from("abc"), max_size=1))
    own = tuple(term(t) for t in terms if t == app)
    bound = "" if plain else draw(st.sampled_from(["", "", "", "beside", "zone", HOSTNAME_LABEL]))
    return Shape(
        requests=amounts(draw(st.integers(0, 3)), draw(st.integers(0, 3))),
        node_selector=draw(st.sampled_from([{}, {}, {"zone": "a"}])),
        host_ports=() if plain else draw(st.sampled_from([(), (), ("TCP/80/0.0.0.0",), ("TCP/80/10.0.0.1",)])),
        alone_on_node=own,
        repels=tuple(term(t) for t in terms if t != app),
        beside=(term(app),) if bound == "beside" else (),
        spread=spread_of(bound, draw(st.integers(1, 2)), LabelSelector({"app": app})) if bound in SPREADS else None,
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
            {"zone": draw(st.sampled_from("ab")), HOSTNAME_LABEL: f"n{i}"},
            cordoned=draw(st.sampled_from([False, False, False, True])),
        )
        for i in range(draw(st.integers(0, 4)))
    ]


# --- the naive oracle ------------------------------------------------------------------------------------------


def goes(pod, node, on):
    """Whether the scheduler would bind the pod to the node, with others where `on` says: its filters, one by one."""
    there = on[node]
    if node.cordoned or not matches(node, pod):
        return False
    everyone = [*there, pod]
    for resource in RESOURCES:
        asked = sum(NANO if resource == "pods" else p.shape.requests.get(resource, 0) for p in everyone)
        wants = resource == "pods" or pod.shape.requests.get(resource, 0)
        if wants and asked > node.allocatable[resource]:
            return False
    return not any(quarrel(pod, other) for other in there) and joins(pod, node, on) and level(pod, node, on)


def matches(node, pod):
    return all(node.labels.get(k) == v for k, v in pod.shape.node_selector.items())


def joins(pod, node, on):
    """interpodaffinity: a pod like it is there, or none is anywhere."""

    def liked(name):
        return any(all(selects(t, other.labels) for t in pod.shape.beside) for other in on[name])

    return not pod.shape.beside or liked(node) or not any(liked(each) for each in on)


def level(pod, node, on):
    """podtopologyspread, with the policies that are its defaults."""
    if not pod.shape.spread:
        return True
    key, counts = pod.shape.spread.topology_key, {}
    for each, there in on.items():
        if matches(each, pod):
            alike = sum(picks(pod.shape.spread.label_selector, other.labels) for other in there)
            counts[each.labels[key]] = counts.get(each.labels[key], 0) + alike
    return counts[node.labels[key]] + 1 - min(counts.values()) <= pod.shape.spread.max_skew


def quarrel(one, other):
    ports = any(clash(a, b) for a in one.shape.host_ports for b in other.shape.host_ports)
    return ports or repels(one, other) or repels(other, one)


def repels(one, other):
    return any(selects(t, other.labels) for t in (*one.shape.alone_on_node, *one.shape.repels))


def most(pods, on):
    """How many of the pods, in this order, find a node, over all ways to place them; each situation is tried once."""
    seen, best = set(), 0
    stack = [(0, {node: tuple(there) for node, there in on.items()})]
    while stack and best < len(pods):
        done, now = stack.pop()
        key = (done, tuple(tuple(sorted(id(p.shape) for p in there)) for there in now.values()))
        if key in seen:
            continue
        seen.add(key)
        best = max(best, done)
        if done < len(pods):
            for node, there in now.items():
                if goes(pods[done], node, now):
                    stack.append((done + 1, {**now, node: (*there, pods[done])}))
    return best


def search(pods, on):
    """Whether there is any way to place all of them, for whatever order the scheduler takes them in.

    The worst one is that those which want others beside them come last: the first of its kind may choose.
    """
    return most(sorted(pods, key=lambda p: bool(p.shape.beside)), on) == len(pods)


def pool_with(nodes, standing):
    """A pool, and who stands where; pods that find no node are left out."""
    pool = Pool(nodes, COLUMNS)
    on: dict = {n: [] for n in map(Hashed, nodes)}
    for pod in standing:
        home = next((n for n in on if goes(pod, n, on)), None)
        if home:
            bound = msgspec.structs.replace(pod, node=home.name)
            on[home].append(bound)
            pool.charge(home.name, bound)
    return pool, on


class Hashed:
    """A node that can be a key."""

    def __init__(self, node):
        self.name, self.labels, self.allocatable, self.cordoned = (
            node.name,
            node.labels,
            node.allocatable,
            node.cordoned,
        )


def check_yes(places, pods, on):
    """Pinned, the pods are bound by and by, in whatever order they come: as long as some wait, one of them goes."""
    assert places.keys() == {p.uid for p in pods}
    for order in (pods, list(reversed(pods)), sorted(pods, key=lambda p: bool(p.shape.beside))):
        bound_by_and_by(order, places, on)


def bound_by_and_by(waiting, places, on):
    by_name, there = {n.name: n for n in on}, {n: list(found) for n, found in on.items()}
    while waiting:
        stuck = []
        for pod in waiting:
            node = by_name[places[pod.uid]]
            if goes(pod, node, there):
                there[node].append(pod)
            else:
                stuck.append(pod)
        assert len(stuck) < len(waiting), ([p.uid for p in stuck], places)
        waiting = stuck


@settings(max_examples=400, deadline=None)
@given(node_lists(), classes(2), classes(3))
def test_a_yes_is_a_yes_and_a_no_leaves_no_trace(nodes, standing, groups):
    pool, on = pool_with(nodes, [p for members in standing for p in members])
    pods = [p for members in groups for p in members]
    assume(not unverifiable(pods))
    before = pool.free.copy()
    found = place(pool, pods)
    if isinstance(found, NodesShort):
        assert (pool.free == before).all()
        again, _ = pool_with(nodes, [p for members in standing for p in members])
        assert place(pool, pods[:1]) == place(again, pods[:1]), "ports and company as they were"
    else:
        check_yes(found, pods, on)
        assert (pool.free[:, :1] >= 0).all(), "never over the number of pods"


@settings(max_examples=400, deadline=None)
@given(node_lists(), classes(2, plain=True), classes(1, plain=True, size=5))
def test_for_one_class_the_answer_is_exact(nodes, standing, groups):
    pool, on = pool_with(nodes, [p for members in standing for p in members])
    (pods,) = groups
    found = place(pool, pods)
    if isinstance(found, NodesShort):
        assert (found.wanted, found.fit) == (len(pods), most(pods, on))
        assert found.fit < found.wanted
    else:
        assert search(pods, on)


@settings(max_examples=300, deadline=None)
@given(node_lists(), classes(2), classes(1, size=4))
def test_for_one_class_it_is_exact_also_where_pods_mind_each_other(nodes, standing, groups):
    pool, on = pool_with(nodes, [p for members in standing for p in members])
    (pods,) = groups
    found = place(pool, pods)
    assert (found.fit if isinstance(found, NodesShort) else len(pods)) == most(pods, on)


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


# --- in figures ------------------------------------------------------------------------------------------------


def drawn(draw, kinds):
    """At most 6 nodes and 10 pods, some standing; every rule that placement judges, of pods that differ those it may."""
    nodes = [
        NodeFacts(
            f"n{i}",
            {**amounts(draw.randint(1, 6), draw.randint(1, 6)), "pods": draw.randint(2, 9) * NANO},
            {"zone": draw.choice("abc"), HOSTNAME_LABEL: f"n{i}"},
            cordoned=draw.random() < 0.1,
        )
        for i in range(draw.randint(2, 6))
    ]
    pods: list = []
    for number in range(kinds):
        app = draw.choice("ab")
        bound = draw.choice(["", "", "", "alone", "port", "beside", *(SPREADS if kinds == 1 else ())])
        shape = Shape(
            requests=amounts(draw.choice((0, 0, 1, 1, 2, 3)), draw.choice((0, 0, 1, 1, 2, 3))),
            node_selector=draw.choice([{}, {}, {"zone": "a"}]),
            host_ports=("TCP/80/0.0.0.0",) if bound == "port" else (),
            alone_on_node=(term(app),) if bound == "alone" else (),
            beside=(term(app),) if bound == "beside" else (),
            spread=spread_of(bound, draw.randint(1, 2), LabelSelector({"app": app})) if bound in SPREADS else None,
        )
        pods += pods_of(shape, app, draw.randint(1, 10 // kinds), f"c{number}-")
    standing = pods_of(Shape(requests=amounts(1, 1)), draw.choice("abc"), draw.randint(0, 3), "s")
    return nodes, pods, standing


def compared(kinds, seed):
    """Over CASES cases: how many fit, and how many of these were refused. A yes that is none fails at once."""
    draw = random.Random(seed)
    fitting = refused = cases = 0
    while cases < CASES:
        nodes, pods, standing = drawn(draw, kinds if kinds == 1 else draw.randint(2, kinds))
        if unverifiable(pods):
            continue
        cases += 1
        pool, on = pool_with(nodes, standing)
        found = place(pool, pods)
        if not isinstance(found, NodesShort):
            check_yes(found, pods, on)
            fitting += 1
        elif search(pods, on):
            fitting, refused = fitting + 1, refused + 1
    return fitting, refused


def test_for_one_class_no_no_is_wrong():
    fitting, refused = compared(1, 7)
    print(f"one class, {CASES} cases: {fitting} fit, {refused} of them refused, no false yes")
    assert 300 < fitting < CASES - 300
    assert refused == 0


def test_for_several_classes_a_no_is_seldom_wrong():
    """Vector packing is hard and the answer has to come at once: a wrong no waits for the next change, no more."""
    fitting, refused = compared(3, 7)
    print(f"two or three classes, {CASES} cases: {fitting} fit, {refused} of them refused, no false yes")
    assert 300 < fitting < CASES - 300
    assert refused <= fitting * 0.01, f"{refused} of {fitting} that fit were refused"
