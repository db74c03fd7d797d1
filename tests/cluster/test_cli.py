"""The command line against a real API server: what admins and tenants are told, and the way out when all of us is dead.

The cluster has what ganggate ships, webhooks included, and neither a webhook nor, but for one test, a gatekeeper that
runs. Gated pods were made before the webhooks were registered: with failurePolicy Fail nobody makes one afterwards.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from deploy.local.cluster import Cluster
from policy import names
from policy.cli.main import cli
from policy.gatekeeper import observe
from policy.gatekeeper.client import Client
from tests.cluster.calls import Caller
from tests.cluster.conftest import MakeCluster, wait_until

GPU = "nvidia.com/gpu"
FOREIGN = "example.com/other"
GANG, ELSEWHERE, QUOTA = "cli-gang", "cli-elsewhere", "cli-quota"
TENANT, LIFTER, OUTSIDER = "cli-tenant", "cli-lifter", "cli-outsider"


class People:
    """The cluster, and `ganggate` as each of those who use it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.admin = cluster.kubeconfig
        self.tenant, self.lifter, self.outsider = (cluster.kubeconfig_for(u) for u in (TENANT, LIFTER, OUTSIDER))
        self.caller = Caller(cluster.kubeconfig)

    def run(self, who: Path, *args: str) -> Result:
        return CliRunner().invoke(cli, ["--kubeconfig", str(who), *args], prog_name="ganggate")

    def json(self, who: Path, *args: str) -> Any:
        result = self.run(who, *args, "-o", "json")
        assert result.stdout, result.stderr
        return json.loads(result.stdout)

    def group(self, name: str, namespace: str = GANG) -> dict[str, Any]:
        items = self.json(self.admin, "status", "-n", namespace)["items"]
        return next(i for i in items if i["name"] == name)

    def gates(self, namespace: str, name: str) -> list[str]:
        spec = self.caller("GET", f"/api/v1/namespaces/{namespace}/pods/{name}").body["spec"]
        return [g["name"] for g in spec.get("schedulingGates", [])]

    def gated(self, *namespaces: str) -> list[tuple[str, str]]:
        pods = [p for ns in namespaces for p in self.cluster.kubectl.json("get", "pods", "-n", ns)["items"]]
        found = [(p["metadata"]["namespace"], p["metadata"]["name"]) for p in pods if names.GATE in _gates_of(p)]
        return sorted(found)


def _gates_of(pod: dict[str, Any]) -> list[str]:
    return [g["name"] for g in pod["spec"].get("schedulingGates", [])]


def job(name: str, count: int, gpus: int = 1, namespace: str = GANG, *gates: str, queue: str = "") -> dict[str, Any]:
    container = {"name": "c", "image": "busybox:1.36", "resources": {"limits": {GPU: gpus}}}
    annotations = {"pod-complete.stage.kwok.x-k8s.io/delay": "1h"} | ({names.QUEUE_NAME: queue} if queue else {})
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "schedulingGates": [{"name": gate} for gate in (names.GATE, *gates)],
    }
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parallelism": count, "completions": count, "template": template},
    }


def space(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {names.NAMESPACE_POLICY: "gang"}},
    }


def quota(namespace: str, gpus: int) -> dict[str, Any]:
    hard = {f"requests.{GPU}": str(gpus), "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": namespace},
        "spec": {"hard": hard},
    }


@pytest.fixture(scope="module")
def people(make_cluster: MakeCluster) -> Iterator[People]:
    """Two nodes of 8 GPUs; gangs that fit, that wait for each limiter, and that can never fit."""
    people = People(make_cluster(nodes=2, addon=False))
    kubectl = people.cluster.kubectl
    before_crds(people)
    for name in (GANG, ELSEWHERE, QUOTA):
        kubectl.create([space(name)])
        kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=30s")
    kubectl.create([quota(QUOTA, 4), job("fits", 4)])
    second = int(time.time())
    wait_until(lambda: kubectl.json("get", "resourcequota", "gpus", "-n", QUOTA).get("status", {}).get("used"))
    wait_until(lambda: int(time.time()) > second, what="a later second: `fits` is the oldest")
    kubectl.create(
        [
            job("nodes", 17),
            job("never", 1, 9),
            job("foreign", 1, 1, GANG, FOREIGN),
            job("capped", 2, 2, ELSEWHERE, queue="small"),
            job("quota", 6, 1, QUOTA),
        ]
    )
    wanted = {GANG: 4 + 17 + 1 + 1, ELSEWHERE: 2, QUOTA: 4}
    wait_until(lambda: all(len(people.gated(ns)) == n for ns, n in wanted.items()), timeout=60, what="gated pods")
    people.cluster.install()
    kubectl.create([queue("small", 2)])
    for user, role, ns in (
        (TENANT, "admin", GANG),
        (TENANT, "admin", QUOTA),
        (LIFTER, "edit", GANG),
        (LIFTER, "ganggate-lifter", GANG),
    ):
        kubectl("create", "rolebinding", f"{user}-{role}", f"--clusterrole={role}", f"--user={user}", "-n", ns)
    wait_until(lambda: people.run(people.tenant, "status", "-n", QUOTA).exit_code == 0, what="the tenant's rights")
    yield people


