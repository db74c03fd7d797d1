"""From a snapshot to its groups: members, size, queue, priority, age; and who only claims to belong."""

import msgspec
import pytest

from policy import names
from policy.names import Reason
from policy.rules.belonging import managed, own_podgroup
from policy.rules.grouping import groups_of
from policy.rules.membership.identity import LITE, NATIVE, PODGROUP, Identity
from policy.rules.conclusions import Absent, Problem
from policy.rules.model import NamespaceFacts
from tests.unit.rules_facts import NS, gang, job, lifted, pod, podgroup, pods, shape, snapshot


def only(**given):
    (group,) = groups_of(snapshot(**given)).values()
    return group


def names_of(group):
    return [m.name for m in group.members]


@pytest.mark.parametrize(("policy", "found"), [("gang", True), ("hybrid", True), ("binpack", False), ("", False)])
def test_which_namespaces_make_gangs(policy, found):
    assert managed(NamespaceFacts("n", policy)) is found
    assert not managed(None)


def test_pods_of_a_job_are_its_group():
    group = only(pods=pods(3, job="j"), jobs=[job("j", 8)])
    assert group.key == "Job/team/j"
    assert (group.uid, group.minimum, group.possible, group.missing) == ("j", 8, 8, 5)
    assert group.source == "spec.parallelism of Job j"
    assert group.absent == (Absent(shape(), 5),)
    assert names_of(group) == ["p-0", "p-1", "p-2"]


def test_a_group_exists_once_its_owner_does():
    """Even if quota refused its first pod: it is then sized from the template."""
    group = only(jobs=[job("j", 4, like=shape(gpu=2))])
    assert (group.members, group.absent) == ((), (Absent(shape(gpu=2), 4),))


@pytest.mark.parametrize(
    "given",
    [{"over": True}, {"held": True}, {"count": 0}],
    ids=["finished", "suspended", "none to make"],
)
def test_an_owner_that_makes_no_pod_now_makes_no_group(given):
    assert groups_of(snapshot(jobs=[job("j", **given)])) == {}


@pytest.mark.parametrize("policy", ["binpack", ""])
def test_an_owner_in_another_namespace_makes_no_group(policy):
    assert groups_of(snapshot(jobs=[job("j")], namespaces=[gang(policy=policy)])) == {}


def test_gated_pods_are_groups_also_where_gangs_are_asked_for_no_more():
    assert only(pods=pods(2, job="j"), namespaces=[]).members


def test_pods_that_are_not_held_are_nobodys_group_there():
    assert groups_of(snapshot(pods=pods(2, job="j", gated=False), namespaces=[])) == {}


def test_a_gated_pod_without_group_stands_alone():
    group = only(pods=[pod("p")])
    assert (group.key, group.minimum, group.source) == ("Pod/team/team/p", 1, "the pod alone")


def test_a_pod_without_group_that_nobody_holds_is_none():
    assert groups_of(snapshot(pods=[pod("p", gated=False)])) == {}


def test_a_pod_whose_names_disagree_waits_alone_and_says_why():
    group = only(pods=[pod("p", problem="a says 'x' and b says 'y': give one name")])
    assert group.problem == Problem(Reason.PODGROUP_INVALID, "a says 'x' and b says 'y': give one name")


# --- owners ----------------------------------------------------------------------------------------------------


def test_a_controller_that_does_not_exist_is_a_problem_of_its_pods():
    group = only(pods=pods(8, job="j"))
    assert group.problem == Problem(Reason.OWNER_GONE, "Job 'j' (uid j) does not exist in namespace 'team'")


def test_a_controller_of_another_namespace_is_a_forgery():
    """A tenant can write any uid into ownerReferences: no size, queue or PodGroup of a stranger may come of it."""
    stranger = job("j", 1, ns="rich")
    theirs = podgroup("ganggate-j", ns="rich", controller="j", ours=True)
    facts = snapshot(pods=pods(3, job="j"), jobs=[stranger], podgroups=[theirs], namespaces=[gang(), gang(name="rich")])
    forged = groups_of(facts)["Job/team/j"]
    assert forged.problem.reason is Reason.OWNER_GONE
    assert (forged.owner, forged.podgroup) == (None, None)
    assert groups_of(facts)["Job/rich/j"].members == ()


