"""Who gives a quota back, who goes on, and what is never done: the levers as decide() pulls them."""

import msgspec
import pytest

from policy.names import Reason
from policy.rules.decide import decide
from policy.rules.deadlock import MOST_TIMES
from policy.rules.lifecycle import State
from policy.rules.membership.identity import of_owner_named
from policy.rules.model import Claim, Config, RefusalFacts
from policy.rules.suspension import KEPT_SECONDS
from policy.rules.template import digest
from tests.unit.rules_facts import NOW, NS, amounts, gang, job, lifted, nodes, podgroup, pods, quota, shape, snapshot

LEVER = ("spec", "suspend")


def held(uid, size, present, *, created=1.0, **fields):
    """A Job of `size` pods, of which some exist."""
    owner = job(uid, size, lever=LEVER, version="7", created=created, **fields)
    return {"jobs": [owner], "pods": list(pods(present, uid, job=uid))}


def world(*parts, full=5, **given):
    jobs = [o for part in parts for o in part["jobs"]]
    members = [p for part in parts for p in part["pods"]]
    limits = given.pop("quotas", [quota(requests_gpu=full)])
    found = snapshot(jobs=jobs, pods=members, nodes=nodes(4), quotas=limits, **given.pop("about", {}))
    return msgspec.structs.replace(found, **given)


def decisions(found, now=NOW):
    outcome = decide(found, Config(), now)
    return {d.group.rpartition("/")[2]: d for d in outcome.decisions}, outcome


def ours(owner, why="deadlock", **claim):
    """The owner as it stands after we suspended it."""
    record = Claim(
        f"Job/{NS}/{owner.uid}", why, 1.0, **({"times": 1, "template": digest(owner.parts[0].template)} | claim)
    )
    return msgspec.structs.replace(owner, held=True, ours=True, claim=record)


def test_the_later_of_two_that_hold_each_other_up_gives_back():
    found, _ = decisions(world(held("a", 4, 2), held("b", 4, 3, created=2.0)))
    assert (found["a"].action, found["a"].reason) == ("hold", Reason.NAMESPACE_QUOTA_SHORT)
    assert (found["b"].action, found["b"].reason) == ("give-back", Reason.GIVEN_BACK)
    (pull,) = found["b"].pulls
    assert (pull.uid, pull.suspend, pull.claim.times) == ("b", True, 1)
    assert pull.claim.requests == shape().requests, "its size, for when no pod is left to ask"
    assert pull.claim.template, "and of which template that was"
    assert found["b"].message == (
        "3 pods given back, since Job a goes first in quota q; starts again, in its old place, when all 4 fit"
    )


def test_priority_goes_before_age():
    urgent = held("b", 4, 3, created=2.0, like=shape(priority=9))
    urgent["pods"] = list(pods(3, "b", job="b", like=shape(priority=9)))
    found, _ = decisions(world(held("a", 4, 2), urgent))
    assert (found["a"].action, found["b"].action) == ("give-back", "hold")


def test_pods_that_have_just_come_are_waited_for():
    found, outcome = decisions(world(held("a", 4, 2), held("b", 4, 3)), now=2.5)
    assert {d.action for d in found.values()} == {"hold"}
    assert outcome.again == 3.0, "two seconds after the last one"


def test_one_that_is_alone_keeps_what_it_holds():
    found, _ = decisions(world(held("a", 8, 5)))
    assert found["a"].action == "hold"


def test_one_that_is_complete_is_no_rival():
    found, _ = decisions(world(held("a", 3, 3), held("b", 4, 2, created=2.0), about={"queues": []}))
    assert (found["a"].action, found["b"].action) == ("lift", "hold")


def test_one_that_can_never_fit_does_not_keep_the_others_waiting():
    found, _ = decisions(world(held("a", 9, 2), held("b", 4, 3, created=2.0)))
    assert (found["a"].action, found["b"].action) == ("give-back", "hold")


def test_one_without_a_lever_keeps_and_the_first_in_order_gives_way():
    fixed = held("b", 4, 3, created=2.0)
    fixed["jobs"][0] = msgspec.structs.replace(fixed["jobs"][0], lever=())
    found, _ = decisions(world(held("a", 4, 2), fixed))
    assert (found["a"].action, found["b"].action) == ("give-back", "hold")


