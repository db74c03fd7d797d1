"""ray.io RayCluster and RayJob: the head and every worker group; with a RayJob the pod that submits it, later.

With autoscaling the group starts with minReplicas, and grows and shrinks by whole replicas (several pods each where
`numOfHosts` says so). A RayService's clusters are groups too, and never suspended: somebody above them serves.
https://docs.ray.io/en/latest/cluster/kubernetes/. May know objects.
"""

from policy import names
from policy.rules.membership.family import Family, Labels, Lever, Part, unmanaged
from policy.rules.objects import OwnerMeta, PodTemplate, Wire

HEAD = "headgroup"  # KubeRay's name of the head's group
SUBMITTER = "submitter"
_K8S_JOB = "K8sJobMode"
_FINISHED = ("Complete", "Failed")


class HeadGroup(Wire, frozen=True):
    template: PodTemplate = PodTemplate()


class WorkerGroup(Wire, frozen=True):
    group_name: str = ""
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int = 1
    suspend: bool | None = None
    template: PodTemplate = PodTemplate()


class RayClusterSpec(Wire, frozen=True):
    suspend: bool | None = None
    enable_in_tree_autoscaling: bool | None = None
    head_group_spec: HeadGroup = HeadGroup()
    worker_group_specs: tuple[WorkerGroup, ...] = ()


class RayCluster(Wire, frozen=True):
    metadata: OwnerMeta = OwnerMeta()
    spec: RayClusterSpec = RayClusterSpec()


class RayJobSpec(Wire, frozen=True):
    ray_cluster_spec: RayClusterSpec | None = None
    suspend: bool | None = None
    shutdown_after_job_finishes: bool | None = None
    submission_mode: str = _K8S_JOB
    submitter_pod_template: PodTemplate | None = None
    active_deadline_seconds: int | None = None


class RayJobStatus(Wire, frozen=True):
    job_deployment_status: str = ""
    start_time: str | None = None


class RayJob(Wire, frozen=True):
    metadata: OwnerMeta = OwnerMeta()
    spec: RayJobSpec = RayJobSpec()
    status: RayJobStatus = RayJobStatus()


def cluster_parts(cluster: RayCluster) -> tuple[Part, ...]:
    return _parts(cluster.spec)


def _parts(spec: RayClusterSpec) -> tuple[Part, ...]:
    head = Part(role=HEAD, count=1, minimum=1, template=spec.head_group_spec.template)
    return head, *(_workers(group, elastic=bool(spec.enable_in_tree_autoscaling)) for group in spec.worker_group_specs)


def _workers(group: WorkerGroup, *, elastic: bool) -> Part:
    """The operator raises replicas to minReplicas and lowers it to maxReplicas."""
    least = group.min_replicas or 0
    replicas = max(least, group.replicas or 0)
    if group.max_replicas is not None:
        replicas = min(replicas, group.max_replicas)
    hosts = 0 if group.suspend else max(1, group.num_of_hosts)
    return Part(
        role=group.group_name,
        count=replicas * hosts,
        minimum=(min(least, replicas) if elastic else replicas) * hosts,
        template=group.template,
        unit=max(1, hosts),
    )


def job_parts(job: RayJob) -> tuple[Part, ...]:
    """Without a cluster of its own the submitter is all there is of it."""
    cluster = _parts(job.spec.ray_cluster_spec) if job.spec.ray_cluster_spec else ()
    if job.spec.submission_mode != _K8S_JOB:
        return cluster
    template = job.spec.submitter_pod_template or PodTemplate()
    late = Part(role=SUBMITTER, count=1, minimum=1, template=template, stage=1, waits="the cluster to be ready")
    return *cluster, late


def role(labels: Labels) -> str:
    return labels.get(names.RAY_GROUP, "")


def job_role(labels: Labels) -> str:
    """The submitter's pod carries no label of Ray."""
    return labels.get(names.RAY_GROUP, SUBMITTER)


def unit(labels: Labels) -> str:
    return labels.get(names.RAY_REPLICA, "")


def cluster_held(cluster: RayCluster) -> bool:
    return bool(cluster.spec.suspend)


def job_over(job: RayJob) -> bool:
    return job.status.job_deployment_status in _FINISHED


def job_held(job: RayJob) -> bool:
    return bool(job.spec.suspend)


def job_free(job: RayJob) -> bool:
    """KubeRay refuses to suspend a job that keeps its cluster, or has none of its own."""
    able = bool(job.spec.shutdown_after_job_finishes) and job.spec.ray_cluster_spec is not None
    return able and unmanaged(job.metadata)


def job_deadline(job: RayJob) -> int | None:
    return job.spec.active_deadline_seconds


def job_started(job: RayJob) -> str | None:
    return job.status.start_time


CLUSTER = Family(
    group="ray.io",
    version="v1",
    kind="RayCluster",
    plural="rayclusters",
    type=RayCluster,
    parts=cluster_parts,
    source="1 + replicas x numOfHosts of spec.workerGroupSpecs",
    stages="at once; with autoscaling, replicas above minReplicas as there is room, each whole",
    held=cluster_held,
    role=role,
    unit=unit,
    lever=Lever(("spec", "suspend")),
)
JOB = Family(
    group="ray.io",
    version="v1",
    kind="RayJob",
    plural="rayjobs",
    type=RayJob,
    parts=job_parts,
    source="1 + replicas x numOfHosts of spec.rayClusterSpec.workerGroupSpecs",
    stages="the cluster, then the pod that submits the job",
    over=job_over,
    held=job_held,
    role=job_role,
    unit=unit,
    lever=Lever(("spec", "suspend"), job_free, job_deadline, job_started),
)
