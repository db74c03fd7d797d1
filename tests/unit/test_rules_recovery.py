"""Lifts that do not hold: who is given back, at once or after the limit, who is only told of, and what comes after."""

import msgspec
import pytest

from policy.names import Reason
from policy.rules import binding
from policy.rules.decide import decide
from policy.rules.deadlock import FORGOTTEN_SECONDS
from policy.rules.lift_plan import LiftPatch, plan, terms
from policy.rules.lifecycle import State
from policy.rules.model import Claim, Config, Lifted
from policy.rules.recovery import fallen_of
from tests.unit.rules_facts import NOW, NS, job, node, nodes, pod, podgroup, pods, shape, snapshot
from policy.names import COSCHEDULING_API

LEVER = ("spec", "suspend")
LATE = NOW - 121


def begun(count=4, *, at=NOW - 1, bound=(), need=None, uid="j", present=None, newest=1.0, **fields):
    """Members of a Job that were let go together, those of `bound` on their nodes; the first half on n0, the rest on n1."""
    terms = Lifted(need or count, at, "default", {}, present or count, newest)
    return [
        msgspec.structs.replace(
            member, gated=False, lifted=terms, pin=f"n{2 * i // count}", node=f"n{2 * i // count}" if i in bound else ""
        )
        for i, member in enumerate(pods(count, uid, job=uid, **fields))
    ]


def world(members, *, at=(4,), owners=None, up=None, **given):
    owners = owners if owners is not None else [job("j", at[0], lever=LEVER, version="7")]
    found = snapshot(pods=members, jobs=owners, nodes=nodes(2) if up is None else up, **given.pop("about", {}))
    return msgspec.structs.replace(found, **given)


def decided(found, now=NOW, config=None):
    outcome = decide(found, config or Config(), now)
    (decision,) = [d for d in outcome.decisions if d.group != "Pod"][:1]
    return decision, outcome


def gave_back(decision):
    return decision.action, decision.reason, decision.limiter


# --- the limit -------------------------------------------------------------------------------------------------


def test_it_has_until_the_limit_and_the_pass_for_that_is_asked_for():
    decision, outcome = decided(world(begun()))
    assert (decision.action, decision.reason, decision.state) == ("none", Reason.LIFTED, State.BINDING)
    assert outcome.again == NOW - 1 + 120


def test_after_it_all_of_it_is_given_back_even_what_runs():
    decision, _ = decided(world(begun(bound=(0, 1, 2), at=LATE)))
    assert gave_back(decision) == ("give-back", Reason.GIVEN_BACK, "bind")
    (pull,) = decision.pulls
    assert (pull.uid, pull.suspend, pull.claim.why, pull.claim.fails) == ("j", True, "bind", 1)
    assert decision.message == (
        "4 of 4 pods lifted, 3 bound after 121 s: see their FailedScheduling events: given back whole, tries again in its "
        "old place when all 4 fit"
    )


def test_a_large_gang_has_longer():
    members = begun(10_000, at=NOW - 150)
    decision, outcome = decided(world(members, at=(10_000,)))
    assert (decision.action, outcome.again) == ("none", NOW - 150 + 200)


@pytest.mark.parametrize(("stated", "action"), [(300, "none"), (60, "give-back"), (0, "give-back")])
def test_a_coscheduling_podgroup_states_its_own(stated, action):
    group = podgroup("g", 4, api=COSCHEDULING_API, bind_timeout=stated)
    members = [msgspec.structs.replace(m, group=pod("x", of="g").group, owner="j") for m in begun(at=LATE)]
    owner = job("j", 4, lever=LEVER, group=pod("x", of="g").group)
    decision, _ = decided(world(members, owners=[owner], about={"podgroups": [group]}))
    assert decision.action == action


def test_members_that_still_find_a_place_are_let_go_first():
    members = begun(at=LATE, bound=(0, 1))
    members[3] = pod("j-3", job="j")
    decision, _ = decided(world(members))
    assert (decision.action, list(decision.places)) == ("lift", [f"{NS}/j-3"])


