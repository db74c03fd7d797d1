"""Random jobs of every operator, from a seed: the same seed gives the same jobs. Pure."""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from tests.cluster.record import GROUP_LABEL
from tests.operators.jobs import GPU, KINDS, LASTING, Manifest, everywhere, manifests, mark, running

MOST_GPUS: Final = 24  # of one job
STAGED: Final = 0.4  # how often a kind that has stages uses them
DELETED: Final = frozenset({"LeaderWorkerSet", "RayCluster", "RayJob"})  # never end by themselves here
Spec = dict[str, Any]
Sizes = tuple[int, int]  # pods at first, pods in all


@dataclass(frozen=True)
class Drawn:
    """One job: its objects, how many of its pods start together at first, and how many run in all."""

    name: str
    kind: str
    first: int
    count: int
    gpus: int  # of each pod that asks for any
    objects: list[Manifest]


def draw(rng: random.Random, serial: int) -> Drawn:
    kind, name = rng.choice(list(KINDS)), f"g{serial}"
    found = manifests(kind, LASTING if kind in DELETED else running(rng.choice((2, 4, 6))))
    owner = found[0]
    owner["metadata"]["name"] = name
    first, count = _MAKERS[kind](rng, owner["spec"])
    gpus = rng.choice([each for each in (1, 2, 4, 8) if each * count <= MOST_GPUS])
    if kind == "TrainJob":
        _own_runtime(found, name)
    for each in found:
        everywhere(each, GPU, str(gpus))
        mark(each, labels={GROUP_LABEL: name})
    return Drawn(name, kind, first, count, gpus, found)


def _own_runtime(found: list[Manifest], name: str) -> None:
    """So that its pods are told from others'."""
    job, runtime = found
    runtime["metadata"]["name"] = job["spec"]["runtimeRef"]["name"] = name


def _jobset(rng: random.Random, spec: Spec) -> Sizes:
    (workers,) = spec["replicatedJobs"]
    workers["replicas"], size = rng.randint(1, 3), rng.randint(1, 3)
    workers["template"]["spec"] |= {"parallelism": size, "completions": size}
    count: int = workers["replicas"] * size
    if rng.random() > STAGED:
        return count, count
    spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    spec["replicatedJobs"] = [deepcopy(workers) | {"name": "driver", "replicas": 1}, workers]
    return size, size + count


def _leaderworkerset(rng: random.Random, spec: Spec) -> Sizes:
    size = spec["leaderWorkerTemplate"]["size"] = rng.randint(2, 4)
    if rng.random() > STAGED:
        return size, size
    spec["startupPolicy"] = "LeaderReady"
    return 1, size


def _mpijob(rng: random.Random, spec: Spec) -> Sizes:
    workers = spec["mpiReplicaSpecs"]["Worker"]["replicas"] = rng.randint(1, 4)
    if rng.random() > STAGED:
        return workers + 1, workers + 1
    spec["launcherCreationPolicy"] = "WaitForWorkersReady"
    return workers, workers + 1


def _pytorchjob(rng: random.Random, spec: Spec) -> Sizes:
    workers = spec["pytorchReplicaSpecs"]["Worker"]["replicas"] = rng.randint(1, 5)
    return workers + 1, workers + 1


def _tfjob(rng: random.Random, spec: Spec) -> Sizes:
    roles = spec["tfReplicaSpecs"]
    roles["Worker"]["replicas"], servers = rng.randint(1, 3), rng.randint(0, 2)
    if servers:
        roles["PS"] = deepcopy(roles["Chief"]) | {"replicas": servers}
    count: int = 1 + roles["Worker"]["replicas"] + servers
    return count, count


def _workers(rng: random.Random, cluster: Spec, hosts: int) -> int:
    (workers,) = cluster["workerGroupSpecs"]
    replicas = rng.randint(1, 3)
    workers |= {"replicas": replicas, "minReplicas": replicas, "maxReplicas": replicas, "numOfHosts": hosts}
    return replicas * hosts


def _raycluster(rng: random.Random, spec: Spec) -> Sizes:
    workers = _workers(rng, spec, rng.randint(1, 2))
    return 1 + workers, 1 + workers


def _rayjob(rng: random.Random, spec: Spec) -> Sizes:
    workers = _workers(rng, spec["rayClusterSpec"], 1)
    return 1 + workers, 2 + workers


def _trainjob(rng: random.Random, spec: Spec) -> Sizes:
    nodes = spec["trainer"]["numNodes"] = rng.randint(1, 4)
    return nodes, nodes


_MAKERS: Final[dict[str, Callable[[random.Random, Spec], Sizes]]] = {
    "JobSet": _jobset,
    "LeaderWorkerSet": _leaderworkerset,
    "MPIJob": _mpijob,
    "PyTorchJob": _pytorchjob,
    "RayCluster": _raycluster,
    "RayJob": _rayjob,
    "TFJob": _tfjob,
    "TrainJob": _trainjob,
}
