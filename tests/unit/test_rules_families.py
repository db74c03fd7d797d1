"""Each family of owners: how many members of which role, in which stages, and what suspends it."""

import msgspec
import pytest

from policy import names
from policy.rules import owner_facts
from policy.rules.membership import families
from policy.rules.membership.leaderworkerset import MOST_SLICES
from policy.rules.quantity import parse

GPU = "nvidia.com/gpu"


def template(gpus=1, **metadata):
    resources = {"limits": {GPU: gpus}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": resources}]}}


def owner(group, kind, spec, status=None, **metadata):
    family = families.KNOWN.of(group, kind)
    raw = {"metadata": {"name": "o", "namespace": "team", "uid": "u"} | metadata, "spec": spec, "status": status or {}}
    return owner_facts.owner(family)(msgspec.convert(raw, family.type))


def parts(found):
    """Role: how many, how many at least, stage, how many first."""
    return {p.role: (p.count, p.minimum, p.stage, p.first) for p in found.parts}


# --- JobSet --------------------------------------------------------------------------------------------------


def replicated(name, replicas, pods, **more):
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template()}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}} | more


def jobset(*jobs, status=None, meta=None, **spec):
    return owner("jobset.x-k8s.io", "JobSet", {"replicatedJobs": list(jobs)} | spec, status, **(meta or {}))


def test_a_jobset_is_all_pods_of_all_its_jobs():
    found = jobset(replicated("driver", 1, 1), replicated("workers", 2, 4))
    assert parts(found) == {"driver": (1, 1, 0, 0), "workers": (8, 8, 0, 0)}
    assert (found.size.minimum, found.size.possible, found.lever) == (9, 9, ("spec", "suspend"))


def test_a_jobset_in_order_comes_job_by_job():
    order = {"startupPolicyOrder": "InOrder"}
    found = jobset(replicated("driver", 1, 1), replicated("workers", 2, 4), startupPolicy=order)
    assert parts(found) == {"driver": (1, 1, 0, 0), "workers": (8, 8, 1, 0)}
    assert found.parts[1].waits == "driver to be ready"


def test_dependencies_of_a_jobset_make_stages():
    after = {"dependsOn": [{"name": "init", "status": "Complete"}]}
    found = jobset(replicated("init", 1, 1), replicated("a", 1, 2, **after), replicated("b", 1, 2))
    assert parts(found) == {"init": (1, 1, 0, 0), "a": (2, 2, 1, 0), "b": (2, 2, 0, 0)}
    assert found.parts[1].waits == "init to be complete"


def test_jobs_of_a_jobset_that_succeeded_are_not_made_again():
    status = {"replicatedJobsStatus": [{"name": "init", "succeeded": 1}]}
    found = jobset(replicated("init", 1, 1), replicated("workers", 1, 4), status=status)
    assert parts(found) == {"init": (0, 0, 0, 0), "workers": (4, 4, 0, 0)}


def test_exclusive_topology_makes_the_first_pod_of_each_job_first():
    found = jobset(replicated("workers", 3, 4), meta={"annotations": {names.JOBSET_EXCLUSIVE: "rack"}})
    assert parts(found) == {"workers": (12, 12, 0, 3)}


@pytest.mark.parametrize("kind", ["Completed", "Failed"])
def test_a_finished_jobset_makes_no_group(kind):
    assert jobset(replicated("w", 1, 1), status={"conditions": [{"type": kind, "status": "True"}]}).over


def test_a_jobset_under_a_trainjob_is_no_lever():
    above = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "t", "uid": "x"}
    found = jobset(replicated("w", 1, 1), meta={"ownerReferences": [above | {"controller": True}]})
    assert found.lever == ()
    assert (found.above.group, found.above.kind, found.above.uid) == ("trainer.kubeflow.org", "TrainJob", "x")


# --- Kubeflow ------------------------------------------------------------------------------------------------


def replica(count, **more):
    return {"replicas": count, "template": template()} | more


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs"),
        ("TFJob", "tfReplicaSpecs"),
        ("XGBoostJob", "xgbReplicaSpecs"),
        ("PaddleJob", "paddleReplicaSpecs"),
        ("JAXJob", "jaxReplicaSpecs"),
        ("MPIJob", "mpiReplicaSpecs"),
    ],
)
def test_a_training_job_is_the_sum_of_its_replicas(kind, field):
    found = owner("kubeflow.org", kind, {field: {"Master": replica(1), "Worker": replica(7)}})
    assert parts(found) == {"master": (1, 1, 0, 0), "worker": (7, 7, 0, 0)}
    assert (found.size.minimum, found.lever) == (8, ("spec", "runPolicy", "suspend"))


