"""Spark's real operator, and Spark itself, as gangs: the driver with room for all, then the executors that it makes."""

import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import breaking
from tests.cluster.breaking import gated
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import holds_for, wait_until
from tests.spark.space import GPU, Pod, apply, bound, held, live, narrow, pods
from tests.spark import webhook
from tests.spark.conftest import driver, environment, of_role, running, settings, spark_submit

SUBMIT_SECONDS = 180  # a JVM starts for each, beside whatever else the machine does
APPLICATION = Path(__file__).with_name("application.yaml")


def application_path(space: str, name: str = "simple") -> str:
    return f"/apis/sparkoperator.k8s.io/v1beta2/namespaces/{space}/sparkapplications/{name}"


def application() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(APPLICATION.read_text())
    return found


def executors(cluster: Cluster, space: str) -> list[Pod]:
    return [pod for pod in of_role(pods(cluster, space), "executor") if live(pod)]


def started(pod: Pod) -> bool:
    """Whether it stood behind the gate, was lifted by us, and is on a node."""
    lifted = names.ANNOTATION_LIFTED in pod["metadata"].get("annotations", {})
    return lifted and not gated(pod) and bool(pod["spec"].get("nodeName"))


def test_a_driver_is_held_without_room_for_its_executors_and_they_join_it(
    cluster: Cluster, admin: Caller, tmp_path: Path
) -> None:
    starts_in_stages(cluster, admin, tmp_path, application())


def test_so_is_one_whose_gpus_stand_in_fields_that_a_webhook_writes_into_pods(
    cluster: Cluster, admin: Caller, tmp_path: Path
) -> None:
    """Both webhooks see each pod, ours before it asks for any GPU."""
    app = application()
    for role in ("driver", "executor"):
        del app["spec"][role]["template"]
        app["spec"][role]["gpu"] = {"name": GPU, "quantity": 1}
    with webhook.registered(cluster, tmp_path):
        starts_in_stages(cluster, admin, tmp_path, app)


def starts_in_stages(cluster: Cluster, admin: Caller, folder: Path, app: dict[str, Any]) -> None:
    with narrow(cluster, admin, 3) as space:
        breaking.must(admin.create(breaking.jobs(space), breaking.job("before", space, 1)))
        wait_until(lambda: bound(cluster, space) == 1, what="what takes the room of one executor")
        apply(cluster, space, [app])
        wait_until(lambda: held(cluster, space) == 1, timeout=SUBMIT_SECONDS, what="the driver behind the gate")
        assert gpus(driver(cluster, space)) == 1
        holds_for(lambda: held(cluster, space) == 1, 3, "started without room for its executors")
        freed = time.monotonic()
        breaking.must(admin("DELETE", breaking.jobs(space, "before") + "?propagationPolicy=Background"))
        wait_until(lambda: held(cluster, space) == 0, timeout=60, what="the lift")
        print(f"SparkApplication: {time.monotonic() - freed:.1f} s from room to lift of the driver")
        wait_until(lambda: bound(cluster, space) == 1, what="the driver on a node")
        # There is room for two more pods now, and it is the executors'.
        breaking.must(admin.create(breaking.jobs(space), breaking.job("after", space, 1)))
        wait_until(lambda: held(cluster, space) == 1, what="another's pod behind the gate")
        holds_for(lambda: held(cluster, space) == 1, 3, "another took the room of the executors")
        with running(cluster, space, environment(cluster, space, folder), folder):
            wait_until(
                lambda: [started(pod) for pod in executors(cluster, space)] == [True] * 2,
                timeout=SUBMIT_SECONDS,
                what="two executors on nodes",
            )
            assert held(cluster, space) == 1
            assert [gpus(pod) for pod in executors(cluster, space)] == [1, 1]
            assert {group(pod) for pod in executors(cluster, space)} == {group(driver(cluster, space))}


def gpus(pod: Pod) -> int:
    return sum(int(each["resources"].get("limits", {}).get(GPU, 0)) for each in pod["spec"]["containers"])


def group(pod: Pod) -> str | None:
    """The PodGroup that it was lifted with, if with any."""
    found: dict[str, str] = pod["metadata"].get("annotations", {})
    return found.get(names.GROUP_NAME)