def test_where_they_find_none_all_of_it_is_given_back_after_the_limit_only():
    members = begun(at=NOW - 50, bound=(0, 1, 2))
    members[3] = pod("j-3", job="j", like=shape(gpu=8))
    decision, outcome = decided(world(members))
    assert (decision.action, decision.reason, outcome.again) == ("hold", Reason.NODES_SHORT, NOW - 50 + 120)
    decision, _ = decided(world(members), now=NOW + 71)
    assert decision.action == "give-back"


@pytest.mark.parametrize(("at", "action"), [(NOW - 50, "lift"), (LATE, "give-back")])
def test_a_lift_of_which_half_is_refused_is_not_tried_for_ever(at, action):
    members = begun(at=at, bound=(0, 1, 2))
    members[3] = pod("j-3", job="j")
    decision, _ = decided(world(members, refused=(f"Job/{NS}/j",)))
    assert decision.action == action


# --- at once ---------------------------------------------------------------------------------------------------

LOST = {
    "gone": (nodes(1), "its node n1 is gone"),
    "relabelled": ([node("n0", labels={"zone": "a"}), node("n1")], "its node n1 does not take it any more"),
    "shrunk": ([node("n0"), node("n1", gpu=0)], "its node n1 has too little nvidia.com/gpu by now"),
}


@pytest.mark.parametrize(("up", "why"), LOST.values(), ids=LOST)
def test_a_pin_that_can_never_hold_is_noticed_at_once(up, why):
    like = shape(node_selector={"zone": "a"}) if "does not take" in why else shape()
    decision, _ = decided(world(begun(bound=(0, 1), like=like), up=up))
    assert gave_back(decision) == ("give-back", Reason.GIVEN_BACK, "bind")
    assert f"; pod j-2 can never be bound: {why} (1 more): given back whole" in decision.message


@pytest.mark.parametrize("state", [{"cordoned": True}, {"ready": False}])
def test_a_node_that_may_come_back_is_waited_for(state):
    decision, _ = decided(world(begun(), up=[node("n0"), node("n1", **state)]))
    assert decision.action == "none"


def test_a_place_that_others_took_is_counted():
    outsider = pod("d", ns="free", gated=False, node="n1", like=shape(gpu=8))
    members = [*begun(at=LATE, bound=(0, 1)), outsider]
    decision, _ = decided(world(members))
    assert gave_back(decision) == ("give-back", Reason.GIVEN_BACK, "bind/outsider")
    assert "; pods that ganggate does not hold took 2 of their places: given back" in decision.message


def test_members_above_the_minimum_stand_in():
    members = begun(4, need=4, present=6)
    extra = [pod(f"x-{i}", job="j") for i in range(2)]
    decision, _ = decided(world([*members, *extra], owners=[job("j", 4, possible=6, lever=LEVER)], up=nodes(1)))
    assert (decision.action, sorted(decision.places)) == ("lift", [f"{NS}/x-0", f"{NS}/x-1"])


def test_of_another_role_they_do_not():
    members = begun(4, need=4, present=6, role="head")
    extra = [pod(f"x-{i}", job="j", role="worker") for i in range(2)]
    decision, _ = decided(world([*members, *extra], owners=[job("j", 4, possible=6, lever=LEVER)], up=nodes(1)))
    assert decision.action == "give-back"


# --- who is not given back -----------------------------------------------------------------------------------


def test_one_without_a_lever_is_told_of():
    decision, _ = decided(world(begun(at=LATE), owners=[job("j", 4)]))
    assert gave_back(decision) == ("none", Reason.BIND_TIMEOUT, "bind")
    assert decision.message.endswith("; not given back, since Job j cannot be suspended by us")


def test_one_whose_suspension_somebody_ended_is_theirs():
    claim = Claim(f"Job/{NS}/j", "bind", NOW - 5, fails=1)
    owner = job("j", 4, lever=LEVER, claim=claim)
    decision, _ = decided(world(begun(at=LATE), owners=[owner]))
    assert (decision.action, decision.reason) == ("resume", Reason.RESUMED)
    assert decision.pulls[0].claim.foreign
    theirs = msgspec.structs.replace(owner, claim=decision.pulls[0].claim)
    decision, _ = decided(world(begun(at=LATE), owners=[theirs]))
    assert decision.message.endswith("; not given back, since somebody else resumed Job j")


