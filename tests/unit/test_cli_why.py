"""`ganggate why`: for each reason the sum behind it and what would help, as text and as JSON; the exit codes."""

import json
import textwrap

import msgspec
import pytest
import yaml

from policy import names
from policy.cli.explanation import queue_from
from policy.cli.reports import CONDITION, EVENT, Report
from policy.rules.grouping import groups_of
from policy.rules.membership.identity import PODGROUP, Identity
from policy.rules.model import PartFacts, Ref
from tests.unit.cli_support import LACK, FakeWorld, run, trimmed
from tests.unit.rules_facts import (
    NOW,
    amounts,
    gang,
    job,
    lifted,
    node,
    nodes,
    pod,
    podgroup,
    pods,
    queue,
    quota,
    shape,
    snapshot,
)


def explain(facts, reference, *args):
    return run(facts, "why", reference, *args)


def inner(text):
    """A golden part as it stands in the answer, set in by two."""
    return textwrap.indent(trimmed(text), "  ")


def structure(facts, reference):
    return json.loads(explain(facts, reference, "-o", "json").stdout)


def advice(facts, reference):
    return structure(facts, reference)["wouldHelp"]


# --- quota ---------------------------------------------------------------------------------------------------


def short_of_quota():
    """Two gangs that form: the first is promised what it lacks, the second does not fit beside it."""
    return snapshot(
        nodes=nodes(4),
        jobs=[job("first", 4, created=1), job("second", 6, created=NOW - 65)],
        pods=[*pods(2, "first", job="first"), *pods(3, "second", job="second")],
        quotas=[quota("gpus", requests_gpu="8", pods="20", used={"requests_gpu": "4", "pods": "5"})],
    )


def test_quota_the_sum_key_by_key():
    assert explain(short_of_quota(), "second").stdout == trimmed(
        """
        Group:       job/second in namespace team
        Recognised:  by controller Job second
        Size:        6 start together, of 6 that its owner makes at once (from spec.parallelism of Job second)
        Members:     3 present, 3 held by our gate, 0 lifted, 0 bound, 3 missing
        Queue:       default (nobody names one), priority 0, position 2
        Age:         1m5s

        Forming:     NamespaceQuotaShort
          3 of 6 created; the 3 missing need 3 requests.nvidia.com/gpu, quota gpus has 1 of 8 left (2 promised to groups ahead)

          QUOTA   KEY                       HARD   USED   COUNTED   PROMISED   MISSING x EACH = NEEDED   SHORT BY
          gpus    pods                      20     5      5         2          3 x 1 = 3                 0
          gpus    requests.nvidia.com/gpu   8      4      5         2          3 x 1 = 3                 2

        What would help:
          - free 2 requests.nvidia.com/gpu in namespace team, or raise quota gpus to 10
          - or wait for the groups ahead, to which 2 of it is promised

          POD        PHASE     NODE   GATES
          second-0   Pending   -      ganggate.io/gang
          second-1   Pending   -      ganggate.io/gang
          second-2   Pending   -      ganggate.io/gang
        """
    )


def test_quota_as_a_structure():
    found = structure(short_of_quota(), "second")
    assert found["group"]["reason"] == "NamespaceQuotaShort"
    assert found["size"] == {"minMember": 6, "possible": 6, "source": "spec.parallelism of Job second"}
    assert found["members"] == {
        "present": 3,
        "missing": 3,
        "gated": 3,
        "lifted": 0,
        "bound": 0,
        "leaving": 0,
        "succeeded": 0,
    }
    assert found["quota"][1] == {
        "quota": "gpus",
        "key": "requests.nvidia.com/gpu",
        "hard": "8",
        "used": "4",
        "counted": "5",
        "promised": "2",
        "missing": 3,
        "each": "1",
        "needed": "3",
        "shortBy": "2",
        "unstated": False,
    }
    assert found["pods"][0] == {"name": "second-0", "phase": "Pending", "gated": True}


def test_quota_that_is_smaller_than_the_group_says_how_large_it_must_be():
    facts = snapshot(jobs=[job("huge", 8)], pods=pods(2, job="huge"), quotas=[quota(requests_gpu="4")])
    assert explain(facts, "huge").exit_code == 5
    assert advice(facts, "huge") == ["raise quota q to 8 requests.nvidia.com/gpu or more, or make the group smaller"]


