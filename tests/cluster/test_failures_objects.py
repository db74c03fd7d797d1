"""Namespaces, PodGroups, queues and quotas that change, go away or are corrupt while groups wait.

Each test is one row of docs/failure-matrix.md.
"""

from collections.abc import Iterator

import pytest

from deploy.local import manifests
from deploy.local.cluster import Cluster
from policy import names
from policy.gatekeeper.client import Client
from tests.cluster import breaking, submissions
from tests.cluster.breaking import (
    VOLCANO,
    bound,
    hears,
    held,
    job,
    jobs,
    listed,
    member,
    must,
    podgroups,
    pods,
    queue,
    queues,
    quota,
)
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import wait_until
from tests.cluster.record import Recorder
from tests.cluster.victims import gang

__all__ = ["gang"]

GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def admin(victim_cluster: Cluster) -> Caller:
    return Caller(victim_cluster.kubeconfig)


def waiting(admin: Caller, namespace: str, group: str = "g", **spec: object) -> None:
    """Two pods of a PodGroup of two."""
    must(admin.create(podgroups(namespace), submissions.podgroup(VOLCANO, group, 2, namespace, **spec)))
    for i in range(2):
        must(admin.create(pods(namespace), member(f"{group}-{i}", namespace, group)))


# --- namespaces ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, "binpack", "mistyped"])
def test_a_namespace_loses_its_label(admin: Caller, gang: str, policy: str | None) -> None:
    """Whatever asks for no gangs frees what waits."""
    waiting(admin, gang, queue="missing")
    assert "missing" in hears(admin, gang, "g-0", names.Reason.QUEUE_MISSING)
    breaking.relabel(admin, gang, policy)
    wait_until(lambda: bound(admin, gang) == 2, what="the freed pods")
    assert f"namespace {gang} asks for no gangs any more" in hears(admin, gang, "g-0", names.Reason.RELEASED)


def test_a_namespace_gets_its_label_while_pods_run(admin: Caller) -> None:
    """Older siblings count as present, and are said to have come round us; a lost one is replaced through the gate."""
    with breaking.space(admin, None) as name:
        must(admin.create(jobs(name), job("g", name, 2)))
        wait_until(lambda: bound(admin, name) == 2)
        breaking.relabel(admin, name, "gang")
        assert "2 pods run without having been held" in hears(admin, name, "g", names.Reason.BYPASSED)
        assert bound(admin, name) == 2


def test_a_namespace_is_deleted_while_groups_wait(victim_cluster: Cluster, admin: Caller, gang: str) -> None:
    recorder = Recorder(Client.from_kubeconfig(str(victim_cluster.kubeconfig))).start()
    waiting(admin, gang, queue="missing")
    must(admin.create(jobs(gang), job("incomplete", gang, 2, gpus=65)))
    wait_until(lambda: held(admin, gang) == 4)
    must(admin("DELETE", f"/api/v1/namespaces/{gang}"))
    wait_until(lambda: admin("GET", f"/api/v1/namespaces/{gang}").code == 404, timeout=90, what="the namespace's end")
    recorder.stop()
    mine = [e.pod for e in recorder.entries if e.pod.metadata.namespace == gang]
    assert mine and all(any(g.name == names.GATE for g in pod.spec.scheduling_gates) for pod in mine)


# --- PodGroups and owners ------------------------------------------------------------------------------------


def test_a_podgroup_is_deleted_while_its_pods_wait(admin: Caller, gang: str) -> None:
    waiting(admin, gang, queue="missing")
    hears(admin, gang, "g-0", names.Reason.QUEUE_MISSING)
    must(admin("DELETE", podgroups(gang, "g")))
    assert "'g'" in hears(admin, gang, "g-0", names.Reason.PODGROUP_MISSING)
    assert held(admin, gang) == 2
    must(admin.create(podgroups(gang), submissions.podgroup(VOLCANO, "g", 2, gang)))
    wait_until(lambda: bound(admin, gang) == 2, what="the gang, with a PodGroup again")