def queue(name: str, gpus: int) -> dict[str, Any]:
    return {
        "apiVersion": f"{names.VOLCANO_API}/{names.VOLCANO_VERSION}",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "capability": {GPU: str(gpus)}},
    }


def before_crds(people: People) -> None:
    """Without any definition of ours every command works, and --all frees what carries the gate."""
    snapshot = observe.once(Client.from_kubeconfig(str(people.admin)))
    assert (snapshot.queues, snapshot.podgroups, len(snapshot.nodes)) == ({}, (), 2)
    people.cluster.kubectl.create([pod("early", namespace="default")])
    assert people.json(people.admin, "queues")["items"][0]["name"] == "default"
    assert people.json(people.admin, "release", "--all", "--yes")["released"] == 1
    assert people.gates("default", "early") == []
    people.cluster.kubectl("delete", "pod", "early", "--now")


def pod(name: str, *gates: str, namespace: str = GANG) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "containers": [{"name": "c", "image": "busybox:1.36"}],
            "schedulingGates": [{"name": gate} for gate in (names.GATE, *gates)],
        },
    }


# --- an administrator sees decisions -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, namespace, reason, code",
    [
        ("nodes", GANG, names.Reason.NODES_SHORT, 4),
        ("never", GANG, names.Reason.NEVER_FITS, 5),
        ("foreign", GANG, names.Reason.FOREIGN_GATE, 4),
        ("capped", ELSEWHERE, names.Reason.NEVER_FITS, 5),
        ("quota", QUOTA, names.Reason.NEVER_FITS, 5),
    ],
)
def test_why_a_group_waits(people: People, name: str, namespace: str, reason: str, code: int) -> None:
    result = people.run(people.admin, "why", f"job/{namespace}/{name}")
    assert result.exit_code == code, result.output
    assert people.group(name, namespace)["reason"] == reason
    assert reason in result.stdout and "What would help:" in result.stdout


def test_a_group_that_fits_waits_for_a_gatekeeper_and_is_told_so(people: People) -> None:
    result = people.run(people.admin, "why", "-n", GANG, "fits")
    assert result.exit_code == 4
    assert people.group("fits")["reason"] == names.Reason.ADMITTED
    assert f"no Lease {names.SYSTEM_NAMESPACE}/{names.LEASE_NAME}" in result.stdout


def test_the_quota_s_sum_is_the_server_s(people: People) -> None:
    lines = {q["key"]: q for q in people.json(people.admin, "why", f"{QUOTA}/quota")["quota"]}
    gpus = lines[f"requests.{GPU}"]
    shown = {key: gpus[key] for key in ("hard", "used", "counted", "missing", "each", "needed", "shortBy")}
    assert shown == {
        "hard": "4",
        "used": "4",
        "counted": "4",
        "missing": 2,
        "each": "1",
        "needed": "2",
        "shortBy": "2",
    }


def test_the_queue_s_level_and_the_nodes_are_counted(people: People) -> None:
    capped = people.json(people.admin, "why", f"{ELSEWHERE}/capped")
    level = next(lv for lv in capped["capability"] if lv["resource"] == GPU)
    assert (level["queue"], level["capability"], level["needed"], level["shortBy"]) == ("small", "2", "4", "2")
    nodes = people.json(people.admin, "why", f"{GANG}/nodes")["nodes"]
    assert (nodes["wanted"], nodes["fit"], nodes["fitIfEmpty"]) == (17, 12, 16), "beside the four of `fits`"


def test_queues_lists_what_exists(people: People) -> None:
    items = {i["name"]: i for i in people.json(people.admin, "queues")["items"]}
    assert items["small"]["capability"] == {GPU: "2"} and items["small"]["waiting"] == 1
    assert items["default"]["state"] == "Open"


def test_status_all_agrees_with_kubectl(people: People) -> None:
    rows = {(i["namespace"], i["name"]): i for i in people.json(people.admin, "status", "-A")["items"]}
    assert {key[1] for key in rows} == {"fits", "nodes", "never", "foreign", "capped", "quota"}
    assert sum(i["present"] for i in rows.values()) == len(people.gated(GANG, ELSEWHERE, QUOTA))