def test_quota_that_demands_what_the_pods_do_not_state():
    bare = shape(unstated=("limits.cpu",))
    facts = snapshot(jobs=[job("bare", 2, like=bare)], pods=[], quotas=[quota(limits_cpu="4")])
    assert explain(facts, "bare").exit_code == 5
    assert "not stated by the pods" in explain(facts, "bare").stdout
    assert advice(facts, "bare") == [
        "state limits.cpu in every container, or set a default with a LimitRange in namespace team"
    ]


# --- queue ---------------------------------------------------------------------------------------------------


def short_of_capability():
    return snapshot(
        nodes=nodes(4),
        jobs=[job("runs", 8, created=1), job("waits", 4, created=2)],
        pods=[
            *[lifted(p, "n0", 8) for p in pods(8, "runs", job="runs", queue="team-a")],
            *pods(4, "waits", job="waits", queue="team-a"),
        ],
        queues=[queue("team-a", "all", gpu="16"), queue("all", gpu="10")],
    )


def test_capability_level_by_level():
    result = explain(short_of_capability(), "waits")
    assert result.exit_code == 4
    assert (
        inner(
            """
        QUEUE   RESOURCE         CAPABILITY   ALLOCATED   FREE   NEEDED   SHORT BY
        all     nvidia.com/gpu   10           8           2      4        2
        """
        )
        in result.stdout
    )
    assert "Queue:       team-a (named by pod waits-0), priority 0, position 1" in result.stdout


def test_capability_as_a_structure_has_every_level():
    found = structure(short_of_capability(), "waits")
    assert [(lv["queue"], lv["resource"], lv["free"], lv["shortBy"]) for lv in found["capability"]] == [
        ("team-a", "cpu", None, "0"),
        ("team-a", "nvidia.com/gpu", "8", "0"),
        ("all", "cpu", None, "0"),
        ("all", "nvidia.com/gpu", "2", "2"),
    ]
    assert found["wouldHelp"] == ["free 2 nvidia.com/gpu in queue all, or raise its spec.capability to 12"]


def test_capability_smaller_than_the_group():
    facts = snapshot(pods=pods(4, job="j", queue="q"), jobs=[job("j", 4)], nodes=nodes(1), queues=[queue("q", gpu="3")])
    assert explain(facts, "j").exit_code == 5
    assert advice(facts, "j") == ["raise spec.capability of queue q to 4 nvidia.com/gpu or more, or ask for less"]


# --- nodes ---------------------------------------------------------------------------------------------------


def short_of_nodes():
    """An outsider on n0; n3 is cordoned; a gang that is placed on n1 before ours is judged."""
    outsider = pod("outsider", gated=False, node="n0", like=shape(gpu=8))
    return snapshot(
        nodes=[node("n0"), node("n1"), node("n2", gpu=4), node("n3", cordoned=True)],
        jobs=[job("ahead", 8, created=1), job("ours", 8, created=2)],
        pods=[outsider, *pods(8, "ahead", job="ahead"), *pods(8, "ours", job="ours")],
    )


def test_nodes_by_reason_beside_what_is_placed_already():
    result = explain(short_of_nodes(), "ours")
    assert result.exit_code == 4
    assert (
        inner(
            """
        Of 8 pods of 1 nvidia.com/gpu, 1 cpu, 4 fit now and 8 would if
        every node were empty and up. Nodes that take none of them:
        NODES   WHY
        2       full
        1       cordoned
        """
        )
        in result.stdout
    )
    assert advice(short_of_nodes(), "ours") == [
        "room for 4 more pods of 1 nvidia.com/gpu, 1 cpu",
        "uncordon nodes: 1 cordoned",
    ]


def test_nodes_as_a_structure():
    assert structure(short_of_nodes(), "ours")["nodes"] == {
        "wanted": 8,
        "fit": 4,
        "fitIfEmpty": 8,
        "each": "1 nvidia.com/gpu, 1 cpu",
        "reasons": {"full": 2, "cordoned": 1},
    }


def test_nodes_that_could_never_take_one():
    facts = snapshot(pods=pods(1, job="j", like=shape(gpu=9)), jobs=[job("j", 1)], nodes=nodes(2))
    assert explain(facts, "j").exit_code == 5
    assert advice(facts, "j") == ["a node that takes such a pod, or pods that ask for less, or for other nodes"]


