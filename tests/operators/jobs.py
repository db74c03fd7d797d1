"""What the tests submit: the simplest of each kind, and what is changed about it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

MANIFESTS: Final = Path(__file__).with_name("manifests")
GPU: Final = "nvidia.com/gpu"
Manifest = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Where a kind is served, and what its manifest asks for."""

    api: str
    first: int  # pods that are made at once
    count: int  # pods in all
    gpus: int  # of all of them
    suspend: Mapping[str, Any] | None = None  # the spec of one that its user suspends

    def path(self, kind: str, namespace: str, name: str) -> str:
        return f"/apis/{self.api}/namespaces/{namespace}/{kind.lower()}s" + (f"/{name}" if name else "")


_PLAIN: Final = {"suspend": True}
_POLICY: Final = {"runPolicy": {"suspend": True}}
KINDS: Final[Mapping[str, Kind]] = {
    "JobSet": Kind(api="jobset.x-k8s.io/v1alpha2", first=4, count=4, gpus=4, suspend=_PLAIN),
    "LeaderWorkerSet": Kind(api="leaderworkerset.x-k8s.io/v1", first=3, count=3, gpus=3),
    "MPIJob": Kind(api="kubeflow.org/v2beta1", first=3, count=3, gpus=2, suspend=_POLICY),
    "PyTorchJob": Kind(api="kubeflow.org/v1", first=3, count=3, gpus=3, suspend=_POLICY),
    "RayCluster": Kind(api="ray.io/v1", first=3, count=3, gpus=2, suspend=_PLAIN),
    "RayJob": Kind(api="ray.io/v1", first=2, count=3, gpus=1),  # the third is the submitter's, once the two are ready
    "TFJob": Kind(api="kubeflow.org/v1", first=3, count=3, gpus=3, suspend=_POLICY),
    "TrainJob": Kind(api="trainer.kubeflow.org/v1alpha1", first=2, count=2, gpus=2, suspend=_PLAIN),
}


def running(seconds: float) -> dict[str, str]:
    """Annotations of pods that complete after so long."""
    return {f"pod-complete.stage.kwok.x-k8s.io/{key}": f"{seconds:g}s" for key in ("delay", "jitter-delay")}


LASTING: Final = running(900)
BRIEF: Final = running(2)


def manifests(kind: str, annotations: Mapping[str, str] = LASTING) -> list[Manifest]:
    """The simplest of a kind, its owner first; its pods with these annotations."""
    found = [each for each in yaml.safe_load_all((MANIFESTS / f"{kind}.yaml").read_text()) if each]
    for each in found:
        mark(each, annotations=annotations)
    return sorted(found, key=lambda each: each["kind"] != kind)


def mark(node: Any, **marks: Mapping[str, str]) -> None:
    """Put `annotations` or `labels` on every pod template in it."""
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        mark(child, **marks)
    if isinstance(node, dict) and "containers" in (node.get("spec") or {}):
        for key, values in marks.items() if any(marks.values()) else ():
            node.setdefault("metadata", {}).setdefault(key, {}).update(values)


def everywhere(node: Any, key: str, value: Any) -> None:
    """Set a field wherever it stands."""
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        everywhere(child, key, value)
    if isinstance(node, dict) and key in node:
        node[key] = value


def off(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The same fields, false."""
    return {key: off(value) if isinstance(value, dict) else False for key, value in spec.items()}
