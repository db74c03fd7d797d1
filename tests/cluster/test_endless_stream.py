"""A gang that needs every GPU, against small pods without end, of which some run at any moment, live.

With reservations it starts by the moment that it was told; without, it is passed for ever. `make long` asks for 64 GPUs
and ten minutes.
"""

import datetime as dt
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import backlog
from tests.cluster.arenas import admin, configured, gang
from tests.cluster.backlog import Stream
from tests.cluster.breaking import bound, held, jobs, must, told
from tests.cluster.calls import Caller
from tests.cluster.conftest import MakeCluster, holds_for, namespace_in, wait_until
from tests.cluster.rights import restart

__all__ = ["admin", "gang"]

NODES = int(os.environ.get("GANGGATE_STREAM_NODES", "2"))
SECONDS = float(os.environ.get("GANGGATE_STREAM", "20"))  # for which the gang is seen to be passed without
GPUS = 8 * NODES
RUNS = max(5, GPUS // 8)  # seconds, at least: so that a few pods end, and others start, each second
DEADLINE = 10 + 2 * RUNS
DEPTH = 24 + GPUS
NOON = dt.timedelta(hours=12)
AT_THE_LATEST = re.compile(r"starts by (\d\d:\d\d:\d\d) UTC at the latest")


@pytest.fixture(scope="module")
def arena(make_cluster: MakeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Nodes of 8 GPUs; its settings can be written anew."""
    with configured(make_cluster, tmp_path_factory, nodes=NODES, gpus=8) as made:
        yield made


def restarted(cluster: Cluster, settings: str) -> None:
    cluster.settings.addon_config.write_text(settings)
    restart(cluster, wait=True)


def brief(space: str) -> Any:
    """One GPU for a while that is not always the same, and a deadline beyond it."""
    return lambda number: backlog.job(f"s-{number}", space, 1, f"{RUNS + number % 3}s", deadline=DEADLINE)


def submit(admin: Caller, space: str) -> None:
    """The gang, once all GPUs are taken."""
    wait_until(lambda: bound(admin, space) >= GPUS - 2, timeout=120, what="all busy")
    must(admin.create(jobs(space), backlog.job("wide", space, GPUS, "5s")))


def promise(admin: Caller, space: str) -> re.Match[str] | None:
    """What the gang was told of its start: late where the stream's own events, at a bounded rate, are before it."""
    return AT_THE_LATEST.search(told(admin, space, "wide").get(names.Reason.NODES_SHORT, ""))


def test_a_large_gang_starts_by_the_moment_that_it_is_told(arena: Cluster, admin: Caller, gang: str) -> None:
    """All that are older start before it."""
    with Stream(admin, gang, DEPTH, brief(gang)):
        submit(admin, gang)
        begin = time.monotonic()
        wait_until(lambda: bound(admin, gang, "wide") == GPUS, timeout=180, what="the gang, after all that are older")
        started = dt.datetime.now(dt.UTC)
        waited = time.monotonic() - begin
    latest = wait_until(lambda: promise(admin, gang), timeout=60, what="the moment told: events wait behind others'")
    print(f"{GPUS} GPUs started after {waited:.1f} s, at {started:%H:%M:%S}; told was {latest[0]}")
    promised = dt.datetime.combine(started, dt.time.fromisoformat(latest[1]), dt.UTC)
    late = (started.replace(microsecond=0) - promised + NOON) % (2 * NOON) - NOON  # of clocks that know no date
    assert late <= dt.timedelta(0)


def test_without_reservations_it_is_passed_for_ever(arena: Cluster, admin: Caller) -> None:
    restarted(arena, "reservations: false\n")
    try:
        with namespace_in(arena, "gang") as gang, Stream(admin, gang, DEPTH, brief(gang)) as stream:
            submit(admin, gang)
            wait_until(lambda: held(admin, gang, "wide") == GPUS, timeout=60, what="the gang behind its gates")
            holds_for(lambda: bound(admin, gang, "wide") == 0, SECONDS, "it started")
            print(f"{GPUS} GPUs not started in {SECONDS:.0f} s; {stream.made} others were made")
    finally:
        restarted(arena, "")