def test_a_label_that_no_node_has():
    wanted = shape(node_selector={"gpu-type": "a10"})
    facts = snapshot(
        pods=pods(1, job="j", like=wanted), jobs=[job("j", 1)], nodes=nodes(1, labels={"gpu-type": "a100"})
    )
    assert explain(facts, "j").exit_code == 5
    assert advice(facts, "j") == ["a node with gpu-type=a10", "or pods that select what there is: a100"]
    nobody = msgspec.structs.replace(facts, nodes=nodes(1))
    assert advice(nobody, "j") == ["a node with gpu-type=a10"]


def test_nodes_too_few_even_when_empty():
    facts = snapshot(pods=pods(20, job="j"), jobs=[job("j", 20)], nodes=nodes(2))
    assert advice(facts, "j") == [
        "room for 4 more pods of 1 nvidia.com/gpu, 1 cpu",
        "nodes for 4 more pods: those there are would be too few even if empty and up",
    ]


def test_a_node_that_is_not_ready_is_to_be_mended():
    facts = snapshot(pods=pods(9, job="j"), jobs=[job("j", 9)], nodes=[*nodes(1), node("sick", ready=False)])
    assert "mend nodes: 1 not ready" in advice(facts, "j")


def test_what_would_stop_it_next_is_shown_after_what_stops_it():
    facts = snapshot(
        nodes=nodes(1, gpu=1),
        jobs=[job("j", 4)],
        pods=pods(4, job="j", queue="q"),
        queues=[queue("q", gpu="4")],
        quotas=[],
    )
    crowded = snapshot(
        nodes=nodes(1, gpu=1),
        jobs=[job("old", 1), job("j", 4)],
        pods=[lifted(pod("old-0", job="old", queue="q"), "n0"), *pods(4, job="j", queue="q")],
        queues=[queue("q", gpu="4")],
    )
    assert "Short as well" not in explain(facts, "j").stdout
    text = explain(crowded, "j").stdout
    assert text.index("CAPABILITY") < text.index("Short as well:") < text.index("NODES   WHY")


# --- the other reasons ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts, reference, reason, code, help_",
    [
        (
            snapshot(jobs=[job("j", 4)], pods=pods(3, job="j")),
            "j",
            names.Reason.FORMING,
            4,
            ["Job j must create 1 more pod; `kubectl describe` of it tells if creates are refused"],
        ),
        (
            snapshot(podgroups=[podgroup("g", 4)], pods=pods(3, of="g")),
            "g",
            names.Reason.FORMING,
            4,
            ["create 1 more pod of this group", "or lower spec.minMember of PodGroup g to 3"],
        ),
        (
            snapshot(pods=pods(2, of="g")),
            "g",
            names.Reason.PODGROUP_MISSING,
            4,
            ["create PodGroup g in namespace team"],
        ),
        (
            snapshot(pods=pods(2, of="g"), podgroups=[podgroup("g", 2, problem="spec.minMember is -1")]),
            "g",
            names.Reason.PODGROUP_INVALID,
            4,
            ["correct it: spec.minMember is -1"],
        ),
        (
            snapshot(pods=pods(2, job="gone")),
            "pod/p-0",
            names.Reason.OWNER_GONE,
            4,
            ["delete the pods: nothing will complete their group"],
        ),
        (
            snapshot(
                jobs=[job("j", 2, group=Identity(PODGROUP, "team", "g", how="x"))],
                podgroups=[podgroup("g", 8)],
                pods=pods(2, of="g", job="j"),
            ),
            "g",
            names.Reason.NEVER_FITS,
            5,
            ["lower minMember to 2 or less, or let its owner make 8 pods"],
        ),
        (
            snapshot(jobs=[job("j", 1)], pods=pods(1, job="j", queue="no"), nodes=nodes(1)),
            "j",
            names.Reason.QUEUE_MISSING,
            4,
            ["create Queue no, or name one that exists"],
        ),
        (
            snapshot(jobs=[job("j", 1)], pods=pods(1, job="j", queue="q"), queues=[queue("q", state="Closed")]),
            "j",
            names.Reason.QUEUE_CLOSED,
            4,
            ["open or mend Queue q or its ancestor, or name another"],
        ),
        (
            snapshot(jobs=[job("j", 1)], pods=pods(1, job="j", queue="q"), namespaces=[gang("a", "b")]),
            "j",
            names.Reason.QUEUE_NOT_ALLOWED,
            4,
            [f"name one of a, b, or add q to annotation {names.ANNOTATION_QUEUES} of the namespace"],
        ),
        (
            snapshot(jobs=[job("j", 1)], pods=pods(1, job="j", foreign_gates=("x/y",)), nodes=nodes(1)),
            "j",
            names.Reason.FOREIGN_GATE,
            4,
            ["whoever set x/y must remove it first"],
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, names.Reason) else None,
)
def test_each_reason_has_its_code_and_its_advice(facts, reference, reason, code, help_):
    result = explain(facts, reference)
    found = structure(facts, reference)
    assert (found["group"]["reason"], result.exit_code) == (reason, code), result.output
    assert found["wouldHelp"] == help_
    assert all(f"  - {line}" in result.stdout for line in found["wouldHelp"])