def test_a_controller_of_another_kind_is_a_forgery():
    forged = pod("p", group=Identity("JobSet", NS, "j", "j"), owner="j")
    assert groups_of(snapshot(pods=[forged], jobs=[job("j")]))["JobSet/team/j"].problem.reason is Reason.OWNER_GONE


def test_another_name_beside_the_right_uid_changes_nothing():
    forged = pod("q", group=Identity("Job", NS, "a-forged-name", "j", how="controller Job a-forged-name"), owner="j")
    group = only(pods=[*pods(2, job="j"), forged], jobs=[job("j")])
    assert (group.identity.name, len(group.members)) == ("j", 3)


def test_two_lives_of_one_job_are_two_groups():
    found = groups_of(snapshot(pods=[*pods(2, "a", job="j1"), *pods(2, "b", job="j2")], jobs=[job("j1"), job("j2")]))
    assert {key: names_of(group) for key, group in found.items()} == {
        "Job/team/j1": ["a-0", "a-1"],
        "Job/team/j2": ["b-0", "b-1"],
    }


def test_the_owners_annotation_says_how_many():
    group = only(pods=pods(2, job="j"), jobs=[job("j", 8, min_member=6)])
    assert (group.minimum, group.possible) == (6, 8)
    assert group.source == "annotation scheduling.volcano.sh/group-min-member of Job j"


def test_an_owner_with_a_problem_waits():
    assert only(jobs=[job("j", problem="annotation x is 'y'")]).problem.message == "annotation x is 'y'"


def test_our_own_podgroup_is_the_groups():
    own = podgroup(own_podgroup("j"), controller="j", ours=True)
    assert only(jobs=[job("j")], podgroups=[own]).podgroup is own


def test_a_podgroup_of_our_name_that_another_controls_is_not_the_groups():
    for controller in ("", "somebody"):
        strange = podgroup(own_podgroup("j"), controller=controller, ours=True)
        assert only(jobs=[job("j")], podgroups=[strange]).podgroup is None


# --- named groups ----------------------------------------------------------------------------------------------

DIALECTS = [names.VOLCANO_API, names.COSCHEDULING_API, names.COSCHEDULING_OLD_API]


@pytest.mark.parametrize("api", DIALECTS)
def test_a_podgroup_of_each_dialect_says_how_many(api):
    group = only(pods=pods(2, of="g"), podgroups=[podgroup("g", 5, api=api)])
    assert (group.minimum, group.missing, group.uid) == (5, 3, "pg-team-g")
    assert group.source == f"spec.minMember of {api} PodGroup g"


@pytest.mark.parametrize(
    ("how", "first"),
    [
        (f"annotation {names.VOLCANO_PODGROUP}", names.VOLCANO_API),
        (f"label {names.COSCHEDULING_LABEL}", names.COSCHEDULING_API),
    ],
)
def test_where_two_dialects_have_the_name_the_pods_way_of_naming_decides(how, first):
    every = [podgroup("g", api=api) for api in DIALECTS]
    member = pod("p", group=Identity(PODGROUP, NS, "g", how=how))
    assert only(pods=[member], podgroups=every).podgroup.api == first
    assert only(pods=[member], podgroups=every[::-1]).podgroup.api == first


def test_where_members_name_it_differently_the_first_way_by_name_decides():
    every = [podgroup("g", api=api) for api in DIALECTS]
    ways = (f"annotation {names.VOLCANO_PODGROUP}", f"label {names.COSCHEDULING_LABEL}")
    members = [pod(f"p{i}", group=Identity(PODGROUP, NS, "g", how=how)) for i, how in enumerate(ways)]
    for order in (members, members[::-1]):
        assert only(pods=order, podgroups=every).identity.how == ways[0]


def test_what_is_going_tells_nothing():
    gone = pod("a", group=Identity(PODGROUP, NS, "g", how="a way of old"), deleted=5.0)
    assert only(pods=[gone, *pods(1, of="g")]).identity.how == f"annotation {names.VOLCANO_PODGROUP}"


def test_a_podgroup_of_another_namespace_is_another():
    group = only(pods=pods(1, of="g"), podgroups=[podgroup("g", ns="other")])
    assert group.problem == Problem(
        Reason.PODGROUP_MISSING,
        "PodGroup 'g' (named by annotation volcano.sh/podgroup) does not exist in namespace 'team'",
    )


