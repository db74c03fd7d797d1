"""Chains of controllers end at the owner of the group, and stages decide who must be there first."""

import msgspec
import pytest

from policy.names import Reason
from policy.rules import owner_facts
from policy.rules.decide import decide
from policy.rules.group_size import MOST_PHANTOMS, phantoms
from policy.rules.grouping import groups_of
from policy.rules.membership import families
from policy.rules.membership.custom import OwnerKind
from policy.rules.model import Config, Lifted, PartFacts, Ref
from tests.unit.rules_facts import NOW, NS, job, lifted, nodes, pod, podgroup, quota, shape, snapshot

JOBSET = ("jobset.x-k8s.io", "JobSet")
LWS = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
RAY = ("ray.io", "RayCluster")
TRAIN = ("trainer.kubeflow.org", "TrainJob")
X = ("x.io", "X")


def ref(api_kind, uid):
    return Ref(*api_kind, uid, uid)


def owner(api_kind, uid, *parts, above=None, **fields):
    """Parts as (role, count) or PartFacts."""
    made = tuple(p if isinstance(p, PartFacts) else PartFacts(p[1], p[1], shape(), role=p[0]) for p in parts)
    least, most = sum(p.minimum for p in made), sum(p.count for p in made)
    family = families.KNOWN.of(*api_kind)
    found = job(uid, least, possible=most, kind=api_kind[1], api_version=f"{family.group}/{family.version}", **fields)
    return msgspec.structs.replace(found, parts=made, above=above)


def member(name, above, **fields):
    return pod(name, above=above, owner=above.uid, **fields)


def later(role, count, **more):
    return PartFacts(count, count, shape(), role=role, stage=1, **{"waits": "the first to be ready"} | more)


def groups(**world):
    return groups_of(snapshot(nodes=nodes(4), **world))


def only(**world):
    (found,) = groups(**world).values()
    return found


# --- chains --------------------------------------------------------------------------------------------------


def jobs_of_a_jobset():
    top = owner(JOBSET, "js", ("a", 1), ("b", 2))
    below = [owner(("batch", "Job"), f"js-{n}", ("", c), above=ref(JOBSET, "js")) for n, c in (("a", 1), ("b", 2))]
    label = "jobset.sigs.k8s.io/replicatedjob-name"
    pods = [member(f"p{i}", ref(("batch", "Job"), f"js-{n}"), labels={label: n}) for i, n in enumerate(("a", "b", "b"))]
    return {"jobs": [top, *below], "pods": pods}


def test_pods_of_the_jobs_of_a_jobset_are_one_group():
    found = only(**jobs_of_a_jobset())
    assert (found.identity.kind, found.identity.uid, found.minimum, found.missing) == ("JobSet", "js", 3, 0)
    assert sorted(m.role for m in found.members) == ["a", "b", "b"]
    assert {m.owner for m in found.members} == {"js"}
    assert set(found.makers) == {"js", "js-a", "js-b"}


def test_a_trainjob_learns_its_parts_from_its_jobset():
    world = jobs_of_a_jobset()
    world["jobs"][0] = msgspec.structs.replace(world["jobs"][0], above=ref(TRAIN, "t"))
    found = only(jobs=[*world["jobs"], owner(TRAIN, "t", ("node", 7))], pods=world["pods"])
    assert (found.identity.kind, found.minimum) == ("TrainJob", 3)


def test_workers_of_a_leader_reach_the_set_through_its_pod():
    top = owner(LWS, "lws", ("leader", 1), ("worker", 1), slices=2)
    sets = [owner(("apps", "StatefulSet"), "lws-leaders", ("", 2), above=ref(LWS, "lws"))]
    pods = []
    for index in ("0", "1"):
        labels = {"leaderworkerset.sigs.k8s.io/group-index": index}
        lead = member(f"l{index}", ref(("apps", "StatefulSet"), "lws-leaders"), labels=labels | {WORKER_INDEX: "0"})
        sets.append(owner(("apps", "StatefulSet"), f"s{index}", ("", 1), above=ref(("", "Pod"), lead.uid)))
        work = member(f"w{index}", ref(("apps", "StatefulSet"), f"s{index}"), labels=labels | {WORKER_INDEX: "1"})
        pods += [lead, work]
    found = groups(jobs=[top, *sets], pods=pods)
    assert sorted(found) == [f"LeaderWorkerSet/{NS}/lws/0", f"LeaderWorkerSet/{NS}/lws/1"]
    assert all((g.minimum, g.missing, len(g.members)) == (2, 0, 2) for g in found.values())


WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"


def test_groups_of_a_leaderworkerset_exist_before_their_pods():
    found = groups(jobs=[owner(LWS, "lws", ("leader", 1), ("worker", 3), slices=2)])
    assert [g.missing for g in found.values()] == [4, 4]


def test_a_kind_that_nobody_knows_ends_the_chain():
    made = owner(("batch", "Job"), "j", ("", 2), above=ref(("argoproj.io", "Workflow"), "wf"))
    found = only(jobs=[made], pods=[member("p", ref(("batch", "Job"), "j"))])
    assert (found.identity.kind, found.identity.uid) == ("Job", "j")


def test_pods_of_a_kind_that_nobody_knows_stand_alone():
    world = snapshot(pods=[member("a", ref(("argoproj.io", "Workflow"), "wf")), member("b", ref(X, "x"))])
    found = groups_of(msgspec.structs.replace(world, unsized={"x": "the size of X x cannot be read: no right"}))
    assert {g.identity.kind for g in found.values()} == {"Pod"}
    assert {g.note for g in found.values()} == {"", "it stands alone, since the size of X x cannot be read: no right"}
    (told,) = [d.message for d in decide(world_full(world), Config(), NOW).decisions if d.group.endswith("/b")]
    assert told.endswith("; it stands alone, since no right")


def world_full(world):
    taken = lifted(pod("full", shape=shape(gpu=8)), node="n0")
    return msgspec.structs.replace(world, nodes=nodes(1), pods=(*world.pods, taken), unsized={"x": "no right"})


def test_pods_of_a_kind_that_nobody_has_looked_at_wait():
    found = only(pods=[member("a", ref(X, "x")), member("b", ref(X, "x"))])
    assert (found.identity.kind, found.identity.uid, found.problem.reason) == ("X", "x", Reason.OWNER_UNREADABLE)


def test_a_controller_that_says_its_replicas_makes_a_group():
    made = job("x", 3, kind="X", api_version="x.io/v1")
    found = only(jobs=[made], pods=[member("a", ref(X, "x")), member("b", ref(X, "x"))])
    assert (found.identity.kind, found.minimum, found.missing, found.problem) == ("X", 3, 1, None)


def test_who_stands_above_the_owner_and_is_not_looked_at_is_told():
    made = owner(("batch", "Job"), "j", ("", 2), above=ref(("workload.example.com", "Wrapper"), "w"))
    found = only(jobs=[made], pods=[member("p", ref(("batch", "Job"), "j"))])
    assert found.note == "Wrapper w above Job j is of a kind that is not in the table of owners"


def test_kinds_of_the_settings_are_owners_like_the_table_s():
    kinds = (OwnerKind("x.io/v1", "X", "xs"),)
    world = snapshot(pods=[member("a", ref(X, "x"))])
    (found,) = groups_of(msgspec.structs.replace(world, kinds=kinds)).values()
    assert (found.identity.kind, found.problem.reason) == ("X", Reason.OWNER_GONE)


def test_an_owner_that_may_not_be_read_is_named_with_the_right():
    world = snapshot(pods=[member("p", ref(RAY, "ray"))])
    world = msgspec.structs.replace(world, unreadable={"RayCluster.ray.io": "list rayclusters.ray.io"})
    (found,) = groups_of(world).values()
    assert found.problem.reason is Reason.OWNER_UNREADABLE
    assert found.problem.message == "RayCluster ray cannot be read: the right to list rayclusters.ray.io is missing"


def test_an_owner_that_is_gone_is_named():
    found = only(pods=[member("p", ref(RAY, "ray"))])
    assert (found.problem.reason, found.problem.message) == (
        Reason.OWNER_GONE,
        f"RayCluster 'ray' (uid ray) does not exist in namespace {NS!r}",
    )


def test_a_reference_to_another_namespace_s_owner_is_none():
    elsewhere = owner(RAY, "ray", ("head", 1), ns="other")
    assert only(jobs=[elsewhere], pods=[member("p", ref(RAY, "ray"))]).problem.reason is Reason.OWNER_GONE


