"""How long one decision pass takes: `python -m tests.bench.decision_pass --groups 1000 --nodes 1000 --pods 10000`.

Prints one JSON object: milliseconds of processor time, medians of --repeat. `cold` is the first pass of a process: only the
facts, made once per object when the watch delivers it, are there already. `changed` is one after --changed of all pods have
changed, in as many groups as that may be, `still` one after nothing has. --profile prints where the time of `changed` goes.
"""

import argparse
import cProfile
import gc
import json
import pstats
import statistics
import time
from collections.abc import Callable

import msgspec

from policy import names
from policy.gatekeeper.main import COLLECTOR
from policy.rules.decide import decide
from policy.rules.grouping import groups_of
from policy.rules.membership.family import Size
from policy.rules.membership.identity import Identity
from policy.rules.model import (
    Config,
    Lifted,
    NamespaceFacts,
    NodeFacts,
    OwnerFacts,
    PartFacts,
    PodFacts,
    QueueFacts,
    QuotaFacts,
    Shape,
    Snapshot,
)
from policy.rules.quantity import NANO
from policy.rules.recall import Recall

GPU = "nvidia.com/gpu"
NOW = 1_000_000.0
SHAPES = [
    Shape(requests={GPU: NANO, "cpu": 4 * NANO, "memory": 2**34 * NANO}),
    Shape(requests={GPU: 8 * NANO, "cpu": 32 * NANO, "memory": 2**37 * NANO}),
    Shape(requests={GPU: NANO, "cpu": 4 * NANO}, node_selector={"zone": "a"}),
    Shape(requests={"cpu": NANO // 2, "memory": 2**30 * NANO}),
    Shape(requests={GPU: 2 * NANO, "cpu": 8 * NANO}, host_ports=("TCP/2222/0.0.0.0",)),
    *(Shape(requests={GPU: NANO, "cpu": n * NANO}, node_selector={"pool": f"p{n}"}) for n in range(1, 16)),
]


def cluster(groups: int, nodes: int, pods: int, *, busy: bool = False) -> Snapshot:
    """`groups` waiting Jobs of four members in 20 namespaces and 10 queues; all other pods run, in Jobs of eight.

    On a busy cluster no GPU is free, and all that ask for one wait; else all of them start in one pass.
    """
    jobs: dict[str, OwnerFacts] = {}
    found: list[PodFacts] = []
    for number in range(groups):
        found += _gang(jobs, f"wait-{number}", number, 4, "")
    running = 0
    machines = tuple(_node(i, gpus=0 if busy and i % 3 else 8) for i in range(nodes))
    for number in range(0, nodes if busy else 0, 3):
        found += _gang(jobs, f"full-{number}", number, 1, machines[number].name, SHAPES[1])
    while len(found) < pods:
        found += _gang(jobs, f"run-{running}", running, 8, machines[running % nodes].name)
        running += 1
    return Snapshot(
        pods=tuple(found[:pods]),
        nodes=machines,
        namespaces={f"team-{i}": NamespaceFacts(f"team-{i}", names.Policy.GANG) for i in range(20)},
        owners=jobs,
        queues={f"q{i}": QueueFacts(f"q{i}", {GPU: nodes * NANO}, "top") for i in range(10)}
        | {"top": QueueFacts("top", {GPU: nodes * 8 * NANO})},
        quotas=tuple(QuotaFacts(f"team-{i}", "gpus", {f"requests.{GPU}": nodes * 8 * NANO}) for i in range(20)),
    )


def _node(number: int, gpus: int) -> NodeFacts:
    allocatable = {GPU: gpus * NANO, "cpu": 128 * NANO, "memory": 2**40 * NANO, "pods": 110 * NANO}
    labels = {"zone": "ab"[number % 2], "pool": f"p{number % 16}", names.HOSTNAME_LABEL: f"node-{number}"}
    return NodeFacts(f"node-{number:05}", allocatable, labels, cordoned=number % 50 == 0)


def _gang(
    jobs: dict[str, OwnerFacts], uid: str, number: int, count: int, node: str, running: Shape = SHAPES[3]
) -> list[PodFacts]:
    namespace, shape = f"team-{number % 20}", SHAPES[number % len(SHAPES)]
    size, part = Size(count, count, "spec.parallelism"), PartFacts(count, count, shape)
    jobs[uid] = OwnerFacts("Job", namespace, uid, uid, "batch/v1", float(number), size, (part,))
    identity = Identity("Job", namespace, uid, uid, how=f"controller Job {uid}")
    shape = running if node else shape
    return [
        PodFacts(
            uid=f"{uid}-{i}",
            namespace=namespace,
            name=f"{uid}-{i}",
            shape=shape,
            created=float(number),
            phase="Running" if node else "Pending",
            node=node,
            gated=not node,
            group=identity,
            owner=uid,
            index=i,
            labels={"job": uid},
            queue=f"q{number % 10}",
            lifted=Lifted(count, 1.0, f"q{number % 10}") if node else None,
            pin=node,
        )
        for i in range(count)
    ]


def changed(snapshot: Snapshot, share: float, turn: int) -> Snapshot:
    """The same cluster with so many of its pods, spread over it, as new objects."""
    step = max(1, round(1 / share))
    pods = (msgspec.structs.replace(p) if i % step == turn % step else p for i, p in enumerate(snapshot.pods))
    return msgspec.structs.replace(snapshot, pods=tuple(pods))


def measure(snapshot: Snapshot, repeat: int, share: float) -> dict[str, float]:
    """Milliseconds, medians."""
    parts: dict[str, list[float]] = {"cold": [], "still": [], "changed": [], "grouping": []}
    for turn in range(repeat):
        recall = Recall()
        parts["cold"].append(_timed(lambda r=recall: decide(snapshot, Config(), NOW, r)))
        parts["still"].append(_timed(lambda r=recall: decide(snapshot, Config(), NOW, r)))
        after = changed(snapshot, share, turn)
        parts["changed"].append(_timed(lambda r=recall, a=after: decide(a, Config(), NOW, r)))
        parts["grouping"].append(_timed(lambda: groups_of(snapshot)))
    return {f"{name}_ms": round(statistics.median(found) * 1000, 1) for name, found in parts.items()}


def _timed(run: Callable[[], object]) -> float:
    """Seconds of processor time."""
    gc.collect()
    started = time.process_time()
    run()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--busy", action="store_true", help="no GPU is free: nearly all groups wait")
    parser.add_argument("--changed", type=float, default=0.01, metavar="SHARE")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    gc.set_threshold(*COLLECTOR)
    snapshot = cluster(options.groups, options.nodes, options.pods, busy=options.busy)
    outcome = decide(snapshot, Config(), NOW)
    lifts = sum(1 for d in outcome.decisions if d.action == "lift")
    size = {"groups": options.groups, "nodes": options.nodes, "pods": options.pods, "lifts": lifts}
    print(json.dumps(size | measure(snapshot, options.repeat, options.changed)))
    if options.profile:
        profile, recall = cProfile.Profile(), Recall()
        decide(snapshot, Config(), NOW, recall)
        profile.runcall(decide, changed(snapshot, options.changed, 0), Config(), NOW, recall)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
