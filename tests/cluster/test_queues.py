"""Queues under contention, live: shares, ceilings, and no idling.

The times are short here; tests/long runs the same for as long as the promises are stated for.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from policy import names
from policy.gatekeeper.client import Client
from tests.cluster import backlog, breaking
from tests.cluster.arenas import admin, gang
from tests.cluster.backlog import GPU, Stream, drawn, let_pass
from tests.cluster.breaking import bound, hears, held, jobs, must, told
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import MakeCluster, holds_for, namespace_in, take_down, wait_until
from tests.cluster.record import Recorder

__all__ = ["admin", "gang"]

SECONDS = float(os.environ.get("GANGGATE_SHARES", "40"))
POINTS = float(os.environ.get("GANGGATE_SHARES_POINTS", "8"))  # of a hundred, that a share may be off
JOBS = int(os.environ.get("GANGGATE_RECIPE", "20"))


@contextmanager
def teams(cluster: Cluster, admin: Caller) -> Iterator[dict[str, str]]:
    """The queues of the example, and a namespace for each: team-a 4 parts and 32 GPUs at most, team-b 1 part and 16."""
    limits = {"a": {"weight": 4, "capability": {GPU: 32}}, "b": {"weight": 1, "capability": {GPU: 16}}}
    for name, spec in limits.items():
        must(admin.create(breaking.queues(), breaking.queue(f"team-{name}", **spec)))
    try:
        with (
            namespace_in(cluster, "gang", **{names.ANNOTATION_QUEUES: "team-a"}) as a,
            namespace_in(cluster, "gang", **{names.ANNOTATION_QUEUES: "team-b"}) as b,
        ):
            yield {"a": a, "b": b}
    finally:
        for name in limits:
            admin("DELETE", breaking.queues(f"team-{name}"))


@pytest.mark.parametrize("count", [4, 8])
def test_two_teams_with_more_than_they_can_run(make_cluster: MakeCluster, count: int) -> None:
    """On 32 GPUs they share 80 to 20; on 64 each has what its capability allows, and never more."""
    cluster = make_cluster(nodes=count, gpus=8)
    admin = Caller(cluster.kubeconfig)
    recorder = Recorder(Client.from_kubeconfig(str(cluster.kubeconfig))).start()
    with teams(cluster, admin) as spaces:
        streams = [Stream(admin, spaces[t], 40, drawn(n, t, spaces[t], "5s")) for n, t in enumerate("ab")]
        with streams[0], streams[1]:
            wait_until(lambda: all(bound(admin, spaces[t]) for t in "ab"), timeout=60, what="both run")
            let_pass(10)  # what was there first is over
            begin = time.monotonic()
            let_pass(SECONDS)
            end = time.monotonic()
        recorder.stop()
        found = backlog.use(recorder.entries, begin, end)
    take_down(cluster)
    a, b = (found.gpu_seconds[spaces[t]] for t in "ab")
    share, busy = 100 * a / (a + b), 100 * (a + b) / (count * 8 * (end - begin))
    most = {t: found.most[spaces[t]] for t in "ab"}
    print(
        f"{count} nodes, {end - begin:.0f} s: team-a {share:.1f} %, at most {most['a']} and {most['b']} GPUs, {busy:.0f} % busy"
    )
    assert most["a"] <= 32 and most["b"] <= 16
    if count == 4:
        assert abs(share - 80) <= POINTS


@pytest.fixture(scope="module")
def arena(make_cluster: MakeCluster) -> Iterator[Cluster]:
    """Two nodes of 8 GPUs."""
    made = make_cluster(nodes=2, gpus=8)
    yield made
    take_down(made)


def test_jobs_of_any_size_all_finish_and_none_that_fits_waits(arena: Cluster, admin: Caller, gang: str) -> None:
    """One to eight pods of one GPU or more, arriving faster than they can run: nobody holds what another needs."""
    rng = random.Random(7)
    recorder = Recorder(Client.from_kubeconfig(str(arena.kubeconfig))).start()
    sizes = {}
    for number in range(JOBS):
        each = rng.choice([1, 1, 2, 4, 8])
        sizes[f"j-{number}"] = (rng.randint(1, 16 // each if each < 8 else 2), each)
        count, gpus = sizes[f"j-{number}"] = (min(8, sizes[f"j-{number}"][0]), each)
        must(admin.create(jobs(gang), backlog.job(f"j-{number}", gang, count, "3s", gpus=gpus)))
        let_pass(1.5)
    wait_until(lambda: not breaking.listed(admin, jobs(gang)), timeout=120 + 4 * JOBS, what=f"{JOBS} of {JOBS} over")
    recorder.stop()
    waits = backlog.idle_waits(recorder.entries, sizes, nodes=2, gpus=8)
    print(
        f"{JOBS} of {JOBS} finished; a group that fits waited {max(waits):.2f} s at most, {sorted(waits)[len(waits) // 2]:.2f} s at the median"
    )
    assert max(waits) <= 0.5 + float(os.environ.get("GANGGATE_SLACK", "10"))


def test_a_queue_shows_what_it_holds(arena: Cluster, admin: Caller, gang: str) -> None:
    must(admin.create(breaking.queues(), breaking.queue("shown", capability={GPU: 3})))
    marks = {names.QUEUE_NAME: "shown"}
    must(admin.create(jobs(gang), backlog.job("runs", gang, 2, breaking.LONG, **marks)))
    wait_until(lambda: bound(admin, gang) == 2)
    must(admin.create(jobs(gang), backlog.job("waits", gang, 2, breaking.LONG, **marks)))

    def shows() -> bool:
        status = must(admin("GET", breaking.queues("shown"))).get("status", {})
        return status.get("allocated", {}).get(GPU) == "2" and (status.get("running"), status.get("pending")) == (1, 1)

    wait_until(shows, what="the status")
    assert f'"{GPU}":"2"' in arena.kubectl("get", "queue", "shown")
    must(admin.patch(breaking.queues("shown"), {"spec": {"capability": {GPU: 4}}}, MERGE))
    wait_until(lambda: bound(admin, gang) == 4)
    admin("DELETE", breaking.queues("shown"))
    must(admin.create(jobs(gang), backlog.job("late", gang, 1, breaking.LONG, **marks)))
    assert "does not exist" in hears(admin, gang, "late", names.Reason.QUEUE_MISSING)
    assert bound(admin, gang) == 4  # a queue that is deleted ends nothing
