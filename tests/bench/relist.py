"""What the caches of a large cluster weigh, a relist and a pass included: `python -m tests.bench.relist --pods 50000`.

The lists are made here, page by page as an API server would send them, and read by the gatekeeper's own decoder into its own
stores. Prints one JSON object: resident MiB of this process after each step, and the most it ever was.
"""

import argparse
import gc
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from policy.gatekeeper.clock import SystemClock
from policy.gatekeeper.decode import Decoder
from policy.gatekeeper.flights import Flights
from policy.gatekeeper.main import COLLECTOR
from policy.gatekeeper.snapshot import Stores, take
from policy.rules.decide import decide
from policy.rules.model import Config
from policy.rules.recall import Recall
from tests.bench.footprint import MIB, field

PAGE = 500
SIZE = 8  # members of a group
SINCE = "2026-01-01T00:00:00Z"
IMAGE = "registry.example.com/team/trainer@sha256:" + "0" * 64


def pod(number: int, nodes: int) -> dict[str, Any]:
    """Of a running Job, as large as such pods are: with volumes, status and what admission adds."""
    name, owner = f"train-{number // SIZE}-{number % SIZE}-x7k2p", f"job-{number // SIZE}"
    labels = {"batch.kubernetes.io/job-name": owner, "batch.kubernetes.io/controller-uid": owner, "app": "trainer"}
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
    lifted = json.dumps({"min": SIZE, "at": 1.0, "queue": "research", "present": SIZE, "newest": 1.0})
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["python", "-m", "train", "--config", "/etc/train/config.yaml"],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(20)],
        "resources": {
            "requests": {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"},
            "limits": {"nvidia.com/gpu": "1"},
        },
        "volumeMounts": [
            {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
        ],
    }
    conditions = [{"type": t, "status": "True", "lastTransitionTime": SINCE} for t in ("Ready", "PodScheduled")]
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number // SIZE % 20}",
            "uid": f"pod-{number}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": SINCE,
            "labels": labels,
            "annotations": {"ganggate.io/lifted": lifted},
            "ownerReferences": [reference],
        },
        "spec": {
            "containers": [container],
            "nodeName": f"node-{number % nodes}",
            "schedulerName": "default-scheduler",
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        },
        "status": {"phase": "Running", "conditions": conditions, "podIP": "10.0.0.1", "startTime": SINCE},
    }


def job(number: int) -> dict[str, Any]:
    name = f"job-{number}"
    meta = {
        "name": name,
        "namespace": f"team-{number % 20}",
        "uid": name,
        "resourceVersion": "7",
        "creationTimestamp": SINCE,
    }
    template = {"spec": pod(number * SIZE, 1)["spec"] | {"nodeName": None}}
    spec = {"parallelism": SIZE, "completions": SIZE, "template": template}
    return {"metadata": meta, "spec": spec, "status": {"active": SIZE}}


def node(number: int) -> dict[str, Any]:
    amounts = {"nvidia.com/gpu": "16", "cpu": "128", "memory": "1Ti", "pods": "110"}
    meta = {
        "name": f"node-{number}",
        "uid": f"node-{number}",
        "resourceVersion": "7",
        "labels": {"zone": "ab"[number % 2]},
    }
    return {"metadata": meta, "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}}


def namespace(number: int) -> dict[str, Any]:
    name = f"team-{number}"
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "7", "labels": {"scheduling-policy": "gang"}}}


def listed(decoder: Decoder[Any], make: Any, count: int) -> Iterator[Any]:
    """Objects as the pages of a list bring them."""
    for first in range(0, count, PAGE):
        items = [make(number) for number in range(first, min(count, first + PAGE))]
        body = json.dumps({"metadata": {"resourceVersion": "100000"}, "items": items}).encode()
        yield from decoder.page(body).items


def fill(stores: Stores, options: argparse.Namespace) -> None:
    """List everything anew."""
    nodes = options.nodes
    made = {
        "namespaces": (namespace, 20),
        "nodes": (node, nodes),
        "jobs.batch": (job, options.pods // SIZE),
        "pods": (lambda number: pod(number, nodes), options.pods),
    }
    for name, (make, count) in made.items():
        decoder = Decoder(stores.sources[name].type)
        stores.by_name[name].replace(listed(decoder, make, count), 100_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    options = parser.parse_args()
    gc.set_threshold(*COLLECTOR)
    stores, recall, told = Stores(SystemClock()), Recall(), {"empty": resident()}
    fill(stores, options)
    told["listed"] = resident()
    outcome = decide(take(stores, Flights()), Config(), time.time(), recall)
    told["pass"] = resident()
    fill(stores, options)
    told["relisted"] = resident()
    decide(take(stores, Flights()), Config(), time.time(), recall)
    told["pass again"] = resident()
    told["most"] = field(os.getpid(), "status", "VmHWM") // MIB
    print(json.dumps({"pods": len(stores.pods), "groups": len(outcome.groups), "MiB": told}))


def resident() -> int:
    return field(os.getpid(), "status", "VmRSS") // MIB


if __name__ == "__main__":
    main()
