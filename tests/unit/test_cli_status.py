"""`ganggate status`: one row a group, as people, scripts and tenants see it."""

import json

import pytest
import yaml

from policy import names
from policy.cli.reports import EVENT, Report
from policy.rules.model import NamespaceFacts
from tests.unit.cli_support import LACK, FakeWorld, run, trimmed
from tests.unit.rules_facts import NOW, gang, job, lifted, nodes, podgroup, pods, queue, quota, shape, snapshot

TOLD = "the gatekeeper last reported in namespace"


def busy():
    """A gang that runs, one that waits for quota, one for nodes, one that can never fit, one elsewhere."""
    running = [lifted(p, "n0", 4) for p in pods(4, "run", job="run")]
    return snapshot(
        nodes=nodes(2),
        jobs=[
            job("run", 4, created=NOW - 7200),
            job("quota", 4, created=NOW - 300),
            job("nodes", 16, created=NOW - 200),
            job("never", 9, created=NOW - 100),
            job("other", 1, ns="there", created=NOW - 30),
        ],
        pods=[
            *running,
            *pods(2, "quota", job="quota"),
            *pods(16, "nodes", job="nodes"),
            *pods(9, "never", job="never", like=shape(gpu=9)),
            *pods(1, "other", job="other", ns="there", queue="team-a"),
        ],
        quotas=[quota("gpus", requests_gpu="104", used={"requests_gpu": "100"})],
        queues=[queue("team-a", gpu="8")],
        namespaces=[gang(), gang(name="there"), NamespaceFacts("plain")],
    )


def test_the_table():
    assert run(busy(), "status", "-A").output == trimmed(
        """
        NAMESPACE   NAME        STATE     REASON                READY   LIFTED   BOUND   QUEUE     POSITION   AGE
        team        job/run     Running   GangRunning           4/4     4        4       default   -          2h
        there       job/other   Waiting   GangAdmitted          1/1     0        0       team-a    -          30s
        team        job/quota   Forming   NamespaceQuotaShort   2/4     0        0       default   1          5m
        team        job/nodes   Waiting   NodesShort            16/16   0        0       default   2          3m20s
        team        job/never   Waiting   NeverFits             9/9     0        0       default   -          1m40s
        """
    )


def test_wide_adds_the_reason_in_full():
    head, *rows = run(busy(), "status", "-o", "wide").output.splitlines()
    assert head.endswith("AGE     MESSAGE")
    assert any("needs 2 requests.nvidia.com/gpu" in r or "need 2 requests.nvidia.com/gpu" in r for r in rows)


def test_the_namespace_is_the_context_s_unless_another_or_all_are_asked_for():
    def shown(*args):
        return run(busy(), "status", "-o", "name", *args).stdout.split()

    assert shown("-n", "there") == ["job/there/other"]
    assert shown() == ["job/team/run", "job/team/quota", "job/team/nodes", "job/team/never"]
    assert len(shown("-A")) == 5


def test_waiting_leaves_out_what_has_started():
    shown = run(busy(), "status", "-A", "--waiting", "-o", "name").stdout.split()
    assert shown == ["job/there/other", "job/team/quota", "job/team/nodes", "job/team/never"]


