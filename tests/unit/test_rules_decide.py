"""One decision for every group: each reason in its own words, and what the steps owe to each other."""

from collections import Counter

import msgspec
import pytest

from policy.names import Reason
from policy.rules.decide import decide
from policy.rules.verdict import finished
from policy.rules.grouping import groups_of
from policy.rules.lifecycle import State
from policy.rules.membership.identity import PODGROUP, Identity
from policy.rules.model import Config, Lifted, PartFacts, Shape
from tests.unit.rules_facts import (
    amounts,
    NOW,
    NS,
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

ROOMY = nodes(4)


def outcome(config=None, **given):
    return decide(snapshot(**({"nodes": ROOMY} | given)), config or Config(), NOW)


def decided(config=None, **given):
    (only,) = outcome(config, **given).decisions
    return only


def by_group(config=None, **given):
    return {d.group.rpartition("/")[2]: d for d in outcome(config, **given).decisions}


def told(decision):
    return decision.action, decision.reason, decision.message


def whole(count=8, uid="j", **fields):
    """All pods of one Job."""
    return {"pods": pods(count, uid, job=uid, **fields), "jobs": [job(uid, count)]}


def both(*parts):
    return {
        "pods": [p for part in parts for p in part.get("pods", ())],
        "jobs": [j for part in parts for j in part.get("jobs", ())],
    }


# --- the words of each reason ----------------------------------------------------------------------------------


def test_a_whole_group_that_fits_is_lifted_and_placed():
    found = decided(**whole(8))
    assert told(found) == (
        "lift",
        Reason.ADMITTED,
        "8 of 8 pods (minMember 8) fit: lifting their gates, queue default, placed on 1 node",
    )
    assert found.places == {f"{NS}/j-{i}": "n0" for i in range(8)}
    assert (found.need, found.state, found.position) == (8, State.WAITING, 0)


def test_forming():
    found = decided(pods=pods(3, job="j"), jobs=[job("j", 8)])
    assert told(found) == (
        "hold",
        Reason.FORMING,
        "3 of 8 pods exist; waiting for 5 more (spec.parallelism of Job j)",
    )
    assert found.numbers == {"present": 3, "minMember": 8, "missing": 5}
    assert (found.state, found.limiter, found.position) == (State.FORMING, "members", 1)


def test_forming_beside_members_that_are_going():
    members = [*pods(3, job="j"), pod("x", job="j", deleted=NOW + 30)]
    found = decided(pods=members, jobs=[job("j", 8)])
    assert found.message == (
        "3 of 8 pods exist; waiting for 5 more (spec.parallelism of Job j); 1 terminating do not count"
    )


def test_namespace_quota_short():
    found = decided(
        pods=pods(3, job="j"), jobs=[job("j", 8)], quotas=[quota("gpus", requests_gpu=10, used={"requests_gpu": 7})]
    )
    assert told(found) == (
        "hold",
        Reason.NAMESPACE_QUOTA_SHORT,
        "3 of 8 created; the 5 missing need 5 requests.nvidia.com/gpu, quota gpus has 3 of 10 left",
    )
    assert found.limiter == "quota/gpus/requests.nvidia.com/gpu"
    assert found.numbers["needNano"] == 5 * 10**9


def test_namespace_quota_short_beside_what_is_promised():
    first, second = job("a", 4, created=1.0), job("b", 4, created=2.0)
    found = by_group(jobs=[first, second], quotas=[quota("q", pods=6)])
    assert found["a"].reason is Reason.FORMING
    assert told(found["b"]) == (
        "hold",
        Reason.NAMESPACE_QUOTA_SHORT,
        "0 of 4 created; the 4 missing need 4 pods, quota q has 2 of 6 left (4 promised to groups ahead)",
    )


def test_one_missing_member_needs():
    found = decided(pods=pods(7, job="j"), jobs=[job("j", 8)], quotas=[quota("q", pods=7)])
    assert found.reason is Reason.NEVER_FITS
    found = decided(pods=pods(7, job="j"), jobs=[job("j", 8)], quotas=[quota("q", pods=8, used={"pods": 8})])
    assert found.message == "7 of 8 created; the 1 missing needs 1 pods, quota q has 0 of 8 left"


def test_never_fits_by_quota():
    found = decided(pods=pods(3, job="j"), jobs=[job("j", 8)], quotas=[quota("gpus", requests_gpu=7)])
    assert told(found) == (
        "hold",
        Reason.NEVER_FITS,
        "can never fit: 8 pods need 8 requests.nvidia.com/gpu, quota gpus allows 7 in all; "
        "starts by itself if the quota is raised",
    )
    assert found.position == 0


def test_what_waiting_cannot_help_is_told_before_what_it_can():
    quotas = [quota("a", pods=8, used={"pods": 8}), quota("b", requests_gpu=7)]
    assert decided(jobs=[job("j", 8)], quotas=quotas).limiter == "quota/b/requests.nvidia.com/gpu"


def test_requests_missing_since_the_quota_demands_a_statement():
    silent = Shape(unstated=("requests.memory",))
    found = decided(jobs=[job("j", 8, like=silent)], quotas=[quota("q", memory="1Gi")])
    assert told(found) == (
        "hold",
        Reason.REQUESTS_MISSING,
        "quota q demands that every container states memory; the pods do not, so waiting won't help",
    )
    assert found.limiter == "quota/q/memory"


def test_members_that_exist_are_paid_for():
    """Kubernetes charged them when they were created: counted again, no gang could ever start."""
    assert decided(**whole(8), quotas=[quota("q", pods=8, used={"pods": 8})]).action == "lift"


def test_queue_capability_short():
    running = [lifted(p, "n3") for p in pods(4, "r", queue="team-a")]
    given = whole(8, queue="team-a")
    found = by_group(pods=[*running, *given["pods"]], jobs=given["jobs"], queues=[queue("team-a", gpu=10)])["j"]
    assert told(found) == (
        "hold",
        Reason.QUEUE_CAPABILITY_SHORT,
        "8 pods need 8 nvidia.com/gpu, queue team-a has 6 of 10 left",
    )
    assert found.limiter == "queue/team-a/nvidia.com/gpu"
    assert (found.numbers["freeNano"], found.numbers["capabilityNano"]) == (6 * 10**9, 10 * 10**9)


def test_never_fits_by_capability():
    found = decided(**whole(8, queue="team-a"), queues=[queue("team-a", gpu=7)])
    assert told(found) == (
        "hold",
        Reason.NEVER_FITS,
        "can never fit: 8 pods need 8 nvidia.com/gpu, queue team-a has a capability of 7",
    )


def test_an_ancestor_that_can_never_take_it_is_told_before_a_queue_that_is_full():
    running = [lifted(p, "n3") for p in pods(4, "r", queue="team-a")]
    given = whole(8, queue="team-a")
    queues = [queue("team-a", "org", gpu=10), queue("org", gpu=7)]
    found = by_group(pods=[*running, *given["pods"]], jobs=given["jobs"], queues=queues)["j"]
    assert (found.reason, found.limiter) == (Reason.NEVER_FITS, "queue/org/nvidia.com/gpu")
    assert found.numbers["freeNano"] == 3 * 10**9


def test_a_group_that_is_forming_is_told_at_once_that_it_can_never_fit():
    found = decided(pods=pods(3, job="j"), jobs=[job("j", 8, queue="team-a")], queues=[queue("team-a", gpu=7)])
    assert told(found) == (
        "hold",
        Reason.NEVER_FITS,
        "can never fit: 8 pods need 8 nvidia.com/gpu, queue team-a has a capability of 7",
    )


def test_queue_missing():
    found = decided(**whole(2, queue="nowhere"))
    assert told(found) == (
        "hold",
        Reason.QUEUE_MISSING,
        "queue 'nowhere' does not exist; it starts when it is created",
    )


def test_queue_closed():
    found = decided(**whole(2, queue="q"), queues=[queue("q", state="Closed")])
    assert told(found) == ("hold", Reason.QUEUE_CLOSED, "queue 'q' is Closed")


def test_queue_not_allowed():
    found = decided(**whole(2, queue="q"), queues=[queue("q")], namespaces=[gang("a", "b")])
    assert told(found) == (
        "hold",
        Reason.QUEUE_NOT_ALLOWED,
        "queue 'q' is not one that this namespace may use: a, b",
    )


def test_nodes_short():
    busy = [pod(f"r{i}", gated=False, node="n0") for i in range(1)]
    given = whole(8)
    found = decided(pods=[*busy, *given["pods"]], jobs=given["jobs"], nodes=nodes(1))
    assert told(found) == (
        "hold",
        Reason.NODES_SHORT,
        "8 pods need 1 nvidia.com/gpu, 1 cpu each: 7 fit on 1 node",
    )
    assert found.numbers == {"present": 8, "minMember": 8, "missing": 0, "wanted": 8, "fit": 7, "emptyFit": 8}


def test_nodes_short_with_the_reasons_of_nodes_ranked():
    given = [node("a", cordoned=True), node("b", gpu=0), node("c", gpu=0), node("d", gpu=3)]
    found = decided(**whole(8), nodes=given)
    assert found.message == (
        "8 pods need 1 nvidia.com/gpu, 1 cpu each: 3 fit; 2 nodes without nvidia.com/gpu, 1 cordoned"
    )


def test_nodes_short_even_if_they_were_empty():
    found = decided(**whole(9), nodes=nodes(1))
    assert found.message == (
        "9 pods need 1 nvidia.com/gpu, 1 cpu each: 8 fit on 1 node; even with all nodes up and empty only 8 would fit"
    )


def test_never_fits_on_any_node():
    found = decided(
        pods=[pod("p", like=shape(gpu=9, node_selector={"zone": "a"}))],
        nodes=[node("n0", labels={"zone": "a"}), node("n1", labels={"zone": "b"})],
    )
    assert told(found) == (
        "hold",
        Reason.NEVER_FITS,
        "can never fit: 1 pod needs 9 nvidia.com/gpu, 1 cpu with zone=a, "
        "and no node could take even one were it up and empty: "
        "1 node not matching zone=a, 1 with too little nvidia.com/gpu",
    )


def test_a_label_that_no_node_carries_is_said_at_once_with_the_nearest():
    labelled = [node(f"n{i}", labels={"gpu-type": kind}) for i, kind in enumerate(("a100", "h100", "b200"))]
    found = decided(pods=[pod("p", like=shape(node_selector={"gpu-type": "a1000"}))], nodes=labelled)
    assert (found.reason, found.limiter) == (Reason.NEVER_FITS, "nodes/gpu-type")
    assert found.message == (
        "can never fit: 1 pod needs 1 nvidia.com/gpu, 1 cpu with gpu-type=a1000, "
        "and no node has gpu-type=a1000; nearest: a100, h100, b200"
    )


def test_never_fits_without_nodes():
    found = decided(**whole(2), nodes=())
    assert found.message == "can never fit: 2 pods need 1 nvidia.com/gpu, 1 cpu each, and there are no nodes"


def test_nodes_that_are_down_are_no_reason_to_say_never():
    found = decided(**whole(8), nodes=nodes(2, cordoned=True))
    assert told(found) == (
        "hold",
        Reason.NODES_SHORT,
        "8 pods need 1 nvidia.com/gpu, 1 cpu each: 0 fit; 2 nodes cordoned",
    )


def test_never_fits_since_the_owner_will_never_make_so_many():
    naming = job("j", 4, group=Identity(PODGROUP, NS, "g", how="annotation volcano.sh/podgroup"))
    found = decided(pods=pods(4, of="g", job="j"), jobs=[naming], podgroups=[podgroup("g", 8)])
    assert told(found) == (
        "hold",
        Reason.NEVER_FITS,
        "can never fit: minMember is 8, but only 4 pods will ever be made "
        "(spec.minMember of scheduling.volcano.sh PodGroup g)",
    )
    assert found.numbers["possible"] == 4


def test_a_minimum_of_any_size_is_judged_at_once():
    """A tenant writes minMember: a list of two billion members would be the end of the gatekeeper."""
    given = {"pods": pods(2, of="g"), "podgroups": [podgroup("g", 2_000_000_000)]}
    assert decided(**given).message == (
        "2 of 2000000000 pods exist; waiting for 1999999998 more (spec.minMember of scheduling.volcano.sh PodGroup g)"
    )
    found = decided(**given, queues=[queue("default", gpu=8)], quotas=[quota("q", pods=9, used={"pods": 2})])
    assert found.reason is Reason.NEVER_FITS


def test_podgroup_missing():
    found = decided(pods=pods(2, of="g"))
    assert told(found) == (
        "hold",
        Reason.PODGROUP_MISSING,
        "PodGroup 'g' (named by annotation volcano.sh/podgroup) does not exist in namespace 'team'",
    )


def test_podgroup_invalid():
    found = decided(
        pods=pods(2, of="g"), podgroups=[podgroup("g", problem="spec.minMember is -1: it must be 1 or more")]
    )
    assert told(found) == ("hold", Reason.PODGROUP_INVALID, "spec.minMember is -1: it must be 1 or more")


def test_owner_gone():
    found = decided(pods=pods(2, job="j"))
    assert told(found) == ("hold", Reason.OWNER_GONE, "Job 'j' (uid j) does not exist in namespace 'team'")


def test_foreign_gate():
    given = whole(8)
    given["pods"] = [
        msgspec.structs.replace(p, foreign_gates=("b.io/x", "a.io/y")[i : i + 1]) for i, p in enumerate(given["pods"])
    ]
    found = decided(**given)
    assert told(found) == (
        "hold",
        Reason.FOREIGN_GATE,
        "2 pods behind gates that are not ours: a.io/y, b.io/x; ours is lifted last",
    )
    assert found.limiter == "a.io/y,b.io/x"


def test_too_many_groups():
    found = outcome(Config(max_waiting_groups_per_namespace=2), jobs=[job(f"j{i}", 2, created=i) for i in range(4)])
    assert [d.reason for d in found.decisions] == [Reason.FORMING] * 2 + [Reason.TOO_MANY_GROUPS] * 2
    assert found.decisions[2].message == (
        "2 groups of namespace team wait already; this one is judged when one has started"
    )


def test_thousands_of_groups_of_one_namespace_stand_in_nobodys_way():
    """Those beyond the limit are told so; the youngest group of another namespace starts."""
    crowd = [job(f"c{i:04}", 2, ns="crowd", created=i) for i in range(5000)]
    given = {"jobs": [*crowd, job("j", 4, created=9999)], "namespaces": [gang(), gang(name="crowd")]}
    found = {d.group: d.reason for d in outcome(pods=pods(4, job="j"), **given).decisions}
    limit = Config().max_waiting_groups_per_namespace
    assert found.pop("Job/team/j") is Reason.ADMITTED
    assert Counter(found.values()) == {Reason.FORMING: limit, Reason.TOO_MANY_GROUPS: 5000 - limit}


def test_released_where_gangs_are_asked_for_no_more():
    found = decided(pods=pods(3, job="j"), jobs=[job("j", 8)], namespaces=[gang(policy="binpack")])
    assert told(found) == (
        "lift",
        Reason.RELEASED,
        "namespace team asks for no gangs any more: 3 gates lifted",
    )
    assert set(found.places.values()) == {""}


@pytest.mark.parametrize(("left", "reason"), [(3, Reason.RUNNING), (2, Reason.LIFTED)])
def test_nothing_is_released_twice_nor_held_again(left, reason):
    """Nor are pods that stood behind our gate said to have come round it, or told to wait for members that ended."""
    members = [lifted(p, "n0", 3) for p in pods(3, job="j")]
    found = decided(pods=members[:left], jobs=[job("j", 3)], namespaces=[gang(policy="binpack")])
    assert told(found) == ("none", reason, f"{left} of 3 pods lifted, {left} bound")


def begun(lifted_count, count=8, *, bound=True, at=NOW - 10, queue="", **fields):
    """One Job, part of it lifted."""
    members = pods(count, "j", job="j", **fields)
    first = [lifted(p, f"n{i // 8}", count, at, bound=bound, queue=queue) for i, p in enumerate(members[:lifted_count])]
    return {"pods": [*first, *members[lifted_count:]], "jobs": [job("j", count)]}


def test_lifted():
    found = decided(**begun(8, bound=False))
    assert told(found) == ("none", Reason.LIFTED, "8 of 8 pods lifted, 0 bound")
    assert found.state is State.BINDING


def test_bind_timeout():
    found = decided(**begun(8, bound=False, at=NOW - 121))
    assert told(found) == (
        "none",
        Reason.BIND_TIMEOUT,
        "8 of 8 pods lifted, 0 bound after 121 s: see their FailedScheduling events; not given back, since Job j cannot "
        "be suspended by us",
    )


def test_running():
    found = decided(**begun(8, at=NOW - 500))
    assert told(found) == ("none", Reason.RUNNING, "8 of 8 pods lifted, 8 bound")


def test_a_group_below_its_minimum_whose_members_are_all_bound_is_not_late():
    given = begun(8, at=NOW - 500)
    found = decided(pods=given["pods"][:7], jobs=given["jobs"])
    assert told(found) == (
        "none",
        Reason.DEGRADED,
        "7 of 8 pods lifted, 7 bound: 1 fewer than must run together; ganggate tears no group that ran, its owner makes "
        "members anew",
    )
    assert found.state is State.DEGRADED


def test_bypassed():
    found = decided(pods=pods(8, job="j", gated=False, node="n0"), jobs=[job("j", 8)])
    assert told(found) == (
        "none",
        Reason.BYPASSED,
        "8 pods run without having been held by ganggate, 8 bound; they are charged",
    )
    assert found.state is State.RUNNING


def test_finished():
    given = begun(8)
    last = given["pods"][:1] + [msgspec.structs.replace(p, phase="Succeeded") for p in given["pods"][1:]]
    (seen,) = groups_of(snapshot(pods=last, jobs=[job("j", 8, possible=1)])).values()
    found = finished(seen)
    assert told(found) == ("none", Reason.FINISHED, "no pod is left of 8 that started together")
    assert (found.state, found.group) == (State.FINISHED, "Job/team/j")


def test_every_reason_of_a_decision_is_told_above():
    """A reason without a rule is the shell's; a new rule's reason needs its words here."""
    elsewhere = {
        Reason.LIFT_REFUSED,
        Reason.OWNER_UNREADABLE,  # test_rules_roots
        Reason.BEHIND_RESERVATION,  # test_rules_reservation
        Reason.PREEMPTED,  # test_rules_recovery
        *(Reason.CREATE_REFUSED, Reason.GIVEN_BACK, Reason.RESUMED, Reason.QUOTA_DEADLOCK),  # test_rules_suspension
        *(Reason.QUOTA_DISAGREES, Reason.QUOTA_NEVER_BINDS),  # of quotas, not of groups
    }
    with open(__file__, encoding="utf-8") as text:
        source = text.read()
    assert {r for r in Reason if f"Reason.{r.name}" not in source.partition("elsewhere = {")[0]} == elsewhere


# --- finish first ----------------------------------------------------------------------------------------------


def test_a_begun_group_is_completed():
    found = decided(**begun(3))
    assert (found.action, found.reason) == ("lift", Reason.ADMITTED)
    assert sorted(found.places) == [f"{NS}/j-{i}" for i in range(3, 8)]
    assert found.need == 8
    assert found.message.startswith("5 of 8 pods (minMember 8) fit")


def test_it_is_completed_before_anything_new_however_urgent():
    urgent = whole(8, "u", like=shape(priority=9))
    found = outcome(**both(begun(3), urgent), nodes=nodes(1))
    assert [(d.group, d.action) for d in found.decisions] == [("Job/team/j", "lift"), ("Job/team/u", "hold")]


def test_it_is_completed_before_a_running_group_grows():
    running = [lifted(p, "n0", 2) for p in pods(2, "r", job="r")] + list(pods(4, "x", job="r"))
    given = begun(3, 6)
    found = by_group(pods=[*running, *given["pods"]], jobs=[job("r", 2, created=0.5), *given["jobs"]], nodes=nodes(1))
    assert (found["j"].action, len(found["j"].places)) == ("lift", 3)
    assert found["r"].reason is Reason.NODES_SHORT


def test_it_asks_for_no_capability_again():
    given = begun(3, queue="a")
    given["pods"] = [msgspec.structs.replace(p, queue="a") for p in given["pods"]]
    found = decided(**given, queues=[queue("a", gpu=5)])
    assert (found.action, len(found.places)) == ("lift", 5)


def test_its_room_in_the_queue_is_kept_for_members_that_no_node_takes_now():
    """Else a new group takes it, and the queue is above its capability when the old one is completed."""
    given = both(begun(3, like=shape(gpu=2), queue="a"), whole(4, "n"))
    given["pods"] = [msgspec.structs.replace(p, queue="a") for p in given["pods"]]
    found = by_group(**given, queues=[queue("a", gpu=16)], nodes=[node("n0", gpu=6), node("n1", gpu=4)])
    assert found["j"].reason is Reason.NODES_SHORT
    assert found["n"].message == "4 pods need 4 nvidia.com/gpu, queue a has 0 of 16 left"


def test_its_room_in_the_queue_is_kept_for_members_that_are_yet_to_be_made_again():
    given = both(begun(8, queue="a"), whole(2, "n", queue="a"))
    given["pods"] = given["pods"][1:]
    found = by_group(**given, queues=[queue("a", gpu=9)])
    assert told(found["n"]) == (
        "hold",
        Reason.QUEUE_CAPABILITY_SHORT,
        "2 pods need 2 nvidia.com/gpu, queue a has 1 of 9 left",
    )


@pytest.mark.parametrize("phase", ["Running", "Succeeded"], ids=["running", "done"])
def test_room_is_kept_for_a_member_of_the_first_stage_while_a_later_one_is(phase):
    """A RayJob's worker is made anew beside its submitter, which counts for no worker."""
    first = begun(2, 2, queue="a")["pods"]
    late = [lifted(pod("late", job="j", role="late"), "n0", 2, queue="a")]
    parts = (PartFacts(2, 2, shape()), PartFacts(1, 1, shape(), role="late", stage=1, waits="the first to be ready"))
    staged = job("j", 3, parts=parts)
    given = both({"pods": [first[0], msgspec.structs.replace(late[0], phase=phase)], "jobs": [staged]})
    given = both(given, whole(1, "n", queue="a"))
    assert by_group(**given, queues=[queue("a", gpu=3)])["n"].action == "hold"
    assert by_group(**given, queues=[queue("a", gpu=4)])["n"].action == "lift"


@pytest.mark.parametrize("of", [None, "g"], ids=["its own group", "a PodGroup's"])
def test_no_room_is_kept_for_members_of_a_job_that_is_over(of):
    """Some operators leave the pods of a job that failed, and make none in place of those that were lost."""
    given = both(begun(8, queue="a", of=of), whole(2, "n", queue="a"))
    given["pods"] = given["pods"][1:]
    given["jobs"] = [job("j", 8, over=True), *given["jobs"][1:]]
    found = by_group(**given, podgroups=[podgroup("g")] if of else [], queues=[queue("a", gpu=9)])
    assert found["n"].action == "lift"


def test_no_room_is_kept_for_a_later_stage_of_a_job_that_is_over():
    given = both(begun(2, 2, queue="a"), whole(2, "n", queue="a"))
    parts = (PartFacts(2, 2, shape()), PartFacts(2, 2, shape(), role="late", stage=1))
    staged = job("j", 4, parts=parts)
    for owner, action in ((staged, "hold"), (msgspec.structs.replace(staged, over=True), "lift")):
        given["jobs"] = [owner, *given["jobs"][1:]]
        assert by_group(**given, queues=[queue("a", gpu=5)])["n"].action == action


def test_a_member_made_again_needs_a_place_and_no_new_decision():
    given = begun(8, queue="a")
    given["pods"] = [*given["pods"][:7], pod("again", job="j")]
    found = decided(**given, queues=[queue("a", gpu=8, state="Closed")])
    assert found.places == {f"{NS}/again": "n0"}


def test_a_member_made_again_waits_until_the_one_before_it_is_gone():
    """Both are charged as long as the first terminates: a full queue would be above its capability (I2)."""
    given = begun(8, queue="a")
    first = msgspec.structs.replace(given["pods"][0], deleted=NOW + 30)
    members = [first, *given["pods"][1:], pod("again", job="j")]
    found = decided(pods=members, jobs=given["jobs"], queues=[queue("a", gpu=8)])
    assert told(found) == (
        "hold",
        Reason.LIFTED,
        "7 of 8 pods lifted, 7 bound; 1 terminating, whose room is free when they are gone",
    )


def unlike(room):
    """A gang of one small and one large member; the small one was lost, and what comes in its place is large."""
    large = lifted(pod("large", of="g", like=shape(gpu=4)), "n0", 2, queue="a")
    large = msgspec.structs.replace(large, lifted=Lifted(2, NOW - 10, "a", room))
    return {"pods": [large, pod("again", of="g", like=shape(gpu=4))], "podgroups": [podgroup("g", 2)]}


def test_a_larger_member_in_place_of_a_smaller_needs_room_for_the_difference():
    """Found by the state machine: the room of the lost one was promised, more was not (I2)."""
    given = unlike(amounts(gpu=5, cpu=2))
    found = decided(**given, queues=[queue("a", gpu=7)])
    assert told(found) == (
        "hold",
        Reason.QUEUE_CAPABILITY_SHORT,
        "1 pod needs 3 more nvidia.com/gpu than its group was promised, queue a has 2 of 7 left",
    )
    assert decided(**given, queues=[queue("a", gpu=8)]).action == "lift"


def test_a_member_like_the_one_before_it_needs_none():
    assert decided(**unlike(amounts(gpu=8, cpu=2)), queues=[queue("a", gpu=5)]).action == "lift"


def test_a_member_made_again_waits_for_a_node_and_says_so():
    given = begun(8)
    given["pods"] = [*given["pods"][:7], pod("again", job="j")]
    found = decided(**given, nodes=nodes(1, gpu=7))
    assert told(found) == (
        "hold",
        Reason.NODES_SHORT,
        "1 pod needs 1 nvidia.com/gpu, 1 cpu: 0 fit; 1 node full",
    )


def test_when_all_members_are_gone_it_is_a_new_decision():
    assert decided(**whole(8, queue="a"), queues=[queue("a", state="Closed")]).reason is Reason.QUEUE_CLOSED


def test_what_was_lifted_and_is_not_bound_yet_is_charged():
    given = both(begun(8, bound=False), whole(1, "n"))
    assert by_group(**given, nodes=nodes(1))["n"].reason is Reason.NODES_SHORT


# --- members above minMember -----------------------------------------------------------------------------------


def elastic(count, minimum, **fields):
    return {"pods": pods(count, "j", job="j", **fields), "jobs": [job("j", minimum, possible=count)]}


def test_members_above_the_minimum_come_along_as_nodes_allow():
    found = decided(**elastic(12, 4), nodes=nodes(1))
    assert (found.action, found.need, len(found.places)) == ("lift", 4, 8)
    assert found.message.startswith("8 of 12 pods (minMember 4) fit")


def test_members_above_the_minimum_come_along_as_capability_allows():
    found = decided(**elastic(12, 4, queue="a"), queues=[queue("a", gpu=6)])
    assert len(found.places) == 6


def running(extra, **fields):
    members = pods(4 + extra, "j", job="j", **fields)
    return {
        "pods": [*(lifted(p, "n0", 4) for p in members[:4]), *members[4:]],
        "jobs": [job("j", 4, possible=4 + extra)],
    }


def test_a_running_group_grows():
    found = decided(**running(2))
    assert (found.action, len(found.places), found.state) == ("lift", 2, State.RUNNING)


def test_it_grows_no_further_than_its_queue_allows():
    found = decided(**running(3, queue="a"), queues=[queue("a", gpu=4)])
    assert told(found) == (
        "hold",
        Reason.QUEUE_CAPABILITY_SHORT,
        "1 pod needs 1 nvidia.com/gpu, queue a has 0 of 4 left",
    )


def test_it_grows_no_further_than_the_nodes():
    found = decided(**running(3), nodes=nodes(1, gpu=4))
    assert (found.action, found.reason) == ("hold", Reason.NODES_SHORT)


def test_it_grows_by_nothing_that_others_hold():
    found = decided(**running(2, foreign_gates=("a.io/x",)))
    assert (found.action, found.reason) == ("hold", Reason.FOREIGN_GATE)


def test_it_does_not_grow_before_it_has_bound():
    given = running(2)
    given["pods"] = [msgspec.structs.replace(p, node="") for p in given["pods"]]
    assert told(decided(**given)) == ("none", Reason.LIFTED, "4 of 4 pods lifted, 0 bound")


# --- round the gate --------------------------------------------------------------------------------------------


def round_the_gate(count, total=8):
    members = pods(total, "j", job="j")
    free = [msgspec.structs.replace(p, gated=False, node="n0") for p in members[:count]]
    return {"pods": [*free, *members[count:]], "jobs": [job("j", total)]}


def test_members_that_came_round_are_counted_and_begin_nothing():
    found = decided(**round_the_gate(3), queues=[queue("default", state="Closed")])
    assert (found.reason, found.state) == (Reason.QUEUE_CLOSED, State.WAITING)
    assert len(decided(**round_the_gate(3)).places) == 5


def test_they_are_charged():
    found = decided(**round_the_gate(3), queues=[queue("default", gpu=7)])
    assert found.reason is Reason.NEVER_FITS
    running_elsewhere = [pod("x", gated=False, node="n3", queue="default")]
    given = round_the_gate(3)
    found = decided(pods=[*given["pods"], *running_elsewhere], jobs=given["jobs"], queues=[queue("default", gpu=8)])
    assert found.message == "5 pods need 5 nvidia.com/gpu, queue default has 4 of 8 left"


def test_pods_that_run_already_can_never_be_too_many():
    given = {"pods": pods(8, job="j", gated=False, node="n0"), "jobs": [job("j", 8)]}
    assert decided(**given, queues=[queue("default", gpu=1)]).action == "none"


# --- what else is charged --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "charged"),
    [
        (pod("x", gated=False, node="n0", namespace="other"), True),
        (pod("x", gated=False, namespace="other"), True),
        (pod("x", gated=False, node="n0", deleted=NOW + 30), True),
        (lifted(pod("x", namespace="other"), "n0", bound=False), True),
        (pod("x", gated=False, node="n0", phase="Succeeded"), False),
        (pod("x", gated=False, node="n0", phase="Failed"), False),
        (pod("x", gated=True, created=99.0), False),
        (pod("x", gated=False, foreign_gates=("a.io/x",)), False),
        (pod("x", gated=False, deleted=NOW + 30), False),
        (pod("x", gated=True, namespace="other"), True),
        (pod("x", gated=False, nominated="n0", namespace="other", like=shape(node_selector={"no": "where"})), True),
        (pod("x", gated=False, nominated="n0", deleted=NOW + 30), False),
    ],
    ids=[
        "a pod of another namespace",
        "one that the scheduler may bind",
        "a terminating one",
        "a lifted one on its way",
        "a finished one",
        "a failed one",
        "a waiting one",
        "one that others hold",
        "one that goes before it came",
        "one that is released in this pass",
        "one for which preemption makes room",
        "one of these that goes",
    ],
)
def test_what_is_charged_to_nodes(item, charged):
    given = whole(8)
    found = outcome(pods=[item, *given["pods"]], jobs=given["jobs"], nodes=nodes(1)).decisions
    (group,) = [d for d in found if d.group == "Job/team/j"]
    assert (group.reason is Reason.NODES_SHORT) is charged