def test_every_reason_that_holds_a_group_has_advice():
    from policy.cli.helps import _ADVICE

    silent = {
        names.Reason.ADMITTED,
        names.Reason.LIFTED,
        names.Reason.RUNNING,
        names.Reason.FINISHED,
        names.Reason.RELEASED,
        names.Reason.BYPASSED,
        names.Reason.RESUMED,
        names.Reason.QUOTA_DISAGREES,
        names.Reason.QUOTA_NEVER_BINDS,
    }
    assert set(names.Reason) - set(_ADVICE) == silent


# --- admitted, running, alone --------------------------------------------------------------------------------


def test_a_running_group_shows_where_its_members_run():
    facts = snapshot(jobs=[job("j", 2)], pods=[lifted(p, f"n{i}", 2) for i, p in enumerate(pods(2, job="j"))])
    result = explain(facts, "j")
    assert result.exit_code == 0
    assert "Running:     GangRunning\n  2 of 2 pods lifted, 2 bound\n" in result.stdout
    assert result.stdout.endswith(
        inner(
            """
            POD   PHASE     NODE   GATES
            p-0   Pending   n0     -
            p-1   Pending   n1     -
            """
        )
    )


def test_a_group_that_is_lifted_and_not_bound_shows_its_pins():
    facts = snapshot(jobs=[job("j", 1)], pods=[lifted(pod("p", job="j"), "n7", bound=False)])
    result = explain(facts, "j")
    assert result.exit_code == 0 and "(pinned to n7)" in result.stdout


def test_a_group_that_fits_is_admitted_unless_nobody_leads():
    facts = snapshot(jobs=[job("j", 1)], pods=pods(1, job="j"), nodes=nodes(1))
    assert explain(facts, "j").exit_code == 0
    alone = explain(FakeWorld(facts, quiet="no gatekeeper leads"), "j")
    assert alone.exit_code == 4
    assert "  But no gatekeeper leads: nothing is lifted until one does.\n" in alone.stdout


def test_what_cannot_be_verified_is_said():
    claims = shape(unverifiable=("resource claims",))
    facts = snapshot(jobs=[job("j", 1)], pods=pods(1, job="j", like=claims), nodes=nodes(1))
    assert "Placement cannot be verified: resource claims." in explain(facts, "j").stdout


def test_a_pod_alone_is_a_group_of_one():
    facts = snapshot(pods=[pod("solo")], nodes=nodes(1))
    found = structure(facts, "solo")
    assert (found["group"]["kind"], found["recognisedBy"]) == ("Pod", "the pod alone")


def test_many_pods_are_cut_in_the_text_and_whole_in_the_structure():
    facts = snapshot(jobs=[job("j", 25)], pods=pods(25, job="j"), nodes=nodes(1))
    assert "  and 5 more pods, listed by -o json" in explain(facts, "j").stdout
    assert len(structure(facts, "j")["pods"]) == 25


def test_the_last_report_is_shown_where_it_says_more():
    facts = snapshot(jobs=[job("j", 1)], pods=pods(1, job="j"), nodes=nodes(1))
    refused = Report(EVENT, names.Reason.LIFT_REFUSED, "1 patch refused: denied by policy x", NOW - 20)
    text = explain(FakeWorld(facts, report=refused), "j").stdout
    assert "The gatekeeper last said (event, 20s ago): LiftRefused\n  1 patch refused: denied by policy x\n" in text
    same = Report(CONDITION, names.Reason.ADMITTED, "fits", NOW)
    assert "last said" not in explain(FakeWorld(facts, report=same), "j").stdout


def test_yaml_says_the_same_as_json():
    facts = short_of_quota()
    assert yaml.safe_load(explain(facts, "second", "-o", "yaml").stdout) == structure(facts, "second")