def test_a_podgroup_that_is_wrong_says_so():
    group = only(pods=pods(1, of="g"), podgroups=[podgroup("g", problem="spec.minMember is -1")])
    assert group.problem == Problem(Reason.PODGROUP_INVALID, "spec.minMember is -1")


def test_a_podgroup_alone_is_no_group():
    assert groups_of(snapshot(podgroups=[podgroup("g")])) == {}


def naming(uid, count, name="g", kind=PODGROUP, how=f"annotation {names.VOLCANO_PODGROUP}", **fields):
    return job(uid, count, group=Identity(kind, NS, name, how=how), **fields)


def test_an_owner_whose_pods_will_name_a_podgroup_has_a_group_before_its_first_pod():
    group = only(jobs=[naming("j", 8)], podgroups=[podgroup("g", 4)])
    assert (group.key, group.minimum, group.possible, group.missing) == ("PodGroup/team/g", 4, 8, 4)
    assert group.owner.uid == "j"


@pytest.mark.parametrize("kind", [LITE, NATIVE])
def test_so_does_one_whose_pods_need_no_object_and_it_is_the_same_group(kind):
    member = pod("p", group=Identity(kind, NS, "g", how="label x"), job="j", task_min=4)
    group = only(pods=[member], jobs=[naming("j", 4, kind=kind, task_min=4)])
    assert (group.key, group.problem) == (f"{kind}/team/g", None)


def test_several_jobs_may_share_a_podgroup():
    members = [*pods(2, "a", of="g", job="j1"), *pods(1, "b", of="g", job="j2", like=shape(gpu=2))]
    jobs = [naming("j1", 4, created=1.0), naming("j2", 4, like=shape(gpu=4), created=2.0)]
    group = only(pods=members, jobs=jobs, podgroups=[podgroup("g", 8)])
    assert (group.possible, group.missing) == (8, 5)
    assert group.absent == (Absent(shape(), 2), Absent(shape(gpu=2), 3)), "each sized from a sibling of its own owner"


def test_missing_members_are_sized_from_the_template_where_no_sibling_exists():
    group = only(jobs=[naming("j1", 4, like=shape(gpu=4))], podgroups=[podgroup("g", 3)])
    assert group.absent == (Absent(shape(gpu=4), 3),)


def test_missing_members_that_no_owner_makes_are_sized_from_any_member():
    group = only(pods=pods(2, of="g", like=shape(gpu=2)), podgroups=[podgroup("g", 5)])
    assert group.absent == (Absent(shape(gpu=2), 3),)
    assert group.possible is None


def test_nobody_says_how_many_there_will_be_where_a_member_comes_from_elsewhere():
    members = [*pods(2, "a", of="g", job="j1"), pod("b", of="g", job="j9")]
    jobs = [naming("j1", 4), job("j9", 4)]
    group = groups_of(snapshot(pods=members, jobs=jobs, podgroups=[podgroup("g", 8)]))["PodGroup/team/g"]
    assert group.possible is None


def test_a_finished_owner_is_no_longer_the_groups():
    jobs = [naming("old", 8, over=True, created=0.0), naming("new", 8, created=2.0)]
    group = only(pods=pods(1, of="g", job="new"), jobs=jobs, podgroups=[podgroup("g", 8)])
    assert (group.owner.uid, group.possible) == ("new", 8)


def test_the_size_as_a_label():
    members = [pod(f"p{i}", group=Identity(LITE, NS, "g", how="label x"), task_min=n) for i, n in enumerate((4, 6))]
    group = only(pods=members)
    assert (group.minimum, group.source) == (6, "label pod-group.scheduling.sigs.k8s.io/min-available")


def test_a_size_label_that_is_no_number_is_a_problem_not_a_gang_of_one():
    members = [pod(f"p{i}", group=Identity(LITE, NS, "g", how="label x"), task_min=n) for i, n in enumerate((4, 0))]
    assert only(pods=members).problem == Problem(
        Reason.PODGROUP_INVALID,
        "label pod-group.scheduling.sigs.k8s.io/min-available of 1 members is no whole number from 1",
    )


def test_a_native_podgroup_is_left_to_the_scheduler():
    member = pod("p", group=Identity(NATIVE, NS, "g", how="field spec.schedulingGroup.podGroupName"))
    group = only(pods=[member], podgroups=[podgroup("g", 8)])
    assert (group.minimum, group.problem, group.podgroup) == (1, None, None)


