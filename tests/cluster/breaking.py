"""What the tests of failures share: how parts are broken and healed, and what is asked of a cluster meanwhile.

Answers are words, so that a test reads like its row in docs/failure-matrix.md.
"""

import base64
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
import yaml

from deploy.local import addon
from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import submissions
from tests.cluster.calls import MERGE, Answer, Caller
from tests.cluster.conftest import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
FAIL_OPEN = DEPLOY / "kustomize" / "components" / "fail-open" / "kustomization.yaml"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
JSON_PATCH = "application/json-patch+json"
VOLCANO = f"{names.VOLCANO_API}/{names.VOLCANO_VERSION}"
KINDS = {
    "MutatingWebhookConfiguration": f"{ADMISSION}/mutatingwebhookconfigurations/{names.MUTATING_CONFIG}",
    "ValidatingWebhookConfiguration": f"{ADMISSION}/validatingwebhookconfigurations/{names.VALIDATING_CONFIG}",
}
LIFT = {"spec": {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}}
LONG = "600s"


# --- paths and manifests -------------------------------------------------------------------------------------


def pods(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def jobs(namespace: str, name: str = "") -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs" + (f"/{name}" if name else "")


def podgroups(namespace: str, name: str = "") -> str:
    return f"/apis/{VOLCANO}/namespaces/{namespace}/podgroups" + (f"/{name}" if name else "")


def queues(name: str = "") -> str:
    return f"/apis/{VOLCANO}/queues" + (f"/{name}" if name else "")


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1, **spec}}


def quota(name: str, **hard: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}}


def member(name: str, namespace: str, group: str, **template: Any) -> dict[str, Any]:
    """A pod of the PodGroup `group`."""
    marks = {"annotations": {names.GROUP_NAME: group}}
    return submissions.pod(name, namespace, submissions.template(group, LONG, **marks, **template))


def job(name: str, namespace: str, size: int, runs: str = LONG, **template: Any) -> dict[str, Any]:
    """A Job that survives the loss of a pod."""
    found = submissions.job(name, size, namespace, submissions.template(name, runs, **template))
    found["spec"]["backoffLimit"] = 6
    return found