def test_a_replica_spec_without_a_number_is_one():
    found = owner("kubeflow.org", "TFJob", {"tfReplicaSpecs": {"Chief": {"template": template()}}})
    assert parts(found) == {"chief": (1, 1, 0, 0)}


def test_elastic_workers_start_with_the_fewest():
    spec = {"pytorchReplicaSpecs": {"Worker": replica(8)}, "elasticPolicy": {"minReplicas": 4, "maxReplicas": 8}}
    assert parts(owner("kubeflow.org", "PyTorchJob", spec)) == {"worker": (8, 4, 0, 0)}


def test_a_scheduling_policy_says_how_many_are_needed():
    policy = {"schedulingPolicy": {"minAvailable": 3}, "suspend": True, "activeDeadlineSeconds": 60}
    spec = {"tfReplicaSpecs": {"PS": replica(2), "Worker": replica(2)}, "runPolicy": policy}
    found = owner("kubeflow.org", "TFJob", spec)
    assert (found.size.minimum, found.size.possible, found.held, found.deadline) == (3, 4, True, 60)


def test_replicas_that_succeeded_are_not_made_again():
    spec = {"tfReplicaSpecs": {"Chief": replica(1), "Worker": replica(4)}}
    found = owner("kubeflow.org", "TFJob", spec, {"replicaStatuses": {"Worker": {"succeeded": 3}}})
    assert parts(found) == {"chief": (1, 1, 0, 0), "worker": (1, 1, 0, 0)}


def test_a_launcher_may_come_after_its_workers():
    spec = {"mpiReplicaSpecs": {"Launcher": replica(1), "Worker": replica(4)}}
    late = spec | {"launcherCreationPolicy": "WaitForWorkersReady"}
    assert parts(owner("kubeflow.org", "MPIJob", spec))["launcher"] == (1, 1, 0, 0)
    found = owner("kubeflow.org", "MPIJob", late)
    assert parts(found) == {"launcher": (1, 1, 1, 0), "worker": (4, 4, 0, 0)}
    assert found.api_version == "kubeflow.org/v2beta1"


def test_a_trainjob_without_its_jobset_knows_its_nodes_only():
    found = owner("trainer.kubeflow.org", "TrainJob", {"trainer": {"numNodes": 4}})
    assert parts(found) == {"node": (4, 4, 0, 0)}


# --- Ray -----------------------------------------------------------------------------------------------------


def workers(name="w", **spec):
    return {"groupName": name, "template": template()} | spec


def ray(*groups, **spec):
    return {"headGroupSpec": {"template": template(0)}, "workerGroupSpecs": list(groups)} | spec


def test_a_raycluster_is_its_head_and_all_hosts_of_its_workers():
    found = owner("ray.io", "RayCluster", ray(workers(replicas=2, numOfHosts=4, maxReplicas=5)))
    assert parts(found) == {"headgroup": (1, 1, 0, 0), "w": (8, 8, 0, 0)}
    assert found.parts[1].unit == 4


def test_an_autoscaled_raycluster_starts_with_the_fewest():
    found = owner("ray.io", "RayCluster", ray(workers(replicas=3, minReplicas=1), enableInTreeAutoscaling=True))
    assert parts(found) == {"headgroup": (1, 1, 0, 0), "w": (3, 1, 0, 0)}


def test_a_suspended_worker_group_makes_nothing():
    found = owner("ray.io", "RayCluster", ray(workers(replicas=3, suspend=True), workers("b", replicas=1)))
    assert parts(found) == {"headgroup": (1, 1, 0, 0), "w": (0, 0, 0, 0), "b": (1, 1, 0, 0)}


def test_replicas_stay_between_their_bounds():
    found = owner(
        "ray.io", "RayCluster", ray(workers(replicas=0, minReplicas=2), workers("b", replicas=9, maxReplicas=3))
    )
    assert parts(found) == {"headgroup": (1, 1, 0, 0), "w": (2, 2, 0, 0), "b": (3, 3, 0, 0)}


def test_the_submitter_of_a_rayjob_comes_last():
    spec = {"rayClusterSpec": ray(workers(replicas=2)), "shutdownAfterJobFinishes": True}
    found = owner("ray.io", "RayJob", spec)
    assert parts(found) == {"headgroup": (1, 1, 0, 0), "w": (2, 2, 0, 0), "submitter": (1, 1, 1, 0)}
    assert found.lever == ("spec", "suspend")
    assert "submitter" not in parts(owner("ray.io", "RayJob", spec | {"submissionMode": "HTTPMode"}))