# --- who counts ------------------------------------------------------------------------------------------------


def test_what_is_going_or_over_is_no_member():
    members = [
        *pods(2, job="j"),
        pod("going", job="j", deleted=5.0),
        pod("done", job="j", phase="Succeeded"),
        pod("lost", job="j", phase="Failed"),
    ]
    group = only(pods=members, jobs=[job("j")])
    assert names_of(group) == ["p-0", "p-1"]
    assert group.leaving == 1


def test_members_are_released_by_index_then_by_age_then_by_name():
    members = [
        pod("d", job="j", created=1.0),
        pod("c", job="j", created=1.0),
        pod("b", job="j", index=1, created=9.0),
        pod("a", job="j", index=0, created=9.0),
        pod("e", job="j", created=0.0),
    ]
    assert names_of(only(pods=members, jobs=[job("j")])) == ["a", "b", "e", "c", "d"]


def succeeded(name, uid, at=None, minimum=8, **fields):
    item = pod(name, job=uid, **fields)
    item = lifted(item, "n0", minimum, at) if at is not None else item
    return msgspec.structs.replace(item, phase="Succeeded", gated=False)


def test_what_succeeded_and_will_not_come_again_lowers_a_minimum():
    """A gang of 8 whose 3 are done and whose 5 were lost starts again as 5: the 3 will never come back."""
    members = [*(succeeded(f"s{i}", "j", of="g") for i in range(3)), *pods(5, of="g", job="j")]
    group = only(pods=members, jobs=[naming("j", 5)], podgroups=[podgroup("g", 8)])
    assert (group.minimum, group.missing) == (5, 0)


def test_what_succeeded_is_no_excuse_for_a_minimum_that_was_always_too_large():
    members = [*(succeeded(f"s{i}", "j", of="g") for i in range(3)), *pods(5, of="g", job="j")]
    assert only(pods=members, jobs=[naming("j", 5)], podgroups=[podgroup("g", 10)]).minimum == 7


def test_where_others_take_their_place_the_minimum_stays():
    """completions 16, parallelism 8: the second wave is as much a gang as the first."""
    members = [succeeded(f"s{i}", "j", of="g") for i in range(8)]
    assert only(pods=members, jobs=[naming("j", 8)], podgroups=[podgroup("g", 8)]).minimum == 8


def test_where_nobody_says_how_many_there_will_be_the_minimum_stays():
    members = [succeeded("s", "j", of="g"), *pods(2, of="g", job="j"), pod("b", of="g", job="elsewhere")]
    assert only(pods=members, jobs=[naming("j", 2)], podgroups=[podgroup("g", 8)]).minimum == 8


def test_what_succeeded_under_an_earlier_controller_is_another_run():
    members = [*(succeeded(f"s{i}", "old", of="g") for i in range(8)), *pods(5, of="g", job="new")]
    group = only(pods=members, jobs=[naming("new", 5)], podgroups=[podgroup("g", 8)])
    assert group.minimum == 8


def test_a_begun_group_needs_what_its_lift_froze():
    members = [lifted(p, "n0", minimum=6) for p in pods(2, of="g")] + list(pods(6, "q", of="g"))
    group = only(pods=members, podgroups=[podgroup("g", 2)])
    assert (group.begun, group.need, group.short) == (True, 6, 4)


def test_a_begun_group_needs_less_as_its_members_succeed():
    """Else a gang whose first member is done would be told to miss one, and be called late to bind."""
    done = [succeeded(f"s{i}", "j", at=9.0) for i in range(3)]
    running = [lifted(p, "n0", minimum=8, at=9.0) for p in pods(5, job="j")]
    group = only(pods=[*done, *running], jobs=[job("j", 8)])
    assert (group.need, group.short) == (5, 0)


def test_a_begun_group_needs_no_more_than_its_owner_makes():
    running = [lifted(p, "n0", minimum=8, at=9.0) for p in pods(5, job="j")]
    assert only(pods=running, jobs=[job("j", 5)]).need == 5


def test_members_of_an_earlier_run_do_not_lower_the_need():
    """A name used again: bare pods have no controller to tell the runs apart, the time of their lift does."""
    done = [lifted(succeeded(f"s{i}", "", at=1.0, of="g"), "n0", 8, 1.0) for i in range(8)]
    begun = [lifted(pod("p-0", of="g"), "n0", 8, 9.0), *pods(7, "q", of="g")]
    group = only(pods=[*done, *begun], podgroups=[podgroup("g", 8)])
    assert (group.need, group.short) == (8, 7)