# --- whose queue it is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts, where",
    [
        (snapshot(pods=pods(1, of="g"), podgroups=[podgroup("g", 1, queue="q")]), "spec.queue of PodGroup g"),
        (snapshot(pods=pods(1, of="g", queue="q"), podgroups=[podgroup("g", 1, queue="default")]), "named by pod p-0"),
        (snapshot(jobs=[job("j", 1, queue="q")]), "named in the template of Job j"),
        (
            snapshot(jobs=[job("j", 1)], namespaces=[gang("q", "r")]),
            f"annotation {names.ANNOTATION_QUEUES} of the namespace",
        ),
        (snapshot(jobs=[job("j", 1)]), "nobody names one"),
    ],
)
def test_how_the_queue_was_chosen(facts, where):
    (group,) = groups_of(facts).values()
    assert queue_from(facts, group) == where
    assert group.queue == ("default" if where == "nobody names one" else "q")


@pytest.mark.parametrize(
    "owner, spaces, where",
    [
        (job("j", 1), [gang()], "as when its members were lifted"),
        (job("j", 1, queue="q"), [gang()], "named in the template of Job j"),
        (job("j", 1), [gang("q")], f"annotation {names.ANNOTATION_QUEUES} of the namespace"),
    ],
)
def test_the_name_that_the_lift_wrote_is_no_choice_of_the_pod_s(owner, spaces, where):
    facts = snapshot(jobs=[owner], pods=[lifted(pod("p", job="j", queue="q"), "n0")], namespaces=spaces)
    (group,) = groups_of(facts).values()
    assert (group.queue, queue_from(facts, group)) == ("q", where)


# --- with rights in one namespace only -----------------------------------------------------------------------


def test_a_tenant_gets_the_report_and_the_sum_of_its_own_quota():
    world = FakeWorld(short_of_quota(), tenant=True)
    world.told["second"] = Report(CONDITION, "NamespaceQuotaShort", "3 of 6 created (position 2 in its queue)", NOW)
    result = run(world, "why", "team/second")
    assert result.exit_code == 4 and world.asked == ["team"], "the reference names the namespace"
    assert result.stderr.startswith(f"note: {LACK}; shown is what")
    assert "Forming:     NamespaceQuotaShort, as last reported\n  3 of 6 created (position 2" in result.stdout
    sums = json.loads(run(world, "why", "team/second", "-o", "json").stdout)["quota"]
    assert [(q["key"], q["counted"], q["promised"], q["shortBy"]) for q in sums] == [
        ("pods", "5", "0", "0"),
        ("requests.nvidia.com/gpu", "5", "0", "0"),
    ], "what is promised to others it cannot know"


def test_a_tenant_is_told_of_never_by_the_report_too():
    world = FakeWorld(snapshot(jobs=[job("j", 2)], pods=pods(2, job="j")), tenant=True)
    world.told["j"] = Report(EVENT, "NeverFits", "can never fit", NOW)
    assert run(world, "why", "job/j").exit_code == 5
    assert world.asked == ["team"], "a known kind is no namespace"


def test_without_nodes_it_is_said():
    facts = snapshot(jobs=[job("j", 1)], pods=pods(1, job="j"))
    assert "  There are no nodes.\n" in explain(facts, "j").stdout


# --- how it was recognised -----------------------------------------------------------------------------------


def staged():
    """A driver is there; its four workers come once it is ready, and there is no room for them."""
    parts = (PartFacts(1, 1, shape(), role="driver"), PartFacts(4, 4, shape(), role="worker", stage=1, waits="driver"))
    owner = msgspec.structs.replace(job("js", 5, kind="JobSet", api_version="jobset.x-k8s.io/v1alpha2"), parts=parts)
    above = Ref("jobset.x-k8s.io", "JobSet", "js", "js")
    return snapshot(nodes=nodes(1, gpu=4), jobs=[owner], pods=[pod("d", above=above, owner="js", role="driver")])


def test_what_comes_later_and_what_it_waits_for():
    assert "\nLater:       4 worker, waiting for driver\n" in explain(staged(), "js").stdout
    assert structure(staged(), "js")["later"] == {"count": 4, "roles": {"worker": 4}, "waitsFor": "driver"}
    assert structure(short_of_quota(), "second")["later"] is None


def test_why_a_pod_of_an_owner_stands_alone():
    world = snapshot(pods=[pod("p", above=Ref("x.io", "X", "x", "x"), owner="x")])
    world = msgspec.structs.replace(world, unsized={"x": "nobody may read it"})
    text = "the pod alone; it stands alone, since nobody may read it"
    assert f"\nRecognised:  by {text}\n" in explain(world, "p").stdout
    assert structure(world, "p")["note"] == "it stands alone, since nobody may read it"