def test_what_ran_whole_is_never_given_back():
    """One of four was lost, and made anew: it waits for its place, and the three go on."""
    survivors = begun(bound=(0, 1, 2), at=LATE)[:3]
    anew = msgspec.structs.replace(survivors[0], uid="anew", name="anew", created=NOW - 500, node="", pin="gone")
    decision, _ = decided(world([*survivors, anew]))
    assert (decision.action, decision.reason, decision.state) == ("none", Reason.DEGRADED, State.DEGRADED)
    assert decision.numbers["lacking"] == 1


@pytest.mark.parametrize(
    ("bound", "lost", "present", "ran"),
    [
        ((0, 1, 2), 0, 4, False),  # nobody was lost, and one never was on a node
        ((0, 1, 2), 1, 4, True),  # it may have been the one that was
        ((0, 1), 1, 4, False),  # of four one never was
        ((0, 1, 2), 0, 5, True),  # of five one is lost, and may have been the fourth
        ((), 2, 4, False),  # nothing is left to be torn
    ],
)
def test_whether_it_ran_is_told_by_what_the_lift_froze(bound, lost, present, ran):
    members = begun(bound=bound, present=present)
    if lost:
        members = members[:3] if bound == (0, 1, 2) else members[1:]
    _, outcome = decided(world(members))
    (group,) = outcome.groups.values()
    assert binding.may_have_run(group) == ran


def test_a_lift_that_is_gone_on_with_before_the_group_can_have_run_begins_again():
    """Of four that were there one was lost behind its gate: the rest never ran with it, so they are given back."""
    first = begun(present=4)[0]
    behind = [msgspec.structs.replace(m, gated=True, lifted=None, pin="", node="") for m in begun()[1:3]]
    decision, outcome = decided(world([first, *behind]))
    assert decision.action == "lift"
    (group,) = outcome.groups.values()
    again = terms(group, decision, NOW)
    assert (again.min, again.present) == (4, 3)
    members = [msgspec.structs.replace(m, node="n0") for m in (first, *(lifted_by(again, m) for m in behind))]
    anew = pods(4, "anew", job="j", created=NOW)[:1]
    (group,) = decided(world([*members, *anew]))[1].groups.values()
    assert not binding.may_have_run(group)
    decision, _ = decided(world([*members, *anew], up=nodes(1, gpu=3)), now=NOW + 121)
    assert gave_back(decision) == ("give-back", Reason.GIVEN_BACK, "bind")


def test_the_terms_of_one_that_may_have_run_stay_as_they_are():
    """A replacement is let go beside three that ran with a fourth: when it is lost too, they are still not given back."""
    survivors = begun(bound=(0, 1, 2), present=4)[:3]
    (anew,) = pods(1, "anew", job="j", created=NOW)
    decision, outcome = decided(world([*survivors, anew]))
    assert decision.action == "lift"
    (group,) = outcome.groups.values()
    again = terms(group, decision, NOW)
    assert (again.present, again.newest) == (4, 1.0)
    (group,) = decided(world([*survivors, lifted_by(again, anew)]))[1].groups.values()
    assert binding.may_have_run(group)


def test_one_that_lost_all_who_were_on_nodes_begins_again():
    """Three of four were made anew and wait, the fourth is made now: nobody is left who ran, so they are given back."""
    anew = [msgspec.structs.replace(m, created=NOW - 9) for m in begun(4, present=4)[:3]]
    behind = pods(1, "behind", job="j", created=NOW)
    decision, outcome = decided(world([*anew, *behind]))
    assert decision.action == "lift"
    (group,) = outcome.groups.values()
    again = terms(group, decision, NOW)
    assert (again.present, again.newest) == (4, NOW)
    (last,) = [lifted_by(again, m) for m in behind]
    bound = msgspec.structs.replace(last, node="n0")
    assert gave_back(decided(world([*anew, bound], up=nodes(1)))[0]) == ("give-back", Reason.GIVEN_BACK, "bind")
    whole = [msgspec.structs.replace(m, node="n0") for m in (*anew[1:], last)]
    one_more = pods(1, "more", job="j", created=NOW + 9)
    (group,) = decided(world([*whole, *one_more], up=nodes(1)))[1].groups.values()
    assert binding.may_have_run(group)