def test_a_pod_that_came_round_the_gate_begins_nothing():
    group = only(pods=[pod("p", job="j", gated=False), *pods(7, "q", job="j")], jobs=[job("j")])
    assert not group.begun


def test_a_mark_on_a_pod_that_is_still_gated_begins_nothing():
    marked = msgspec.structs.replace(lifted(pod("p", job="j")), gated=True)
    assert not only(pods=[marked], jobs=[job("j")]).begun


# --- queue, priority, age --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "default"),
        ({"namespace": ("ns-1", "ns-2")}, "ns-1"),
        ({"namespace": ("ns-1",), "pods": "by-pod"}, "by-pod"),
        ({"pods": "by-pod", "podgroup": "by-podgroup"}, "by-podgroup"),
        ({"pods": "by-pod", "podgroup": "default"}, "by-pod"),
        ({"podgroup": "default"}, "default"),
    ],
)
def test_where_the_queue_comes_from(given, found):
    group = only(
        pods=pods(2, of="g", queue=given.get("pods", "")),
        podgroups=[podgroup("g", queue=given.get("podgroup", ""))],
        namespaces=[gang(*given.get("namespace", ()))],
    )
    assert group.queue == found


def test_the_owners_template_names_the_queue_before_the_first_pod():
    assert only(jobs=[job("j", queue="q")]).queue == "q"


def test_the_queue_in_our_own_podgroup_is_a_report():
    own = podgroup(own_podgroup("j"), controller="j", ours=True, queue="tampered")
    assert only(jobs=[job("j")], podgroups=[own]).queue == "default"


def test_the_queue_is_frozen_by_the_lift():
    """A PodGroup's queue can be edited at any time: what is charged stays where it was admitted."""
    members = [lifted(pod("p", of="g"), "n0", queue="a"), *pods(1, "q", of="g")]
    assert only(pods=members, podgroups=[podgroup("g", queue="b")]).queue == "a"


CLASSES = {"low": 1, "high": 9}


@pytest.mark.parametrize(
    ("by_podgroup", "priorities", "found"),
    [("high", (3, 5), 9), ("", (5, 3), 3), ("unknown", (5, 3), 3), ("", (), 0)],
)
def test_where_the_priority_comes_from(by_podgroup, priorities, found):
    members = [pod(f"p{i}", of="g", like=shape(priority=p)) for i, p in enumerate(priorities)]
    group = only(
        pods=members,
        jobs=[] if members else [naming("j", 8)],
        podgroups=[podgroup("g", priority_class=by_podgroup)],
        classes=CLASSES,
    )
    assert group.priority == found


def test_before_the_first_pod_the_templates_class_tells_the_priority():
    assert only(jobs=[job("j", like=shape(priority_class="high"))], classes=CLASSES).priority == 9


@pytest.mark.parametrize(
    ("given", "created"),
    [
        ({"pods": pods(1, job="j", created=7.0), "jobs": [job("j", created=3.0)]}, 3.0),
        ({"pods": [pod("a", of="g", created=9.0), pod("b", of="g", created=7.0)]}, 7.0),
        ({"jobs": [naming("j", 8, created=3.0)]}, 3.0),
        ({"pods": pods(1, of="g", job="j", created=7.0), "jobs": [naming("j", 8, created=3.0)]}, 3.0),
        ({"pods": [pod("p", created=7.0)], "podgroups": []}, 7.0),
    ],
    ids=[
        "the owner",
        "the oldest member",
        "the owner of the first",
        "the owner, also with pods: it may give them back",
        "the pod",
    ],
)
def test_where_the_age_comes_from(given, created):
    assert only(**({"podgroups": [podgroup("g", created=1.0)]} | given)).created == created


def test_groups_come_by_priority_then_age_then_key():
    members = [
        pod("b", created=2.0),
        pod("a", created=2.0),
        pod("old", created=1.0),
        pod("urgent", created=9.0, like=shape(priority=5)),
    ]
    assert [g.members[0].name for g in groups_of(snapshot(pods=members)).values()] == ["urgent", "old", "a", "b"]
