"""jobset.x-k8s.io JobSet: all pods of all its Jobs, stage by stage where it says so.

`dependsOn` and `startupPolicy: InOrder` make a replicated Job when those before it are ready or complete; exclusive
topology makes the first pod of each Job, and the others once that one is scheduled. The JobSet resumes its children
itself, so it alone is a lever (see the concepts of JobSet's own pages). May know objects and Jobs.
"""

from collections.abc import Mapping

from policy import names
from policy.rules.membership.family import Family, Labels, Lever, Part
from policy.rules.membership.job import at_once
from policy.rules.objects import Condition, JobSpec, ObjectMeta, OwnerMeta, Wire, is_true

_IN_ORDER = "InOrder"
_FINISHED = ("Completed", "Failed")


class JobTemplate(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class DependsOn(Wire, frozen=True):
    name: str = ""
    status: str = ""


class ReplicatedJob(Wire, frozen=True):
    name: str = ""
    replicas: int = 1
    template: JobTemplate = JobTemplate()
    depends_on: tuple[DependsOn, ...] = ()


class StartupPolicy(Wire, frozen=True):
    startup_policy_order: str = ""


class JobSetSpec(Wire, frozen=True):
    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    suspend: bool | None = None
    startup_policy: StartupPolicy = StartupPolicy()


class ReplicatedJobStatus(Wire, frozen=True):
    name: str = ""
    succeeded: int = 0
    failed: int = 0


class JobSetStatus(Wire, frozen=True):
    conditions: tuple[Condition, ...] = ()
    replicated_jobs_status: tuple[ReplicatedJobStatus, ...] = ()


class JobSet(Wire, frozen=True):
    metadata: OwnerMeta = OwnerMeta()
    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()


def parts(jobset: JobSet) -> tuple[Part, ...]:
    done = {status.name: status.succeeded for status in jobset.status.replicated_jobs_status}
    stages = _stages(jobset)
    return tuple(_part(jobset, one, done.get(one.name, 0), *stages[one.name]) for one in jobset.spec.replicated_jobs)


def _part(jobset: JobSet, one: ReplicatedJob, done: int, stage: int, waits: str) -> Part:
    """A Job of it that succeeded is not made again."""
    spec = one.template.spec
    jobs = max(0, one.replicas - done)
    each = at_once(spec, spec.completions)
    alone = _exclusive(jobset.metadata, one.template.metadata, spec.template.metadata) and each > 1
    return Part(
        role=one.name,
        count=jobs * each,
        minimum=jobs * each,
        template=spec.template,
        stage=stage,
        first=jobs if alone else 0,
        waits=waits or ("the first pod of each Job to be scheduled" if alone else ""),
    )


def _stages(jobset: JobSet) -> Mapping[str, tuple[int, str]]:
    """By replicated Job, its stage and what it waits for. A dependency must stand before it in the list."""
    ordered = jobset.spec.startup_policy.startup_policy_order == _IN_ORDER
    found: dict[str, tuple[int, str]] = {}
    before = ""
    for place, one in enumerate(jobset.spec.replicated_jobs):
        known = [d for d in one.depends_on if d.name in found]
        if ordered:
            found[one.name] = (place, f"{before} to be ready" if before else "")
        elif known:
            last = max(known, key=lambda d: found[d.name][0])
            found[one.name] = (found[last.name][0] + 1, f"{last.name} to be {last.status.lower() or 'ready'}")
        else:
            found[one.name] = (0, "")
        before = one.name
    return found


def _exclusive(*metas: ObjectMeta) -> bool:
    """Where node selectors see to it, nobody waits for the first pod."""
    selected = any(meta.annotation(names.JOBSET_NODE_SELECTOR) is not None for meta in metas)
    return not selected and any(meta.annotation(names.JOBSET_EXCLUSIVE) for meta in metas)


def role(labels: Labels) -> str:
    return labels.get(names.JOBSET_REPLICATED_JOB, "")


def over(jobset: JobSet) -> bool:
    return is_true(jobset.status.conditions, *_FINISHED)


def held(jobset: JobSet) -> bool:
    return bool(jobset.spec.suspend)


def deadline(jobset: JobSet) -> int | None:
    """The shortest of its Jobs': their clocks start when they do."""
    found = [j.template.spec.active_deadline_seconds for j in jobset.spec.replicated_jobs]
    return min((seconds for seconds in found if seconds is not None), default=None)


FAMILY = Family(
    group="jobset.x-k8s.io",
    version="v1alpha2",
    kind="JobSet",
    plural="jobsets",
    type=JobSet,
    parts=parts,
    source="replicas x min(parallelism, completions) of spec.replicatedJobs",
    stages="`startupPolicy: InOrder` and `dependsOn`: one replicated Job after the other; exclusive topology: "
    "the first pod of each Job, then the others",
    over=over,
    held=held,
    role=role,
    lever=Lever(("spec", "suspend"), deadline=deadline),
)
