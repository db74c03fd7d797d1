"""Jobs without end: what tests of contention between queues submit, and what each queue gets of it, as a recorded watch
shows it."""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from policy.rules import resources
from tests.cluster import submissions
from tests.cluster.breaking import jobs, must
from tests.cluster.calls import Caller
from tests.cluster.record import GROUP_LABEL, Entry

GPU = "nvidia.com/gpu"
OVER = ("Succeeded", "Failed")


def job(
    name: str, space: str, size: int, runs: str, gpus: int = 1, deadline: int | None = None, **marks: str
) -> dict[str, Any]:
    """A Job that is deleted once it is over; `marks` are annotations of its pods."""
    found = submissions.job(name, size, space, submissions.template(name, runs, gpus=gpus, annotations=marks))
    found["spec"]["ttlSecondsAfterFinished"] = 0
    if deadline is not None:
        found["spec"]["template"]["spec"]["activeDeadlineSeconds"] = deadline
    return found


def let_pass(seconds: float) -> None:
    """Load goes on meanwhile: there is nothing to wait for but time."""
    threading.Event().wait(seconds)


class Stream:
    """Keeps `depth` Jobs of a namespace unfinished, until `stop`; `make` names the next one's body."""

    def __init__(self, admin: Caller, space: str, depth: int, make: Callable[[int], dict[str, Any]]) -> None:
        self._admin, self._space, self._depth, self._make = admin, space, depth, make
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.made = 0

    def __enter__(self) -> "Stream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        for number in itertools.count():
            while not self._stop.is_set() and number % 8 == 0 and self._waiting() >= self._depth:
                self._stop.wait(0.2)
            if self._stop.is_set():
                return
            must(self._admin.create(jobs(self._space), self._make(number)))
            self.made += 1

    def _waiting(self) -> int:
        found = must(self._admin("GET", jobs(self._space)))["items"]
        return sum(1 for each in found if not each.get("status", {}).get("succeeded"))


def drawn(seed: int, prefix: str, space: str, runs: str, **marks: str) -> Callable[[int], dict[str, Any]]:
    """Gangs of one or two GPUs."""
    rng = random.Random(seed)
    return lambda number: job(f"{prefix}-{number}", space, rng.choice([1, 2]), runs, **marks)


@dataclass
class Use:
    """GPUs bound by namespace, over time."""

    gpu_seconds: Counter[str]
    most: Counter[str]


def use(entries: Iterable[Entry], begin: float, end: float) -> Use:
    """What each namespace had on nodes between two moments (monotonic seconds)."""
    held: dict[str, tuple[str, int]] = {}
    now: Counter[str] = Counter()
    total: Counter[str] = Counter()
    most: Counter[str] = Counter()
    last = begin
    for entry in sorted(entries, key=lambda e: e.at):
        at = min(max(entry.at, begin), end)
        for space, amount in now.items():
            total[space] += amount * (at - last)
        last = at
        meta = entry.pod.metadata
        runs = entry.type != "DELETED" and entry.pod.spec.node_name and entry.pod.status.phase not in OVER
        before = held.pop(meta.uid, None)
        if before is not None:
            now[before[0]] -= before[1]
        if runs:
            gpus = resources.requests(entry.pod).get(GPU, 0) // 10**9
            held[meta.uid] = (meta.namespace, gpus)
            now[meta.namespace] += gpus
            most[meta.namespace] = max(most[meta.namespace], now[meta.namespace])
    for space, amount in now.items():
        total[space] += amount * (end - last)
    return Use(total, most)


def of_group(entry: Entry) -> str:
    return (entry.pod.metadata.labels or {}).get(GROUP_LABEL, "")


def idle_waits(entries: Iterable[Entry], sizes: dict[str, tuple[int, int]], *, nodes: int, gpus: int) -> list[float]:
    """For each group, how long it waited on after the last moment from which on it fitted all the time.

    A group fits where its pods, largest first, find nodes with so many GPUs free: all of one size, so that is exact.
    Free is what no pod that is bound, or let go, holds; a node that the watch has not shown yet is charged as late.
    """
    free: dict[str, int] = {}
    held: dict[str, tuple[str, int]] = {}
    waiting: dict[str, set[str]] = {}  # gated pods by group
    fits_since: dict[str, float | None] = {}
    started: dict[str, float] = {}
    for entry in sorted(entries, key=lambda e: e.at):
        meta, spec = entry.pod.metadata, entry.pod.spec
        group = of_group(entry)
        if group not in sizes:
            continue
        count, each = sizes[group]
        over = entry.type == "DELETED" or entry.pod.status.phase in OVER
        node = spec.node_name
        if over and meta.uid in held:
            name, amount = held.pop(meta.uid)
            free[name] += amount
        if node and not over and meta.uid not in held:
            held[meta.uid] = (node, each)
            free[node] = free.setdefault(node, gpus) - each
        if spec.scheduling_gates and not over:
            waiting.setdefault(group, set()).add(meta.uid)
        elif group in waiting and group not in started and not spec.scheduling_gates:
            started[group] = entry.at
        _judge(sizes, waiting, started, fits_since, free, nodes, gpus, entry.at)
    return [started[g] - since for g in started if (since := fits_since.get(g)) is not None]


def _judge(sizes, waiting, started, fits_since, free, nodes, gpus, at):
    """Keep, for every whole group that waits, since when it has fitted without a break."""
    rooms = [*free.values(), *[gpus] * (nodes - len(free))]
    for group, members in waiting.items():
        count, each = sizes[group]
        if group in started:
            continue
        fits = len(members) == count and sum(room // each for room in rooms) >= count
        if not fits:
            fits_since[group] = None
        elif fits_since.get(group) is None:
            fits_since[group] = at