@pytest.mark.parametrize("output, read", [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_structure_has_stable_names_and_numbers(output, read):
    items = read(run(busy(), "status", "-o", output).stdout)["items"]
    found = next(i for i in items if i["name"] == "quota")
    assert found.pop("message").startswith("2 of 4 created")
    assert found == {
        "key": "Job/team/quota",
        "namespace": "team",
        "kind": "Job",
        "name": "quota",
        "state": "Forming",
        "reason": "NamespaceQuotaShort",
        "limiter": "quota/gpus/requests.nvidia.com/gpu",
        "waiting": True,
        "present": 2,
        "minMember": 4,
        "possible": 4,
        "missing": 2,
        "lifted": 0,
        "bound": 0,
        "queue": "default",
        "position": 1,
        "priority": 0,
        "createdAt": "1970-01-12T13:41:40Z",
        "numbers": found["numbers"],
        "basis": "decided",
    }
    assert found["numbers"] == {
        "present": 2,
        "minMember": 4,
        "missing": 2,
        "needNano": 2 * 10**9,
        "freeNano": 10**9,
        "hardNano": 104 * 10**9,
    }


def test_nothing_is_an_empty_list_for_scripts_and_a_reason_for_people():
    for namespace, line in (
        ("there-too", "error: --namespace: 'there-too' does not exist"),
        ("plain", f"No groups in namespace plain: it has no label {names.NAMESPACE_POLICY} (-A looks at all)."),
        (
            "packed",
            f"No groups in namespace packed: its label {names.NAMESPACE_POLICY} is 'binpack', not gang or hybrid (-A looks at all).",
        ),
        ("team", "No groups in namespace team (-A looks at all)."),
    ):
        facts = snapshot(namespaces=[gang(), NamespaceFacts("plain"), gang(name="packed", policy="binpack")])
        result = run(facts, "status", "-n", namespace)
        assert (result.stdout, result.stderr) == ("", line + "\n")
        assert result.exit_code == (3 if line.startswith("error") else 0)
    assert json.loads(run(snapshot(), "status", "-o", "json").stdout) == {"items": []}
    assert run(snapshot(), "status", "-A", "--waiting").stderr == "No waiting groups in any namespace.\n"


def test_nobody_lifting_is_said_while_something_waits():
    waiting, done = FakeWorld(busy(), quiet="no gatekeeper leads"), FakeWorld(snapshot(), quiet="no gatekeeper leads")
    assert run(waiting, "status").stderr == "note: no gatekeeper leads\n"
    assert "gatekeeper" not in run(done, "status").stderr


# --- with rights in one namespace only ------------------------------------------------------------------------


def tenant(**fields):
    facts = snapshot(
        jobs=[job("run", 4), job("wait", 4), job("new", 2)],
        pods=[
            *[lifted(p, "n0", 4) for p in pods(4, "run", job="run")],
            *pods(2, "wait", job="wait"),
            *pods(2, "new", job="new"),
        ],
        podgroups=[podgroup("ganggate-wait", 4, uid="pg-wait", controller="wait", ours=True)],
    )
    told = {
        "pg-wait": Report(EVENT, "NodesShort", "4 pods need a place", NOW - 10),
        "wait": Report(EVENT, "GangForming", "older", NOW - 60),
        "run": Report(EVENT, "NodesShort", "from before it ran", NOW - 10),
        "team/new-0": Report(EVENT, "GangAdmitted", "2 of 2 pods fit", NOW - 1),
    }
    return FakeWorld(facts, tenant=True, told=told, **fields)


def test_a_tenant_sees_what_was_reported_and_is_told_so():
    result = run(tenant(), "status", "-n", "team", "-o", "wide")
    assert result.exit_code == 0
    assert f"note: {LACK}; shown is what {TOLD} team\n" in result.stderr
    rows = {line.split()[1]: line for line in result.stdout.splitlines()}
    assert "NodesShort" in rows["job/wait"] and rows["job/wait"].endswith("4 pods need a place"), "the newest report"
    assert "Running" in rows["job/run"] and "from before it ran" not in rows["job/run"], "the pods themselves say it"
    assert "GangAdmitted" in rows["job/new"], "a pod's event is enough"


def test_a_tenant_s_group_without_a_report_says_so():
    world = tenant()
    world.told.clear()
    items = {i["name"]: i for i in json.loads(run(world, "status", "-o", "json").stdout)["items"]}
    assert items["wait"]["reason"] == ""
    assert items["wait"]["message"] == "the gatekeeper has reported nothing yet"
    assert {i["basis"] for i in items.values()} == {"reported"}


def test_what_a_tenant_could_not_see_is_named():
    result = run(tenant(unseen=("events.events.k8s.io", "namespaces")), "status")
    assert "note: not seen, for you may not list it there: events.events.k8s.io, namespaces\n" in result.stderr


def test_all_namespaces_need_the_right_to_see_all():
    result = run(tenant(), "status", "-A")
    assert (result.exit_code, result.stderr) == (1, f"error: {LACK}: pods is forbidden\n")
