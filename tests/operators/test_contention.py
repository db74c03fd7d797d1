"""Random jobs of all operators on a cluster too small for them: none starts torn, none is stuck."""

import os
import random
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from deploy.local.cluster import Cluster
from policy import names
from policy.gatekeeper.client import Client
from tests.cluster import breaking
from tests.cluster.breaking import must
from tests.cluster.calls import Caller
from tests.cluster.record import GROUP_LABEL, Entry, Recorder, audit
from tests.operators.jobs import GPU, KINDS
from tests.operators.random_jobs import DELETED, Drawn, draw
from tests.operators.space import Space, wide

JOBS = int(os.environ.get("GANGGATE_OPERATOR_JOBS", "30"))
SEED = int(os.environ.get("GANGGATE_SEED", "1"))
CAPABILITY = 28  # of the 64 GPUs; jobs ask for up to 24
ARRIVAL_SECONDS = (0.0, 0.3)
STUCK_SECONDS = 90.0  # without the end of any job, while some are left
WHOLE_SECONDS = 20.0
DONE = {"Succeeded", "Completed", "Complete"}
FAILED = {"Failed"}


@dataclass
class Run:
    """The jobs of one run, and what has become of them."""

    space: Space
    left: dict[str, Drawn] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def submit(self, jobs: list[Drawn], rng: random.Random) -> None:
        """On a thread of its own: the first end before the last come."""
        for job in jobs:
            self.space.apply(job.objects)
            threading.Event().wait(rng.uniform(*ARRIVAL_SECONDS))

    def look(self) -> int:
        """How many jobs have ended since the last look; those that never end by themselves are deleted once they ran."""
        ran = Counter(
            breaking.of(pod)
            for pod in breaking.listed(self.space.admin, breaking.pods(self.space.name))
            if pod["spec"].get("nodeName") and pod["status"]["phase"] in {"Running", "Succeeded"}
        )
        over = self._over()
        ended = [job for job in self.left.values() if job.name in over or self._served(job, ran)]
        for job in ended:
            if job.kind in DELETED:
                self.space.delete(job.kind, job.name)
            del self.left[job.name]
        return len(ended)

    def _over(self) -> set[str]:
        found = set()
        for kind in {job.kind for job in self.left.values()} - DELETED:
            for owner in breaking.listed(self.space.admin, KINDS[kind].path(kind, self.space.name, "")):
                name, told = owner["metadata"]["name"], owner.get("status", {}).get("conditions", [])
                types = {c["type"] for c in told if c["status"] == "True"}
                if types & (DONE | FAILED):
                    found.add(name)
                    self.failed += [f"{kind} {name}"] if name in self.left and types & FAILED else []
        return found

    @staticmethod
    def _served(job: Drawn, ran: Counter[str]) -> bool:
        return job.kind in DELETED and ran[job.name] >= job.count


def run(space: Space, jobs: list[Drawn]) -> Run:
    """Submit them all and wait for the end of each, or until none has ended for too long."""
    found = Run(space, {job.name: job for job in jobs})
    submitting = threading.Thread(target=found.submit, args=(jobs, random.Random(SEED)))
    submitting.start()
    since = time.monotonic()
    while found.left and time.monotonic() - since < STUCK_SECONDS:
        if found.look() or submitting.is_alive():
            since = time.monotonic()
        threading.Event().wait(0.3)
    submitting.join()
    return found


def figures(entries: Iterable[Entry], jobs: list[Drawn]) -> str:
    """How long complete groups waited for their lift, and how long it took until all of the first were on nodes."""
    first = {job.name: job.first for job in jobs}
    made: dict[str, dict[str, float]] = defaultdict(dict)
    opened: dict[str, dict[str, float]] = defaultdict(dict)
    bound: dict[str, dict[str, float]] = defaultdict(dict)
    for entry in entries:
        label, uid = entry.pod.metadata.label(GROUP_LABEL) or "", entry.pod.metadata.uid
        made[label].setdefault(uid, entry.at)
        if not entry.pod.spec.scheduling_gates:
            opened[label].setdefault(uid, entry.at)
        if entry.pod.spec.node_name:
            bound[label].setdefault(uid, entry.at)

    def moment(times: dict[str, float], count: int) -> float:
        return sorted(times.values())[count - 1]

    waits = [moment(opened[name], count) - moment(made[name], count) for name, count in first.items()]
    spreads = [moment(bound[name], count) - moment(opened[name], 1) for name, count in first.items()]
    prompt = [seconds for seconds in waits if seconds < 1]
    return (
        f"{len(waits) - len(prompt)} of {len(waits)} waited for room, {max(waits):.1f} s at most; the others were lifted "
        f"{statistics.median(prompt):.2f} s after they were complete (median); first lift to last bind "
        f"{statistics.median(spreads):.2f} s (median), {max(spreads):.2f} s at most"
    )


@pytest.mark.timeout(1800)
def test_none_starts_torn_and_none_is_stuck(cluster: Cluster, admin: Caller) -> None:
    rng = random.Random(SEED)
    jobs = [draw(rng, serial) for serial in range(JOBS)]
    queue = f"contended-{SEED}"
    must(admin.create(breaking.queues(), breaking.queue(queue, capability={GPU: CAPABILITY})))
    recorder = Recorder(Client.from_kubeconfig(str(cluster.kubeconfig))).start()
    started = time.monotonic()
    with wide(cluster, admin, **{names.ANNOTATION_QUEUES: queue}) as space:
        found = run(space, jobs)
        recorder.stop()
    admin("DELETE", breaking.queues(queue))
    minimum = {job.name: job.first for job in jobs}
    entries = [entry for entry in recorder.entries if entry.pod.metadata.namespace == space.name]
    torn = audit(entries, minimum, {space.name: {queue: CAPABILITY}}, time.monotonic(), WHOLE_SECONDS)
    stuck = [f"{job.kind} {job.name}" for job in found.left.values()]
    assert (torn, stuck, found.failed) == ([], [], [])
    harder = {name: first + 1 for name, first in minimum.items()}
    assert {line.partition(":")[0] for line in audit(entries, harder, {}, time.monotonic())} == set(harder)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(job.kind for job in jobs).items()))
    print(
        f"seed {SEED}: {JOBS} jobs ({kinds}), {sum(job.count for job in jobs)} pods in "
        f"{time.monotonic() - started:.0f} s; 0 torn, 0 stuck; {figures(entries, jobs)}"
    )
