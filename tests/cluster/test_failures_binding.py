"""Lifted gangs that cannot be bound whole, or are torn by others: given back, told of, never left half.

Each test is one row of docs/failure-matrix.md. A lifted gang has 5 s to be bound here.
"""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from deploy.local import nodes
from deploy.local.cluster import Cluster
from policy import names
from policy.gatekeeper.client import Client
from tests.cluster import breaking, submissions
from tests.cluster.breaking import bound, held, job, jobs, listed, must, podgroups, pods, told
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import MakeCluster, holds_for, take_down, wait_until
from tests.cluster.record import Recorder
from tests.cluster.test_failures_leaders import leads, lifted, pinned, relifted
from tests.cluster.victims import admin, gang, victim

__all__ = ["admin", "gang", "victim"]

GPU = "nvidia.com/gpu"
URGENT = {"metadata": {"name": "urgent"}, "value": 1000}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
TAKER = r"(another namespace \(uid \S+\)|higher priority)"  # the scheduler's event, which tells the uid, may be late


@contextmanager
def node_lost(victim: Cluster, admin: Caller, gang: str, size: int) -> Iterator[None]:
    """A Job `g` is let go whole; then the node of one member goes, before anything is bound."""
    victim.processes["kube-scheduler"].kill()
    must(admin.create(jobs(gang), job("g", gang, size)))
    wait_until(lambda: lifted(admin, gang) == size, what="the lift")
    node = pinned(listed(admin, pods(gang))[0])
    must(admin("DELETE", f"/api/v1/nodes/{node}"))  # one call: the programs that react to it may be killed in a moment
    try:
        yield
    finally:
        victim.kubectl.create([nodes.manifest(node, 8)], validate=False)


def record(admin: Caller, gang: str, name: str = "g") -> dict:
    return must(admin("GET", jobs(gang, name)))["metadata"].get("annotations", {})


def test_a_node_goes_between_lift_and_bind(victim: Cluster, admin: Caller, gang: str) -> None:
    """A pin cannot be changed: the gang is given back at once, and starts on other nodes."""
    with node_lost(victim, admin, gang, 12):
        note = breaking.hears(admin, gang, "g", names.Reason.GIVEN_BACK)
        assert re.match(r"12 of 12 pods lifted, 0 bound; pod \S+ can never be bound: its node \S+ is gone", note)
        victim.processes["kube-scheduler"].start()
        wait_until(lambda: bound(admin, gang) == 12, what="the gang, on other nodes")
    assert '"fails":' in record(admin, gang)[names.ANNOTATION_GIVEN_BACK]


def test_an_outsider_takes_a_place_between_lift_and_bind(victim: Cluster, admin: Caller, gang: str) -> None:
    """It asked nobody: the gang, most of which runs, is given back after the bind timeout, and not before it fits."""
    victim.processes["kube-scheduler"].kill()
    before = lost_to_outsiders(victim)
    with breaking.space(admin, None) as plain:
        must(admin.create(jobs(gang), job("g", gang, 60)))
        wait_until(lambda: lifted(admin, gang) == 60, what="the lift")
        template = submissions.template("outsider", breaking.LONG, gpus=8)
        body = submissions.pod("outsider", plain, template)
        body["spec"]["nodeName"] = pinned(listed(admin, pods(gang))[0])
        must(admin.create(pods(plain), body))
        victim.processes["kube-scheduler"].start()
        note = breaking.hears(admin, gang, "g", names.Reason.GIVEN_BACK)
        assert re.search(r"pods that ganggate does not hold took \d of their places", note)
        wait_until(lambda: lost_to_outsiders(victim) == before + 1, what="ganggate_lift_lost_to_outsider")
        wait_until(lambda: not listed(admin, pods(gang)), what="what ran is given back")
        holds_for(lambda: bound(admin, gang) == 0, 8, "56 GPUs are too few")
        must(admin("DELETE", pods(plain, "outsider"), {"gracePeriodSeconds": 0}))
        wait_until(lambda: bound(admin, gang) == 60, timeout=90, what="the gang, in its old place")


def lost_to_outsiders(victim: Cluster) -> float:
    text = breaking.metrics(victim)
    return float(re.search(r"^ganggate_lift_lost_to_outsider_total (\S+)$", text, re.MULTILINE)[1])


def test_a_coscheduling_podgroup_says_how_long_binding_may_take(victim: Cluster, admin: Caller, gang: str) -> None:
    """Its scheduleTimeoutSeconds goes before the setting."""
    victim.processes["kube-scheduler"].kill()
    api = f"{names.COSCHEDULING_API}/{names.COSCHEDULING_VERSION}"
    body = submissions.podgroup(api, "slow", 4, gang, scheduleTimeoutSeconds=14)
    must(admin.create(f"/apis/{api}/namespaces/{gang}/podgroups", body))
    must(admin.create(jobs(gang), job("g", gang, 4, labels={names.COSCHEDULING_LABEL: "slow"})))
    wait_until(lambda: lifted(admin, gang) == 4, what="the lift")
    holds_for(lambda: lifted(admin, gang) == 4, 9, "five seconds is others' time")
    assert re.search(r" after 1[4-9] s", breaking.hears(admin, gang, "g", names.Reason.GIVEN_BACK))