@pytest.mark.parametrize(("at", "reason"), [(NOW - 1, Reason.NODES_SHORT), (LATE, Reason.ADMITTED)])
def test_the_place_of_a_lost_member_is_kept_until_the_limit_of_its_lift(at, reason):
    """Four of 8 GPUs each were let go and one is gone: who comes next does not take its node while it is made anew."""
    like = shape(gpu=8)
    survivors = begun(bound=(0, 1, 2), at=at, like=like)[:3]
    places = [msgspec.structs.replace(m, pin=f"n{i}", node=f"n{i}") for i, m in enumerate(survivors)]
    other = pods(1, "other", job="k", like=like)
    owners = [job("j", 4, like=like, lever=LEVER), job("k", 1, like=like, created=2.0)]
    _, outcome = decided(world([*places, *other], owners=owners, up=nodes(4)))
    assert {d.group: d.reason for d in outcome.decisions}["Job/team/k"] is reason
    assert outcome.again == (at + 120 if reason is Reason.NODES_SHORT else 0)


def lifted_by(found, member):
    return msgspec.structs.replace(member, gated=False, lifted=found, pin="n0")


def test_terms_of_a_version_before_count_too():
    members = [msgspec.structs.replace(m, lifted=Lifted(4, LATE)) for m in begun(bound=(0, 1))]
    assert decided(world(members))[0].action == "give-back"


def test_successors_carry_the_terms_of_the_first():
    members = begun(bound=(0, 1, 2), at=LATE, newest=17.0)
    members[3] = pod("anew", job="j", created=NOW - 5)
    decision, outcome = decided(world(members))
    group = outcome.groups[decision.group]
    (patch,) = [w for w in plan(group, decision, NOW) if isinstance(w, LiftPatch)]
    text = msgspec.json.decode(patch.body)["metadata"]["annotations"]["ganggate.io/lifted"]
    terms = msgspec.json.decode(text, type=Lifted)
    assert (terms.min, terms.at, terms.present, terms.newest) == (4, NOW, 4, 17.0)


# --- what comes after --------------------------------------------------------------------------------------------


def suspended(uid="j", *, why="bind", fails=1, at=NOW - 2, **fields):
    claim = Claim(f"Job/{NS}/{uid}", why, at, fails=fails)
    return job(uid, 4, lever=LEVER, held=True, ours=True, claim=claim, **fields)


def test_while_its_pods_are_there_it_stays_given_back():
    decision, _ = decided(world(begun(bound=(0, 1), at=LATE), owners=[suspended()]))
    assert (decision.action, decision.reason, decision.pulls) == ("hold", Reason.GIVEN_BACK, ())


def test_one_that_was_bound_whole_after_all_goes_on():
    decision, _ = decided(world(begun(bound=(0, 1, 2, 3), at=LATE), owners=[suspended()]))
    assert (decision.action, decision.pulls[0].suspend) == ("resume", False)


def test_after_a_crash_between_two_owners_the_other_follows():
    group = pod("x", of="g").group
    members = [msgspec.structs.replace(m, group=group) for m in begun(2, need=4, present=4, uid="b")]
    owners = [suspended("a", group=group), job("b", 2, lever=LEVER, group=group)]
    decision, _ = decided(world(members, owners=owners, about={"podgroups": [podgroup("g", 4)]}))
    assert decision.action == "give-back"
    assert [(p.uid, p.claim.why) for p in decision.pulls] == [("b", "bind")]


