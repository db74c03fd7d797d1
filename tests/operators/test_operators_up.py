"""Real operators on a local cluster: each makes the pods of its simplest job, and they run like any others."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.local import procfs
from deploy.local.cluster import Cluster
from deploy.local.errors import LocalError, UsageError
from deploy.local.operators import LIGHT, OPERATORS
from policy import names
from tests.cluster import breaking
from tests.cluster.calls import Caller
from tests.cluster.conftest import MakeCluster
from tests.operators.jobs import KINDS, MANIFESTS, manifests
from tests.operators.space import Pod, Space


def test_every_manifest_is_tried() -> None:
    assert {path.stem for path in MANIFESTS.iterdir()} == set(KINDS)


def ran(pod: Pod) -> bool:
    """Whether it was bound and its kubelet has run it."""
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] in {"Running", "Succeeded"}


@pytest.mark.parametrize("kind", list(KINDS))
def test_its_operator_makes_the_pods_and_they_run(cluster: Cluster, admin: Caller, kind: str) -> None:
    """As the manifest stands, outside ganggate's namespaces."""
    with breaking.space(admin, None) as plain:
        space, count = Space(cluster, admin, plain), KINDS[kind].count
        space.apply(manifests(kind, {}))
        space.until(lambda: [ran(pod) for pod in space.pods()] == [True] * count, f"{kind} runs", timeout=90)
        made = space.pods()
    assert all(pod["metadata"]["ownerReferences"] for pod in made)
    assert not any(names.GATE in str(pod["spec"]) for pod in made)


def test_starting_what_runs_changes_nothing(cluster: Cluster) -> None:
    before = cluster.roster.pids()
    cluster.start_operators(["trainer", "mpi"])
    assert cluster.roster.pids() == before
    assert set(before) >= set(LIGHT)


def test_one_that_ended_is_started_again(cluster: Cluster) -> None:
    before = cluster.roster.pids()
    cluster.processes["kuberay"].kill()
    cluster.start_operators(["kuberay"])
    after = cluster.roster.pids()
    assert after["kuberay"] != before["kuberay"]
    assert after == before | {"kuberay": after["kuberay"]}


def test_an_operator_that_is_not_known_is_refused(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="operator: 'kubelet' is none of jobset, "):
        cluster.start_operators(["kubelet"])


def answer(*arguments: str) -> Any:
    command = (sys.executable, "-m", "policy.cli.local", "operators", *arguments)
    root = Path(__file__).parents[2]
    return json.loads(subprocess.run(command, cwd=root, capture_output=True, check=True, text=True, timeout=120).stdout)


def test_the_command_line_names_what_runs_and_what_there_is(cluster: Cluster) -> None:
    up = answer("up", "jobset", "--name", cluster.name)
    assert set(up["pids"]) == set(up["ports"]) == set(LIGHT)
    listed = answer("list")
    assert {name for name, each in listed.items() if each["starts"]} == set(OPERATORS)
    assert all(listed[name]["built"] for name in LIGHT)


def test_another_cluster_has_operators_of_its_own_and_takes_them_down(
    cluster: Cluster, make_cluster: MakeCluster
) -> None:
    second = make_cluster(name=f"ops-{os.getpid()}-b", nodes=1, addon=False)
    with pytest.raises(LocalError, match="operator: mpi listens on port 8080, which it cannot be told to change"):
        second.start_operators(["mpi"])
    second.start_operators(["trainer"])
    pids = second.roster.pids()
    assert {"jobset", "trainer"} == set(pids) & set(OPERATORS)
    second.down()
    assert not any(procfs.identify(pid) for pid in pids.values())
    assert set(cluster.roster.pids()) >= set(LIGHT)