def test_a_pin_that_a_user_wrote_promises_no_node():
    """Else anyone could keep a node empty with a pod that can never be bound there."""
    greedy = pod("x", ns="other", gated=False, pin="n0", like=shape(gpu=100))
    assert by_group(pods=[greedy, *pods(8, "j", job="j")], jobs=[job("j", 8)], nodes=nodes(1))["j"].action == "lift"


@pytest.mark.parametrize(
    ("item", "charged"),
    [
        (lifted(pod("x", job="j", deleted=NOW + 30), "n0", queue="a"), 1),
        (pod("x", job="k", gated=False, node="n0", deleted=NOW + 30), 1),
        (pod("x", gated=False, node="n0", queue="a"), 1),
        (pod("x", gated=False, node="n0", ns="binned"), 1),
        (pod("x", gated=False, node="n0", ns="free"), 0),
        (pod("x", gated=False, node="n0", queue="b"), 0),
        (pod("x", gated=True, job="k", ns="left", queue="a"), 1),
    ],
    ids=[
        "a lifted one that terminates",
        "a terminating member of a group of the queue",
        "an outsider that names the queue",
        "an outsider whose namespace names the queue",
        "an outsider that names none",
        "an outsider of another queue",
        "one that is released in this pass",
    ],
)
def test_what_is_charged_to_the_queue(item, charged):
    waiting = pods(8, "w", job="w", queue="a")
    also = pods(1, "k", job="k", gated=False, node="n1", queue="a")
    namespaces = [
        gang(),
        gang("a", name="binned", policy="binpack"),
        gang(name="free", policy=""),
        gang("a", name="left", policy=""),
    ]
    found = by_group(
        pods=[item, *waiting, *also],
        jobs=[job("w", 8), job("k", 2), job("j", 1)],
        queues=[queue("a", gpu=9), queue("b")],
        namespaces=namespaces,
    )
    assert (found["w"].reason is Reason.QUEUE_CAPABILITY_SHORT) is bool(charged), found["w"].message


