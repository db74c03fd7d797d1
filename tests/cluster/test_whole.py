"""Gangs start whole: held to a recorded watch over random submissions while free GPUs change under them."""

import os
import random
import threading
import time

import pytest

from policy import names
from policy.gatekeeper.client import Client
from policy.gatekeeper.errors import ApiError
from tests.cluster import submissions
from tests.cluster.conftest import namespace_in, wait_until
from tests.cluster.record import Recorder, audit

SUBMISSIONS = int(os.environ.get("GANGGATE_SUBMISSIONS", "60"))
SEED = int(os.environ.get("GANGGATE_SEED", "1"))
CAPABILITY = 48  # of the 64 GPUs
ARRIVAL_SECONDS = 0.25
VOLCANO = f"{names.VOLCANO_API}/{names.VOLCANO_VERSION}"
COSCHEDULING = f"{names.COSCHEDULING_API}/{names.COSCHEDULING_VERSION}"
PATHS = {
    ("v1", "Pod"): "/api/v1/namespaces/{}/pods",
    ("batch/v1", "Job"): "/apis/batch/v1/namespaces/{}/jobs",
    (VOLCANO, "PodGroup"): f"/apis/{VOLCANO}/namespaces/{{}}/podgroups",
    (COSCHEDULING, "PodGroup"): f"/apis/{COSCHEDULING}/namespaces/{{}}/podgroups",
}


@pytest.fixture
def queue(cluster):
    manifest = {
        "apiVersion": VOLCANO,
        "kind": "Queue",
        "metadata": {"name": "shared"},
        "spec": {"weight": 1, "capability": {"nvidia.com/gpu": CAPABILITY}},
    }
    cluster.kubectl.create([manifest])
    yield "shared"
    cluster.kubectl("delete", "queues.scheduling.volcano.sh", "shared")


def finished(kubectl, namespace: str) -> bool:
    pods = kubectl.raw(f"/api/v1/namespaces/{namespace}/pods")["items"]
    jobs = kubectl.raw(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
    open_jobs = [j for j in jobs if not any(c["type"] == "Complete" for c in j["status"].get("conditions", []))]
    return not open_jobs and all(p["status"]["phase"] in ("Succeeded", "Failed") for p in pods)


def disturb(kubectl, namespace: str, stop: threading.Event, rng: random.Random) -> None:
    """Free GPUs change: a node is cordoned and opened again, an outsider's pods come and go."""
    serial = 0
    while not stop.wait(rng.uniform(1.0, 3.0)):
        node, serial = f"node-{rng.randrange(8)}", serial + 1
        kubectl("cordon", node)
        pods = submissions.template("outsider", "2s", gpus=rng.randint(1, 4))
        kubectl.create([submissions.pod(f"outsider-{serial}", namespace, pods)])
        stop.wait(rng.uniform(0.5, 1.5))
        kubectl("uncordon", node)


def submit(client: Client, gangs) -> None:
    """Object by object: a burst of creates makes the quota's own writes conflict (409), which a client repeats."""
    for gang in gangs:
        for manifest in gang.objects:
            create(client, manifest)
        threading.Event().wait(ARRIVAL_SECONDS)


def create(client: Client, manifest: dict) -> None:
    path = PATHS[manifest["apiVersion"], manifest["kind"]].format(manifest["metadata"]["namespace"])
    for _ in range(10):
        try:
            client.request("POST", path, body=manifest)
        except ApiError as error:
            if error.reason != "Conflict":
                raise
        else:
            return
    raise AssertionError(f"{manifest['metadata']['name']}: ten conflicts in a row")


def run(cluster, queue, gangs_of, count: int) -> list[str]:
    """Submit, disturb, wait for the end; the promises that the recorded watch shows broken."""
    kubectl = cluster.kubectl
    rng = random.Random(SEED)
    client = Client.from_kubeconfig(str(cluster.kubeconfig))
    recorder = Recorder(client).start()
    stop = threading.Event()
    with namespace_in(cluster, "gang", **{names.ANNOTATION_QUEUES: queue}) as space, namespace_in(cluster) as outside:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "gpus", "namespace": space},
            "spec": {"hard": {"requests.nvidia.com/gpu": 2000}},
        }
        kubectl.create([quota])
        gangs = [gangs_of(rng, serial, space) for serial in range(count)]
        noise = threading.Thread(target=disturb, args=(kubectl, outside, stop, random.Random(SEED + 1)))
        noise.start()
        try:
            submit(client, gangs)
            wait_until(lambda: finished(kubectl, space), timeout=120 + 3 * count, what="all gangs finished")
        finally:
            stop.set()
            noise.join()
            recorder.stop()
        minimum = {gang.label: gang.minimum for gang in gangs}
        broken = audit(recorder.entries, minimum, {space: {queue: CAPABILITY}}, time.monotonic())
        seen = {e.pod.metadata.uid for e in recorder.entries if e.pod.metadata.namespace == space}
        assert len(seen) >= sum(minimum.values()), "the recorded watch missed pods"
        return broken + recorder.over_quota


def small_enough(rng, serial, space):
    """Gangs that the queue can take; larger ones would be held for good, which another test shows."""
    return submissions.gang(rng, serial, space, size=min(CAPABILITY, submissions.gang(rng, serial, space).size))


def test_every_gang_starts_whole_and_no_limit_is_passed(cluster, queue):
    assert run(cluster, queue, small_enough, SUBMISSIONS) == []


def two_large_gangs(cluster) -> list[str]:
    """Two gangs of 40 GPUs on 64: what a recorded watch shows within the life of the first."""
    kubectl, whole = cluster.kubectl, 30.0
    recorder = Recorder(Client.from_kubeconfig(str(cluster.kubeconfig))).start()
    with namespace_in(cluster, "gang") as space:
        jobs = [submissions.job(f"g{i}", 40, space, submissions.template(f"g{i}", "40s")) for i in range(2)]
        kubectl.create(jobs)
        wait_until(lambda: finished(kubectl, space), timeout=240, what="both gangs finished")
        recorder.stop()
        return audit(recorder.entries, {"g0": 40, "g1": 40}, {}, time.monotonic(), whole)


def test_two_gangs_that_do_not_fit_together_run_in_turn(cluster):
    assert two_large_gangs(cluster) == []


def test_the_same_check_fails_with_placement_switched_off(make_cluster, tmp_path):
    """Shows that the audit can fail, and what placement is for."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("placement: false\n")
    blind = make_cluster(addon_config=settings)
    broken = two_large_gangs(blind)
    blind.down()
    assert broken
    assert all(line.endswith("of 40 bound 30 s after its first lift") for line in broken)