def test_a_podgroup_of_ours_is_deleted(admin: Caller, gang: str) -> None:
    """It is made anew, and its deletion holds and frees nobody."""
    must(admin.create(jobs(gang), job("g", gang, 2, gpus=65)))
    wait_until(lambda: held(admin, gang) == 2)
    ours = wait_until(lambda: listed(admin, podgroups(gang)), what="our PodGroup")[0]["metadata"]
    must(admin("DELETE", podgroups(gang, ours["name"])))

    def anew() -> bool:
        found = admin("GET", podgroups(gang, ours["name"]))
        return found.ok and found.body["metadata"]["uid"] != ours["uid"]

    wait_until(anew, what="a new PodGroup of ours")
    assert held(admin, gang) == 2


def test_a_job_is_deleted_while_its_pods_wait(admin: Caller, gang: str) -> None:
    must(admin.create(jobs(gang), job("g", gang, 2, gpus=65)))
    wait_until(lambda: held(admin, gang) == 2)
    must(admin("DELETE", jobs(gang, "g") + "?propagationPolicy=Background"))
    wait_until(lambda: not listed(admin, pods(gang)) and not listed(admin, podgroups(gang)), what="nothing left")


# --- queues --------------------------------------------------------------------------------------------------


@pytest.fixture
def line(admin: Caller, gang: str) -> Iterator[str]:
    """Name of a queue that no other test uses."""
    yield gang
    admin("DELETE", queues(gang))


def test_a_queue_is_created_after_the_groups_that_name_it(admin: Caller, gang: str, line: str) -> None:
    waiting(admin, gang, queue=line)
    text = f"queue '{line}' does not exist; it starts when it is created"
    assert hears(admin, gang, "g-0", names.Reason.QUEUE_MISSING) == text
    must(admin.create(queues(), queue(line)))
    wait_until(lambda: bound(admin, gang) == 2, what="the gang")


def test_a_queue_is_closed_and_opened(admin: Caller, gang: str, line: str) -> None:
    must(admin.create(queues(), queue(line)))
    status = queues(line) + "/status"
    must(admin.patch(status, {"status": {"state": "Closed"}}, MERGE))
    waiting(admin, gang, queue=line)
    assert hears(admin, gang, "g-0", names.Reason.QUEUE_CLOSED) == f"queue '{line}' is Closed"
    assert held(admin, gang) == 2
    must(admin.patch(status, {"status": {"state": "Open"}}, MERGE))
    wait_until(lambda: bound(admin, gang) == 2, what="the gang")


def test_a_queue_is_deleted_under_a_running_and_a_waiting_gang(admin: Caller, gang: str, line: str) -> None:
    must(admin.create(queues(), queue(line, capability={GPU: 2})))
    waiting(admin, gang, "first", queue=line)
    wait_until(lambda: bound(admin, gang, "first") == 2)
    waiting(admin, gang, "second", queue=line)
    hears(admin, gang, "second-0", names.Reason.QUEUE_CAPABILITY_SHORT)
    must(admin("DELETE", queues(line)))
    hears(admin, gang, "second-0", names.Reason.QUEUE_MISSING)
    assert (bound(admin, gang, "first"), held(admin, gang, "second")) == (2, 2)
    must(admin.create(queues(), queue(line, capability={GPU: 4})))
    wait_until(lambda: bound(admin, gang, "second") == 2, what="the second gang")


