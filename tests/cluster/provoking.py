"""How each reason of names.Reason comes about on a live cluster: what is made, and what is broken meanwhile.

Each function makes what its reason needs in the namespace that it is given, and names the object that will show the
event. The context managers break a part of the cluster for as long as they last.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import breaking, rights, submissions
from tests.cluster.breaking import LONG, VOLCANO, bound, jobs, listed, member, must, podgroups, pods, queues, quota
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import wait_until

GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Subject:
    """What is described: kind as kubectl takes it, and name."""

    kind: str
    name: str


@dataclass(frozen=True)
class World:
    cluster: Cluster
    admin: Caller


# --- small things that groups are made of --------------------------------------------------------------------


def group(
    world: World, space: str, size: int, minimum: int | None = None, name: str = "train", **spec: object
) -> Subject:
    """A PodGroup and `size` pods of one GPU that name it."""
    body = submissions.podgroup(VOLCANO, name, size if minimum is None else minimum, space, **spec)
    must(world.admin.create(podgroups(space), body))
    return members(world, space, size, name)


def members(world: World, space: str, size: int, name: str = "train", **fields: object) -> Subject:
    for i in range(size):
        pod = member(f"{name}-{i}", space, name)
        pod["spec"] |= fields
        must(world.admin.create(pods(space), pod))
    return Subject("pod", f"{name}-0")


def job(world: World, space: str, size: int, name: str = "train", **template: object) -> Subject:
    must(world.admin.create(jobs(space), breaking.job(name, space, size, **template)))
    return Subject("job", name)


def first_pod(world: World, space: str, name: str = "train", count: int = 1) -> Subject:
    """The first of the pods that a Job has made, once there are `count`."""

    def made() -> list[str]:
        found = sorted(p["metadata"]["name"] for p in listed(world.admin, pods(space)) if breaking.of(p) == name)
        return found if len(found) >= count else []

    return Subject("pod", wait_until(made, what=f"{count} pods of Job {name}")[0])


def running(world: World, space: str, size: int, name: str) -> None:
    job(world, space, size, name)
    wait_until(lambda: bound(world.admin, space, name) == size, what=f"{size} pods of {name} on nodes")


def limited(world: World, space: str, gpus: int) -> None:
    in_force(world, space, quota("gpus", **{f"requests.{GPU}": gpus}))


def in_force(world: World, space: str, body: dict) -> None:
    """Before its status tells what it allows, every pod passes."""
    path = f"/api/v1/namespaces/{space}/resourcequotas"
    must(world.admin.create(path, body))
    wait_until(lambda: listed(world.admin, path)[0].get("status", {}).get("hard"), what="the quota")


def line(world: World, name: str, **spec: object) -> str:
    must(world.admin.create(queues(), breaking.queue(name, **spec)))
    return name


# --- side by side --------------------------------------------------------------------------------------------


def forming(world: World, space: str) -> Subject:
    return group(world, space, 2, 4)


def quota_short(world: World, space: str) -> Subject:
    limited(world, space, 6)
    running(world, space, 4, "before")
    job(world, space, 4)
    return first_pod(world, space, count=2)


def unstated(world: World, space: str) -> Subject:
    in_force(world, space, quota("sums", **{"limits.cpu": 8}))
    return job(world, space, 2)


def create_refused(world: World, space: str) -> Subject:
    limit = {"type": "Pod", "max": {GPU: "0"}}
    body = {"metadata": {"name": "small"}, "spec": {"limits": [limit]}}
    must(world.admin.create(f"/api/v1/namespaces/{space}/limitranges", body))
    return job(world, space, 2)


def given_back(world: World, space: str) -> Subject:
    limited(world, space, 6)
    running(world, space, 4, "before")
    body = breaking.job("train", space, 4)
    body["spec"]["activeDeadlineSeconds"] = 600
    must(world.admin.create(jobs(space), body))
    return Subject("job", "train")


def resumed(world: World, space: str) -> Subject:
    subject = given_back(world, space)
    wait_until(lambda: must(world.admin("GET", jobs(space, "train")))["spec"].get("suspend"), what="suspended")
    path = f"/api/v1/namespaces/{space}/resourcequotas/gpus"
    must(world.admin.patch(path, {"spec": {"hard": {f"requests.{GPU}": 8}}}, MERGE))
    return subject


def deadlocked(world: World, space: str) -> Subject:
    limited(world, space, 4)
    group(world, space, 2, 3, name="a")
    return group(world, space, 2, 3)


def idle_quota(world: World, space: str) -> Subject:
    body = quota("idle", **{f"limits.{GPU}": 8})
    must(world.admin.create(f"/api/v1/namespaces/{space}/resourcequotas", body))
    return Subject("resourcequota", "idle")


def disagreeing(world: World, space: str) -> Subject:
    """With the controllers standing still: the charge of a pod stays when the pod goes."""
    limited(world, space, 4)
    group(world, space, 1, 2)
    path = f"/api/v1/namespaces/{space}/resourcequotas/gpus"
    key = f"requests.{GPU}"
    wait_until(lambda: must(world.admin("GET", path))["status"]["used"].get(key) == "1", what="the charge")
    world.cluster.processes["kube-controller-manager"].pause()
    must(world.admin("DELETE", pods(space, "train-0"), {"gracePeriodSeconds": 0}))
    return Subject("resourcequota", "gpus")


def capability_short(world: World, space: str) -> Subject:
    line(world, space, capability={GPU: 4})
    group(world, space, 3, name="before", queue=space)
    wait_until(lambda: bound(world.admin, space, "before") == 3)
    return group(world, space, 2, queue=space)


def behind(world: World, space: str) -> Subject:
    """Three of four GPUs of a queue are busy for ten minutes; who comes second would outlast them."""
    line(world, space, capability={GPU: 4})
    timed = breaking.job("before", space, 3)
    timed["spec"]["activeDeadlineSeconds"] = 600
    timed["spec"]["template"]["metadata"]["annotations"][names.QUEUE_NAME] = space
    must(world.admin.create(jobs(space), timed))
    wait_until(lambda: bound(world.admin, space, "before") == 3)
    group(world, space, 4, name="large", queue=space)  # of one second, the first by name goes first
    wait_until(lambda: len(listed(world.admin, pods(space))) == 7)
    return group(world, space, 1, queue=space)


def queue_missing(world: World, space: str) -> Subject:
    return group(world, space, 2, queue="team-b")


def queue_closed(world: World, space: str) -> Subject:
    line(world, space)
    must(world.admin.patch(queues(space) + "/status", {"status": {"state": "Closed"}}, MERGE))
    return group(world, space, 2, queue=space)


def queue_not_allowed(world: World, space: str) -> Subject:
    return group(world, space, 2, queue="team-b")


def never_fits(world: World, space: str) -> Subject:
    job(world, space, 2, gpus=16)
    return first_pod(world, space)


def nodes_short(world: World, space: str) -> Subject:
    """More than what the cases before leave of 64 GPUs, and less than all."""
    job(world, space, 60)
    return first_pod(world, space)


def podgroup_missing(world: World, space: str) -> Subject:
    return members(world, space, 2)


def podgroup_invalid(world: World, space: str) -> Subject:
    marks = {"annotations": {names.GROUP_MIN_MEMBER: "two"}}
    body = breaking.job("train", space, 2)
    body["metadata"] |= marks
    must(world.admin.create(jobs(space), body))
    return first_pod(world, space)


def foreign_gate(world: World, space: str) -> Subject:
    must(world.admin.create(podgroups(space), submissions.podgroup(VOLCANO, "train", 2, space)))
    return members(world, space, 2, schedulingGates=[{"name": "example.com/data-staged"}])


def started(kind: str) -> Callable[[World, str], Subject]:
    def provoke(world: World, space: str) -> Subject:
        job(world, space, 2)
        return Subject("job", "train") if kind == "job" else first_pod(world, space, count=2)

    return provoke


def ending(world: World, space: str) -> Subject:
    return job(world, space, 2, runs="500ms")


def bypassed(world: World, space: str) -> Subject:
    breaking.relabel(world.admin, space, None)
    running(world, space, 2, "train")
    breaking.relabel(world.admin, space, "gang")
    return first_pod(world, space)


def released(world: World, space: str) -> Subject:
    found = group(world, space, 2, queue="team-b")
    wait_until(lambda: breaking.held(world.admin, space) == 2)
    breaking.relabel(world.admin, space, None)
    return found


def too_many(world: World, space: str) -> Subject:
    for i in range(5):
        group(world, space, 1, 2, name=f"early-{i}")
    wait_until(lambda: breaking.held(world.admin, space) == 5)
    return group(world, space, 1, 2)


# --- one after the other -------------------------------------------------------------------------------------


@contextmanager
def refusing_updates(world: World, space: str) -> Iterator[None]:
    """Somebody's own policy refuses every update of a pod in the namespace."""
    api = "/apis/admissionregistration.k8s.io/v1"
    kind = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}
    here = {"matchLabels": {names.NAMESPACE_NAME_LABEL: space}}
    spec = {
        "matchConstraints": {"resourceRules": [kind], "namespaceSelector": here},
        "validations": [{"expression": "false", "message": "pods are frozen during the audit"}],
    }
    bound_to = {"policyName": "example-frozen", "validationActions": ["Deny"]}
    must(
        world.admin.create(f"{api}/validatingadmissionpolicies", {"metadata": {"name": "example-frozen"}, "spec": spec})
    )
    binding = {"metadata": {"name": "example-frozen"}, "spec": bound_to}
    must(world.admin.create(f"{api}/validatingadmissionpolicybindings", binding))
    try:
        probe = submissions.template("probe", LONG)
        del probe["spec"]["containers"][0]["resources"]
        must(world.admin.create(pods(space), submissions.pod("probe", space, probe)))
        touch = {"metadata": {"labels": {"touched": "yes"}}}
        path = pods(space, "probe") + "?dryRun=All"
        wait_until(lambda: not world.admin.patch(path, touch, MERGE).ok, what="the policy in effect")
        yield
    finally:
        must(world.admin("DELETE", f"{api}/validatingadmissionpolicybindings/example-frozen"))
        must(world.admin("DELETE", f"{api}/validatingadmissionpolicies/example-frozen"))