def test_what_ran_is_not_given_back(victim: Cluster, admin: Caller, gang: str) -> None:
    """A member is lost and cannot be replaced: told, and what is left runs on."""
    body = job("g", gang, 4)
    body["spec"]["podReplacementPolicy"] = "Failed"
    must(admin.create(jobs(gang), body))
    wait_until(lambda: bound(admin, gang) == 4, what="the gang")
    victim.processes["kube-controller-manager"].pause()
    gone = listed(admin, pods(gang))[0]["metadata"]["name"]
    must(admin.patch(pods(gang, gone), {"metadata": {"finalizers": None}}, MERGE))
    must(admin("DELETE", pods(gang, gone), {"gracePeriodSeconds": 0}))
    note = breaking.hears(admin, gang, "g", names.Reason.DEGRADED, timeout=90)
    assert note.startswith("3 of 4 pods lifted, 3 bound: 1 fewer than must run together")
    assert bound(admin, gang) == 3
    victim.processes["kube-controller-manager"].resume()
    wait_until(lambda: bound(admin, gang) == 4, timeout=90, what="its replacement")


def test_a_lift_of_which_half_is_refused_is_given_back(victim: Cluster, admin: Caller, gang: str) -> None:
    """No dry run can tell: what is refused differs in the value of a label only."""
    body = job("g", gang, 6)
    body["spec"]["completionMode"] = "Indexed"
    with refusing(admin, gang, f"object.metadata.labels['{names.COMPLETION_INDEX}'] != '4'"):
        must(admin.create(jobs(gang), body))
        note = breaking.hears(admin, gang, "g", names.Reason.GIVEN_BACK)
        assert note.startswith("5 of 6 pods lifted, 5 bound after "), note
        wait_until(lambda: bound(admin, gang) == 0, what="the half is given back")
    wait_until(lambda: bound(admin, gang) == 6, timeout=90, what="the gang")


def test_a_class_that_is_refused_is_found_by_a_dry_run(victim: Cluster, admin: Caller, gang: str) -> None:
    """Two Jobs make one gang, and others' admission refuses updates of one of them: not one pod is let go."""
    recorder = Recorder(Client.from_kubeconfig(str(victim.kubeconfig))).start()
    marks = {"annotations": {names.GROUP_NAME: "pair"}}
    must(admin.create(podgroups(gang), submissions.podgroup(breaking.VOLCANO, "pair", 6, gang)))
    with refusing(admin, gang, "!('strict' in object.metadata.labels)"):
        must(admin.create(jobs(gang), job("plain", gang, 3, **marks)))
        must(admin.create(jobs(gang), job("strict", gang, 3, labels={"strict": "yes"}, **marks)))
        note = breaking.hears(admin, gang, "pair", names.Reason.LIFT_REFUSED)
        assert note.endswith("pods are frozen (tried out)"), note
        holds_for(lambda: held(admin, gang) == 6, 6, "nothing is lifted")
    wait_until(lambda: bound(admin, gang) == 6, timeout=90, what="the gang")
    recorder.stop()
    assert relifted(recorder.entries, gang) == []


