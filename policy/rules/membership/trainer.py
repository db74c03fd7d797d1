"""trainer.kubeflow.org TrainJob: what the JobSet below it makes, which its runtime's template describes.

Until that JobSet exists only the number of nodes is known, and nothing of their size. May know objects.
"""

from policy.rules.membership.family import Family, Lever, Part
from policy.rules.membership.jobset import role
from policy.rules.objects import Condition, OwnerMeta, PodTemplate, Wire, is_true

_FINISHED = ("Complete", "Failed")


class Trainer(Wire, frozen=True):
    num_nodes: int | None = None


class TrainJobSpec(Wire, frozen=True):
    trainer: Trainer | None = None
    suspend: bool | None = None


class TrainJobStatus(Wire, frozen=True):
    conditions: tuple[Condition, ...] = ()


class TrainJob(Wire, frozen=True):
    metadata: OwnerMeta = OwnerMeta()
    spec: TrainJobSpec = TrainJobSpec()
    status: TrainJobStatus = TrainJobStatus()


def parts(job: TrainJob) -> tuple[Part, ...]:
    nodes = job.spec.trainer.num_nodes if job.spec.trainer else None
    count = 1 if nodes is None else nodes
    return (Part(role="node", count=count, minimum=count, template=PodTemplate()),)


def over(job: TrainJob) -> bool:
    return is_true(job.status.conditions, *_FINISHED)


def held(job: TrainJob) -> bool:
    return bool(job.spec.suspend)


FAMILY = Family(
    group="trainer.kubeflow.org",
    version="v1alpha1",
    kind="TrainJob",
    plural="trainjobs",
    type=TrainJob,
    parts=parts,
    source="spec.trainer.numNodes",
    stages="as its JobSet, which its runtime describes: initializers first, the launcher last",
    over=over,
    held=held,
    role=role,
    lever=Lever(("spec", "suspend")),
    delegates="JobSet",
)
