"""Facts by hand, for tests of the rules: amounts as people write them, everything else at rest."""

import functools

import msgspec

from policy import names
from policy.rules.membership.family import Size
from policy.rules.membership.identity import PODGROUP, Identity
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
    Shape,
    Snapshot,
)
from policy.rules.objects import TopologySpreadConstraint
from policy.rules.quantity import parse

GPU = "nvidia.com/gpu"
NS = "team"
NOW = 1_000_000.0


def amounts(**given):
    """`gpu` stands for the extended resource, `_` for a dash or dot: pods, limits_cpu, requests_gpu."""
    return {_resource(name): parse(amount) for name, amount in given.items()}


def _resource(name):
    prefix, _, last = name.rpartition("_")
    return ".".join(filter(None, (prefix, {"gpu": GPU}.get(last, last))))


@functools.cache
def _interned(encoded):
    return msgspec.json.decode(encoded, type=Shape)


def shape(gpu=1, cpu="1", memory=None, **fields):
    requests = {GPU: gpu, "cpu": cpu, "memory": memory}
    wanted = {name: parse(amount) for name, amount in requests.items() if amount is not None}
    return _interned(msgspec.json.encode(Shape(**{"requests": wanted, **fields}), order="sorted"))


def spread_of(key, skew, selector):
    return TopologySpreadConstraint(topology_key=key, max_skew=skew, label_selector=selector)


def pod(name, *, of=None, like=None, job="", ns=NS, gated=True, **fields):
    """A gated pod. `of` names its PodGroup, `job` the uid of its Job (and its group, where `of` is not given)."""
    group = Identity(PODGROUP, ns, of, how=f"annotation {names.VOLCANO_PODGROUP}") if of else None
    if job and not of:
        group = Identity("Job", ns, job, job, how=f"controller Job {job}")
    defaults = {"uid": f"{ns}/{name}", "shape": like or shape(), "created": 1.0, "group": group, "owner": job}
    return PodFacts(**(defaults | {"namespace": ns, "name": name, "gated": gated} | fields))


def pods(count, prefix="p", **fields):
    return tuple(pod(f"{prefix}-{i}", **fields) for i in range(count))


def lifted(item, node="", minimum=1, at=NOW, *, bound=True, queue=""):
    """The pod after its lift, pinned to the node and bound to it."""
    return msgspec.structs.replace(
        item, gated=False, lifted=Lifted(minimum, at, queue), pin=node, node=node if bound else ""
    )


def node(name, gpu=8, cpu="64", pods=110, **fields):
    return NodeFacts(**({"name": name, "allocatable": amounts(gpu=gpu, cpu=cpu, pods=pods)} | fields))


def nodes(count, **fields):
    return tuple(node(f"n{i}", **fields) for i in range(count))


def job(uid, count=8, *, ns=NS, like=None, possible=None, **fields):
    size = Size(count, count if possible is None else possible, "spec.parallelism")
    defaults = {"kind": "Job", "namespace": ns, "name": uid, "uid": uid, "api_version": "batch/v1", "created": 1.0}
    parts = (PartFacts(size.possible, count, like or shape()),)
    return OwnerFacts(**(defaults | {"size": size, "parts": parts} | fields))


def podgroup(name, minimum=8, *, ns=NS, api=names.VOLCANO_API, **fields):
    defaults = {"uid": f"pg-{ns}-{name}", "created": 1.0}
    return PodGroupFacts(**(defaults | {"api": api, "namespace": ns, "name": name, "min_member": minimum} | fields))


def queue(name, parent="", state="", problem="", **capability):
    return QueueFacts(name, amounts(**capability), parent, state, problem)


def quota(name="q", ns=NS, used=None, scopes=(), **hard):
    return QuotaFacts(ns, name, amounts(**hard), amounts(**(used or {})), scopes)


def gang(*queues, name=NS, policy=names.Policy.GANG):
    return NamespaceFacts(name, policy, queues)


def snapshot(*, pods=(), nodes=(), jobs=(), podgroups=(), queues=(), quotas=(), namespaces=None, classes=None):
    found = (gang(),) if namespaces is None else namespaces
    return Snapshot(
        pods=tuple(pods),
        nodes=tuple(nodes),
        namespaces={n.name: n for n in found},
        owners={o.uid: o for o in jobs},
        podgroups=tuple(podgroups),
        queues={q.name: q for q in queues},
        quotas=tuple(quotas),
        priority_classes=classes or {},
    )
