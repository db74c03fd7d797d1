"""batch/v1 Job, plain and Indexed: one group per Job, also for the Jobs of a CronJob.

Size: min(parallelism, completions still to come). Indexes that succeeded or failed for good never come back
(https://kubernetes.io/docs/concepts/workloads/controllers/job/#backoff-limit-per-index). May know objects.
"""

from policy import names
from policy.rules.membership.family import Family, Lever, Owner, Size
from policy.rules.objects import Job, PodTemplate

_LONGEST_INDEX = 10  # digits; completions are 32-bit numbers


def size(owner: Owner) -> Size:
    job = _job(owner)
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    remaining = _remaining(job)
    if remaining is None:
        return Size(parallelism, parallelism, "spec.parallelism")
    count = min(parallelism, remaining)
    return Size(count, count, "min(spec.parallelism, completions still to come)")


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


def template(owner: Owner) -> PodTemplate:
    return owner.spec.template


def over(owner: Owner) -> bool:
    return any(c.type in ("Complete", "Failed") and c.status == "True" for c in _job(owner).status.conditions)


def held(owner: Owner) -> bool:
    return bool(_job(owner).spec.suspend)


def _job(owner: Owner) -> Job:
    if not isinstance(owner, Job):
        raise TypeError(f"expected a Job, got {type(owner).__name__}")
    return owner


def free(owner: Owner) -> bool:
    """A CronJob never looks at spec.suspend of its Jobs; other controllers would set it back, and Kueue owns it."""
    meta = owner.metadata
    above = meta.controller
    kueue = any(meta.label(key) is not None for key in (names.KUEUE_QUEUE_NAME, names.KUEUE_MANAGED))
    return not kueue and (above is None or (above.kind == "CronJob" and above.api_version.startswith("batch/")))


def deadline(owner: Owner) -> int | None:
    return _job(owner).spec.active_deadline_seconds


def started(owner: Owner) -> str | None:
    return _job(owner).status.start_time


LEVER = Lever(("spec", "suspend"), free, deadline, started)
FAMILY = Family("batch", "Job", makes_groups=True, size=size, template=template, over=over, held=held, lever=LEVER)