def _lever_less(owner):
    return msgspec.structs.replace(owner, lever=())


def _foreign(owner):
    return msgspec.structs.replace(owner, claim=Claim("g", "deadlock", 1.0, ended=2.0, foreign=True))


def _worn(owner):
    return msgspec.structs.replace(owner, claim=Claim("g", "deadlock", 1.0, times=MOST_TIMES, ended=2.0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_lever_less, "Job b cannot be suspended by us"),
        (_foreign, "somebody else resumed Job b"),
        (_worn, "Job b has given back 3 times"),
    ],
)
def test_two_that_cannot_give_back_are_reported(change, words):
    parts = [held("a", 4, 2), held("b", 4, 3, created=2.0)]
    for part in parts:
        part["jobs"][0] = change(part["jobs"][0])
    found, _ = decisions(world(*parts))
    assert (found["b"].action, found["b"].reason) == ("hold", Reason.QUOTA_DEADLOCK)
    assert found["b"].message.endswith(f"holds part of quota q, which Job a needs first, and keeps it: {words}")


def test_a_refused_lever_counts_as_none():
    found, _ = decisions(world(held("a", 4, 2), held("b", 4, 3, created=2.0), stuck=("b",)))
    assert (found["a"].action, found["b"].action) == ("give-back", "hold")


def test_pods_without_an_owner_are_never_given_back():
    bare = {"jobs": [], "pods": list(pods(3, "b", of="b"))}
    about = {"podgroups": [podgroup("b", 4)]}
    found, _ = decisions(world(held("a", 4, 2), bare, about=about))
    assert (found["a"].action, found["b"].action) == ("give-back", "hold")


def test_a_namespace_may_ask_for_reports_only():
    space = msgspec.structs.replace(gang(), report_deadlocks=True)
    found, _ = decisions(world(held("a", 4, 2), held("b", 4, 3, created=2.0), about={"namespaces": [space]}))
    assert found["b"].reason is Reason.QUOTA_DEADLOCK


def test_an_owner_that_its_user_suspended_is_left_as_it_is():
    parts = [held("a", 4, 2), held("b", 2, 2, created=2.0), held("c", 2, 0, created=2.0)]
    group = pods(1, "x", of="b")[0].group
    parts[1]["pods"] = [msgspec.structs.replace(p, owner="b") for p in pods(2, "b", of="b")]
    for part in parts[1:]:
        part["jobs"][0] = msgspec.structs.replace(part["jobs"][0], group=group)
    parts[2]["jobs"][0] = msgspec.structs.replace(parts[2]["jobs"][0], held=True)
    found, _ = decisions(world(*parts, full=4, about={"podgroups": [podgroup("b", 4)]}))
    assert [(p.uid, p.suspend) for p in found["b"].pulls] == [("b", True)]


# --- coming back -----------------------------------------------------------------------------------------------


def test_it_waits_suspended_while_the_whole_of_it_does_not_fit():
    found, _ = decisions(world({"jobs": [ours(job("b", 4, lever=LEVER))], "pods": []}, held("a", 3, 3), full=5))
    assert (found["b"].action, found["b"].state, found["b"].pulls) == ("hold", State.SUSPENDED, ())
    assert found["b"].message.startswith("Job b suspended by ganggate until all 4 pods fit: 0 of 4 created; ")


def test_it_is_resumed_when_the_whole_of_it_fits():
    found, _ = decisions(world({"jobs": [ours(job("b", 4, lever=LEVER))], "pods": []}))
    (pull,) = found["b"].pulls
    assert (found["b"].action, found["b"].reason, pull.suspend, pull.claim.ended) == (
        "resume",
        Reason.RESUMED,
        False,
        NOW,
    )


def test_it_is_sized_as_it_was_seen_and_not_by_its_template():
    grown = ours(job("b", 2, lever=LEVER), requests=amounts(gpu=3, cpu=1))
    found, _ = decisions(world({"jobs": [grown], "pods": []}, full=5))
    assert found["b"].action == "hold"
    assert "2 pods need 6 requests.nvidia.com/gpu, quota q allows 5" in found["b"].message


