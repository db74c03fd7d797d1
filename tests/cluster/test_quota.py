"""Quota truth on a live cluster: deadlines that do not burn, owners that are woken, quotas that change and mix."""

import datetime as dt
import os
import time

import pytest

from policy import names
from tests.cluster import quotas, sidecar
from tests.cluster.calls import Caller
from tests.cluster.conftest import holds_for, namespace_in, wait_until
from tests.cluster.quotas import GPU_KEY, claim, complete, failed, job, jobs, limit, quota, suspended
from tests.cluster.test_deadlock import events

DEADLINE = int(os.environ.get("GANGGATE_DEADLINE", "30"))  # seconds; the full count: 60, waiting 300
WAIT_SECONDS = float(os.environ.get("GANGGATE_DEADLINE_WAIT", "25"))
SOON_SECONDS = float(os.environ.get("GANGGATE_SOON", "40"))  # of a machine that is busy; at rest: 20
BACKOFF_SECONDS = float(os.environ.get("GANGGATE_BACKOFF", "20"))  # the full count: 300


def pods(kubectl, space):
    return kubectl.json("get", "pods", "-n", space)["items"]


def bound(kubectl, space, owner):
    mine = [p for p in pods(kubectl, space) if p["metadata"]["labels"].get(names.JOB_NAME_LABEL) == owner]
    return sum(1 for p in mine if p["spec"].get("nodeName"))


def lasting(space, name):
    """Four pods that run on until they are deleted."""
    return job(space, name, 4, template=quotas.member(run="900s"))


def raise_quota(kubectl, space, amount, name="quota"):
    patch = f'{{"spec":{{"hard":{{"{GPU_KEY}":"{amount}"}}}}}}'
    kubectl("patch", "resourcequota", name, "-n", space, "--type=merge", "-p", patch)


def seconds(stamp):
    return dt.datetime.fromisoformat(stamp).timestamp()


def test_waiting_burns_no_deadline(arena):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={GPU_KEY: "3"}))
        template = quotas.member(run=f"{DEADLINE - 15}s")
        kubectl.create([job(space, "j", 4, template=template, activeDeadlineSeconds=DEADLINE)], validate=False)
        wait_until(lambda: suspended(kubectl, space) == ["j"], what="the Job suspended")
        assert claim(jobs(kubectl, space)["j"])["why"] == "deadline"
        holds_for(lambda: suspended(kubectl, space) == ["j"], WAIT_SECONDS, "it waits suspended")
        assert not pods(kubectl, space)
        raise_quota(kubectl, space, 4)
        wait_until(lambda: bound(kubectl, space, "j") == 4, what="four pods bound")
        wait_until(lambda: complete(jobs(kubectl, space)["j"]), timeout=DEADLINE + 30, what="the Job complete")
        done = jobs(kubectl, space)["j"]
        assert not failed(done)
        ran = seconds(done["status"]["completionTime"]) - seconds(done["status"]["startTime"])
        print(f"deadline {DEADLINE} s, waited {WAIT_SECONDS:.0f} s, ran {ran:.0f} s of its own")
        assert ran >= DEADLINE - 16


def test_a_deadline_without_a_lever_is_told(arena):
    """Somebody resumed the Job against us: it is theirs, and they are told what that costs."""
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={GPU_KEY: "1"}))
        kubectl.create([job(space, "j", 2, activeDeadlineSeconds=120)], validate=False)
        wait_until(lambda: suspended(kubectl, space) == ["j"])
        kubectl("patch", "job", "j", "-n", space, "--type=merge", "-p", '{"spec":{"suspend":false}}')
        wait_until(lambda: any("s are left" in m for m in messages(kubectl, space)), what="the time left")
        holds_for(lambda: not suspended(kubectl, space), 3, "no fight")


def messages(kubectl, space):
    return [e["message"] for e in kubectl.json("get", "events", "-n", space)["items"]]


def reports(kubectl, space):
    """What PodGroups say now: an event is told once, with the figures of that moment."""
    groups = kubectl.json("get", "podgroups.scheduling.volcano.sh", "-n", space)["items"]
    return [c.get("message", "") for group in groups for c in group.get("status", {}).get("conditions", ())]


def test_a_group_that_was_refused_starts_soon_after_the_room(arena):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={GPU_KEY: "4"}))
        kubectl.create([lasting(space, "first")], validate=False)
        wait_until(lambda: bound(kubectl, space, "first") == 4)
        kubectl.create([lasting(space, "late")], validate=False)
        wait_until(lambda: "NamespaceQuotaShort" in events(kubectl, space), what="said on the owner")
        holds_for(lambda: not bound(kubectl, space, "late"), BACKOFF_SECONDS)  # the controller's back-off grows
        kubectl("delete", "job", "first", "-n", space)
        started = time.monotonic()
        wait_until(lambda: bound(kubectl, space, "late") == 4, what="four pods bound")
        took = time.monotonic() - started
        print(f"backed off for {BACKOFF_SECONDS:.0f} s; from room to bound {took:.1f} s")
        assert took < SOON_SECONDS