@pytest.mark.parametrize(("fails", "pause"), [(1, 5), (2, 10), (4, 40), (30, 300)])
def test_it_is_tried_again_after_a_pause_that_doubles(fails, pause):
    found = world([], owners=[suspended(fails=fails)])
    decision, outcome = decided(found, now=NOW - 2 + pause - 1)
    assert (decision.action, decision.reason, outcome.again) == ("hold", Reason.GIVEN_BACK, NOW - 2 + pause)
    assert f"next try in 1 s; 0 of 4 pods exist" in decision.message
    decision, _ = decided(found, now=NOW - 2 + pause)
    assert (decision.action, decision.pulls[0].claim.ended) == ("resume", NOW - 2 + pause)


@pytest.mark.parametrize(("ended", "fails"), [(NOW - 130, 4), (NOW - FORGOTTEN_SECONDS - 1, 1)])
def test_failures_add_up_unless_it_ran_for_long(ended, fails):
    claim = Claim(f"Job/{NS}/j", "bind", NOW - 9000, fails=3, ended=ended)
    decision, _ = decided(world(begun(at=LATE), owners=[job("j", 4, lever=LEVER, claim=claim)]))
    assert decision.pulls[0].claim.fails == fails


# --- preemption ----------------------------------------------------------------------------------------------

FALLEN = {"deleted": NOW - 3, "preempted": True}
TAKER = pod("urgent", ns="free", gated=False, node="n0", uid="taker")


def torn(**given):
    """Of four that ran, one was preempted and is gone."""
    members = begun(bound=(0, 1, 2, 3))
    gone = msgspec.structs.replace(members[3], **FALLEN)
    return world([*members[:3], TAKER], fallen=(gone,), preemptors={gone.uid: "taker"}, **given)


def test_who_was_preempted_and_for_whom():
    decision, _ = decided(torn())
    assert (decision.action, decision.reason, decision.limiter) == ("none", Reason.PREEMPTED, "j-3/1")
    assert decision.message == "preempted by the scheduler: j-3 for a pod of another namespace (uid taker); 3 of 4 run"
    assert (decision.state, decision.numbers["preempted"]) == (State.DEGRADED, 1)


def test_while_it_terminates_the_pod_itself_tells():
    members = begun(bound=(0, 1, 2, 3))
    members[3] = msgspec.structs.replace(members[3], **FALLEN | {"deleted": NOW + 20})
    decision, _ = decided(world(members))
    assert decision.message == "preempted by the scheduler: j-3 for a pod of higher priority; 3 of 4 run"
    assert decision.limiter == "j-3", "another than once it is known who took its place: that is told then"


def test_the_rest_is_given_back_where_that_is_asked_for():
    decision, _ = decided(torn(), config=Config(preempted_give_back=True))
    assert gave_back(decision) == ("give-back", Reason.GIVEN_BACK, "preempted")
    assert (decision.pulls[0].claim.why, decision.pulls[0].claim.fails) == ("preempted", 1)


def test_the_scheduler_s_event_is_waited_for_a_moment():
    config, found = Config(preempted_give_back=True), msgspec.structs.replace(torn(), preemptors={})
    decision, outcome = decided(found, now=NOW - 2, config=config)
    assert (decision.action, outcome.again) == ("none", NOW - 1)
    assert decided(found, config=config)[0].action == "give-back"


def test_one_that_is_marked_and_not_yet_deleted_is_a_member_still():
    found = torn()
    marked = msgspec.structs.replace(found.fallen[0], deleted=None)
    found = msgspec.structs.replace(found, pods=(*found.pods, marked))
    decision, outcome = decided(found)
    assert decision.reason is Reason.RUNNING
    assert fallen_of(found, outcome.groups[decision.group]) == (), "else it would be forgotten, the group being whole"


def test_a_pod_of_another_group_is_none_of_it():
    found = torn()
    other = msgspec.structs.replace(found.fallen[0], group=pod("x", job="k").group, owner="k")
    decision, _ = decided(msgspec.structs.replace(found, fallen=(other,)))
    assert decision.reason is Reason.DEGRADED


def test_one_that_is_whole_again_is_not_told_of():
    found = torn()
    anew = msgspec.structs.replace(found.pods[0], uid="anew", name="anew", created=NOW)
    decision, _ = decided(msgspec.structs.replace(found, pods=(*found.pods, anew)))
    assert decision.reason is Reason.RUNNING