@pytest.mark.parametrize(("length", "what"), [(2, "turns in a circle"), (12, "has more than 8 levels")])
def test_a_chain_without_end(length, what):
    names = [f"j{i}" for i in range(length)]
    above = [*names[1:], names[0]]
    ring = [
        owner(("batch", "Job"), n, ("", 1), above=ref(("batch", "Job"), a)) for n, a in zip(names, above, strict=True)
    ]
    found = only(jobs=ring, pods=[member("p", ref(("batch", "Job"), "j0"))])
    assert found.problem.reason is Reason.OWNER_UNREADABLE
    assert what in found.problem.message


# --- stages --------------------------------------------------------------------------------------------------


def staged(present=2, late=0, **more):
    top = owner(RAY, "ray", ("head", 2), later("late", 3), **more)
    first = [member(f"h{i}", ref(RAY, "ray"), labels={"ray.io/group": "head"}) for i in range(present)]
    rest = [member(f"l{i}", ref(RAY, "ray"), labels={"ray.io/group": "late"}) for i in range(late)]
    return {"jobs": [top], "pods": [*first, *rest]}


def decision(found):
    (one,) = decide(found, Config(), NOW).decisions
    return one


def test_only_the_first_stage_is_waited_for():
    found = only(**staged(1))
    assert (found.minimum, found.missing, sum(a.count for a in found.later)) == (2, 1, 3)
    assert decision(snapshot(nodes=nodes(4), **staged(1))).message.startswith(
        "1 of 2 pods exist; waiting for 1 more: 1 head (spec.parallelism of RayCluster ray); 3 more come later"
    )


def test_the_first_stage_is_lifted_when_all_stages_have_room():
    assert decision(snapshot(nodes=nodes(5, gpu=1), **staged())).action == "lift"
    short = decision(snapshot(nodes=nodes(4, gpu=1), **staged()))
    assert (short.action, short.reason) == ("hold", Reason.NODES_SHORT)


def test_the_quota_must_have_room_for_later_stages_too():
    def held_to(gpus):
        return decision(
            snapshot(nodes=nodes(8), quotas=[quota(requests_gpu=gpus, used={"requests_gpu": 2})], **staged())
        )

    assert held_to(4).reason is Reason.NEVER_FITS
    assert held_to(5).action == "lift"


def running(world, at="n0"):
    world["pods"] = [lifted(p, at, 2) if p.name.startswith("h") else p for p in world["pods"]]
    return world


def test_room_of_a_later_stage_is_kept_while_it_is_made():
    other = {"jobs": [job("other", 4)], "pods": [pod(f"o{i}", job="other") for i in range(4)]}
    mine = running(staged())
    both = {key: [*mine[key], *other[key]] for key in mine}
    found = {d.group: d for d in decide(snapshot(nodes=nodes(2, gpu=4), **both), Config(), NOW).decisions}
    assert found[f"Job/{NS}/other"].reason is Reason.NODES_SHORT
    assert found[f"RayCluster/{NS}/ray"].action == "none"
    roomy = {d.group: d for d in decide(snapshot(nodes=nodes(2, gpu=5), **both), Config(), NOW).decisions}
    assert roomy[f"Job/{NS}/other"].action == "lift"


def test_members_of_a_later_stage_are_lifted_as_they_come():
    found = decision(snapshot(nodes=nodes(4), **running(staged(late=1))))
    assert (found.action, list(found.places)) == ("lift", [f"{NS}/l0"])


def test_members_without_number_cost_a_bounded_pass():
    """Of a stage with as many members as fit into an int32."""
    found = only(jobs=[owner(RAY, "ray", ("head", 1), later("late", 2**31 - 1))])
    assert len(phantoms(found, found.later)) == MOST_PHANTOMS


def test_followers_come_after_the_first_of_their_own_kind():
    part = PartFacts(6, 6, shape(), role="w", first=2, waits="the first pod of each Job to be scheduled")
    found = only(jobs=[owner(RAY, "ray", part)], pods=[])
    assert (found.minimum, found.missing, [a.count for a in found.later]) == (2, 2, [4])