# --- what cannot be known --------------------------------------------------------------------------------------


def test_what_cannot_be_verified_is_lifted_by_quota_and_capability_and_says_so():
    found = decided(**whole(2, like=shape(unverifiable=("volume affinity",))), nodes=nodes(1, gpu=0))
    assert told(found) == (
        "lift",
        Reason.ADMITTED,
        "2 of 2 pods (minMember 2) fit: lifting their gates, queue default; "
        "placement cannot be verified (volume affinity): admitted by quota and capability",
    )
    assert set(found.places.values()) == {""}


def test_it_is_charged_all_the_same():
    unknown = whole(8, "a", like=shape(unverifiable=("volume affinity",)))
    found = by_group(**both(unknown, whole(8, "b")), nodes=nodes(1))
    assert found["b"].reason is Reason.NODES_SHORT


def test_without_placement_nodes_are_not_asked():
    found = decided(Config(placement=False), **whole(8), nodes=())
    assert (found.action, found.message) == (
        "lift",
        "8 of 8 pods (minMember 8) fit: lifting their gates, queue default",
    )


# --- order and promises within a pass --------------------------------------------------------------------------


def test_the_first_in_order_takes_the_nodes_and_the_next_says_what_is_left():
    found = by_group(**both(whole(6, "a"), whole(6, "b")), nodes=nodes(1))
    assert found["a"].action == "lift"
    assert found["b"].message.startswith("6 pods need 1 nvidia.com/gpu, 1 cpu each: 2 fit on 1 node")


