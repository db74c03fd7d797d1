"""Random gangs of every kind that can be submitted today, from a seed: the same seed gives the same gangs."""

import random
from dataclasses import dataclass
from typing import Any

from policy import names
from tests.cluster.record import GROUP_LABEL

KINDS = ("job", "indexed", "volcano-job", "volcano-pods", "coscheduling-pods", "lite-pods")
SECONDS = ("500ms", "1s", "2s")
MOST = 64
FOREIGN_SCHEDULERS = {
    "volcano-job": "volcano",
    "volcano-pods": "volcano",
    "coscheduling-pods": "scheduler-plugins-scheduler",
}


@dataclass(frozen=True)
class Gang:
    label: str
    kind: str
    size: int
    minimum: int
    objects: list[dict[str, Any]]


def gang(rng: random.Random, serial: int, namespace: str, *, kind: str | None = None, size: int | None = None) -> Gang:
    """One gang of 1 to 64 one-GPU pods; small ones are more frequent, as in real fleets."""
    kind = kind or rng.choice(KINDS)
    size = size or min(MOST, max(1, round(2 ** rng.triangular(0, 6.3, 1.5))))
    minimum = size if kind in ("job", "indexed") else rng.randint(max(1, size // 2), size)
    label = f"g{serial}"
    return Gang(label, kind, size, minimum, _objects(kind, label, size, minimum, namespace, rng.choice(SECONDS)))


def _objects(kind: str, label: str, size: int, minimum: int, namespace: str, runs: str) -> list[dict[str, Any]]:
    if kind in ("job", "indexed"):
        return [job(label, size, namespace, template(label, runs), indexed=kind == "indexed")]
    names_it, group = _naming(kind, label, minimum, namespace)
    spec = template(label, runs, scheduler=FOREIGN_SCHEDULERS.get(kind), **names_it)
    if kind == "volcano-job":
        return [*group, job(label, size, namespace, spec)]
    return [*group, *(pod(f"{label}-{i}", namespace, spec) for i in range(size))]


def _naming(kind: str, label: str, minimum: int, namespace: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if kind == "lite-pods":
        return {"labels": {names.COSCHEDULING_LITE_NAME: label, names.COSCHEDULING_LITE_MIN: str(minimum)}}, []
    if kind == "coscheduling-pods":
        api = f"{names.COSCHEDULING_API}/{names.COSCHEDULING_VERSION}"
        return {"labels": {names.COSCHEDULING_LABEL: label}}, [podgroup(api, label, minimum, namespace)]
    api = f"{names.VOLCANO_API}/{names.VOLCANO_VERSION}"
    return {"annotations": {names.GROUP_NAME: label}}, [podgroup(api, label, minimum, namespace)]


def podgroup(api: str, name: str, minimum: int, namespace: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": minimum, **spec}}


def template(
    label: str,
    runs: str,
    *,
    scheduler: str | None = None,
    gpus: int = 1,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Metadata and spec of a pod that asks for GPUs and runs for `runs` on a simulated node."""
    timing = {f"pod-complete.stage.kwok.x-k8s.io/{key}": runs for key in ("delay", "jitter-delay")}
    container = {"name": "main", "image": "busybox:1.36", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 0}
    if scheduler:
        spec["schedulerName"] = scheduler
    metadata = {"labels": {GROUP_LABEL: label, **(labels or {})}, "annotations": {**timing, **(annotations or {})}}
    return {"metadata": metadata, "spec": spec}


def job(name: str, size: int, namespace: str, pods: dict[str, Any], *, indexed: bool = False) -> dict[str, Any]:
    spec: dict[str, Any] = {"parallelism": size, "completions": size, "backoffLimit": 0, "template": pods}
    if indexed:
        spec["completionMode"] = "Indexed"
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def pod(name: str, namespace: str, pods: dict[str, Any]) -> dict[str, Any]:
    metadata = {**pods["metadata"], "name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pods["spec"]}