def stateful(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    """A StatefulSet, made pod by pod."""
    template = submissions.template(name, LONG)
    template["spec"]["restartPolicy"] = "Always"
    selector = {"matchLabels": template["metadata"]["labels"]}
    spec = {"replicas": replicas, "serviceName": name, "selector": selector, "template": template}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


# --- asking --------------------------------------------------------------------------------------------------


def must(answer: Answer) -> dict[str, Any]:
    assert answer.ok, answer.message
    return answer.body


def listed(admin: Caller, path: str) -> list[dict[str, Any]]:
    return must(admin("GET", path))["items"]


def gated(pod: dict[str, Any]) -> bool:
    return any(gate["name"] == names.GATE for gate in pod["spec"].get("schedulingGates", []))


def bound(admin: Caller, namespace: str, label: str = "") -> int:
    """How many pods of a submission, or of the whole namespace, are on a node and not over."""
    found = [p for p in listed(admin, pods(namespace)) if not label or of(p) == label]
    return sum(1 for p in found if p["spec"].get("nodeName") and p["status"]["phase"] in ("Pending", "Running"))


def held(admin: Caller, namespace: str, label: str = "") -> int:
    """How many of them stand behind our gate."""
    return sum(1 for p in listed(admin, pods(namespace)) if gated(p) and (not label or of(p) == label))


def of(pod: dict[str, Any]) -> str:
    return pod["metadata"].get("labels", {}).get("test.example.com/group", "")


def fate(answer: Answer) -> str:
    """What became of a create, in one word or two."""
    if answer.ok:
        return "held" if gated(answer.body) else "passes"
    return "call fails" if "failed calling webhook" in answer.message else "refused"


def told(admin: Caller, namespace: str, name: str) -> dict[str, str]:
    """Text by reason of our events on the object `name`."""
    events = listed(admin, f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    ours = [e for e in events if e.get("reportingController") == names.CONTROLLER and e["regarding"]["name"] == name]
    return {e["reason"]: e["note"] for e in sorted(ours, key=lambda e: e.get("eventTime") or "")}


def hears(admin: Caller, namespace: str, name: str, reason: names.Reason, timeout: float = 60.0) -> str:
    """Wait for an event of ours on the object; its text."""
    return wait_until(
        lambda: told(admin, namespace, name).get(reason), timeout=timeout, what=f"{reason} on {namespace}/{name}"
    )


def readiness(cluster: Cluster, program: str = "gatekeeper") -> str | None:
    """What a probe of the gatekeeper says; None when it is ready."""
    return cluster.processes[program].program.ready()


def problems(cluster: Cluster, program: str = "gatekeeper") -> list[str]:
    """The lines of /readyz while it is not ready."""
    answer = _ask(cluster, "/readyz", program)
    return [] if answer.status == 200 else answer.data.decode().splitlines()


def listening(cluster: Cluster, program: str = "gatekeeper") -> bool:
    """Whether its probes are answered at all."""
    return "HTTP 503" in (readiness(cluster, program) or "HTTP 503")


def metrics(cluster: Cluster, program: str = "gatekeeper") -> str:
    return _ask(cluster, "/metrics", program).data.decode()


def _ask(cluster: Cluster, path: str, program: str) -> urllib3.BaseHTTPResponse:
    url = f"http://127.0.0.1:{cluster.ports[program]}{path}"
    return urllib3.request("GET", url, retries=False, timeout=5.0)


class Log:
    """What a process writes into its log from now on."""

    def __init__(self, cluster: Cluster, program: str = "gatekeeper") -> None:
        self._path = cluster.processes[program].program.log
        self._begin = self._path.stat().st_size

    @property
    def text(self) -> str:
        with self._path.open("rb") as file:
            file.seek(self._begin)
            return file.read().decode()


# --- breaking and healing ------------------------------------------------------------------------------------


def failure_policy(admin: Caller, policy: str) -> None:
    """Set, in the entries that deploy/kustomize/components/fail-open names, its value or the default."""
    for patch in yaml.safe_load(FAIL_OPEN.read_text())["patches"]:
        operations = [each | {"value": policy} for each in yaml.safe_load(patch["patch"])]
        must(admin("PATCH", KINDS[patch["target"]["kind"]], operations, JSON_PATCH))


def without_bundle(admin: Caller) -> None:
    """Both configurations as they are applied at an install, before any gatekeeper has led."""
    for path in KINDS.values():
        entries = must(admin("GET", path))["webhooks"]
        drop = [{"op": "remove", "path": f"/webhooks/{i}/clientConfig/caBundle"} for i in range(len(entries))]
        must(admin("PATCH", path, drop, JSON_PATCH))


def has_bundle(admin: Caller) -> bool:
    entries = [entry for path in KINDS.values() for entry in must(admin("GET", path))["webhooks"]]
    return all(base64.b64decode(entry["clientConfig"].get("caBundle", "")) for entry in entries)


def heal(cluster: Cluster) -> None:
    """Thaw what is frozen, start what has ended, end what a test added; wait until all are ready."""
    for name, process in list(cluster.processes.items()):
        process.resume()
        if name.startswith("gatekeeper-") or "tests.cluster.interrupting" in process.program.argv:
            process.stop()
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"):
        cluster.processes[name].start()
    if not cluster.processes["gatekeeper"].alive:
        cluster.start_gatekeeper(wait=False)
    if not cluster.processes["webhook"].alive:
        cluster.start_webhook(wait=False)
    for name in ("gatekeeper", "webhook"):
        cluster.processes[name].wait_ready()


def interrupted(cluster: Cluster, at: int, victim: int | None, number: signal.Signals, *, what: str = "patch") -> None:
    """Replace the gatekeeper by one that sends a signal at its `at`-th patch of a pod, or write to an owner (`lever`).

    It sends it to itself where `victim` is None.
    """
    process = cluster.processes["gatekeeper"]
    process.stop()
    argv = [arg if arg != "policy.gatekeeper.main" else "tests.cluster.interrupting" for arg in process.program.argv]
    env = {"SIGNAL_AT": str(at), "SIGNAL_PID": str(victim or 0), "SIGNAL": str(int(number)), "SIGNAL_WHAT": what}
    cluster.roster.enlist("gatekeeper", argv, addon.environment() | env).start()


@contextmanager
def space(admin: Caller, policy: str | None = "gang", **annotations: str) -> Iterator[str]:
    """A namespace; its end is asked for and not awaited."""
    name = f"f-{os.urandom(4).hex()}"
    labels = {names.NAMESPACE_POLICY: policy} if policy else {}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    must(admin.create("/api/v1/namespaces", {"metadata": metadata}))
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: admin("GET", account).ok, what=account)
    try:
        yield name
    finally:
        admin("DELETE", f"/api/v1/namespaces/{name}")


def tenant_of(cluster: Cluster, admin: Caller, namespace: str) -> Caller:
    """An administrator of the namespace and of nothing else."""
    user = f"tenant-{namespace}"
    binding = {
        "metadata": {"name": "tenant"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    must(admin.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", binding))
    caller = Caller(cluster.kubeconfig_for(user))
    wait_until(lambda: caller("GET", pods(namespace)).ok, what="rights of the tenant")
    return caller


def relabel(admin: Caller, namespace: str, policy: str | None) -> None:
    must(
        admin.patch(
            f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {names.NAMESPACE_POLICY: policy}}}, MERGE
        )
    )
