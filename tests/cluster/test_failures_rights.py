"""A gatekeeper that lacks one right: it says which verb on which resource, and does nothing by halves.

Each test is one row of docs/failure-matrix.md.
"""

import subprocess
import sys


from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import breaking
from tests.cluster.breaking import bound, held, job, jobs, listed, must
from tests.cluster.calls import Caller
from tests.cluster.conftest import holds_for, wait_until
from tests.cluster.rights import lacking, restart
from tests.cluster.victims import admin, gang, victim

__all__ = ["admin", "gang", "victim"]


def test_without_a_right_to_list(victim: Cluster, admin: Caller, gang: str) -> None:
    with lacking(admin, "", "resourcequotas", "list"):
        restart(victim)
        must(admin.create(jobs(gang), job("g", gang, 2)))
        said = "resourcequotas: forbidden: list resourcequotas"
        wait_until(lambda: breaking.listening(victim) and breaking.problems(victim) == [said], what=said)
        wait_until(lambda: held(admin, gang) == 2)
        holds_for(lambda: held(admin, gang) == 2, 2, "lifted without sight of quotas")
    wait_until(lambda: bound(admin, gang) == 2, timeout=90, what="the gang, once the right is back")
    assert breaking.problems(victim) == []


def test_without_a_right_to_list_one_kind_of_owner(victim: Cluster, admin: Caller, gang: str) -> None:
    """Its groups are held and say so; everybody else's go on."""
    with lacking(admin, "apps", "statefulsets", "list"):
        restart(victim)
        must(admin.create(f"/apis/apps/v1/namespaces/{gang}/statefulsets", breaking.stateful("set", gang, 2)))
        note = breaking.hears(admin, gang, "set-0", names.Reason.OWNER_UNREADABLE)
        assert note == "StatefulSet set cannot be read: the right to list statefulsets.apps is missing"
        must(admin.create(jobs(gang), job("g", gang, 2)))
        wait_until(lambda: bound(admin, gang) == 2, what="a gang of another kind")
        assert held(admin, gang) == 1
    wait_until(lambda: bound(admin, gang) == 4, timeout=60, what="the set, once the right is back")


def test_without_the_right_to_patch_pods(victim: Cluster, admin: Caller, gang: str) -> None:
    with lacking(admin, "", "pods", "patch"):
        must(admin.create(jobs(gang), job("g", gang, 2)))
        note = breaking.hears(admin, gang, "g", names.Reason.LIFT_REFUSED)
        assert note.startswith("1 patch refused, next try in ")
        assert 'cannot patch resource "pods"' in note
        assert held(admin, gang) == 2
    wait_until(lambda: bound(admin, gang) == 2, timeout=90, what="the gang, at the next try")


def test_without_the_verb_lift(victim: Cluster, admin: Caller, gang: str) -> None:
    """The policy in the API server holds for the gatekeeper too."""
    with lacking(admin, names.DOMAIN, names.LIFT_RESOURCE, names.LIFT_VERB):
        must(admin.create(jobs(gang), job("g", gang, 2)))
        note = breaking.hears(admin, gang, "g", names.Reason.LIFT_REFUSED)
        assert 'only with verb "lift" on groups.ganggate.io' in note
        assert held(admin, gang) == 2
    wait_until(lambda: bound(admin, gang) == 2, timeout=90, what="the gang, at the next try")


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
    wait_until(lambda: bound(admin, gang) == 2, timeout=90, what="the gang, once the right is back")


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
