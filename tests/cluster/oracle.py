"""Random pods and quotas of every kind that a quota can tell apart, for comparing our sums with the API server's."""

import random
from typing import Any

GPU = "nvidia.com/gpu"
EASY_KEYS = (
    "pods",
    "count/pods",
    f"requests.{GPU}",
    "requests.example.com/fpga",
    "hugepages-2Mi",
    "requests.hugepages-2Mi",
)
STORAGE_KEYS = ("ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage")
DEMANDING_KEYS = ("cpu", "requests.cpu", "limits.cpu", "memory", "requests.memory", "limits.memory")
CLASSES = ("oracle-high", "oracle-low")
RUNTIME = "oracle-vm"
SCOPES: tuple[dict[str, Any], ...] = (
    {},
    {"scopes": ["Terminating"]},
    {"scopes": ["NotTerminating"]},
    {"scopes": ["BestEffort"]},
    {"scopes": ["NotBestEffort"]},
    {"scopes": ["NotTerminating", "NotBestEffort"]},
    {"scopes": ["CrossNamespacePodAffinity"]},
    {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": [CLASSES[0]]}]}},
    {
        "scopeSelector": {
            "matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": [CLASSES[0]]}]
        }
    },
    {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
    {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}},
)


def quota(draw: random.Random, name: str, *, tight: bool) -> dict[str, Any]:
    """A quota of some keys; one with a scope may list pods, cpu and memory only, BestEffort nothing but pods."""
    scope = draw.choice(SCOPES) if draw.random() < 0.6 else {}
    poor = {"BestEffort", "CrossNamespacePodAffinity"} & set(scope.get("scopes", ()))
    keys = ["pods"] if scope else draw.sample(EASY_KEYS, 3) + draw.sample(STORAGE_KEYS, 1)
    if not poor and draw.random() < 0.6:
        keys += draw.sample(DEMANDING_KEYS, draw.randint(1, 4))
    hard = {key: _limit(draw, key) if tight else "1000000Gi" for key in keys}
    return {"metadata": {"name": name}, "spec": {"hard": hard, **scope}}


def _limit(draw: random.Random, key: str) -> str:
    if "cpu" in key:
        return f"{draw.randint(500, 9000)}m"
    if "memory" in key or "storage" in key or "hugepages" in key:
        return f"{draw.randint(64, 4096)}Mi"
    return str(draw.randint(0, 12))


def pod(draw: random.Random, *, stated: float) -> dict[str, Any]:
    """A gated pod. `stated` is how often a container states cpu and memory."""
    huge = draw.random() < 0.2
    spec: dict[str, Any] = {
        "schedulingGates": [{"name": "example.com/oracle"}],
        "containers": [_container(draw, f"c{i}", stated, huge) for i in range(draw.randint(1, 3))],
    }
    inits = [_container(draw, f"i{i}", stated, huge) for i in range(draw.choice((0, 0, 1, 2, 3)))]
    for init in inits:
        if draw.random() < 0.5:
            init["restartPolicy"] = "Always"
    if inits:
        spec["initContainers"] = inits
    _decorate(draw, spec)
    return {"metadata": {"generateName": "p-", "labels": {"app": "oracle"}}, "spec": spec}


def _decorate(draw: random.Random, spec: dict[str, Any]) -> None:
    if draw.random() < 0.2:
        spec["resources"] = _pod_level(draw)
    if draw.random() < 0.25:
        spec["runtimeClassName"] = RUNTIME
    if draw.random() < 0.4:
        spec["priorityClassName"] = draw.choice(CLASSES)
    if draw.random() < 0.3:
        spec["activeDeadlineSeconds"] = draw.randint(60, 6000)
    if draw.random() < 0.2:
        term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        where = draw.choice(({"namespaces": ["default"]}, {"namespaceSelector": {}}, {}))
        kind = draw.choice(("podAffinity", "podAntiAffinity"))
        if draw.random() < 0.5:
            wish = [{"weight": 1, "podAffinityTerm": term | where}]
            spec["affinity"] = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": wish}}
        else:
            spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term | where]}}


def _pod_level(draw: random.Random) -> dict[str, Any]:
    """Large enough for any containers here: the API server refuses a pod level below their sum."""
    found = {"requests": {"cpu": "64", "memory": "64Gi"}}
    if draw.random() < 0.5:
        found["limits"] = {"cpu": "80", "memory": "80Gi"}
    return found


def _container(draw: random.Random, name: str, stated: float, huge: bool) -> dict[str, Any]:  # noqa: FBT001
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for resource, amount in (("cpu", _cpu), ("memory", _memory), ("ephemeral-storage", _memory)):
        if draw.random() < (stated if resource != "ephemeral-storage" else 0.3):
            _state(draw, requests, limits, resource, amount, often=stated)
    if draw.random() < 0.4:
        limits[draw.choice((GPU, "example.com/fpga"))] = str(draw.randint(0, 4))
    if huge and name == "c0":
        limits["hugepages-2Mi"] = f"{2 * draw.randint(1, 50)}Mi"
        limits.setdefault("memory", "6Gi")
        limits.setdefault("cpu", "5")
    return {"name": name, "image": "x", "resources": {"requests": requests, "limits": limits}}


def _state(draw: random.Random, requests: dict, limits: dict, resource: str, amount, *, often: float) -> None:
    """Request and limit, or one of them; a limit is never below its request."""
    low, high = amount(draw)
    kind = draw.random()
    if kind < 0.7 * often or kind < 0.3:
        requests[resource], limits[resource] = low, high
    elif kind < 0.8:
        requests[resource] = low
    else:
        limits[resource] = high


def _cpu(draw: random.Random) -> tuple[str, str]:
    millis = draw.randint(0, 1500)
    return draw.choice((f"{millis}m", f"{millis / 1000:.3f}")), f"{millis + draw.randint(0, 900)}m"


def _memory(draw: random.Random) -> tuple[str, str]:
    size = draw.randint(1, 900)
    return draw.choice((f"{size}Mi", f"{size * 1024}Ki", str(size * 1024 * 1024))), f"{size + draw.randint(0, 500)}Mi"


def limit_range(draw: random.Random) -> dict[str, Any]:
    request, limit = {}, {}
    for resource, amount in (("cpu", _cpu), ("memory", _memory)):
        if draw.random() < 0.7:
            request[resource], limit[resource] = amount(draw)
    item = {"type": "Container", "defaultRequest": request, "default": limit}
    return {"metadata": {"name": "defaults"}, "spec": {"limits": [item]}}
