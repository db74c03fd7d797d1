"""batch.volcano.sh Job: its tasks, those that others depend on first; minAvailable of them start together.

Volcano's own controllers make the pods, and name a PodGroup on each: then that one tells the size. May know objects.
"""

from policy import names
from policy.rules.membership.family import Family, Labels, Part
from policy.rules.objects import OwnerMeta, PodTemplate, Wire

_FINISHED = ("Completed", "Failed", "Terminated", "Aborted")


class DependsOn(Wire, frozen=True):
    name: tuple[str, ...] = ()


class Task(Wire, frozen=True):
    name: str = ""
    replicas: int = 1
    min_available: int | None = None
    template: PodTemplate = PodTemplate()
    depends_on: DependsOn | None = None


class VolcanoJobSpec(Wire, frozen=True):
    min_available: int | None = None
    queue: str = ""
    tasks: tuple[Task, ...] = ()


class JobState(Wire, frozen=True):
    phase: str = ""


class VolcanoJobStatus(Wire, frozen=True):
    state: JobState = JobState()


class VolcanoJob(Wire, frozen=True):
    metadata: OwnerMeta = OwnerMeta()
    spec: VolcanoJobSpec = VolcanoJobSpec()
    status: VolcanoJobStatus = VolcanoJobStatus()


def parts(job: VolcanoJob) -> tuple[Part, ...]:
    stages = _stages(job.spec.tasks)
    return tuple(_part(task, stages[task.name]) for task in job.spec.tasks)


def _part(task: Task, stage: int) -> Part:
    least = task.replicas if task.min_available is None else min(task.replicas, task.min_available)
    before = ", ".join(task.depends_on.name) if task.depends_on and stage else ""
    return Part(
        role=task.name,
        count=task.replicas,
        minimum=least,
        template=task.template,
        stage=stage,
        waits=f"{before} to run" if before else "",
    )


def _stages(tasks: tuple[Task, ...]) -> dict[str, int]:
    """By task, how many tasks stand before it in the longest chain; a ring of dependencies waits for nobody."""
    found = {task.name: 0 for task in tasks}
    for _ in tasks:
        for task in tasks:
            before = [found[name] for name in (task.depends_on.name if task.depends_on else ()) if name in found]
            found[task.name] = min(len(tasks), max((stage + 1 for stage in before), default=0))
    ringed = len(tasks) in found.values()
    return dict.fromkeys(found, 0) if ringed else found


def minimum(job: VolcanoJob) -> int | None:
    return job.spec.min_available or None


def queue(job: VolcanoJob) -> str:
    return job.spec.queue


def role(labels: Labels) -> str:
    return labels.get(names.TASK_SPEC, "")


def over(job: VolcanoJob) -> bool:
    return job.status.state.phase in _FINISHED


FAMILY = Family(
    group="batch.volcano.sh",
    version="v1alpha1",
    kind="Job",
    plural="jobs",
    type=VolcanoJob,
    parts=parts,
    source="minAvailable of spec.tasks",
    stages="at once; tasks with `dependsOn` after those that they name",
    over=over,
    minimum=minimum,
    queue=queue,
    role=role,
)