def test_a_lost_executor_is_replaced_and_nothing_outlives_the_application(
    cluster: Cluster, admin: Caller, gang_namespace: str, tmp_path: Path
) -> None:
    space = gang_namespace
    apply(cluster, space, [application()])
    wait_until(lambda: bound(cluster, space) == 1, timeout=SUBMIT_SECONDS, what="the driver on a node")
    with running(cluster, space, environment(cluster, space, tmp_path), tmp_path):
        wait_until(lambda: len(executors(cluster, space)) == 2, timeout=SUBMIT_SECONDS, what="two executors")
        wait_until(lambda: bound(cluster, space) == 3, what="all on nodes")
        gone = executors(cluster, space)[0]["metadata"]
        cluster.kubectl("delete", "pod", gone["name"], "-n", space, "--wait=false")
        wait_until(lambda: gone["uid"] not in uids(cluster, space), what="the loss")
        wait_until(
            lambda: [started(pod) for pod in executors(cluster, space)] == [True] * 2,
            timeout=60,
            what="two executors again",
        )
        assert {group(pod) for pod in executors(cluster, space)} == {group(driver(cluster, space))}
    breaking.must(admin("DELETE", application_path(space)))
    wait_until(lambda: not pods(cluster, space), timeout=60, what="no pod any more")
    wait_until(lambda: not breaking.listed(admin, breaking.podgroups(space)), what="no PodGroup any more")


def uids(cluster: Cluster, space: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods(cluster, space)}


def test_two_applications_with_room_for_one_run_in_turn(cluster: Cluster, admin: Caller) -> None:
    """Neither driver takes the room that the other's executors need."""
    second = application()
    second["metadata"]["name"] = "second"
    with narrow(cluster, admin, 5) as space:
        apply(cluster, space, [application(), second])
        wait_until(
            lambda: len(of_role(pods(cluster, space), "driver")) == 2, timeout=SUBMIT_SECONDS, what="both drivers"
        )
        wait_until(lambda: bound(cluster, space) == 1, what="one of them on a node")
        holds_for(lambda: (bound(cluster, space), held(cluster, space)) == (1, 1), 3, "both started")
        (first,) = (pod for pod in of_role(pods(cluster, space), "driver") if not gated(pod))
        name = first["metadata"]["labels"]["sparkoperator.k8s.io/app-name"]
        breaking.must(admin("DELETE", application_path(space, name)))
        wait_until(lambda: (bound(cluster, space), held(cluster, space)) == (1, 0), timeout=60, what="the other one")
        assert first["metadata"]["uid"] not in uids(cluster, space)


def test_the_second_application_in_a_quota_for_one_is_held_and_left_alone(
    cluster: Cluster, admin: Caller, gang_namespace: str
) -> None:
    """Whoever writes to an application while it is submitted makes the operator fail it: nobody is suspended or woken."""
    space, second = gang_namespace, application()
    second["metadata"]["name"] = "second"
    path = f"/api/v1/namespaces/{space}/resourcequotas"
    breaking.must(admin.create(path, breaking.quota("gpus", **{f"requests.{GPU}": 3})))
    wait_until(lambda: breaking.listed(admin, path)[0].get("status", {}).get("hard"), what="the quota")
    apply(cluster, space, [application()])
    wait_until(lambda: bound(cluster, space) == 1, timeout=SUBMIT_SECONDS, what="the first driver on a node")
    apply(cluster, space, [second])
    wait_until(lambda: held(cluster, space) == 1, timeout=SUBMIT_SECONDS, what="the second driver behind the gate")
    holds_for(lambda: held(cluster, space) == 1, 5, "started without quota for its executors")
    found = breaking.must(admin("GET", application_path(space, "second")))
    assert not [key for key in found["metadata"].get("annotations", {}) if key.startswith(names.DOMAIN)]
    breaking.must(admin("DELETE", application_path(space)))
    wait_until(lambda: (bound(cluster, space), len(pods(cluster, space))) == (1, 1), timeout=60, what="the second one")