@pytest.mark.parametrize("spec", [{"rayClusterSpec": ray()}, {"shutdownAfterJobFinishes": True}])
def test_a_rayjob_that_keeps_its_cluster_or_borrows_one_cannot_be_suspended(spec):
    assert owner("ray.io", "RayJob", spec).lever == ()


# --- sets ----------------------------------------------------------------------------------------------------


def test_a_leaderworkerset_is_one_group_for_each_replica():
    spec = {"replicas": 3, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template()}}
    found = owner("leaderworkerset.x-k8s.io", "LeaderWorkerSet", spec)
    assert (found.slices, parts(found)) == (3, {"leader": (1, 1, 0, 0), "worker": (3, 3, 0, 0)})
    late = owner("leaderworkerset.x-k8s.io", "LeaderWorkerSet", spec | {"startupPolicy": "LeaderReady"})
    assert parts(late)["worker"] == (3, 3, 1, 0)


def test_groups_that_are_expected_of_a_leaderworkerset_are_bounded():
    found = owner("leaderworkerset.x-k8s.io", "LeaderWorkerSet", {"replicas": 2**31 - 1})
    assert found.slices == MOST_SLICES


@pytest.mark.parametrize(("policy", "first"), [("Parallel", 0), ("OrderedReady", 1)])
def test_a_statefulset_comes_at_once_or_pod_by_pod(policy, first):
    spec = {"replicas": 3, "podManagementPolicy": policy, "template": template()}
    assert parts(owner("apps", "StatefulSet", spec)) == {"": (3, 3, 0, first)}


def test_tasks_of_a_volcano_job_that_depend_on_others_come_later():
    tasks = [
        {"name": "worker", "replicas": 4, "template": template(), "dependsOn": {"name": ["ps"]}},
        {"name": "ps", "replicas": 2, "template": template()},
        {"name": "tail", "replicas": 1, "template": template(), "dependsOn": {"name": ["worker"]}},
    ]
    found = owner("batch.volcano.sh", "Job", {"tasks": tasks, "minAvailable": 6})
    assert parts(found) == {"worker": (4, 4, 1, 0), "ps": (2, 2, 0, 0), "tail": (1, 1, 2, 0)}
    assert (found.size.minimum, found.size.possible) == (6, 7)


def test_a_ring_of_dependencies_waits_for_nobody():
    ring = [
        {"name": a, "replicas": 1, "template": template(), "dependsOn": {"name": [b]}} for a, b in ("xy", "yz", "zx")
    ]
    assert {p.stage for p in owner("batch.volcano.sh", "Job", {"tasks": ring}).parts} == {0}


# --- Spark ---------------------------------------------------------------------------------------------------


def spark(**spec):
    base = {"type": "Scala", "driver": {"cores": 1, "memory": "2g"}, "executor": {"instances": 3, "memory": "4g"}}
    return owner("sparkoperator.k8s.io", "SparkApplication", base | spec)


def test_the_driver_of_a_spark_application_comes_first():
    found = spark()
    assert parts(found) == {"driver": (1, 1, 0, 0), "executor": (3, 3, 1, 0)}


@pytest.mark.parametrize(
    ("language", "pod", "memory"),
    [
        ("Scala", {"memory": "1g"}, (1024 + 384) << 20),
        ("Scala", {"memory": "10g"}, (10240 + 1024) << 20),
        ("Python", {"memory": "10g"}, (10240 + 4096) << 20),
        ("Scala", {"memory": "512m", "memoryOverhead": "1g"}, (512 + 1024) << 20),
        ("Scala", {}, (1024 + 384) << 20),
        ("Scala", {"memory": "a lot"}, 384 << 20),
    ],
)
def test_memory_is_what_the_jvm_gets_and_an_overhead(language, pod, memory):
    found = spark(type=language, driver=pod)
    assert found.parts[0].shape.requests["memory"] == parse(str(memory))


def test_cores_and_gpus_of_an_executor():
    found = spark(executor={"instances": 1, "cores": 4, "coreRequest": "500m", "gpu": {"name": GPU, "quantity": 2}})
    requests = found.parts[1].shape.requests
    assert (requests["cpu"], requests[GPU]) == (parse("500m"), parse("2"))