@contextmanager
def without_scheduler(world: World, space: str) -> Iterator[None]:
    world.cluster.processes["kube-scheduler"].kill()
    try:
        yield
    finally:
        world.cluster.processes["kube-scheduler"].start()


@contextmanager
def without_collector(world: World, space: str) -> Iterator[None]:
    """The controller manager frozen: it would delete pods whose owner is gone."""
    manager = world.cluster.processes["kube-controller-manager"]
    try:
        yield
    finally:
        manager.resume()


@contextmanager
def without_sight_of_sets(world: World, space: str) -> Iterator[None]:
    with rights.lacking(world.admin, "apps", "statefulsets", "list"):
        rights.restart(world.cluster)
        yield


def stateful(world: World, space: str) -> Subject:
    path = f"/apis/apps/v1/namespaces/{space}/statefulsets"
    must(world.admin.create(path, breaking.stateful("train", space, 2)))
    return first_pod(world, space)


def owner_gone(world: World, space: str) -> Subject:
    group_of = breaking.job("train", space, 2, gpus=16)
    must(world.admin.create(jobs(space), group_of))
    found = first_pod(world, space, count=2)
    world.cluster.processes["kube-controller-manager"].pause()
    must(world.admin("DELETE", jobs(space, "train") + "?propagationPolicy=Background"))
    return found


