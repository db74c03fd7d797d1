"""The table of owners: which controllers make groups, one small file per family.

Adding a kind costs one file beside this one and one row below. A kind that is in neither table makes no group: steps of
a workflow, servers behind a Deployment, what nobody knows. May know the families and objects.
"""

from typing import Any, Final

from policy.rules.membership import (
    job,
    jobset,
    kubeflow,
    leaderworkerset,
    ray,
    spark,
    statefulset,
    trainer,
    volcano,
)
from policy.rules.membership.family import Family
from policy.rules.membership.identity import Identity, of_owner_named
from policy.rules.objects import OwnerReference, Pod

TABLE: Final[tuple[Family[Any], ...]] = (
    job.FAMILY,
    jobset.FAMILY,
    *kubeflow.FAMILIES,
    trainer.FAMILY,
    ray.CLUSTER,
    ray.JOB,
    leaderworkerset.FAMILY,
    spark.FAMILY,
    statefulset.FAMILY,
    volcano.FAMILY,
)
_BY_KIND: Final = {(family.group, family.kind): family for family in TABLE}


def of(group: str, kind: str) -> Family[Any] | None:
    """The family of a kind, whatever version of its API somebody names."""
    return _BY_KIND.get((group, kind))


def of_owner(owner: OwnerReference) -> Family[Any] | None:
    return of(owner.group, owner.kind)


def of_controller(pod: Pod, namespace: str) -> Identity | None:
    """The group that the pod's controller makes, or None: no controller, or one whose pods stand alone."""
    owner = pod.metadata.controller
    family = of_owner(owner) if owner else None
    if owner is None or family is None:
        return None
    return of_owner_named(family.kind, namespace, owner.name, owner.uid)


def drawing() -> str:
    """The table for docs/owners.md."""
    head = "| Owner | API | Size | Stages | Suspended by |\n|---|---|---|---|---|"
    return "\n".join([head, *(_row(family) for family in TABLE)])


def _row(family: Family[Any]) -> str:
    lever = f"`{'.'.join(family.lever.path)}`" if family.lever else "no"
    each = ", for each replica its own group" if family.slices else ""
    api = f"`{family.group}/{family.version}`"
    return f"| {family.kind} | {api} | {family.source}{each} | {family.stages} | {lever} |"