def test_a_corrupt_queue_among_good_ones(admin: Caller, gang: str, line: str) -> None:
    """A quantity that our definition lets through and nobody can read: only its own groups wait."""
    bad = f"{line}-bad"
    must(admin.create(queues(), queue(line)))
    must(admin.create(queues(), queue(bad, capability={GPU: "1e9999"})))
    waiting(admin, gang, "unlucky", queue=bad)
    waiting(admin, gang, "lucky", queue=line)
    wait_until(lambda: bound(admin, gang, "lucky") == 2, what="the gang of the good queue")
    note = hears(admin, gang, "unlucky-0", names.Reason.QUEUE_CLOSED)
    assert bad in note and "spec.capability" in note and "1e9999" in note
    must(admin.patch(queues(bad), {"spec": {"capability": {GPU: "8"}}}, MERGE))
    wait_until(lambda: bound(admin, gang, "unlucky") == 2, what="the gang of the mended queue")
    must(admin("DELETE", queues(bad)))


# --- quotas and nodes ----------------------------------------------------------------------------------------


def test_a_quota_is_raised_while_groups_wait(admin: Caller, gang: str) -> None:
    """Creates were refused; the Job controller tries again by itself, and the gang starts whole."""
    must(admin.create(f"/api/v1/namespaces/{gang}/resourcequotas", quota("q", **{f"requests.{GPU}": 3})))
    wait_until(lambda: listed(admin, f"/api/v1/namespaces/{gang}/resourcequotas")[0]["status"].get("hard"))
    must(admin.create(jobs(gang), job("g", gang, 4)))
    assert "quota q allows 3" in hears(admin, gang, "g", names.Reason.NEVER_FITS)
    path = f"/api/v1/namespaces/{gang}/resourcequotas/q"
    must(admin.patch(path, {"spec": {"hard": {f"requests.{GPU}": 4}}}, MERGE))
    wait_until(lambda: bound(admin, gang) == 4, timeout=30, what="the gang")


def test_a_member_is_lost_on_a_cordoned_node_while_the_webhook_is_down(
    victim_cluster: Cluster, admin: Caller, gang: str
) -> None:
    """Its replacement cannot be made until the webhook answers; then it passes the gate alone, to another node."""
    must(admin.create(jobs(gang), job("g", gang, 3)))
    wait_until(lambda: bound(admin, gang) == 3)
    lost = listed(admin, pods(gang))[0]
    node, name = lost["spec"]["nodeName"], lost["metadata"]["name"]
    victim_cluster.cordon_nodes([node])
    victim_cluster.processes["webhook"].kill()
    try:
        must(admin("DELETE", pods(gang, name)))
        wait_until(lambda: bound(admin, gang) == 2)
        victim_cluster.start_webhook()
        wait_until(lambda: bound(admin, gang) == 3, timeout=120, what="the replacement")
    finally:
        victim_cluster.cordon_nodes([node], undo=True)
    newest = max(listed(admin, pods(gang)), key=lambda p: p["metadata"]["creationTimestamp"])
    assert newest["spec"]["nodeName"] != node


# --- definitions ---------------------------------------------------------------------------------------------


def test_definitions_are_absent_at_the_start_and_installed_later(
    victim_cluster: Cluster, admin: Caller, gang: str
) -> None:
    """Without them plain Jobs are gangs all the same; PodGroups are seen as soon as they exist."""
    crds = [m for m in manifests.shipped() if m["kind"] == manifests.DEFINITIONS]
    which = [m["metadata"]["name"] for m in crds]
    victim_cluster.kubectl("delete", "crd", *which)
    victim_cluster.processes["gatekeeper"].stop()
    victim_cluster.start_gatekeeper()
    try:
        must(admin.create(jobs(gang), job("plain", gang, 2)))
        wait_until(lambda: bound(admin, gang, "plain") == 2, what="a plain Job")
        must(admin.create(pods(gang), member("named-0", gang, "named")))
        hears(admin, gang, "named-0", names.Reason.PODGROUP_MISSING)
    finally:
        victim_cluster.kubectl.apply(crds)
        victim_cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *which)
    group = submissions.podgroup(VOLCANO, "named", 1, gang)
    wait_until(lambda: admin.create(podgroups(gang), group).ok, what="the API server to know the definition")
    wait_until(lambda: bound(admin, gang, "named") == 1, what="the named group")