def pair(world: World, space: str) -> Subject:
    return group(world, space, 2)


def degraded(world: World, space: str) -> Subject:
    """With the controllers standing still, nobody replaces a pod that went."""
    running(world, space, 2, "train")
    world.cluster.processes["kube-controller-manager"].pause()
    gone = pods(space, listed(world.admin, pods(space))[0]["metadata"]["name"])
    must(world.admin.patch(gone, {"metadata": {"finalizers": None}}, MERGE))
    must(world.admin("DELETE", gone, {"gracePeriodSeconds": 0}))
    return Subject("job", "train")


@contextmanager
def with_urgency(world: World, space: str) -> Iterator[None]:
    """A PriorityClass above that of the gang, and controllers that will stand still: nobody replaces who is preempted."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    must(world.admin.create(classes, {"metadata": {"name": "urgent"}, "value": 1000}))
    try:
        with without_collector(world, space):
            yield
    finally:
        must(world.admin("DELETE", f"{classes}/urgent"))


def preempted(world: World, space: str) -> Subject:
    """A pod of that class wants the node of one member, without that member."""
    body = breaking.job("train", space, 2)
    body["spec"]["completionMode"] = "Indexed"
    must(world.admin.create(jobs(space), body))
    wait_until(lambda: bound(world.admin, space) == 2, what="the gang")
    world.cluster.processes["kube-controller-manager"].pause()
    unwanted = {"matchLabels": {names.COMPLETION_INDEX: "1"}}
    (victim,) = (p for p in listed(world.admin, pods(space)) if p["metadata"]["labels"][names.COMPLETION_INDEX] == "1")
    template = submissions.template("urgent", LONG)
    del template["spec"]["containers"][0]["resources"]
    term = {"topologyKey": names.HOSTNAME_LABEL, "labelSelector": unwanted}
    template["spec"] |= {
        "priorityClassName": "urgent",
        "nodeSelector": {names.HOSTNAME_LABEL: victim["spec"]["nodeName"]},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    }
    must(world.admin.create(pods(space), submissions.pod("urgent", space, template)))
    return Subject("job", "train")
