"""Random nodes, pods that run on them and gangs that want to, for comparing our placement with the scheduler's.

A case has nodes of its own, which its pods select by a label, so that many cases stand side by side on one cluster.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from deploy.local import nodes
from policy import names

CASE = "example.com/case"
ZONE = "topology.kubernetes.io/zone"
EXTENDED = ("nvidia.com/gpu", "google.com/tpu", "rdma/hca_shared", "nvidia.com/mig-1g.5gb")
TAINTS = (
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "draining", "effect": "NoExecute"},
    {"key": "slow", "effect": "PreferNoSchedule"},
)
TOLERATIONS = (
    {"key": "dedicated", "operator": "Equal", "value": "ml"},
    {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
)


@dataclass
class Case:
    """Manifests; `standing` name their node themselves."""

    number: int
    nodes: list[dict[str, Any]]
    standing: list[dict[str, Any]]
    going: list[str]  # names of standing pods that are to terminate
    gang: list[dict[str, Any]] = field(default_factory=list)
    pinned: bool = True  # else the scheduler chooses, if the pods are of one kind


def case(draw: random.Random, number: int, spaces: tuple[str, str]) -> Case:
    resource = draw.choice(EXTENDED)
    machines = [_node(draw, f"c{number}-n{i}", number, resource) for i in range(draw.randint(2, 6))]
    found = Case(number, machines, [], [], pinned=draw.random() < 0.7)
    for i in range(draw.randint(0, 4)):
        pod = _pod(draw, f"c{number}-s{i}", draw.choice((*spaces[:1], *spaces)), number, resource, "abz")
        pod["spec"].pop("schedulingGates")
        pod["spec"]["tolerations"] = [{"operator": "Exists"}]  # else it is evicted from a node with NoExecute
        pod["spec"]["nodeName"] = draw.choice(machines)["metadata"]["name"]
        found.standing.append(pod)
        if draw.random() < 0.2:
            pod["metadata"]["finalizers"] = ["example.com/stay"]
            pod["metadata"]["annotations"] = {"pod-delete.stage.kwok.x-k8s.io/delay": "1h"}
            found.going.append(pod["metadata"]["name"])
    for kind in range(draw.choice((1, 1, 1, 2, 3))):
        template = _pod(draw, "", spaces[0], number, resource, "ab")
        for i in range(draw.randint(1, 5)):
            meta = template["metadata"] | {"name": f"c{number}-g{kind}-{i}"}
            found.gang.append({"metadata": meta, "spec": template["spec"]})
    return found


def _node(draw: random.Random, name: str, number: int, resource: str) -> dict[str, Any]:
    capacity = {
        "cpu": draw.choice(("4", "7500m", "16")),
        "memory": draw.choice(("8Gi", "16Gi", "7999999k")),
        "ephemeral-storage": "100Gi",
        "pods": str(draw.choice((2, 4, 110, 110))),
    }
    if draw.random() < 0.85:
        capacity[resource] = str(draw.randint(1, 8))
    labels = {CASE: f"c{number}", names.HOSTNAME_LABEL: name, "size": str(draw.randint(1, 9))}
    if draw.random() < 0.9:
        labels[ZONE] = draw.choice("ab")
    if draw.random() < 0.5:
        labels["gpu-type"] = draw.choice(("a100", "h100"))
    taints = [draw.choice(TAINTS)] if draw.random() < 0.15 else []
    machine = nodes.manifest(name, 0)
    machine["metadata"]["labels"] |= labels
    machine["status"] |= {"capacity": capacity, "allocatable": capacity}
    return machine | {"spec": {"taints": taints, "unschedulable": draw.random() < 0.15}}


def _pod(draw: random.Random, name: str, space: str, number: int, resource: str, apps: str) -> dict[str, Any]:
    app = draw.choice(apps)
    amounts = {"cpu": draw.choice(("250m", "500m", "1", "1001m")), "memory": draw.choice(("256Mi", "1Gi", "1500M"))}
    limits = {resource: str(draw.choice((1, 1, 1, 2)))} if draw.random() < 0.8 else {}
    container: dict[str, Any] = {"name": "c", "image": "busybox:1.36"}
    container["resources"] = {"requests": amounts, "limits": limits}
    if draw.random() < 0.15:
        address = {"hostIP": draw.choice(("127.0.0.1", "0.0.0.0"))} if draw.random() < 0.5 else {}
        container["ports"] = [{"containerPort": 80, "hostPort": draw.choice((8080, 8081)), **address}]
    spec: dict[str, Any] = {
        "schedulingGates": [{"name": names.GATE}],
        "containers": [container],
        "nodeSelector": {CASE: f"c{number}"},
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "tolerations": [draw.choice(TOLERATIONS)] if draw.random() < 0.3 else [],
    }
    _bind(draw, spec, app, number)
    return {"metadata": {"name": name, "namespace": space, "labels": _labels(app, number)}, "spec": spec}


def _labels(app: str, number: int) -> dict[str, str]:
    return {"app": app, "case": f"c{number}"}


def _bind(draw: random.Random, spec: dict[str, Any], app: str, number: int) -> None:
    """At most one of the rules that look at nodes, and one of those that look at pods."""
    affinity: dict[str, Any] = {}
    if draw.random() < 0.2:
        terms = [_node_term(draw) for _ in range(draw.choice((1, 1, 2)))]
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    rule = draw.choice((*[""] * 6, *("alone", "repels", "beside", "spread") * 2, "far", "uneven", "follows"))
    mine, other = {"matchLabels": _labels(app, number)}, {"matchLabels": _labels("b" if app == "a" else "a", number)}
    hard = "requiredDuringSchedulingIgnoredDuringExecution"
    match rule:
        case "alone" | "repels" | "far":
            key = ZONE if rule == "far" else names.HOSTNAME_LABEL
            term = {"topologyKey": key, "labelSelector": other if rule == "repels" else mine}
            affinity["podAntiAffinity"] = {hard: [term]}
        case "beside" | "follows":
            term = {"topologyKey": names.HOSTNAME_LABEL, "labelSelector": mine if rule == "beside" else other}
            affinity["podAffinity"] = {hard: [term]}
        case "spread" | "uneven":
            constraint = {
                "topologyKey": draw.choice((ZONE, names.HOSTNAME_LABEL)),
                "maxSkew": draw.choice((1, 1, 2)),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": mine,
            }
            spec["topologySpreadConstraints"] = [constraint | ({"minDomains": 2} if rule == "uneven" else {})]
    if affinity:
        spec["affinity"] = affinity


def _node_term(draw: random.Random) -> dict[str, Any]:
    expression = draw.choice(
        (
            {"key": "gpu-type", "operator": "In", "values": ["a100", "b200"]},
            {"key": "gpu-type", "operator": "NotIn", "values": ["a100"]},
            {"key": "gpu-type", "operator": "Exists"},
            {"key": "gpu-type", "operator": "DoesNotExist"},
            {"key": "size", "operator": "Gt", "values": [str(draw.randint(1, 5))]},
            {"key": "size", "operator": "Lt", "values": [str(draw.randint(4, 9))]},
        )
    )
    return {"matchExpressions": [expression]}
