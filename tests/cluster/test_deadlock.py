"""Quota deadlocks end: groups that hold parts of one quota run one after the other, and nobody fights over a lever."""

import os
import random
import threading
import time

import pytest

from policy import names
from tests.cluster import quotas
from tests.cluster.conftest import holds_for, namespace_in, wait_until
from tests.cluster.quotas import GPU_KEY, claim, complete, failed, job, jobs, limit, quota, suspended, training

ROUNDS = int(os.environ.get("GANGGATE_DEADLOCKS", "5"))
FROZEN_SECONDS = float(os.environ.get("GANGGATE_FROZEN", "15"))  # the full count: 300
GANGS = 20


def submit(kubectl, objects, *, shuffle):
    """PodGroups first, then the Jobs one by one in a random order: their controllers' creates interleave."""
    first = [o for o in objects if o["kind"] != "Job"]
    first and kubectl.create(first, validate=False)
    found = [o for o in objects if o["kind"] == "Job"]
    shuffle.shuffle(found)
    threads = [threading.Thread(target=kubectl.create, args=([o],), kwargs={"validate": False}) for o in found]
    for thread in threads:
        thread.start()
        shuffle.random() < 0.5 and thread.join()
    for thread in threads:
        thread.join()


def all_complete(kubectl, space):
    found = jobs(kubectl, space)
    assert not [name for name, one in found.items() if failed(one)]
    return bool(found) and all(complete(one) for one in found.values())


def give_backs(kubectl, space):
    return {name: (claim(one) or {}).get("times", 0) for name, one in jobs(kubectl, space).items()}


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_two_trainings_in_a_quota_for_one_finish_in_turn(arena, round_):
    kubectl, shuffle = arena.kubectl, random.Random(round_)
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={GPU_KEY: "5"}))
        submit(kubectl, [*training(space, "a"), *training(space, "b")], shuffle=shuffle)
        started = time.monotonic()
        wait_until(lambda: all_complete(kubectl, space), timeout=90, what="both trainings complete")
        times = give_backs(kubectl, space)
        assert max(times.values()) <= 1, story(kubectl, space)
        print(f"round {round_}: {time.monotonic() - started:.1f} s, gave back {times}")
    assert all(one["spec"]["backoffLimit"] == 0 for one in training(space, "a") if one["kind"] == "Job")


def test_twenty_gangs_of_mixed_sizes_in_a_quota_for_one_and_a_half(arena):
    kubectl, shuffle = arena.kubectl, random.Random(7)
    sizes = [shuffle.choice((1, 2, 3, 5, 8)) for _ in range(GANGS)]
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={GPU_KEY: "12"}))
        template = quotas.member(run="1s")
        submit(kubectl, [job(space, f"g{i}", n, template=template) for i, n in enumerate(sizes)], shuffle=shuffle)
        started = time.monotonic()
        wait_until(lambda: all_complete(kubectl, space), timeout=240, what=f"{GANGS} gangs complete")
        times = give_backs(kubectl, space)
        print(
            f"{GANGS} gangs: {time.monotonic() - started:.1f} s, {sum(times.values())} give-backs, {max(times.values())} at most"
        )
        assert max(times.values()) <= 3


def test_a_namespace_may_ask_for_reports_only(arena):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang", **{names.ANNOTATION_DEADLOCK: "report"}) as space:
        limit(kubectl, space, quota(space, hard={GPU_KEY: "5"}))
        deadlock(kubectl, space)
        wait_until(lambda: "QuotaDeadlock" in events(kubectl, space), timeout=30, what="QuotaDeadlock said")
        holds_for(lambda: not suspended(kubectl, space), 5, "nothing is suspended")


def deadlock(kubectl, space):
    """Two trainings, both half made: the workers of both come before anything else of either."""
    objects = [*training(space, "a"), *training(space, "b")]
    first = [o for o in objects if o["kind"] != "Job" or o["metadata"]["name"].endswith("worker")]
    kubectl.create(first, validate=False)
    wait_until(lambda: len(kubectl.json("get", "pods", "-n", space)["items"]) == 4)
    kubectl.create([o for o in objects if o not in first], validate=False)


def events(kubectl, space):
    return {e["reason"]: e["message"] for e in kubectl.json("get", "events", "-n", space)["items"]}


def story(kubectl, space):
    """What was told in the namespace, in order."""
    found = kubectl.json("get", "events", "-n", space)["items"]
    told = [(e.get("eventTime") or e["firstTimestamp"], e["involvedObject"], e) for e in found]
    lines = [f"{at} {of['kind']}/{of['name']} {e['reason']}: {e['message']}" for at, of, e in told]
    return "\n".join(sorted(lines))


def test_a_client_that_reverts_the_suspension_is_not_fought(arena):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={GPU_KEY: "5"}))
        deadlock(kubectl, space)
        given = wait_until(lambda: suspended(kubectl, space), timeout=30, what="a suspension")
        for name in given:
            kubectl("patch", "job", name, "-n", space, "--type=merge", "-p", '{"spec":{"suspend":false}}')
        wait_until(lambda: "somebody else" in events(kubectl, space).get("GangResumed", ""))
        wait_until(lambda: any((claim(one) or {}).get("foreign") for one in jobs(kubectl, space).values()))
        wait_until(lambda: all_complete(kubectl, space), timeout=90, what="both trainings complete")
        assert max(give_backs(kubectl, space).values()) == 1


def test_a_suspension_by_somebody_else_stays(arena):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        kubectl.create([quota(space, hard={GPU_KEY: "5"}), job(space, "j", 2, suspend=True)], validate=False)
        forged = '{"group":"x","why":"deadlock","at":1}'
        kubectl("annotate", "job", "j", "-n", space, f"{names.ANNOTATION_GIVEN_BACK}={forged}")
        holds_for(lambda: suspended(kubectl, space) == ["j"], 8, "it is not ours to resume")


def test_the_controller_manager_stands_still_in_the_middle_of_a_cure(arena):
    kubectl, manager = arena.kubectl, arena.processes["kube-controller-manager"]
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={GPU_KEY: "5"}))
        deadlock(kubectl, space)
        wait_until(lambda: suspended(kubectl, space), timeout=30, what="a suspension")
        manager.pause()
        try:
            before = suspended(kubectl, space)
            holds_for(lambda: set(before) <= set(suspended(kubectl, space)), FROZEN_SECONDS, "no lever moves back")
            times = give_backs(kubectl, space)
        finally:
            manager.resume()
        assert max(times.values()) == 1, times
        wait_until(lambda: all_complete(kubectl, space), timeout=120, what="both trainings complete")
        assert max(give_backs(kubectl, space).values()) <= 2
