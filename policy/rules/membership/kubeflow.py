"""Kubeflow's training jobs: the API v1 kinds with one map of replica specs, and MPIJob v2beta1.

Size: the sum of all replicas, `runPolicy.schedulingPolicy.minAvailable` where it stands, or elastic minReplicas of the
workers. An MPIJob's launcher may wait for its workers (`launcherCreationPolicy`); it is a Job below the MPIJob.
https://www.kubeflow.org/docs/components/trainer/legacy-v1/. May know objects.
"""

from collections.abc import Iterator

import msgspec

from policy import names
from policy.rules.membership.family import Family, Labels, Lever, Part
from policy.rules.objects import Condition, OwnerMeta, PodTemplate, Wire, is_true

_FINISHED = ("Succeeded", "Failed")
_WORKER = "worker"
_LAUNCHER = "launcher"
Replicas = dict[str, "ReplicaSpec"]


class ReplicaSpec(Wire, frozen=True):
    replicas: int | None = None
    template: PodTemplate = PodTemplate()


class SchedulingPolicy(Wire, frozen=True):
    min_available: int | None = None
    queue: str = ""


class RunPolicy(Wire, frozen=True):
    suspend: bool | None = None
    active_deadline_seconds: int | None = None
    scheduling_policy: SchedulingPolicy | None = None


class ElasticPolicy(Wire, frozen=True):
    min_replicas: int | None = None


class TrainingSpec(Wire, frozen=True):
    """Union of the kinds' specs: each has one of the maps."""

    pytorch: Replicas | None = msgspec.field(name="pytorchReplicaSpecs", default=None)
    tf: Replicas | None = msgspec.field(name="tfReplicaSpecs", default=None)
    xgb: Replicas | None = msgspec.field(name="xgbReplicaSpecs", default=None)
    paddle: Replicas | None = msgspec.field(name="paddleReplicaSpecs", default=None)
    jax: Replicas | None = msgspec.field(name="jaxReplicaSpecs", default=None)
    mpi: Replicas | None = msgspec.field(name="mpiReplicaSpecs", default=None)
    run_policy: RunPolicy = RunPolicy()
    elastic_policy: ElasticPolicy | None = None
    launcher_creation_policy: str = ""


class ReplicaStatus(Wire, frozen=True):
    succeeded: int = 0


class TrainingStatus(Wire, frozen=True):
    conditions: tuple[Condition, ...] = ()
    replica_statuses: dict[str, ReplicaStatus] | None = None
    start_time: str | None = None


class TrainingJob(Wire, frozen=True):
    metadata: OwnerMeta = OwnerMeta()
    spec: TrainingSpec = TrainingSpec()
    status: TrainingStatus = TrainingStatus()


def parts(job: TrainingJob) -> tuple[Part, ...]:
    return tuple(_part(job, kind.lower(), spec, _done(job, kind)) for kind, spec in _replicas(job))


def _replicas(job: TrainingJob) -> Iterator[tuple[str, ReplicaSpec]]:
    spec = job.spec
    for found in (spec.pytorch, spec.tf, spec.xgb, spec.paddle, spec.jax, spec.mpi):
        yield from sorted((found or {}).items())


def _done(job: TrainingJob, kind: str) -> int:
    status = (job.status.replica_statuses or {}).get(kind)
    return status.succeeded if status else 0


def _part(job: TrainingJob, role: str, spec: ReplicaSpec, done: int) -> Part:
    count = max(0, (1 if spec.replicas is None else spec.replicas) - done)
    elastic = job.spec.elastic_policy
    least = elastic.min_replicas if elastic and role == _WORKER else None
    late = role == _LAUNCHER and job.spec.launcher_creation_policy == "WaitForWorkersReady"
    return Part(
        role=role,
        count=count,
        minimum=count if least is None else min(count, least),
        template=spec.template,
        stage=int(late),
        waits="the workers to be ready" if late else "",
    )


def minimum(job: TrainingJob) -> int | None:
    policy = job.spec.run_policy.scheduling_policy
    return policy.min_available if policy else None


def queue(job: TrainingJob) -> str:
    policy = job.spec.run_policy.scheduling_policy
    return policy.queue if policy else ""


def role(labels: Labels) -> str:
    """An MPIJob's pods say their role under another key; so does nobody else's worker."""
    return labels.get(names.KUBEFLOW_REPLICA_TYPE) or labels.get(names.KUBEFLOW_JOB_ROLE, "")


def over(job: TrainingJob) -> bool:
    return is_true(job.status.conditions, *_FINISHED)


def held(job: TrainingJob) -> bool:
    return bool(job.spec.run_policy.suspend)


def deadline(job: TrainingJob) -> int | None:
    return job.spec.run_policy.active_deadline_seconds


def started(job: TrainingJob) -> str | None:
    return job.status.start_time


LEVER = Lever(("spec", "runPolicy", "suspend"), deadline=deadline, started=started)


def _family(kind: str, version: str = "v1", *, deaf: bool = False) -> Family[TrainingJob]:
    return Family(
        group="kubeflow.org",
        version=version,
        kind=kind,
        plural=f"{kind.lower()}s",
        type=TrainingJob,
        parts=parts,
        source="replicas of all replica specs",
        stages="at once; an MPIJob's launcher after its workers where `launcherCreationPolicy` says so; "
        "elastic workers above minReplicas as there is room",
        over=over,
        held=held,
        minimum=minimum,
        queue=queue,
        role=role,
        lever=LEVER,
        deaf=deaf,
    )


_KINDS = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
# The MPI operator takes a change for a failure: enqueueMPIJob in its pkg/controller/mpi_job_controller.go, v0.8.0.
FAMILIES = (*(_family(kind) for kind in _KINDS), _family("MPIJob", "v2beta1", deaf=True))