def test_it_needs_nodes_too():
    wide = ours(job("b", 2, lever=LEVER, like=shape(gpu=8)))
    found, _ = decisions(world({"jobs": [wide], "pods": []}, held("x", 3, 0), full=99, nodes=nodes(1)))
    assert found["b"].action == "hold"
    assert "2 pods need 8 nvidia.com/gpu" in found["b"].message


@pytest.mark.parametrize("fits", [True, False])
def test_a_crash_between_two_levers_is_finished(fits):
    """One of two owners is suspended: the other follows, or the first goes on, as is right by now."""
    first, second = (job(uid, 2, lever=LEVER, group=None) for uid in ("b1", "b2"))
    members = pods(2, "b2", of="b")
    group = members[0].group
    first, second = ours(msgspec.structs.replace(first, group=group)), msgspec.structs.replace(second, group=group)
    members = [msgspec.structs.replace(p, owner="b2") for p in members]
    about = {"podgroups": [podgroup("b", 4)]}
    found, _ = decisions(world({"jobs": [first, second], "pods": members}, full=9 if fits else 3, about=about))
    pulled = [(p.uid, p.suspend) for p in found["b"].pulls]
    assert pulled == ([("b1", False)] if fits else [("b2", True)])


def half_resumed(*, seen=2, used=3, ended=NOW - 0.3):
    """b1 goes on and makes its pods, b2 is still to follow; c, behind it in the same quota, is wholly suspended."""
    members = [msgspec.structs.replace(p, owner="b1") for p in pods(seen, "b1", of="b", created=NOW - 0.2)]
    group = pods(1, "x", of="b")[0].group
    first, second = (ours(job(uid, 3 if uid == "b1" else 2, lever=LEVER, group=group)) for uid in ("b1", "b2"))
    first = msgspec.structs.replace(
        first, held=False, ours=False, claim=msgspec.structs.replace(first.claim, ended=ended)
    )
    behind = ours(job("c", 1, lever=LEVER, created=2.0))
    about = {"podgroups": [podgroup("b", 5)]}
    known = {"jobs": [first, second, behind], "pods": members}
    return world(known, quotas=[quota(requests_gpu=5, used={"requests_gpu": used})], about=about)


def test_a_quota_that_tells_of_pods_not_seen_yet_does_not_suspend_again_what_was_just_resumed():
    """The status counts three pods of b1, two of which we know: its third seems to lack room, and c's to have it."""
    found, outcome = decisions(half_resumed())
    assert (found["b"].action, found["b"].reason, found["b"].pulls) == ("hold", Reason.NAMESPACE_QUOTA_SHORT, ())
    assert found["c"].action == "hold", "its room is kept"
    assert outcome.again == NOW - 0.3 + KEPT_SECONDS
    found, _ = decisions(half_resumed(seen=3))
    assert [(p.uid, p.suspend) for p in found["b"].pulls] == [("b2", False)], "and then the rest goes on"


def test_what_was_resumed_in_part_and_finds_no_room_after_all_goes_back():
    found, _ = decisions(half_resumed(used=5), now=NOW + KEPT_SECONDS)
    assert [(p.uid, p.suspend) for p in found["b"].pulls] == [("b1", True)]


def test_one_that_comes_back_keeps_its_room_while_the_quota_is_ahead_of_its_pods():
    """All of b goes on; of its four pods, that the quota counts, two are known: c does not take the fifth place."""
    found = half_resumed(used=4)
    first = found.owners["b1"]
    second = msgspec.structs.replace(found.owners["b2"], held=False, ours=False, claim=first.claim)
    found = msgspec.structs.replace(found, owners={**found.owners, "b2": second})
    answers, _ = decisions(found)
    assert (answers["b"].reason, answers["c"].action) == (Reason.NAMESPACE_QUOTA_SHORT, "hold")


def test_somebody_else_ended_it():
    """The record stands, the suspension does not: it is closed for good."""
    taken = msgspec.structs.replace(ours(job("b", 4, lever=LEVER)), held=False, ours=False)
    found, _ = decisions(world({"jobs": [taken], "pods": list(pods(2, "b", job="b"))}, held("a", 4, 3)))
    (pull,) = found["b"].pulls
    assert (found["b"].reason, pull.suspend, pull.claim.foreign) == (Reason.RESUMED, None, True)


