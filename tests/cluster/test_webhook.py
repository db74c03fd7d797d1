"""Real creates through the webhook, as people, controllers and kubelets make them; and the webhook restarted meanwhile."""

import itertools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from policy import names
from policy.rules.membership.identity import PODGROUP, Identity
from tests.cluster.calls import Answer, Caller
from tests.cluster.conftest import namespace_in, wait_until

GPU = "nvidia.com/gpu"
NOWHERE = {"nodeSelector": {"example.com/no-node": "has-this"}}  # keeps what is held held
_serial = itertools.count()
KUBELET = ("system:node:node-0", (names.NODES_GROUP,))


def pod(name: str = "", *, gpus: int = 0, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A pod of its own name; `name` is for what people and controllers name otherwise."""
    resources = {"limits": {GPU: str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "registry.k8s.io/pause", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name or f"pod-{next(_serial)}", **metadata},
        "spec": {"containers": [container], **NOWHERE, **(spec or {})},
    }


def pods(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def gates(document: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in document["spec"].get("schedulingGates", [])]


def label(document: dict[str, Any]) -> str | None:
    return document["metadata"].get("labels", {}).get(names.LABEL_GROUP)


def annotations(document: dict[str, Any]) -> dict[str, str]:
    return document["metadata"].get("annotations", {})


@pytest.fixture(scope="module")
def gang(cluster: Cluster) -> Iterator[str]:
    """One namespace for most tests: taking one away takes seconds. Each looks at its own pods only."""
    with namespace_in(cluster, "gang") as name:
        yield name


@pytest.fixture(scope="module")
def tenant(cluster: Cluster, gang: str) -> Caller:
    """An administrator of the namespace and of nothing else."""
    return tenant_of(cluster, gang)


def tenant_of(cluster: Cluster, namespace: str) -> Caller:
    user = f"tenant-{namespace}"
    cluster.kubectl("create", "rolebinding", "tenant", "--clusterrole=admin", f"--user={user}", "-n", namespace)
    caller = Caller(cluster.kubeconfig_for(user))
    wait_until(lambda: caller("GET", pods(namespace)).ok, what="rights of the tenant")
    return caller


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Caller:
    return Caller(cluster.kubeconfig)


@pytest.fixture(scope="module")
def kubelet(cluster: Cluster) -> Iterator[Caller]:
    cluster.kubectl("create", "clusterrolebinding", "t-kubelets", "--clusterrole=system:node", "--group=system:nodes")
    caller = Caller(cluster.kubeconfig_for(*KUBELET))
    wait_until(lambda: caller("GET", "/api/v1/nodes").ok, what="rights of the kubelet")
    yield caller
    cluster.kubectl("delete", "clusterrolebinding", "t-kubelets")


def made(answer: Answer) -> dict[str, Any]:
    assert answer.ok, answer.message
    return answer.body


def refused(answer: Answer, *parts: str) -> None:
    assert answer.code in (403, 422), answer.body
    for part in parts:
        assert part in answer.message


def members(admin: Caller, namespace: str, app: str, count: int) -> list[dict[str, Any]]:
    def all_there() -> list[dict[str, Any]]:
        found = made(admin("GET", pods(namespace) + f"?labelSelector=app%3D{app}"))["items"]
        return found if len(found) == count else []

    return wait_until(all_there, what=f"{count} pods of {app}")


def workload(kind: str, api: str, name: str, template: dict[str, Any], **spec: Any) -> dict[str, Any]:
    inner = {"metadata": {"labels": {"app": name}}, "spec": template["spec"]}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": {**spec, "template": inner}}


# --- who is gated --------------------------------------------------------------------------------------------


def test_a_jobs_pods_are_gated_and_carry_the_hash_of_their_job(admin, gang):
    template = pod(gpus=1, spec={"restartPolicy": "Never"})
    job = workload("Job", "batch/v1", "train", template, parallelism=3, completions=3)
    uid = made(admin.create(f"/apis/batch/v1/namespaces/{gang}/jobs", job))["metadata"]["uid"]
    found = members(admin, gang, "train", 3)
    assert {tuple(gates(each)) for each in found} == {(names.GATE,)}
    assert {label(each) for each in found} == {Identity("Job", gang, "train", uid).label}


def test_a_named_group_is_written_under_every_bodys_key(tenant, gang):
    named = pod(labels={names.COSCHEDULING_LABEL: "g"}, annotations={names.QUEUE_NAME_LONG: "team-a"})
    stored = made(tenant.create(pods(gang), named))
    assert annotations(stored)[names.GROUP_NAME] == "g"
    assert annotations(stored)[names.QUEUE_NAME] == "team-a"
    assert label(stored) == Identity(PODGROUP, gang, "g").label


def test_a_pod_without_a_name_is_taken_too_and_its_maker_is_told(tenant, gang):
    nameless = pod(gpus=1, generateName="x-")
    del nameless["metadata"]["name"]
    answer = tenant.create(pods(gang), nameless)
    assert gates(made(answer)) == [names.GATE]
    assert "holds this pod until its whole group fits" in answer.warning


def test_a_pod_alone_passes(tenant, gang):
    answer = tenant.create(pods(gang), pod())
    assert gates(made(answer)) == []
    assert not answer.warning


def test_forged_marks_are_replaced_or_taken_off(tenant, gang):
    forged = {"labels": {names.LABEL_GROUP: "forged"}, "annotations": {names.ANNOTATION_LIFTED: "2026-01-01T00:00:00Z"}}
    member = pod(gpus=1, labels=forged["labels"], annotations=forged["annotations"] | {names.GROUP_NAME: "g"})
    answer = tenant.create(pods(gang), member)
    assert label(made(answer)) == Identity(PODGROUP, gang, "g").label
    assert names.ANNOTATION_LIFTED not in annotations(answer.body)
    assert names.ANNOTATION_LIFTED in answer.warning
    alone = made(tenant.create(pods(gang), pod(**forged)))
    assert label(alone) is None and names.ANNOTATION_LIFTED not in annotations(alone)


def test_our_gate_is_kept_once_and_others_stay(tenant, gang):
    spec = {"schedulingGates": [{"name": "example.com/other"}, {"name": names.GATE}]}
    stored = made(tenant.create(pods(gang), pod(gpus=1, spec=spec)))
    assert gates(stored) == ["example.com/other", names.GATE]


@pytest.mark.parametrize("name", sorted(names.REWRITTEN_SCHEDULERS))
def test_gang_schedulers_become_the_default_one(tenant, gang, name):
    stored = made(tenant.create(pods(gang), pod(gpus=1, spec={"schedulerName": name})))
    assert stored["spec"]["schedulerName"] == names.DEFAULT_SCHEDULER


def test_a_foreign_scheduler_keeps_its_pods(tenant, gang):
    stored = made(tenant.create(pods(gang), pod(gpus=1, spec={"schedulerName": "mine"})))
    assert gates(stored) == []


# --- what is refused -----------------------------------------------------------------------------------------


def test_a_node_named_by_hand(tenant, gang):
    placed = {"spec": {"nodeName": "node-0", "nodeSelector": {}}}
    refused(tenant.create(pods(gang), pod(gpus=1, **placed)), "spec.nodeName", '"node-0"', GPU)
    mirror = {names.MIRROR_ANNOTATION: "x"}
    refused(tenant.create(pods(gang), pod(gpus=1, annotations=mirror, **placed)), "spec.nodeName")
    assert gates(made(tenant.create(pods(gang), pod(**placed)))) == []


def test_two_names(tenant, gang):
    two = pod(annotations={names.VOLCANO_PODGROUP: "left"}, labels={names.COSCHEDULING_LABEL: "right"})
    refused(tenant.create(pods(gang), two), "left", "right", "give one name")


def test_a_minimum_of_no_members(tenant, gang):
    lite = pod(labels={names.COSCHEDULING_LITE_NAME: "g", names.COSCHEDULING_LITE_MIN: "0"})
    refused(tenant.create(pods(gang), lite), names.COSCHEDULING_LITE_MIN, '"0"')


def test_removing_the_gate_or_changing_the_marks(tenant, gang):
    held = pod(gpus=1, annotations={names.GROUP_NAME: "g"})
    path = pods(gang, made(tenant.create(pods(gang), held))["metadata"]["name"])
    bare = {"spec": {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}}
    refused(tenant.patch(path, bare), names.GATE, "lift")
    for marks in ({"labels": {names.LABEL_GROUP: "x"}}, {"annotations": {names.GROUP_NAME: "x"}}):
        refused(tenant.patch(path, {"metadata": marks}))
    assert tenant.patch(path, {"metadata": {"labels": {"app": "x"}}}).ok
    assert tenant("DELETE", path).ok


# --- what is never touched -----------------------------------------------------------------------------------


def test_a_daemon_sets_pods(cluster, admin, gang):
    template = pod(gpus=1, spec={"nodeSelector": {}})
    daemons = workload("DaemonSet", "apps/v1", "exporter", template, selector={"matchLabels": {"app": "exporter"}})
    made(admin.create(f"/apis/apps/v1/namespaces/{gang}/daemonsets", daemons))
    nodes = len(cluster.kubectl.raw("/api/v1/nodes")["items"])
    assert {tuple(gates(each)) for each in members(admin, gang, "exporter", nodes)} == {()}


def test_a_forged_daemon_set(tenant, gang):
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "1-2-3", "controller": True}
    assert gates(made(tenant.create(pods(gang), pod(gpus=1, ownerReferences=[owner])))) == [names.GATE]


def test_a_mirror_pod(kubelet, gang):
    mirror = pod(
        "static",
        gpus=1,
        annotations={names.MIRROR_ANNOTATION: "hash"},
        spec={"nodeName": "node-0", "nodeSelector": {}},
    )
    stored = made(kubelet.create(pods(gang), mirror))
    assert gates(stored) == [] and label(stored) is None


# --- sizes, dry runs, policies -------------------------------------------------------------------------------


def test_a_dry_run_shows_the_gate_and_leaves_no_trace(admin, tenant, gang):
    shown = made(tenant.create(pods(gang) + "?dryRun=All", pod("shown", gpus=1)))
    assert gates(shown) == [names.GATE]
    assert admin("GET", pods(gang, "shown")).code == 404


def test_a_pod_near_the_largest_that_is_stored(tenant, gang):
    big = pod(gpus=1, annotations={f"key-{i}": "v" * 200 for i in range(1000)} | {names.GROUP_NAME: "a" * 253})
    big["spec"]["containers"][0]["env"] = [{"name": "BIG", "value": "x" * 2**20}]
    assert len(json.dumps(big)) > 2**20
    stored = made(tenant.create(pods(gang), big))
    assert gates(stored) == [names.GATE]
    assert len(annotations(stored)) == 1001


def test_binpack_prefers_and_does_not_gate(cluster):
    with namespace_in(cluster, "binpack") as namespace:
        stored = made(tenant_of(cluster, namespace).create(pods(namespace), pod(gpus=1)))
    assert gates(stored) == []
    (term,) = stored["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["topologyKey"] == names.HOSTNAME_LABEL


def test_hybrid_does_both(cluster):
    with namespace_in(cluster, "hybrid") as namespace:
        stored = made(tenant_of(cluster, namespace).create(pods(namespace), pod(gpus=1)))
    assert gates(stored) == [names.GATE]
    assert stored["metadata"]["labels"][names.LABEL_BINPACK] == names.BINPACK_VALUE


# --- a restart under load ------------------------------------------------------------------------------------


@dataclass
class Load:
    """Creates pods without pause until told to stop, and writes down what became of each."""

    caller: Caller
    namespace: str
    ended: threading.Event = field(default_factory=threading.Event)
    failed: list[tuple[float, float, str]] = field(
        default_factory=list
    )  # when the create began and ended, why it failed
    ungated: list[str] = field(default_factory=list)
    created: int = 0

    def run(self) -> None:
        while not self.ended.wait(0.05):
            began = time.monotonic()
            answer = self.caller.create(pods(self.namespace), pod(gpus=1))
            if not answer.ok:
                self.failed.append((began, time.monotonic(), answer.message))
            elif gates(answer.body) == [names.GATE]:
                self.created += 1
            else:
                self.ungated.append(answer.body["metadata"]["name"])


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_under_load_admits_none_ungated_and_fails_no_longer_than_it_takes(cluster, gang, how):
    loads = [Load(Caller(cluster.kubeconfig), gang) for _ in range(2)]
    threads = [threading.Thread(target=load.run) for load in loads]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: all(load.created > 10 for load in loads))
        began = time.monotonic()
        getattr(cluster.processes["webhook"], how)()
        cluster.start_webhook()
        ready = time.monotonic()
        before = [load.created for load in loads]
        wait_until(lambda: all(load.created > count + 10 for load, count in zip(loads, before, strict=True)))
    finally:
        for load in loads:
            load.ended.set()
        for thread in threads:
            thread.join(60)
    assert [load.ungated for load in loads] == [[], []]
    failed = [failure for load in loads for failure in load.failed]
    for start, end, why in failed:
        assert start <= ready, f"{start - ready:.2f} s after the restart: {why}"
        assert end >= began, f"{began - end:.2f} s before the restart: {why}"
        assert "failed calling webhook" in why
    outage = max(start for start, *_ in failed) - min(start for start, *_ in failed) if failed else 0.0
    print(f"{how}: restart {ready - began:.2f} s, {len(failed)} creates failed within {outage:.2f} s")
