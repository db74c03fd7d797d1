"""A leader that is frozen or ends, and a control plane that goes away, in the middle of a lift.

Each test is one row of docs/failure-matrix.md. A lift is whole when all its pods are bound; it is done once when no pod
shows another placement or a gate after it was let go.
"""

import re
import signal


from deploy.local.cluster import Cluster
from policy import names
from policy.gatekeeper.client import Client
from tests.cluster import breaking, submissions
from tests.cluster.breaking import bound, gated, held, job, jobs, listed, must, pods
from tests.cluster.calls import Caller
from tests.cluster.conftest import holds_for, wait_until
from tests.cluster.record import Entry, Recorder
from tests.cluster.victims import admin, gang, victim

__all__ = ["admin", "gang", "victim"]

SIZE = 32
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases/{names.LEASE_NAME}"


def relifted(entries: list[Entry], namespace: str) -> list[str]:
    """Pods whose gate or placement changed after they were let go, in words."""
    first, found = {}, []
    for entry in entries:
        pod = entry.pod
        if pod.metadata.namespace != namespace or any(g.name == names.GATE for g in pod.spec.scheduling_gates):
            if pod.metadata.uid in first:
                found.append(f"{pod.metadata.name} is gated again")
            continue
        placed = pod.spec.affinity
        if first.setdefault(pod.metadata.uid, placed) != placed:
            found.append(f"{pod.metadata.name} was placed anew")
    return found


def leads(admin: Caller, identity: str) -> bool:
    """Whether a process started under that identity holds the lease; each adds a word of its own."""
    return must(admin("GET", LEASE))["spec"].get("holderIdentity", "").rpartition("_")[0] == identity


def lifted(admin: Caller, namespace: str) -> int:
    return sum(1 for p in listed(admin, pods(namespace)) if not gated(p))


def test_a_leader_frozen_in_a_lift_and_thawed_after_its_successor(victim: Cluster, admin: Caller, gang: str) -> None:
    """It is frozen between asking whether it leads and sending: the worst moment."""
    breaking.interrupted(victim, 20, None, signal.SIGSTOP)
    recorder = Recorder(Client.from_kubeconfig(str(victim.kubeconfig))).start()
    must(admin.create(jobs(gang), job("g", gang, SIZE)))
    wait_until(lambda: 0 < lifted(admin, gang) < SIZE, what="the middle of the lift")
    victim.start_gatekeeper("gatekeeper-2")
    wait_until(lambda: leads(admin, "gatekeeper-2"), timeout=30, what="a successor")
    wait_until(lambda: bound(admin, gang) == SIZE, timeout=30, what="the rest of the gang")
    victim.processes["gatekeeper"].resume()
    wait_until(lambda: breaking.readiness(victim) is None, what="the thawed one")
    holds_for(lambda: leads(admin, "gatekeeper-2") and bound(admin, gang) == SIZE, 3)
    recorder.stop()
    assert relifted(recorder.entries, gang) == []


def test_a_leader_that_ends_hands_over_at_once(victim: Cluster, admin: Caller, gang: str) -> None:
    victim.start_gatekeeper("gatekeeper-2")
    victim.processes["gatekeeper"].stop()
    wait_until(
        lambda: leads(admin, "gatekeeper-2"), timeout=12, what="a successor, before the lease would have expired"
    )
    must(admin.create(jobs(gang), job("g", gang, 4)))
    wait_until(lambda: bound(admin, gang) == 4, what="the gang")


def test_the_api_server_is_killed_in_a_lift(victim: Cluster, admin: Caller, gang: str) -> None:
    server = victim.processes["kube-apiserver"]
    breaking.interrupted(victim, 16, server.pid, signal.SIGKILL)
    must(admin.create(jobs(gang), job("g", gang, SIZE)))
    wait_until(lambda: not server.alive, what="the end of the API server")
    server.start()
    wait_until(lambda: bound(admin, gang) == SIZE, timeout=120, what="the gang")


def test_etcd_is_frozen_for_some_seconds(victim: Cluster, admin: Caller, gang: str) -> None:
    """While a gang is being made: no write and no consistent read is answered."""
    must(admin.create(jobs(gang), job("g", gang, SIZE)))
    etcd = victim.processes["etcd"]
    etcd.pause()
    holds_for(lambda: victim.processes["kube-apiserver"].alive, 5)
    etcd.resume()
    wait_until(lambda: bound(admin, gang) == SIZE, timeout=120, what="the gang")


def test_the_scheduler_is_down_while_a_gang_is_lifted(victim: Cluster, admin: Caller, gang: str) -> None:
    """Its nodes stay promised until the bind timeout; then it is given back, and tries again after a pause."""
    scheduler = victim.processes["kube-scheduler"]
    scheduler.kill()
    api = f"{names.COSCHEDULING_API}/{names.COSCHEDULING_VERSION}"
    body = submissions.podgroup(api, "first", 40, gang, scheduleTimeoutSeconds=20)  # in which the second is made
    must(admin.create(f"/apis/{api}/namespaces/{gang}/podgroups", body))
    must(admin.create(jobs(gang), job("first", gang, 40, labels={names.COSCHEDULING_LABEL: "first"})))
    wait_until(lambda: held(admin, gang) == 0 and lifted(admin, gang) == 40, what="the lift")
    must(admin.create(jobs(gang), job("second", gang, 40)))
    assert "40 pods need 1 nvidia.com/gpu each: 24 fit" in breaking.hears(
        admin, gang, "second", names.Reason.NODES_SHORT
    )
    note = breaking.hears(admin, gang, "first", names.Reason.GIVEN_BACK)
    after = r"40 of 40 pods lifted, 0 bound after 2\d s: see their FailedScheduling events: given back whole"
    assert re.match(after, note), note
    scheduler.start()
    wait_until(lambda: one_runs_whole(admin, gang), timeout=120, what="one of the gangs")
    holds_for(lambda: one_runs_whole(admin, gang), 8, "the other waits whole")


def one_runs_whole(admin: Caller, gang: str) -> bool:
    return {bound(admin, gang, "first"), bound(admin, gang, "second")} == {0, 40}


def test_the_controller_manager_is_down_while_a_gang_forms(victim: Cluster, admin: Caller, gang: str) -> None:
    """Nobody makes the pods: the Job says what it waits for, and starts when they come."""
    manager = victim.processes["kube-controller-manager"]
    manager.kill()
    must(admin.create(jobs(gang), job("g", gang, 4)))
    assert breaking.hears(admin, gang, "g", names.Reason.FORMING).startswith("0 of 4 pods exist; waiting for 4 more")
    manager.start()
    wait_until(lambda: bound(admin, gang) == 4, what="the gang")


def pinned(pod: dict) -> str:
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (field,) = required["nodeSelectorTerms"][0]["matchFields"]
    return field["values"][0]
