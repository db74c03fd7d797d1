"""`ganggate local` end to end: real programs, several clusters, killed starters, programs that die."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deploy.local import plane, procfs, state, teardown
from deploy.local.cluster import Cluster
from deploy.local.errors import LocalError, NotFoundError
from deploy.local.kubeconfig import GATEKEEPER, IDENTITIES
from deploy.local.kubectl import Kubectl, KubectlError
from deploy.local.paths import Layout, home
from deploy.local.process import ProcessError
from deploy.local.roster import MARKER
from deploy.local.settings import Settings
from policy import names
from tests.cluster.conftest import MakeCluster, namespace_in, take_down, wait_until

LOCAL = (sys.executable, "-m", "policy.cli.local")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bare(make_cluster: MakeCluster) -> Iterator[Cluster]:
    """A small cluster without the add-on."""
    made = make_cluster(name=name("bare"), nodes=2, gpus=4, addon=False)
    yield made
    take_down(made)


def name(role: str) -> str:
    return f"test-{os.getpid()}-{role}"


def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run([*LOCAL, *arguments], cwd=ROOT, capture_output=True, check=False, text=True, timeout=300)
    assert answer.returncode == code, answer.stderr
    return answer


def answer(*arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, code=code).stdout)


def job(
    pods: int, *, gpus: int = 1, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None
) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    template = {
        "metadata": {"annotations": annotations or {}, "labels": labels or {}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": spec}


def submit(cluster: Cluster, namespace: str, manifest: dict[str, Any]) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))


def phases(cluster: Cluster, namespace: str) -> list[str]:
    return [pod["status"]["phase"] for pod in cluster.kubectl.json("get", "pods", "-n", namespace)["items"]]


# --- the command line, from up to down -----------------------------------------------------------------------


def test_up_status_nodes_logs_down() -> None:
    trial = name("cli")
    up = run("up", "--name", trial, "--nodes", "2", "--gpus", "4", "--no-addon")
    try:
        printed = json.loads(up.stdout)
        assert sorted(printed) == ["kubeconfig", "kubectl", "name", "pids", "ports"]
        assert sorted(printed["pids"]) == sorted(plane.PROGRAMS)
        assert "starting the control plane" in up.stderr

        found = answer("status", "--name", trial, "-o", "json")
        assert (found["health"], found["pids"]) == ("up", printed["pids"])
        assert all(each["memoryBytes"] > 10_000_000 for each in found["processes"].values())
        assert "kube-scheduler" in run("status", "--name", trial).stdout
        assert answer("list")[trial] == "up"

        assert answer("nodes", "add", "--name", trial, "--gpus", "1", "2")["added"] == ["node-2", "node-3"]
        answer("nodes", "cordon", "--name", trial, "node-0")
        answer("nodes", "remove", "--name", trial, "node-1")
        nodes = {node["metadata"]["name"]: node for node in Cluster.open(trial).kubectl.json("get", "nodes")["items"]}
        gpus = {each: node["status"]["allocatable"]["nvidia.com/gpu"] for each, node in nodes.items()}
        assert gpus == {"node-0": "4", "node-2": "1", "node-3": "1"}
        assert nodes["node-0"]["spec"]["unschedulable"] is True
        answer("nodes", "cordon", "--undo", "--name", trial, "node-0")
        assert 'nodes "node-9" not found' in run("nodes", "remove", "--name", trial, "node-9", code=1).stderr

        assert run("logs", "--name", trial, "kube-apiserver", "-n", "3").stdout.strip()
        assert "'kubelet' is none of" in run("logs", "--name", trial, "kubelet", code=3).stderr

        os.kill(printed["pids"]["kwok"], signal.SIGKILL)
        wait_until(lambda: json.loads(status(trial).stdout)["health"] == "degraded")
        assert status(trial).returncode == 1
        assert "already" in run("up", "--name", trial, "--no-addon", code=1).stderr
    finally:
        assert answer("down", "--name", trial)["name"] == trial
    assert not any(procfs.identify(pid) for pid in printed["pids"].values())
    assert run("status", "--name", trial, code=3).stdout == ""
    run("down", "--name", trial, code=3)


def status(trial: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LOCAL, "status", "--name", trial, "-o", "json"], cwd=ROOT, capture_output=True, check=False, text=True
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("up", "--nodes", "-1"), "nodes: -1"),
        (("up", "--gpus", "65"), "gpus: 65"),
        (("up", "--feature-gates", "GenericWorkload"), "feature-gates: 'GenericWorkload'"),
        (("up", "--kubernetes-version", "1.37"), "kubernetes-version: '1.37'"),
        (("up", "--name", "UPPER"), "name: 'UPPER'"),
        (("up", "--addon-config", "/no/such/file"), "addon-config: /no/such/file"),
        (
            (
                "up",
                "--nonsense",
            ),
            "--nonsense",
        ),
        (("status", "-o", "xml"), "xml"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_names_field_and_value(arguments: tuple[str, ...], told: str) -> None:
    refused = run(*arguments, code=2)
    assert told in refused.stderr
    assert refused.stdout == ""


# --- a control plane that behaves like one -------------------------------------------------------------------


def test_a_job_runs_to_its_end(bare: Cluster) -> None:
    with namespace_in(bare) as namespace:
        submit(bare, namespace, job(4, gpus=2))
        wait_until(lambda: phases(bare, namespace) == ["Succeeded"] * 4)
        wait_until(lambda: bare.kubectl.json("get", "job", "job", "-n", namespace)["status"].get("succeeded") == 4)


def test_gpus_are_the_scheduler_s_limit(bare: Cluster) -> None:
    with namespace_in(bare) as namespace:
        submit(bare, namespace, job(3, gpus=4, annotations={"pod-complete.stage.kwok.x-k8s.io/delay": "1h"}))
        wait_until(lambda: sorted(phases(bare, namespace)) == ["Pending", "Running", "Running"])


def test_the_delay_annotation_sets_the_run_time(bare: Cluster) -> None:
    with namespace_in(bare) as namespace:
        submit(bare, namespace, job(1, annotations={"pod-complete.stage.kwok.x-k8s.io/delay": "3s"}))
        wait_until(lambda: phases(bare, namespace) == ["Succeeded"])
        [pod] = bare.kubectl.json("get", "pods", "-n", namespace)["items"]
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert 2 <= seconds(ended["finishedAt"]) - seconds(ended["startedAt"]) <= 30


def test_the_chaos_label_fails_the_pod_and_its_job(bare: Cluster) -> None:
    with namespace_in(bare) as namespace:
        submit(bare, namespace, job(1, labels={"pod-container-running-failed.stage.kwok.x-k8s.io": "true"}))
        wait_until(lambda: phases(bare, namespace) == ["Failed"])
        wait_until(lambda: bare.kubectl.json("get", "job", "job", "-n", namespace)["status"].get("failed") == 1)


def test_a_pod_without_a_job_runs_on_and_goes_when_deleted(bare: Cluster) -> None:
    with namespace_in(bare) as namespace:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": job(1)["spec"]["template"]["spec"]}
        submit(bare, namespace, pod)
        wait_until(lambda: phases(bare, namespace) == ["Running"])
        bare.kubectl("delete", "pod", "p", "-n", namespace, timeout=20)
        submit(bare, namespace, pod)  # the same name again, as a StatefulSet would
        wait_until(lambda: phases(bare, namespace) == ["Running"])


def test_a_suspended_job_gives_its_pods_back(bare: Cluster) -> None:
    with namespace_in(bare) as namespace:
        submit(bare, namespace, job(2, annotations={"pod-complete.stage.kwok.x-k8s.io/delay": "1h"}))
        wait_until(lambda: phases(bare, namespace) == ["Running"] * 2)
        bare.kubectl("patch", "job", "job", "-n", namespace, "-p", '{"spec":{"suspend":true}}')
        wait_until(lambda: phases(bare, namespace) == [])
        assert bare.kubectl.json("get", "job", "job", "-n", namespace)["status"].get("failed", 0) == 0


def seconds(moment: str) -> float:
    return time.mktime(time.strptime(moment, "%Y-%m-%dT%H:%M:%SZ"))


# --- identities ----------------------------------------------------------------------------------------------


def test_a_tenant_may_do_what_its_role_says_and_nothing_else(bare: Cluster) -> None:
    with namespace_in(bare) as namespace:
        bare.kubectl("create", "rolebinding", "edit", "--clusterrole=edit", "--group=team-a", "-n", namespace)
        tenant = bare.kubectl_as("alice", ["team-a"])
        wait_until(lambda: may(tenant, "create", "pods", "-n", namespace))
        with pytest.raises(KubectlError, match=r'Forbidden.*"alice"'):
            tenant("get", "nodes")
        assert (
            json.loads(bare.kubectl_as("bob")("auth", "whoami", "-o", "json"))["status"]["userInfo"]["username"]
            == "bob"
        )


def may(who: Kubectl, *what: str) -> bool:
    """kubectl ends with an error where the answer is no."""
    try:
        return who("auth", "can-i", *what).strip() == "yes"
    except KubectlError:
        return False


def test_kwok_does_not_run_as_administrator(bare: Cluster) -> None:
    kwok = bare.kubectl_as("ganggate-local-kwok")
    for verb, *resource in (("patch", "pods", "--subresource=status"), ("create", "leases"), ("delete", "pods")):
        assert kwok("auth", "can-i", verb, *resource, "-A").strip() == "yes"
    for verb, *resource in (("create", "pods"), ("get", "secrets"), ("patch", "pods")):
        with pytest.raises(KubectlError, match=": no$"):
            kwok("auth", "can-i", verb, *resource, "-A")


def test_other_users_of_the_machine_reach_neither_etcd_nor_keys(bare: Cluster) -> None:
    url = f"https://127.0.0.1:{bare.ports['etcd']}/health"
    refused = subprocess.run(["curl", "-sk", "--max-time", "5", url], capture_output=True, check=False)
    assert refused.returncode != 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in bare.layout.root.rglob("*.key"))
    assert bare.layout.root.stat().st_mode & 0o077 == 0


# --- programs that are killed, frozen, restarted -------------------------------------------------------------


def test_a_killed_program_is_started_again_with_the_same_port(bare: Cluster) -> None:
    controllers = bare.processes["kube-controller-manager"]
    former = controllers.pid
    controllers.kill()
    assert bare.status().health == "degraded"
    controllers.start()
    assert controllers.pid != former
    assert bare.status().health == "up"
    assert Cluster.open(bare.name).processes["kube-controller-manager"].pid == controllers.pid


def test_a_frozen_api_server_answers_nothing_and_goes_on_when_thawed(bare: Cluster) -> None:
    server = bare.processes["kube-apiserver"]
    server.pause()
    try:
        with pytest.raises(KubectlError, match="no answer within 2 s"):
            bare.kubectl("get", "nodes", timeout=2)
    finally:
        server.resume()
    wait_until(lambda: len(bare.kubectl.json("get", "nodes")["items"]) == 2)


# --- the add-on ----------------------------------------------------------------------------------------------


def test_a_gang_passes_through_the_add_on(cluster: Cluster, gang_namespace: str) -> None:
    submit(cluster, gang_namespace, job(4, gpus=2))
    wait_until(lambda: phases(cluster, gang_namespace) == ["Succeeded"] * 4, timeout=60)
    for pod in cluster.kubectl.json("get", "pods", "-n", gang_namespace)["items"]:
        assert names.ANNOTATION_LIFTED in pod["metadata"]["annotations"]


def test_webhooks_are_called_on_loopback_and_trusted(cluster: Cluster) -> None:
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    clients = [
        each["clientConfig"] for item in cluster.kubectl.json("get", kinds)["items"] for each in item["webhooks"]
    ]
    assert clients
    assert all(each["url"].startswith(f"https://127.0.0.1:{cluster.ports['webhook']}/") for each in clients)
    assert all(each["caBundle"] for each in clients)


def test_the_gatekeeper_is_no_administrator(cluster: Cluster) -> None:
    gatekeeper = cluster.kubectl_as(IDENTITIES[GATEKEEPER].name, IDENTITIES[GATEKEEPER].groups)
    for verb, *resource in (("patch", "pods"), ("list", "nodes")):
        assert gatekeeper("auth", "can-i", verb, *resource, "-A").strip() == "yes"
    for verb, *resource in (("get", "secrets"), ("create", "pods"), ("delete", "nodes"), ("escalate", "clusterroles")):
        with pytest.raises(KubectlError, match=": no$"):
            gatekeeper("auth", "can-i", verb, *resource, "-A")


def test_the_webhook_comes_back_at_the_same_place(cluster: Cluster, gang_namespace: str) -> None:
    webhook = cluster.processes["webhook"]
    webhook.kill()
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": job(1)["spec"]["template"]["spec"]}
    with pytest.raises(KubectlError, match=r"failed calling webhook|connection refused"):
        submit(cluster, gang_namespace, pod)
    webhook.start()
    submit(cluster, gang_namespace, pod)


def test_a_second_gatekeeper_takes_over_from_a_frozen_one(cluster: Cluster, gang_namespace: str) -> None:
    second = cluster.start_gatekeeper("gatekeeper-b", env={"LANG": "C.UTF-8"})
    first = cluster.processes["gatekeeper"]
    first.pause()
    try:
        submit(cluster, gang_namespace, job(2))
        wait_until(lambda: phases(cluster, gang_namespace) == ["Succeeded"] * 2, timeout=90)
        with pytest.raises(LocalError, match="gatekeeper-b runs already"):
            cluster.start_gatekeeper("gatekeeper-b")
        with pytest.raises(LocalError, match="identity: 'b'"):
            cluster.start_gatekeeper("b")
    finally:
        first.resume()
        second.stop()
    assert cluster.status().processes["gatekeeper-b"].running is False


# --- side by side --------------------------------------------------------------------------------------------


def test_two_clusters_brought_up_at_the_same_moment_know_nothing_of_each_other(make_cluster: MakeCluster) -> None:
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda role: make_cluster(name=name(role), nodes=1, addon=False), ("left", "right")))
    left, right = both
    assert not set(left.ports.values()) & set(right.ports.values())
    left.kubectl("create", "namespace", "only-left")
    with pytest.raises(KubectlError, match="NotFound"):
        right.kubectl("get", "namespace", "only-left")
    left.down()
    assert right.status().health == "up"
    assert right.kubectl.json("get", "nodes")["items"]
    right.down()


# --- what goes wrong -----------------------------------------------------------------------------------------


def started(layout: Layout, program: str) -> bool:
    """The run is written down before the program is; its identity, once it is there."""
    found = state.load(layout.state).runs.get(program)
    return found is not None and found.identity is not None


@pytest.mark.parametrize("until", ["etcd", "kube-apiserver", "kwok"])
def test_down_cleans_up_after_a_starter_that_was_killed(until: str) -> None:
    trial, place = name(f"killed-{until}"), home()
    layout = place.cluster(trial)
    with subprocess.Popen(
        [*LOCAL, "up", "--name", trial, "--no-addon"],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        preexec_fn=heard,
    ) as starter:
        wait_until(lambda: layout.state.exists() and started(layout, until), timeout=120)
        starter.send_signal(signal.SIGKILL)
    assert list(procfs.marked(MARKER, str(layout.root)))
    assert json.loads(status(trial).stdout)["health"] == "abandoned"
    ports = [entry for entry in place.ports.iterdir() if entry.read_text() == str(layout.root)]
    assert len(ports) == len(plane.PORTS)

    run("down", "--name", trial)

    assert list(procfs.marked(MARKER, str(layout.root))) == []
    assert not layout.root.exists()
    assert not any(entry.exists() for entry in ports)


def test_a_cluster_tied_to_a_killed_process_is_reaped(tmp_path: Path) -> None:
    trial = name("tied")
    script = (
        "import signal; from deploy.local.cluster import Cluster; from deploy.local.settings import Settings\n"
        f"Cluster(Settings(name={trial!r}, nodes=1, addon=False, tied=True)).up(); print('up', flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "up\n"
        assert trial not in teardown.reap(home())
        starter.kill()
    assert trial in teardown.reap(home())
    assert trial not in teardown.listed(home())


def test_a_program_that_dies_at_start_is_told_by_the_end_of_its_log_and_nothing_is_left() -> None:
    trial = name("dies")
    failed = run("up", "--name", trial, "--no-addon", "--feature-gates", "NoSuchGate=true", code=1)
    assert "kube-apiserver exited with status 1 before it was ready; end of" in failed.stderr
    assert "unrecognized feature gate: NoSuchGate" in failed.stderr
    assert failed.stdout == ""
    assert trial not in teardown.listed(home())
    assert "unrecognized feature gate" in (home().state / "failed" / trial / "kube-apiserver.log").read_text()


def heard() -> None:
    """A test run in the background of a shell ignores SIGINT, and would pass that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_up_unwinds(number: signal.Signals) -> None:
    trial = name("stopped")
    layout = home().cluster(trial)
    with subprocess.Popen(
        [*LOCAL, "up", "--name", trial, "--no-addon"],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        preexec_fn=heard,
    ) as starter:
        wait_until(lambda: layout.state.exists() and "kube-apiserver" in state.load(layout.state).runs, timeout=120)
        starter.send_signal(number)
        assert starter.wait(timeout=60) != 0
    assert list(procfs.marked(MARKER, str(layout.root))) == []
    assert not layout.root.exists()


def test_the_remains_of_a_cluster_without_processes_do_not_stand_in_the_way(make_cluster: MakeCluster) -> None:
    first = make_cluster(name=name("again"), nodes=1, addon=False)
    for process in first.processes.values():
        process.kill()
    second = make_cluster(name=name("again"), nodes=1, addon=False)
    assert second.status().health == "up"
    second.down()


def test_a_cluster_that_is_not_there_cannot_be_opened_or_taken_down() -> None:
    with pytest.raises(NotFoundError):
        Cluster.open(name("nothing"))
    with pytest.raises(NotFoundError):
        Cluster(Settings(name=name("nothing"))).down()
    assert issubclass(ProcessError, LocalError)