# --- a tenant sees its namespace, and is told what it may not -------------------------------------------------


def test_a_tenant_is_told_what_was_reported(people: People) -> None:
    gatekeeper = people.cluster.start_gatekeeper(wait=False)
    try:
        wait_until(
            lambda: all(i["reason"] for i in people.json(people.tenant, "status", "-n", QUOTA)["items"]),
            timeout=60,
            what="a report on every group of the tenant's",
        )
        wait_until(lambda: people.group("fits")["state"] == "Running", what="what fits was lifted meanwhile")
    finally:
        gatekeeper.kill()
    told = people.run(people.tenant, "why", f"{QUOTA}/quota")
    assert told.exit_code == 5, told.output
    assert "NeverFits, as last reported" in told.stdout
    assert "note: you may not list pods in the whole cluster; shown is what the gatekeeper last reported" in told.stderr
    assert people.json(people.tenant, "why", f"{QUOTA}/quota")["quota"], "its own quota it can see"


def test_a_right_that_is_missing_is_named(people: People) -> None:
    everywhere = people.run(people.tenant, "status", "-A")
    assert everywhere.exit_code == 1
    assert everywhere.stderr == (
        f'error: you may not list pods in the whole cluster: pods is forbidden: User "{TENANT}" cannot list resource '
        '"pods" in API group "" at the cluster scope\n'
    )
    nowhere = people.run(people.outsider, "why", "-n", GANG, "fits")
    assert nowhere.exit_code == 1 and f"you may not list pods in namespace {GANG}" in nowhere.stderr
    assert people.run(people.outsider, "queues").exit_code == 1


def test_a_namespace_s_admin_may_not_release_and_is_told_which_policy_says_so(people: People) -> None:
    before = people.gated(GANG)
    result = people.run(people.tenant, "release", "--all", "--yes", "-n", GANG)
    assert result.exit_code == 1
    assert f"ValidatingAdmissionPolicy 'ganggate-gate-removal'" in result.stderr
    assert (
        f'only with verb "{names.LIFT_VERB}" on {names.LIFT_RESOURCE}.{names.DOMAIN}, which "{TENANT}"' in result.stderr
    )
    assert people.gated(GANG) == before
    dry = people.json(people.tenant, "release", "--all", "--dry-run", "-n", GANG)
    assert (dry["dryRun"], dry["released"], len(dry["refused"])) == (True, 0, len(before))
    whole = people.run(people.tenant, "release", "--all", "--yes")
    assert whole.exit_code == 1 and "you may not list pods in the whole cluster" in whole.stderr


# --- the way out ---------------------------------------------------------------------------------------------


def test_the_holder_of_the_verb_in_a_namespace_releases_one_group_there(people: People) -> None:
    assert people.json(people.lifter, "release", "--dry-run", f"{GANG}/never")["released"] == 1
    assert any(name.startswith("never-") for _, name in people.gated(GANG)), "a dry run changes nothing"
    assert people.json(people.lifter, "release", "--yes", f"{GANG}/never")["released"] == 1
    assert not any(name.startswith("never-") for _, name in people.gated(GANG))
    assert people.gated(ELSEWHERE) and people.gated(QUOTA)


def test_an_administrator_frees_everything_with_gatekeeper_and_webhook_dead(people: People) -> None:
    refused = people.caller.create(f"/api/v1/namespaces/{GANG}/pods", pod("new"))
    assert "failed calling webhook" in refused.message, "the webhook is registered, and nobody answers"
    waiting = people.gated(GANG, ELSEWHERE, QUOTA)
    assert len(waiting) > 20
    result = people.json(people.admin, "release", "--all", "--yes")
    assert (result["released"], result["gone"], result["refused"]) == (len(waiting), 0, [])
    assert people.gated(GANG, ELSEWHERE, QUOTA) == []
    (foreign,) = [p for p in people.cluster.kubectl.json("get", "pods", "-n", GANG)["items"] if FOREIGN in _gates_of(p)]
    assert _gates_of(foreign) == [FOREIGN], "the gates of others stay"
    assert people.run(people.admin, "release", "--all").stdout == f"no pod carries the gate {names.GATE}\n"


def test_a_running_group_shows_where_its_members_run(people: People) -> None:
    found = wait_until(lambda: _running(people), what="nodes bound in part")
    assert {p["node"] for p in found["pods"] if "node" in p} <= {"node-0", "node-1"}
    assert people.run(people.admin, "why", f"{GANG}/fits").exit_code == 0


def _running(people: People) -> dict[str, Any] | None:
    found = people.json(people.admin, "why", f"{GANG}/fits")
    return found if found["group"]["state"] == "Running" else None
