"""Events on the real API server, as people see them."""

import threading
import uuid

import msgspec
import pytest

from policy.gatekeeper.client import Client
from policy.gatekeeper.clock import SystemClock
from policy.gatekeeper.event_body import ObjectRef
from policy.gatekeeper.events import Recorder
from policy.names import CONTROLLER, Reason
from tests.cluster.conftest import namespace_in, wait_until
from tests.faults import Faults


@pytest.fixture(scope="module")
def admin(cluster):
    client = Client.from_kubeconfig(str(cluster.kubeconfig))
    yield client
    client.close()


@pytest.fixture(scope="module")
def namespace(cluster):
    with namespace_in(cluster) as name:
        yield name


@pytest.fixture
def pod(admin, namespace):
    """A pod that stays pending."""
    container = {"name": "c", "image": "example.com/none"}
    spec = {"schedulingGates": [{"name": "example.com/other"}], "containers": [container]}
    body = {"metadata": {"name": f"p-{uuid.uuid4().hex[:8]}"}, "spec": spec}
    return about("v1", "Pod", admin.request("POST", f"/api/v1/namespaces/{namespace}/pods", body=body))


@pytest.fixture
def recording():
    """Make running recorders; all end with the test."""
    stop, threads = threading.Event(), []

    def make(client, **options):
        results = []
        recorder = Recorder(client, "replica-1", SystemClock(), count=results.append, **options)
        threads.append(threading.Thread(target=recorder.run, args=(stop,)))
        threads[-1].start()
        return recorder, results

    yield make
    stop.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def about(api_version, kind, answer):
    meta = msgspec.json.decode(answer)["metadata"]
    return ObjectRef(api_version, kind, meta.get("namespace", ""), meta["name"], meta["uid"])


def written(results, count):
    wait_until(lambda: len(results) >= count, what=f"{count} events")
    assert results == ["written"] * count


def test_describe_pod_shows_why_it_is_held(admin, recording, pod, kubectl):
    recorder, results = recording(admin)
    note = "needs 8 nvidia.com/gpu on nodes with room, 7 are free"
    recorder.record(pod, Reason.NODES_SHORT, note, type="Warning", limiter="nvidia.com/gpu")
    recorder.record(pod, Reason.NODES_SHORT, "needs 8, 6 are free", type="Warning", limiter="nvidia.com/gpu")
    written(results, 1)
    shown = kubectl("describe", "pod", pod.name, "-n", pod.namespace)
    line = next(line for line in shown.splitlines() if "NodesShort" in line)
    assert line.split()[0] == "Warning"
    assert line.split()[3] == CONTROLLER
    assert line.endswith(note)


def test_describe_shows_events_of_owners_and_of_cluster_scoped_objects(admin, recording, namespace, kubectl):
    container = {"name": "c", "image": "example.com/none"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"metadata": {"name": "train"}, "spec": {"suspend": True, "template": template}}
    name = f"c-{uuid.uuid4().hex[:8]}"
    priority = {"metadata": {"name": name}, "value": 5}
    jobs, classes = f"/apis/batch/v1/namespaces/{namespace}/jobs", "/apis/scheduling.k8s.io/v1/priorityclasses"
    recorder, results = recording(admin)
    owner = about("batch/v1", "Job", admin.request("POST", jobs, body=job))
    cluster_scoped = about("scheduling.k8s.io/v1", "PriorityClass", admin.request("POST", classes, body=priority))
    try:
        recorder.record(owner, Reason.FORMING, "5 of 8 members exist", related=cluster_scoped)
        recorder.record(cluster_scoped, Reason.QUEUE_CLOSED, "takes no new groups")
        written(results, 2)
        assert "5 of 8 members exist" in kubectl("describe", "job", "train", "-n", namespace)
        assert "takes no new groups" in kubectl("describe", "priorityclass", name)
    finally:
        admin.request("DELETE", f"{classes}/{name}")


@pytest.mark.parametrize("note", ["x" * 5000, "é" * 1024, "\U0001f9ee" * 400, "", "line\nline\ttab", "\x00\x07"])
def test_any_note_is_taken(admin, recording, pod, note):
    recorder, results = recording(admin)
    recorder.record(pod, Reason.FORMING, note)
    written(results, 1)


@pytest.mark.parametrize("name", ["p" * 253, "a.b-c.d", "x" * 63])
def test_any_name_is_taken(admin, recording, namespace, name):
    recorder, results = recording(admin)
    recorder.record(ObjectRef("v1", "Pod", namespace, name, str(uuid.uuid4())), Reason.FORMING, "n", action="Lift")
    written(results, 1)


def test_a_namespace_that_is_gone_holds_nobody_up(admin, recording, pod):
    recorder, results = recording(admin)
    recorder.record(ObjectRef("v1", "Pod", "no-such-namespace", "p", "u"), Reason.FORMING, "lost")
    recorder.record(pod, Reason.FORMING, "written")
    wait_until(lambda: results == ["refused", "written"])


def test_a_server_that_is_busy_or_gone_for_a_while(cluster, recording, pod, tmp_path, kubectl):
    with Faults(cluster.kubeconfig) as faults:
        client = Client.from_kubeconfig(str(faults.kubeconfig(tmp_path)))
        faults.answer(429, match="/events", headers={"Retry-After": "1"})
        faults.lose("request", match="/events")
        recorder, results = recording(client)
        recorder.record(pod, Reason.FORMING, "after all")
        written(results, 1)
        assert "after all" in kubectl("describe", "pod", pod.name, "-n", pod.namespace)
        client.close()


def test_many_pods_are_told_at_the_rate_allowed(admin, recording, namespace, kubectl):
    recorder, results = recording(admin, rate=100.0, burst=10)
    clock = SystemClock()
    started = clock.monotonic()
    for n in range(200):
        assert recorder.record(ObjectRef("v1", "Pod", namespace, f"many-{n}", f"u{n}"), Reason.FORMING, str(n))
    assert clock.monotonic() - started < 1.9, "recording does not wait"
    written(results, 200)
    assert clock.monotonic() - started >= 1.9
    found = kubectl.json("get", "events.events.k8s.io", "-n", namespace)["items"]
    told = {event["note"] for event in found if event["regarding"]["name"].startswith("many-")}
    assert told == set(map(str, range(200)))