def test_the_first_in_order_takes_the_capability():
    given = both(whole(6, "a", queue="q"), whole(6, "b", queue="q"))
    found = by_group(**given, queues=[queue("q", gpu=8)])
    assert found["b"].message == "6 pods need 6 nvidia.com/gpu, queue q has 2 of 8 left"


def test_what_does_not_fit_stops_nobody_behind_it():
    found = by_group(**both(whole(9, "a"), whole(8, "b")), nodes=nodes(1))
    assert (found["a"].action, found["b"].action) == ("hold", "lift")


def test_positions_count_the_waiting_groups_of_each_queue():
    jobs = [job("a", 2, queue="x"), job("b", 2, queue="x"), job("c", 2, queue="y"), job("d", 9, queue="x")]
    queues = [queue("x", gpu=8), queue("y")]
    found = by_group(jobs=jobs, queues=queues)
    assert {name: d.position for name, d in found.items()} == {"a": 1, "b": 2, "c": 1, "d": 0}


def test_every_group_gets_exactly_one_decision():
    given = both(whole(2, "a"), begun(3), elastic(2, 2) | {"pods": ()})
    found = outcome(
        pods=[*given["pods"], pod("alone")], jobs=[given["jobs"][0], given["jobs"][1]], podgroups=[podgroup("g")]
    )
    assert sorted(d.group for d in found.decisions) == sorted(found.groups)
    assert all(d.numbers for d in found.decisions)
