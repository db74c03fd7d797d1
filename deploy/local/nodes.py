"""Node objects for kwok to bring to life: manifests and names. Pure."""

import re
from collections.abc import Iterable
from typing import Any, Final

from policy import names

GPU: Final = "nvidia.com/gpu"
_NAME: Final = re.compile(r"node-(?P<number>\d+)")


def manifest(name: str, gpus: int) -> dict[str, Any]:
    """A Node of 64 cpu, 512 Gi, 110 pods and `gpus` GPUs. A kubelet too registers with its capacity."""
    capacity = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    if gpus:
        capacity[GPU] = str(gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                names.HOSTNAME_LABEL: name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
            },
        },
        "status": {"capacity": capacity, "allocatable": capacity, "nodeInfo": _info()},
    }


def next_names(existing: Iterable[str], count: int) -> list[str]:
    """Names of `count` more nodes: node-<n>, counting on from the highest there is."""
    taken = [int(found["number"]) for name in existing if (found := _NAME.fullmatch(name))]
    first = max(taken, default=-1) + 1
    return [f"node-{number}" for number in range(first, first + count)]


def schedulable(node: dict[str, Any]) -> bool:
    """Tell whether a node is Ready and carries none of the taints that keep pods off while it comes up."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    taints = node["spec"].get("taints", [])
    return ready and not any(each["key"].startswith("node.kubernetes.io/not-ready") for each in taints)


def _info() -> dict[str, str]:
    """All fields are required by the API; a kubelet would fill them from the machine."""
    unknown = ("bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "machineID", "systemUUID")
    known = {"architecture": "amd64", "operatingSystem": "linux", "osImage": "kwok", "kubeletVersion": "kwok"}
    return known | dict.fromkeys(unknown, "")