def test_a_group_whose_first_pod_is_refused_says_why_on_its_owner(arena):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={GPU_KEY: "0"}))
        kubectl.create([job(space, "j", 2)], validate=False)
        wait_until(lambda: "NeverFits" in events(kubectl, space))
        assert "2 pods need 2 requests.nvidia.com/gpu, quota quota allows 0" in events(kubectl, space)["NeverFits"]
        raise_quota(kubectl, space, 2)
        wait_until(lambda: bound(kubectl, space, "j") == 2, what="started by itself")


def test_a_container_that_another_webhook_adds_after_ours_is_counted(arena):
    """One GPU in the template, two in the pod: the first refused create tells, and then every sibling."""
    kubectl, admin = arena.kubectl, Caller(arena.kubeconfig)
    extra = {"name": "extra", "image": "busybox:1.36", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    with namespace_in(arena, "gang") as space, sidecar.adding(admin, space, extra):
        limit(kubectl, space, quota(space, hard={GPU_KEY: "1"}))
        kubectl.create([lasting(space, "j")], validate=False)
        told = "4 pods need 8 requests.nvidia.com/gpu, quota quota allows 1"
        wait_until(lambda: any(told in m for m in [*messages(kubectl, space), *reports(kubectl, space)]), what=told)
        raise_quota(kubectl, space, 7)
        more = "4 pods need 8 requests.nvidia.com/gpu, quota quota allows 7"
        wait_until(lambda: any(more in m for m in messages(kubectl, space)), timeout=60, what=more)
        assert bound(kubectl, space, "j") == 0
        raise_quota(kubectl, space, 8)
        wait_until(lambda: bound(kubectl, space, "j") == 4, what="four pods bound")
        assert kubectl.json("get", "resourcequota", "quota", "-n", space)["status"]["used"][GPU_KEY] == "8"


def test_a_quota_that_demands_requests_has_its_own_reason(arena):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={"requests.cpu": "8"}))
        kubectl.create([job(space, "j", 2)], validate=False)
        wait_until(lambda: "RequestsMissing" in events(kubectl, space), what="RequestsMissing")


def test_a_key_that_binds_nothing_is_told_on_the_quota(arena):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={"limits.nvidia.com/gpu": "8"}))
        found = wait_until(lambda: events(kubectl, space).get("QuotaNeverBinds"), timeout=40)
        assert "use requests.nvidia.com/gpu" in found


def test_a_quota_is_lowered_below_its_use_while_a_group_waits_and_raised_again(arena):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        limit(kubectl, space, quota(space, hard={GPU_KEY: "6"}))
        kubectl.create([lasting(space, "a")], validate=False)
        wait_until(lambda: bound(kubectl, space, "a") == 4)
        kubectl.create([lasting(space, "b")], validate=False)
        raise_quota(kubectl, space, 3)
        wait_until(lambda: "NeverFits" in events(kubectl, space))
        assert bound(kubectl, space, "b") == 0
        raise_quota(kubectl, space, 8)
        wait_until(lambda: bound(kubectl, space, "b") == 4, what="b bound")


def test_quotas_of_several_scopes_each_stop_only_their_own(arena):
    kubectl = arena.kubectl
    with namespace_in(arena, "gang") as space:
        urgent = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical", "high-x"]}
        high = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high-x"},
            "value": 9,
        }
        kubectl.apply([high])
        limit(
            kubectl,
            space,
            quota(space, "best", scopes=["BestEffort"], hard={"pods": "1"}),
            quota(space, "rest", scopes=["NotBestEffort"], hard={"requests.cpu": "3"}),
            quota(space, "high", selector=[urgent], hard={"pods": "1"}),
        )
        plain, costly = quotas.member(gpus=0, run="900s"), quotas.member(gpus=0, cpu="1", run="900s")
        above = quotas.member(gpus=0, cpu="500m", run="900s")
        above["spec"]["priorityClassName"] = "high-x"
        kubectl.create(
            [job(space, "effortless", 2, template=plain), job(space, "paid", 3, template=costly)], validate=False
        )
        wait_until(lambda: bound(kubectl, space, "paid") == 3, what="the paid group bound")
        kubectl.create([job(space, "above", 2, template=above)], validate=False)
        wait_until(lambda: len(limits(kubectl, space)) >= 2, what="both are stopped, by their quotas")
        assert bound(kubectl, space, "effortless") == bound(kubectl, space, "above") == 0
        for name in ("best", "high"):
            kubectl("delete", "resourcequota", name, "-n", space)
        wait_until(lambda: bound(kubectl, space, "effortless") == 2, what="best effort runs")
        holds_for(lambda: bound(kubectl, space, "above") == 0, 3, "the other quota is full")
        kubectl("delete", "job", "paid", "-n", space)
        wait_until(lambda: bound(kubectl, space, "above") == 2, timeout=30, what="high priority runs")


def limits(kubectl, space):
    return {m.partition("quota ")[2].split()[0] for m in messages(kubectl, space) if "can never fit" in m}