@contextmanager
def refusing(admin: Caller, space: str, allowed: str) -> Iterator[None]:
    """Somebody's own policy refuses updates of pods in the namespace, but where the expression holds."""
    kind = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}
    here = {"matchLabels": {names.NAMESPACE_NAME_LABEL: space}}
    gate = "oldObject.spec.?schedulingGates.orValue([]).size() > object.spec.?schedulingGates.orValue([]).size()"
    spec = {
        "matchConstraints": {"resourceRules": [kind], "namespaceSelector": here},
        "validations": [{"expression": f"!({gate}) || ({allowed})", "message": "pods are frozen"}],
    }
    name = f"example-{space}"
    path = f"{ADMISSION}/validatingadmissionpolicies"
    binding = {"policyName": name, "validationActions": ["Deny"]}
    must(admin.create(path, {"metadata": {"name": name}, "spec": spec}))
    must(admin.create(f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": binding}))
    try:
        _in_effect(admin, space, allowed)
        yield
    finally:
        must(admin("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/{name}"))
        must(admin("DELETE", f"{path}/{name}"))


def _in_effect(admin: Caller, space: str, allowed: str) -> None:
    """A pod that the policy refuses, behind a gate of its own, is refused."""
    template = submissions.template("probe", breaking.LONG, labels={"strict": "yes", names.COMPLETION_INDEX: "4"})
    del template["spec"]["containers"][0]["resources"]
    template["spec"]["schedulingGates"] = [{"name": "example.com/probe"}]
    must(admin.create(pods(space), submissions.pod("probe", space, template)))
    path = pods(space, "probe") + "?dryRun=All"
    wait_until(lambda: not admin.patch(path, {"spec": {"schedulingGates": []}}, MERGE).ok, what=allowed)
    must(admin("DELETE", pods(space, "probe"), {"gracePeriodSeconds": 0}))


# --- preemption ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def giving_back(make_cluster: MakeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes of 8 GPUs; what preemption leaves of a gang is given back."""
    settings = tmp_path_factory.mktemp("giving-back") / "settings.yaml"
    settings.write_text("preemptedGiveBack: true\n")
    made = make_cluster(addon_config=settings, nodes=2, gpus=8)
    yield made
    take_down(made)


@contextmanager
def urgent(admin: Caller, plain: str) -> Iterator[None]:
    """A pod of higher priority that ganggate does not hold, of as many GPUs as are to be had by preemption only."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    must(admin.create(classes, URGENT))
    template = submissions.template("urgent", breaking.LONG)
    template["spec"]["priorityClassName"] = "urgent"
    must(admin.create(pods(plain), submissions.pod("urgent", plain, template)))
    try:
        yield
    finally:
        must(admin("DELETE", f"{classes}/urgent"))


def preempted(admin: Caller, gang: str, plain: str, size: int, check: Callable[[], None]) -> None:
    must(admin.create(jobs(gang), job("g", gang, size)))
    wait_until(lambda: bound(admin, gang) == size, timeout=120, what="the gang, on every GPU")
    with urgent(admin, plain):
        wait_until(lambda: bound(admin, plain) == 1, what="the pod of higher priority")
        check()


def test_a_member_is_preempted(victim: Cluster, admin: Caller, gang: str) -> None:
    """Told, with who took whose place; what is left runs on."""

    def check() -> None:
        said = r"preempted by the scheduler: g-\S+ for a pod of another namespace \(uid \S+\); 63 of 64 run"
        wait_until(lambda: re.match(said, told(admin, gang, "g").get(names.Reason.PREEMPTED, "")), what=said)
        holds_for(lambda: bound(admin, gang) == 63, 8, "the rest runs on")

    with breaking.space(admin, None) as plain:
        preempted(admin, gang, plain, 64, check)


def test_the_rest_of_a_preempted_gang_is_given_back_where_that_is_asked_for(giving_back: Cluster) -> None:
    admin = Caller(giving_back.kubeconfig)

    def check() -> None:
        note = breaking.hears(admin, space, "g", names.Reason.GIVEN_BACK)
        assert re.search(rf"for a pod of {TAKER}; 15 of 16 run.*: the rest is given back", note), note
        wait_until(lambda: bound(admin, space) == 0, what="the rest")
        must(admin("DELETE", pods(plain, "urgent"), {"gracePeriodSeconds": 0}))
        wait_until(lambda: bound(admin, space) == 16, timeout=90, what="the gang, whole again")

    with breaking.space(admin) as space, breaking.space(admin, None) as plain:
        preempted(admin, space, plain, 16, check)


# --- in the middle of a give-back ------------------------------------------------------------------------------


def test_a_leader_frozen_in_a_give_back_and_thawed_after_its_successor(
    victim: Cluster, admin: Caller, gang: str
) -> None:
    """It is frozen between asking whether it leads and suspending; what it sends then, somebody has done before."""
    breaking.interrupted(victim, 1, None, signal.SIGSTOP, what="lever")
    with node_lost(victim, admin, gang, 12):
        wait_until(lambda: not breaking.listening(victim), what="the leader frozen")
        victim.processes["kube-scheduler"].start()
        victim.start_gatekeeper("gatekeeper-2")
        wait_until(lambda: leads(admin, "gatekeeper-2"), timeout=30, what="a successor")
        wait_until(lambda: bound(admin, gang) == 12, timeout=90, what="the gang, on other nodes")
        victim.processes["gatekeeper"].resume()
        wait_until(lambda: breaking.readiness(victim) is None, what="the thawed one")
        holds_for(lambda: leads(admin, "gatekeeper-2") and bound(admin, gang) == 12, 4, "it runs on")
    breaking.hears(admin, gang, "g", names.Reason.RUNNING)


def test_the_api_server_is_killed_in_a_give_back(victim: Cluster, admin: Caller, gang: str) -> None:
    server = victim.processes["kube-apiserver"]
    breaking.interrupted(victim, 1, server.pid, signal.SIGKILL, what="lever")
    with node_lost(victim, admin, gang, 12):
        wait_until(lambda: not server.alive, what="the end of the API server")
        server.start()
        victim.processes["kube-scheduler"].start()
        wait_until(lambda: bound(admin, gang) == 12, timeout=90, what="the gang, on other nodes")
