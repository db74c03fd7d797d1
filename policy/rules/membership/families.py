"""The table of owners: which controllers make groups, one small file per family.

Adding a kind costs one file beside this one and one row below. May know the families and objects.
"""

from typing import Final

from policy.rules.membership import job, replicaset
from policy.rules.membership.family import Family
from policy.rules.membership.identity import Identity
from policy.rules.objects import OwnerReference, Pod

TABLE: Final[tuple[Family, ...]] = (job.FAMILY, replicaset.FAMILY)
_BY_KIND: Final = {(family.group, family.kind): family for family in TABLE}


def of_owner(owner: OwnerReference) -> Family | None:
    """The family of an owner, whatever version of its API the reference names."""
    return _BY_KIND.get((owner.api_version.rpartition("/")[0], owner.kind))


def of_kind(kind: str) -> Family | None:
    return next((family for family in TABLE if family.kind == kind), None)


def of_controller(pod: Pod, namespace: str) -> Identity | None:
    """The group that the pod's controller makes, or None: no controller, or one whose pods stand alone."""
    owner = pod.metadata.controller
    family = of_owner(owner) if owner else None
    if owner is None or family is None or not family.makes_groups:
        return None
    return Identity(family.kind, namespace, owner.name, owner.uid, how=f"controller {family.kind} {owner.name}")
