"""The table of owners: which controllers make groups, one small file per family.

Adding a kind costs one file beside this one and one row below, or a few lines in the settings. Of any other kind the
gatekeeper looks for the size; pods of those in ALONE, and of those without one, stand alone. May know the families and
objects.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from policy.rules.membership import (
    custom,
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
from policy.rules.membership.custom import OwnerKind
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
# Servers, of which a rolling update makes more than they ask for, and steps of a workflow: never a group by themselves.
ALONE: Final = frozenset(
    {
        ("", "Node"),
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("argoproj.io", "CronWorkflow"),
        ("argoproj.io", "Workflow"),
        ("batch", "CronJob"),
        ("kubeflow.org", "Notebook"),
        ("ray.io", "RayService"),
        ("sparkoperator.k8s.io", "ScheduledSparkApplication"),
        ("tekton.dev", "PipelineRun"),
        ("tekton.dev", "TaskRun"),
    }
)


class Kinds:
    """The kinds of one installation: the table's, and those that its settings add."""

    def __init__(self, added: Iterable[Family[Any]] = ()) -> None:
        self.families: Final = (*TABLE, *added)
        self._by_kind: Final = {(family.group, family.kind): family for family in self.families}

    def of(self, group: str, kind: str) -> Family[Any] | None:
        """The family of a kind, whatever version of its API somebody names."""
        return self._by_kind.get((group, kind))

    def of_owner(self, owner: OwnerReference) -> Family[Any] | None:
        return self.of(owner.group, owner.kind)

    def of_controller(self, pod: Pod, namespace: str) -> Identity | None:
        """The group that the pod's controller makes, or None: no controller, or one of another kind."""
        owner = pod.metadata.controller
        family = self.of_owner(owner) if owner else None
        if owner is None or family is None:
            return None
        return of_owner_named(family.kind, namespace, owner.name, owner.uid)


KNOWN: Final = Kinds()  # the table's alone


@lru_cache(maxsize=16)
def kinds(added: tuple[OwnerKind, ...]) -> Kinds:
    """With those of the settings. Raises ValueError naming a kind that is known already, or stands there twice."""
    known = {(family.group, family.kind) for family in TABLE} | {("", "Pod")}
    for one in added:
        if (one.group, one.kind) in known:
            raise ValueError(f"{one.kind} of {one.group or 'v1'!r} is known already, or stands there twice")
        known.add((one.group, one.kind))
    return Kinds(map(custom.family, added)) if added else KNOWN


def drawing(examples: Mapping[tuple[str, str], str]) -> str:
    """The table for docs/owners.md; `examples` are files, by API group and kind."""
    head = "| Owner | API | Size | Stages | Suspended by | Example |\n|---|---|---|---|---|---|"
    return "\n".join([head, *(_row(family, examples[family.group, family.kind]) for family in TABLE)])


def _row(family: Family[Any], example: str) -> str:
    lever = f"`{'.'.join(family.lever.path)}`" if family.lever else "no"
    each = ", for each replica its own group" if family.slices else ""
    api = f"`{family.group}/{family.version}`"
    link = f"[{example.rpartition('/')[2]}](../{example})"
    return f"| {family.kind} | {api} | {family.source}{each} | {family.stages} | {lever} | {link} |"
