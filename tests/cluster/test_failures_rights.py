"""A gatekeeper that lacks one right: it says which verb on which resource, and does nothing by halves.

Each test is one row of docs/failure-matrix.md.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import breaking
from tests.cluster.breaking import bound, held, job, jobs, listed, must
from tests.cluster.calls import Caller
from tests.cluster.conftest import holds_for, wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER_ROLE = f"{RBAC}/clusterroles/ganggate-gatekeeper"
ACCOUNT = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:ganggate-gatekeeper"
ROLE = f"{RBAC}/namespaces/{names.SYSTEM_NAMESPACE}/roles/ganggate-gatekeeper"


@pytest.fixture
def victim(victim_cluster: Cluster) -> Iterator[Cluster]:
    yield victim_cluster
    breaking.heal(victim_cluster)


@pytest.fixture
def admin(victim: Cluster) -> Caller:
    return Caller(victim.kubeconfig)


@pytest.fixture
def gang(admin: Caller) -> Iterator[str]:
    with breaking.space(admin) as name:
        yield name


@contextmanager
def lacking(admin: Caller, group: str, resource: str, verb: str) -> Iterator[None]:
    """The gatekeeper without that verb on that resource, from when the API server knows it."""
    kept = {path: must(admin("GET", path)) for path in (CLUSTER_ROLE, ROLE)}
    for path, role in kept.items():
        put(admin, path, role, [part for rule in role["rules"] for part in without(rule, group, resource, verb)])
    wait_until(lambda: not may(admin, group, resource, verb), what=f"no {verb} on {resource}")
    try:
        yield
    finally:
        for path, role in kept.items():
            put(admin, path, role, role["rules"])
        wait_until(lambda: may(admin, group, resource, verb), what=f"{verb} on {resource}")


def without(rule: dict, group: str, resource: str, verb: str) -> list[dict]:
    """The rule, in two where it gives the verb on more than that resource."""
    if group not in rule["apiGroups"] or resource not in rule["resources"]:
        return [rule]
    others = rule | {"resources": [r for r in rule["resources"] if r != resource]}
    left = rule | {"resources": [resource], "verbs": [v for v in rule["verbs"] if v != verb]}
    return [each for each in (others, left) if each["resources"] and each["verbs"]]


def put(admin: Caller, path: str, role: dict, rules: list[dict]) -> None:
    metadata = {key: value for key, value in role["metadata"].items() if key != "resourceVersion"}
    must(admin("PUT", path, role | {"metadata": metadata, "rules": rules}))


def may(admin: Caller, group: str, resource: str, verb: str) -> bool:
    """What the authorizer answers for the gatekeeper."""
    asked = {"namespace": names.SYSTEM_NAMESPACE, "group": group, "resource": resource, "verb": verb}
    asked |= {"name": names.LEASE_NAME} if resource == "leases" else {}
    review = {"spec": {"user": ACCOUNT, "resourceAttributes": asked}}
    return must(admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review))["status"]["allowed"]


def restart(cluster: Cluster, *, wait: bool = False) -> None:
    """A watch that is open outlives the right to it, until it ends within five minutes: start anew."""
    cluster.processes["gatekeeper"].stop()
    cluster.start_gatekeeper(wait=wait)


def test_without_a_right_to_list(victim: Cluster, admin: Caller, gang: str) -> None:
    with lacking(admin, "", "resourcequotas", "list"):
        restart(victim)
        must(admin.create(jobs(gang), job("g", gang, 2)))
        said = "resourcequotas: forbidden: list resourcequotas"
        wait_until(lambda: breaking.listening(victim) and breaking.problems(victim) == [said], what=said)
        wait_until(lambda: held(admin, gang) == 2)
        holds_for(lambda: held(admin, gang) == 2, 2, "lifted without sight of quotas")
    wait_until(lambda: bound(admin, gang) == 2, what="the gang, once the right is back")
    assert breaking.problems(victim) == []


def test_without_the_right_to_patch_pods(victim: Cluster, admin: Caller, gang: str) -> None:
    with lacking(admin, "", "pods", "patch"):
        must(admin.create(jobs(gang), job("g", gang, 2)))
        note = breaking.hears(admin, gang, "g", names.Reason.LIFT_REFUSED)
        assert note.startswith("2 patches refused, next try in ")
        assert 'cannot patch resource "pods"' in note
        assert held(admin, gang) == 2
    wait_until(lambda: bound(admin, gang) == 2, timeout=30, what="the gang, at the next try")


def test_without_the_verb_lift(victim: Cluster, admin: Caller, gang: str) -> None:
    """The policy in the API server holds for the gatekeeper too."""
    with lacking(admin, names.DOMAIN, names.LIFT_RESOURCE, names.LIFT_VERB):
        must(admin.create(jobs(gang), job("g", gang, 2)))
        note = breaking.hears(admin, gang, "g", names.Reason.LIFT_REFUSED)
        assert 'only with verb "lift" on groups.ganggate.io' in note
        assert held(admin, gang) == 2
    wait_until(lambda: bound(admin, gang) == 2, timeout=30, what="the gang, at the next try")


def test_without_a_right_to_the_lease(victim: Cluster, admin: Caller, gang: str) -> None:
    """Nobody leads, so nothing is lifted; the log names verb and resource."""
    victim.processes["gatekeeper"].stop()
    log = breaking.Log(victim)
    with lacking(admin, "coordination.k8s.io", "leases", "patch"):
        victim.start_gatekeeper()
        must(admin.create(jobs(gang), job("g", gang, 2)))
        wait_until(lambda: 'cannot patch resource "leases"' in log.text, what="a line of the log")
        wait_until(lambda: held(admin, gang) == 2)
        holds_for(lambda: held(admin, gang) == 2, 2, "lifted without a lease")
    wait_until(lambda: bound(admin, gang) == 2, what="the gang, once the right is back")


def test_without_the_right_to_write_events(victim: Cluster, admin: Caller, gang: str) -> None:
    """What only tells people keeps no gang from starting."""
    log = breaking.Log(victim)
    with lacking(admin, "events.k8s.io", "events", "create"):
        must(admin.create(jobs(gang), job("g", gang, 2)))
        wait_until(lambda: bound(admin, gang) == 2, what="the gang")
        wait_until(lambda: 'cannot create resource "events"' in log.text, what="a line of the log")


def test_without_the_right_to_make_podgroups(victim: Cluster, admin: Caller, gang: str) -> None:
    log = breaking.Log(victim)
    with lacking(admin, names.VOLCANO_API, "podgroups", "create"):
        must(admin.create(jobs(gang), job("g", gang, 2)))
        wait_until(lambda: bound(admin, gang) == 2, what="the gang")
        wait_until(lambda: 'cannot create resource "podgroups"' in log.text, what="a line of the log")
        assert not listed(admin, breaking.podgroups(gang))
    wait_until(lambda: listed(admin, breaking.podgroups(gang)), what="its PodGroup, once the right is back")


def test_without_a_kubeconfig(victim: Cluster, tmp_path) -> None:
    """One line that names the file, and status 2."""
    missing = tmp_path / "missing.yaml"
    argv = [sys.executable, "-m", "policy.gatekeeper.main", "--kubeconfig", str(missing), "--identity", "x"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert str(missing) in ended.stderr