@pytest.mark.parametrize(
    ("spec", "memory"),
    [
        ({"sparkConf": {"spark.driver.memory": "10g"}}, (10240 + 1024) << 20),
        ({"sparkConf": {"spark.driver.memory": "10g"}, "driver": {"memory": "2g"}}, (2048 + 384) << 20),
        ({"sparkConf": {"spark.driver.memoryOverhead": "1g"}}, (1024 + 1024) << 20),
        ({"memoryOverheadFactor": "0.5"}, (1024 + 512) << 20),
        ({"sparkConf": {"spark.kubernetes.memoryOverheadFactor": "0.5"}}, (1024 + 512) << 20),
        ({"memoryOverheadFactor": "0.5", "sparkConf": {"spark.driver.memoryOverheadFactor": "1"}}, 2048 << 20),
        ({"memoryOverheadFactor": "half", "sparkConf": {"spark.driver.memoryOverheadFactor": "x"}}, 1408 << 20),
    ],
)
def test_memory_that_stands_in_sparks_own_configuration(spec, memory):
    found = spark(**{"driver": {}} | spec)
    assert found.parts[0].shape.requests["memory"] == parse(str(memory))


@pytest.mark.parametrize(
    ("executor", "conf", "cpu"),
    [
        ({}, {"spark.executor.cores": "3"}, "3"),
        ({"cores": 2}, {"spark.executor.cores": "3"}, "2"),
        ({"cores": 2}, {"spark.kubernetes.executor.request.cores": "500m"}, "500m"),
        ({"coreRequest": "1500m"}, {"spark.kubernetes.executor.request.cores": "500m"}, "1500m"),
        ({}, {"spark.executor.cores": "many", "spark.driver.cores": "3"}, "1"),
    ],
)
def test_cores_that_stand_in_sparks_own_configuration(executor, conf, cpu):
    assert spark(executor=executor, sparkConf=conf).parts[1].shape.requests["cpu"] == parse(cpu)


@pytest.mark.parametrize(
    ("amount", "vendor", "gpus"),
    [("2", "nvidia.com", parse("2")), ("2", "", None), ("some", "nvidia.com", None)],
)
def test_gpus_that_stand_in_sparks_own_configuration(amount, vendor, gpus):
    resource = "spark.executor.resource.gpu"
    found = spark(sparkConf={f"{resource}.amount": amount, f"{resource}.vendor": vendor})
    driver, executor = found.parts
    assert executor.shape.requests.get(GPU) == gpus
    assert GPU not in driver.shape.requests


def test_a_pod_template_keeps_what_spark_does_not_write():
    """Spark writes cores and memory into the container of its name, and leaves a sidecar alone."""
    limits = {"resources": {"limits": {GPU: 1}, "requests": {"cpu": 9}}}
    sidecar = {"name": "proxy", "resources": {"requests": {"cpu": "250m"}}}
    containers = [sidecar, {"name": "spark-kubernetes-executor"} | limits]
    template = {"spec": {"containers": containers, "nodeSelector": {"zone": "a"}}}
    found = spark(executor={"cores": 2, "template": template}, nodeSelector={"disk": "ssd"})
    shape = found.parts[1].shape
    assert (shape.requests["cpu"], shape.requests[GPU]) == (parse("2250m"), parse("1"))
    assert dict(shape.node_selector) == {"zone": "a", "disk": "ssd"}
    assert GPU not in found.parts[0].shape.requests


def test_a_pod_template_whose_container_has_another_name():
    template = {"spec": {"containers": [{"name": "any", "resources": {"limits": {GPU: 1}}}]}}
    requests = spark(executor={"cores": 2, "template": template}).parts[1].shape.requests
    assert (requests["cpu"], requests[GPU]) == (parse("2"), parse("1"))


def test_nodes_that_executors_may_go_to():
    toleration = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
    found = spark(executor={"tolerations": [toleration], "nodeSelector": {"gpu": "yes"}})
    driver, executor = (part.shape for part in found.parts)
    assert (len(driver.tolerations), len(executor.tolerations)) == (0, 1)
    assert dict(executor.node_selector) == {"gpu": "yes"}


@pytest.mark.parametrize(("suspend", "held"), [(True, True), (False, False), (None, False)])
def test_a_spark_application_that_is_suspended_makes_nothing_now(suspend, held):
    assert spark(suspend=suspend).held is held


def test_executors_that_are_allocated_as_needed():
    found = spark(dynamicAllocation={"enabled": True, "minExecutors": 2, "initialExecutors": 5})
    assert parts(found)["executor"] == (5, 2, 1, 0)


# --- the table -----------------------------------------------------------------------------------------------


def test_every_kind_stands_once_in_the_table():
    kinds = [(family.group, family.kind) for family in families.TABLE]
    assert len(kinds) == len(set(kinds)) == 15


@pytest.mark.parametrize("family", families.TABLE, ids=lambda f: f.kind)
def test_an_empty_object_of_every_kind_can_be_read(family):
    found = owner(family.group, family.kind, {})
    assert not found.over
    assert found.size.possible == sum(p.count for p in found.parts)