def test_its_user_suspends_and_resumes_it(cluster: Cluster, admin: Caller, gang_namespace: str) -> None:
    space = gang_namespace
    apply(cluster, space, [application()])
    wait_until(lambda: bound(cluster, space) == 1, timeout=SUBMIT_SECONDS, what="the driver on a node")
    breaking.must(admin.patch(application_path(space), {"spec": {"suspend": True}}, MERGE))
    wait_until(lambda: not pods(cluster, space), timeout=60, what="suspended")
    breaking.must(admin.patch(application_path(space), {"spec": {"suspend": False}}, MERGE))
    wait_until(lambda: bound(cluster, space) == 1, timeout=SUBMIT_SECONDS, what="resumed")


def test_a_driver_that_is_lost_needs_room_for_all_again(cluster: Cluster, admin: Caller) -> None:
    """Whoever came meanwhile has its executors' room: the next driver waits until that is free."""
    lasting = application()
    lasting["spec"]["restartPolicy"] = {"type": "OnFailure", "onFailureRetries": 3, "onFailureRetryInterval": 1}
    with narrow(cluster, admin, 3) as space:
        apply(cluster, space, [lasting])
        wait_until(lambda: bound(cluster, space) == 1, timeout=SUBMIT_SECONDS, what="the driver on a node")
        lost = driver(cluster, space)["metadata"]
        breaking.must(admin.create(breaking.jobs(space), breaking.job("waiting", space, 1)))
        wait_until(lambda: held(cluster, space) == 1, what="another's pod behind the gate")
        cluster.kubectl("delete", "pod", lost["name"], "-n", space, "--wait=false")
        wait_until(lambda: lost["uid"] not in uids(cluster, space), what="the loss")
        wait_until(
            lambda: [gated(pod) for pod in of_role(pods(cluster, space), "driver")] == [True],
            timeout=SUBMIT_SECONDS,
            what="the next driver behind the gate",
        )
        holds_for(lambda: held(cluster, space) == 1, 3, "started without room for its executors")
        breaking.must(admin("DELETE", breaking.jobs(space, "waiting") + "?propagationPolicy=Background"))
        wait_until(lambda: bound(cluster, space) == 1 and not held(cluster, space), timeout=60, what="the next driver")


def test_without_an_application_each_executor_starts_by_itself(cluster: Cluster, admin: Caller, tmp_path: Path) -> None:
    """`spark-submit` alone: nobody tells how many there will be, so as many start as there is room for."""
    asked = {
        "spark.kubernetes.driver.pod.name": "bare-driver",
        "spark.kubernetes.container.image": "example.invalid/spark:4.0.1",
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.executor.resource.gpu.amount": "1",
        "spark.executor.resource.gpu.vendor": "nvidia.com",
    }
    with narrow(cluster, admin, 1) as space:
        env = environment(cluster, space, tmp_path)
        master = f"k8s://https://{env['KUBERNETES_SERVICE_HOST']}:{env['KUBERNETES_SERVICE_PORT']}"
        told = settings({"spark.kubernetes.namespace": space} | asked)
        where = ("--master", master, "--deploy-mode", "cluster", "--name", "bare", "--class", "org.example.Main")
        command = spark_submit(env, *where, *told, "local:///opt/app.jar")
        subprocess.run(command, env=env, check=True, capture_output=True, timeout=SUBMIT_SECONDS)
        wait_until(lambda: bound(cluster, space) == 1, what="the driver, which asks for no GPU")
        assert not started(driver(cluster, space))
        with running(cluster, space, env, tmp_path):
            wait_until(lambda: len(executors(cluster, space)) == 2, timeout=SUBMIT_SECONDS, what="two executors")
            wait_until(lambda: (bound(cluster, space), held(cluster, space)) == (2, 1), what="one of them on a node")
            holds_for(lambda: held(cluster, space) == 1, 3, "started without room")
            queue = cluster.kubectl.json("get", "namespace", space)["metadata"]["annotations"][names.ANNOTATION_QUEUES]
            breaking.must(admin.patch(breaking.queues(queue), {"spec": {"capability": {GPU: 2}}}, MERGE))
            wait_until(lambda: (bound(cluster, space), held(cluster, space)) == (3, 0), timeout=60, what="both")
            assert all(started(pod) for pod in executors(cluster, space))
            assert {group(pod) for pod in pods(cluster, space)} == {None}