def test_no_worker_stands_in_for_the_head():
    """Elastic workers above their minimum are extras; without the head nothing starts."""
    parts = (PartFacts(1, 1, shape(), role="head"), PartFacts(8, 4, shape(), role="w"))
    many = [member(f"w{i}", ref(RAY, "ray"), labels={"ray.io/group": "w"}) for i in range(8)]
    found = only(jobs=[owner(RAY, "ray", *parts)], pods=many)
    assert (found.minimum, found.missing, [(a.role, a.count) for a in found.absent]) == (5, 1, [("head", 1)])
    head = member("z-head", ref(RAY, "ray"), labels={"ray.io/group": "head"}, created=9.0)
    whole = only(jobs=[owner(RAY, "ray", *parts)], pods=[*many, head])
    assert whole.missing == 0
    assert "z-head" in {m.name for m in whole.first}


def test_replicas_of_several_hosts_are_added_whole():
    parts = (PartFacts(1, 1, shape(), role="head"), PartFacts(4, 0, shape(), role="w", unit=2))

    def worker(i, replica):
        labels = {"ray.io/group": "w", "ray.io/worker-group-replica-name": replica}
        return member(f"w{i}", ref(RAY, "ray"), labels=labels)

    head = lifted(member("h", ref(RAY, "ray"), labels={"ray.io/group": "head"}), "n0", 1)
    pods = [head, worker(0, "a"), worker(1, "a"), worker(2, "b")]
    found = decision(snapshot(nodes=nodes(4), jobs=[owner(RAY, "ray", *parts)], pods=pods))
    assert set(found.places) == {f"{NS}/w0", f"{NS}/w1"}
    tight = decision(snapshot(nodes=nodes(2, gpu=1), jobs=[owner(RAY, "ray", *parts)], pods=pods))
    assert tight.action == "hold", "half a replica is none"


def test_a_stage_that_is_done_hands_over_to_the_next():
    """Its members have succeeded, and the owner counts them no more."""
    top = owner(JOBSET, "js", ("init", 0), later("trainer", 2))
    done = msgspec.structs.replace(
        member("init", ref(JOBSET, "js"), gated=False), phase="Succeeded", lifted=Lifted(1, NOW)
    )
    found = only(jobs=[top], pods=[done])
    assert (found.minimum, found.missing, found.later, found.continues) == (2, 2, (), True)
    other = {"jobs": [top, job("other", 3)], "pods": [done, *(pod(f"o{i}", job="other") for i in range(3))]}
    decisions = {d.group: d for d in decide(snapshot(nodes=nodes(1, gpu=4), **other), Config(), NOW).decisions}
    assert decisions[f"Job/{NS}/other"].reason is Reason.NODES_SHORT, "two of four are promised"


# --- an operator that waits for the PodGroup's phase ---------------------------------------------------------

TORCH = ("kubeflow.org", "PyTorchJob")


def commanded(gpus=1, present=0):
    top = owner(TORCH, "t", ("master", 1), ("worker", 2))
    given = podgroup("t", 3, controller="t")
    label = "training.kubeflow.org/replica-type"
    made = [member(f"w{i}", ref(TORCH, "t"), labels={label: "worker"}) for i in range(present)]
    return snapshot(nodes=nodes(3, gpu=gpus), jobs=[top], podgroups=[given], pods=made)


def test_pods_are_called_for_when_all_of_them_have_room():
    found = decision(commanded())
    assert (found.group, found.called, found.reason) == (f"PodGroup/{NS}/t", True, Reason.FORMING)
    short = decision(msgspec.structs.replace(commanded(), nodes=nodes(2, gpu=1)))
    assert (short.called, short.reason) == (False, Reason.NODES_SHORT)


def test_who_was_called_is_not_sent_away():
    found = decision(msgspec.structs.replace(commanded(present=1), nodes=nodes(1, gpu=1)))
    assert (found.called, found.action) == (True, "hold")


def test_pods_of_the_owner_belong_to_the_podgroup_that_it_controls():
    (found,) = groups_of(commanded(present=2)).values()
    assert (found.identity.kind, len(found.members), found.missing) == ("PodGroup", 2, 1)


def test_owner_facts_of_pods_and_jobs_meet():
    """The uid in a pod's reference is what the owner's facts are found by."""
    family = families.KNOWN.of(*JOBSET)
    raw = {"metadata": {"name": "js", "namespace": NS, "uid": "js"}, "spec": {"replicatedJobs": []}}
    top = owner_facts.owner(family)(msgspec.convert(raw, family.type))
    found = only(jobs=[top], pods=[member("p", ref(JOBSET, "js"))])
    assert found.identity.key == f"JobSet/{NS}/js"
