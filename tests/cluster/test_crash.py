"""Promise I8: the gatekeeper dies at any write of a lift, and the group still ends whole."""

import time

import pytest

from deploy.local import addon
from policy import names
from policy.gatekeeper.client import Client
from tests.cluster import submissions
from tests.cluster.conftest import wait_until
from tests.cluster.record import Recorder, audit

SIZE = 64
POINTS = ("decision", "report", "1", "32", "63")


def crash(cluster, where: str) -> None:
    """Replace the gatekeeper by one that dies at that write."""
    process = cluster.processes["gatekeeper"]
    process.stop()
    argv = [arg if arg != "policy.gatekeeper.main" else "tests.cluster.crashing" for arg in process.program.argv]
    cluster.roster.enlist("gatekeeper", argv, addon.environment() | {"CRASH_AT": where}).start()


def succeed(cluster) -> None:
    """Start a successor, and free the dead one's lease for it: how long a lease lasts is another test's subject."""
    free = '{"spec":{"holderIdentity":""}}'
    cluster.kubectl("patch", "lease", names.LEASE_NAME, "-n", names.SYSTEM_NAMESPACE, "--type=merge", "-p", free)
    cluster.start_gatekeeper()


def bound(kubectl, namespace: str) -> int:
    pods = kubectl.raw(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return sum(1 for p in pods if p["spec"].get("nodeName"))


@pytest.mark.parametrize("where", POINTS)
def test_a_lift_of_64_is_finished_after_a_crash(cluster, gang_namespace, where):
    kubectl = cluster.kubectl
    recorder = Recorder(Client.from_kubeconfig(str(cluster.kubeconfig))).start()
    crash(cluster, where)
    kubectl.create([submissions.job("g", SIZE, gang_namespace, submissions.template("g", "20s"))])
    doomed = cluster.processes["gatekeeper"]
    wait_until(lambda: not doomed.alive, timeout=30, what="the gatekeeper's death")
    lifted = sum(
        not p["spec"].get("schedulingGates") for p in kubectl.raw(f"/api/v1/namespaces/{gang_namespace}/pods")["items"]
    )
    assert lifted == (int(where) if where.isdigit() else 0)
    succeed(cluster)
    wait_until(lambda: bound(kubectl, gang_namespace) == SIZE, timeout=45, what="64 pods bound")
    recorder.stop()
    assert audit(recorder.entries, {"g": SIZE}, {}, time.monotonic()) == []
