"""Snapshots of any cluster: small, but with every kind of group, limit and oddity in them."""

import msgspec
from hypothesis import strategies as st

from policy import names
from policy.rules.membership.family import Size
from policy.rules.membership.identity import LITE, PODGROUP, Identity
from policy.rules.model import (
    Lifted,
    NamespaceFacts,
    NodeFacts,
    OwnerFacts,
    PartFacts,
    PodFacts,
    PodGroupFacts,
    QueueFacts,
    QuotaFacts,
    Ref,
    ScopeFact,
    Shape,
    Snapshot,
)
from policy.rules.objects import LabelSelector, PodAffinityTerm, Taint
from policy.rules.quantity import NANO
from tests.unit.rules_facts import spread_of

GPU = "nvidia.com/gpu"
NOW = 1000.0
NAMESPACES = ("red", "blue", "free")
APIS = (names.VOLCANO_API, names.COSCHEDULING_API, names.COSCHEDULING_OLD_API)
HOWS = (f"annotation {names.VOLCANO_PODGROUP}", f"label {names.COSCHEDULING_LABEL}")
SHAPES = (
    Shape(requests={GPU: NANO, "cpu": NANO}),
    Shape(requests={GPU: 4 * NANO, "memory": 2**40 * NANO}),
    Shape(requests={GPU: NANO}, node_selector={"zone": "a"}),
    Shape(requests={GPU: 2 * NANO}, host_ports=("TCP/80/0.0.0.0",)),
    Shape(requests={"cpu": NANO // 2}, best_effort=False, priority=5, priority_class="high"),
    Shape(best_effort=True, unstated=("requests.cpu",)),
    Shape(requests={GPU: NANO}, unverifiable=("volume affinity",)),
    Shape(
        requests={GPU: NANO},
        alone_on_node=(PodAffinityTerm(names.HOSTNAME_LABEL, LabelSelector({"app": "a"})),),
    ),
    Shape(requests={GPU: NANO}, beside=(PodAffinityTerm(names.HOSTNAME_LABEL, LabelSelector({"app": "a"})),)),
    Shape(requests={GPU: NANO}, spread=spread_of("zone", 1, LabelSelector({"app": "b"}))),
)

shapes = st.sampled_from(SHAPES)
namespaces = st.sampled_from(NAMESPACES)
roles = st.sampled_from(["a", "a", "b"])
ages = st.floats(0, NOW)
queues = st.sampled_from(["", "", "left", "right", "nowhere"])


@st.composite
def identities(draw, namespace, jobs):
    kind = draw(st.sampled_from(["none", "job", "job", "named", "named", "sized", "forged"]))
    name = draw(st.sampled_from(["g1", "g2"]))
    mine = [uid for uid, job in jobs.items() if job.namespace == namespace]
    if kind == "named":
        return Identity(PODGROUP, namespace, name, how=draw(st.sampled_from(HOWS))), draw(st.sampled_from(["", *mine]))
    if kind == "sized":
        return Identity(LITE, namespace, name, how=HOWS[1]), ""
    if kind == "job" and mine:
        owner = jobs[draw(st.sampled_from(mine))]
        uid = owner.uid
        return Identity(owner.kind, namespace, uid, uid, how=f"controller {owner.kind} {uid}"), uid
    if kind == "forged":
        return Identity("Job", namespace, "stranger", draw(st.sampled_from(["gone", *jobs]))), "gone"
    return None, ""


@st.composite
def pods(draw, uid, jobs, nodes):
    namespace = draw(namespaces)
    group, owner = draw(identities(namespace, jobs))
    state = draw(st.sampled_from(["held", "held", "held", "lifted", "bound", "bound", "free", "done", "going"]))
    node = draw(st.sampled_from(["gone", *nodes]))
    maker = jobs.get(owner)
    above = Ref(maker.api, maker.kind, maker.name, maker.uid) if maker and draw(st.booleans()) else None
    gated = state == "held"
    began = not gated and draw(st.booleans())
    return PodFacts(
        uid=uid,
        namespace=namespace,
        name=f"p-{uid}",
        shape=draw(shapes),
        created=draw(ages),
        phase={"done": "Succeeded", "bound": "Running"}.get(state, "Pending"),
        node=node if state in ("bound", "done", "going") else "",
        gated=gated,
        foreign_gates=draw(st.sampled_from([(), (), (), ("a.io/x",)])),
        deleted=NOW + draw(st.sampled_from([-5.0, 5.0])) if state == "going" else None,
        group=group,
        problem="" if group else draw(st.sampled_from(["", "", "names differ"])),
        owner=owner,
        above=above,
        index=draw(st.sampled_from([-1, -1, 0, 3])),
        labels={"app": draw(st.sampled_from("ab")), names.RAY_GROUP: draw(roles)},
        queue=draw(queues),
        lifted=Lifted(draw(st.integers(1, 4)), draw(ages), draw(queues)) if began else None,
        pin=node if began or draw(st.integers(0, 9)) == 0 else "",
        nominated="" if gated else draw(st.sampled_from(["", "", "", node])),
        task_min=draw(st.integers(0, 3)) if group and group.kind == LITE else 0,
    )


@st.composite
def parts(draw, role):
    count = draw(st.integers(0, 5))
    return PartFacts(
        count=count,
        minimum=draw(st.integers(0, count)),
        shape=draw(shapes),
        role=role,
        stage=draw(st.integers(0, 1)),
        first=draw(st.sampled_from([0, 0, 1])),
        unit=draw(st.sampled_from([1, 1, 2])),
    )


@st.composite
def staged(draw, uid):
    """An owner of several roles, which works for another one, or for itself in a circle."""
    made = tuple(draw(parts(role)) for role in draw(st.sampled_from([("a",), ("a", "b"), ("b", "a")])))
    kind, api = draw(st.sampled_from([("RayCluster", "ray.io/v1"), ("JobSet", "jobset.x-k8s.io/v1alpha2")]))
    above = draw(st.sampled_from([None, None, None, ("ray.io", "RayCluster"), ("jobset.x-k8s.io", "JobSet")]))
    other = draw(st.sampled_from(["j0", "j1", "gone"]))
    return msgspec.structs.replace(
        draw(jobs(uid)),
        kind=kind,
        api_version=api,
        size=Size(sum(p.minimum for p in made), sum(p.count for p in made), "parts"),
        parts=made,
        above=Ref(*above, other, other) if above else None,
    )


@st.composite
def jobs(draw, uid):
    namespace = draw(namespaces)
    count = draw(st.integers(0, 5))
    named = Identity(PODGROUP, namespace, draw(st.sampled_from(["g1", "g2"])), how=draw(st.sampled_from(HOWS)))
    return OwnerFacts(
        kind="Job",
        namespace=namespace,
        name=uid,
        uid=uid,
        api_version="batch/v1",
        created=draw(ages),
        size=Size(count, count, "spec.parallelism"),
        parts=(PartFacts(count, count, draw(shapes)),),
        queue=draw(queues),
        min_member=draw(st.sampled_from([None, None, 2])),
        over=draw(st.sampled_from([False, False, False, True])),
        held=draw(st.sampled_from([False, False, False, True])),
        group=draw(st.sampled_from([None, named])),
    )


@st.composite
def nodes(draw, name):
    return NodeFacts(
        name=name,
        allocatable={
            GPU: draw(st.integers(0, 8)) * NANO,
            "cpu": 8 * NANO,
            "memory": 2**42 * NANO,
            "pods": draw(st.integers(0, 9)) * NANO,
        },
        labels={"zone": draw(st.sampled_from("ab")), names.HOSTNAME_LABEL: name},
        taints=draw(st.sampled_from([(), (), (Taint("dedicated", "ml", "NoSchedule"),)])),
        cordoned=draw(st.sampled_from([False, False, True])),
    )


@st.composite
def podgroups(draw):
    return PodGroupFacts(
        api=draw(st.sampled_from(APIS)),
        namespace=draw(namespaces),
        name=draw(st.sampled_from(["g1", "g2", "ganggate-j0"])),
        uid=draw(st.uuids()).hex,
        created=draw(ages),
        min_member=draw(st.integers(1, 5)),
        queue=draw(queues),
        priority_class=draw(st.sampled_from(["", "high"])),
        controller=draw(st.sampled_from(["", "j0"])),
    )


@st.composite
def limits(draw):
    """Queues with parents, circles and closed ones; quotas with scopes."""
    found = {
        name: QueueFacts(
            name,
            draw(st.sampled_from([{}, {GPU: 0}, {GPU: 6 * NANO}, {GPU: 9 * NANO, "cpu": 0}])),
            draw(st.sampled_from(["", "top", "left", "absent"])),
            draw(st.sampled_from(["", "Open", "Closed"])),
        )
        for name in ("left", "right", "top")
        if draw(st.booleans())
    }
    quotas = tuple(
        QuotaFacts(
            draw(namespaces),
            f"q{i}",
            {draw(st.sampled_from(["pods", "cpu", f"requests.{GPU}"])): draw(st.integers(0, 9)) * NANO},
            {"pods": draw(st.integers(0, 9)) * NANO},
            draw(st.sampled_from([(), (), (ScopeFact("BestEffort"),), (ScopeFact("PriorityClass", "In", ("high",)),)])),
        )
        for i in range(draw(st.integers(0, 2)))
    )
    return found, quotas


@st.composite
def snapshots(draw, most=14):
    owners = {f"j{i}": draw(st.one_of(jobs(f"j{i}"), staged(f"j{i}"))) for i in range(draw(st.integers(0, 3)))}
    machines = [f"n{i}" for i in range(draw(st.integers(0, 3)))]
    found, quotas = draw(limits())
    named = {(p.api, p.namespace, p.name): p for p in draw(st.lists(podgroups(), max_size=4))}
    policies = {n: draw(st.sampled_from(["gang", "gang", "hybrid", "binpack", ""])) for n in NAMESPACES}
    return Snapshot(
        pods=tuple(draw(pods(f"u{i:02}", owners, machines)) for i in range(draw(st.integers(0, most)))),
        nodes=tuple(draw(nodes(name)) for name in machines),
        namespaces={
            n: NamespaceFacts(
                n, policy, draw(st.sampled_from([(), ("left", "right")])), deleted=draw(st.integers(0, 9)) == 0
            )
            for n, policy in policies.items()
        },
        owners=owners,
        podgroups=tuple(named.values()),
        queues=found,
        quotas=quotas,
        priority_classes={"high": 5},
    )