def test_nothing_stays_suspended_where_gangs_are_asked_for_no_more():
    found, _ = decisions(world({"jobs": [ours(job("b", 4, lever=LEVER))], "pods": []}, about={"namespaces": []}))
    assert [p.suspend for p in found["b"].pulls] == [False]


# --- deadlines -------------------------------------------------------------------------------------------------


def test_a_deadline_does_not_run_while_its_group_waits():
    found, _ = decisions(world(held("a", 4, 2, deadline=60), full=2))
    assert (found["a"].action, found["a"].pulls[0].claim.why) == ("give-back", "deadline")


def test_a_group_that_runs_is_never_suspended_for_its_deadline():
    """A member is made anew and finds no node: suspending its owner would end the others."""
    part = held("a", 2, 2, deadline=60)
    part["pods"][0] = lifted(part["pods"][0], "n0", minimum=2)
    found, _ = decisions(world(part, nodes=()))
    assert (found["a"].action, found["a"].reason, found["a"].pulls) == ("hold", Reason.NEVER_FITS, ())


def test_a_deadline_without_a_lever_is_told():
    late = held("a", 4, 2, deadline=60, started=NOW - 20)
    late["jobs"][0] = _lever_less(late["jobs"][0])
    found, _ = decisions(world(late, full=2))
    assert found["a"].action == "hold"
    assert found["a"].message.endswith("its activeDeadlineSeconds runs meanwhile, 40 s are left")


def test_a_deadline_that_could_not_be_saved_is_tried_again_later_and_later():
    record = Claim("g", "deadline", 1.0, tries=3, ended=NOW - 10)
    found, outcome = decisions(world(held("a", 4, 2, deadline=60, claim=record), full=2))
    assert (found["a"].action, outcome.again) == ("hold", NOW + 30)


# --- refusals --------------------------------------------------------------------------------------------------


def refused(at, **fields):
    return {"a": RefusalFacts("a", at, 'Error creating: pods "a-0" is forbidden: no', **fields)}


def test_an_owner_that_backs_off_is_woken_when_there_is_room():
    found, _ = decisions(
        world(held("a", 4, 2), refusals=refused(NOW - 6, quota="q", requested=amounts(requests_gpu=1)))
    )
    assert [(p.uid, p.suspend, p.claim) for p in found["a"].pulls] == [("a", None, None)]


def test_an_owner_that_a_change_would_only_delay_is_not_woken():
    """Of the MPI operator every change of a job doubles the time that it backs off."""
    waiting = held("a", 4, 2, kind="MPIJob", api_version="kubeflow.org/v2beta1")
    members = [msgspec.structs.replace(p, group=of_owner_named("MPIJob", NS, "a", "a")) for p in waiting["pods"]]
    found, outcome = decisions(world(waiting | {"pods": members}, refusals=refused(NOW - 600)))
    assert (found["a"].reason, found["a"].pulls, outcome.again) == (Reason.CREATE_REFUSED, (), 0.0)


def test_an_owner_that_was_refused_a_moment_ago_is_left_alone():
    found, outcome = decisions(world(held("a", 4, 2), refusals=refused(NOW - 1)))
    assert (found["a"].pulls, outcome.again) == ((), NOW + 4)


def test_a_refusal_that_is_no_shortage_is_told():
    found, _ = decisions(world(held("a", 4, 2), refusals=refused(NOW - 1)))
    assert (found["a"].reason, found["a"].message) == (
        Reason.CREATE_REFUSED,
        '2 of 4 created; the API server refuses the rest: Error creating: pods "a-0" is forbidden: no',
    )


def test_a_refused_create_tells_the_true_size():
    """Another webhook added a container after ours."""
    found, _ = decisions(
        world(held("a", 4, 0), refusals=refused(NOW - 1, quota="q", requested=amounts(requests_gpu=2)))
    )
    assert "4 pods need 8 requests.nvidia.com/gpu, quota q allows 5" in found["a"].message
