"""batch/v1 Job, plain and Indexed: one group per Job, also for the Jobs of a CronJob.

Size: min(parallelism, completions still to come). Indexes that succeeded or failed for good never come back
(https://kubernetes.io/docs/concepts/workloads/controllers/job/#backoff-limit-per-index). May know objects.
"""

from policy.rules.membership.family import Family, Lever, Part, kueues
from policy.rules.objects import Job, JobSpec, is_true

_LONGEST_INDEX = 10  # digits; completions are 32-bit numbers


def parts(job: Job) -> tuple[Part, ...]:
    count = at_once(job.spec, _remaining(job))
    return (Part(count=count, minimum=count, template=job.spec.template),)


def at_once(spec: JobSpec, remaining: int | None) -> int:
    """Pods that run side by side; `remaining` completions are still to come, None for a work queue."""
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if remaining is None else min(parallelism, remaining)


def _remaining(job: Job) -> int | None:
    """Completions still to come; None for a work queue, whose end only its pods know."""
    if job.spec.completions is None:
        return 0 if job.status.succeeded else None
    if job.spec.completion_mode == "Indexed":
        gone = count_indexes(job.status.completed_indexes) + count_indexes(job.status.failed_indexes or "")
        return max(0, job.spec.completions - gone)
    return max(0, job.spec.completions - job.status.succeeded)


def count_indexes(text: str) -> int:
    """Members of an index list as Job status writes it: "1,3-5,7" has five. What is no index counts for none."""
    return sum(_span(part) for part in text.split(","))


def _span(part: str) -> int:
    first, dash, last = part.partition("-")
    bounds = (first, last) if dash else (first, first)
    if not all(b.isascii() and b.isdigit() and len(b) < _LONGEST_INDEX for b in bounds):
        return 0
    return max(0, int(bounds[1]) - int(bounds[0]) + 1)


def over(job: Job) -> bool:
    return is_true(job.status.conditions, "Complete", "Failed")


def held(job: Job) -> bool:
    return bool(job.spec.suspend)


def free(job: Job) -> bool:
    """A CronJob never looks at spec.suspend of its Jobs; other controllers would set it back, and Kueue owns it."""
    above = job.metadata.controller
    alone = above is None or (above.kind == "CronJob" and above.api_version.startswith("batch/"))
    return alone and not kueues(job.metadata)


def deadline(job: Job) -> int | None:
    return job.spec.active_deadline_seconds


def started(job: Job) -> str | None:
    return job.status.start_time


FAMILY = Family(
    group="batch",
    version="v1",
    kind="Job",
    plural="jobs",
    type=Job,
    parts=parts,
    source="min(spec.parallelism, completions still to come)",
    stages="at once; with more completions than parallelism, the next as others succeed",
    over=over,
    held=held,
    lever=Lever(("spec", "suspend"), free, deadline, started),
)
