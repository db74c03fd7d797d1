"""Which group and queue a pod names, as far as the pod itself tells.

Given names first, then the controller; the first match wins and two given names must agree. Sizes, queues of
PodGroups and whether the named object exists are questions for the gatekeeper; the webhook asks only what is here,
since at mutation time a pod has neither uid nor generated name. May know names, objects and the families.
"""

from typing import Final

import msgspec

from policy import names
from policy.rules.membership.families import KNOWN, Kinds
from policy.rules.membership.identity import (
    LITE,
    NATIVE,
    PODGROUP,
    DisagreementError,
    Identity,
    ReservedNameError,
)
from policy.rules.objects import ObjectMeta, Pod

_ANNOTATIONS: Final = (names.VOLCANO_PODGROUP, names.GROUP_NAME, names.VOLCANO_GROUP_NAME)
_LABELS: Final = (names.COSCHEDULING_LABEL, names.COSCHEDULING_OLD_LABEL, names.COSCHEDULING_LITE_NAME)
# Whatever decides the group or the queue of a pod: fixed once the pod is taken in.
NAMING_ANNOTATIONS: Final = (*_ANNOTATIONS, names.QUEUE_NAME, names.QUEUE_NAME_LONG)
NAMING_LABELS: Final = (*_LABELS, names.COSCHEDULING_LITE_MIN, names.QUEUE_NAME)
_LONGEST_NAME: Final = 253  # characters of a DNS subdomain, hence of any object's name


class Named(msgspec.Struct, frozen=True):
    """A name that the pod gives, and where."""

    name: str
    where: str


def identify(pod: Pod, namespace: str, kinds: Kinds = KNOWN) -> Identity | None:
    """The pod's group, or None where it stands alone; `kinds` are those whose pods start together.

    Raises DisagreementError when two given names differ, ReservedNameError for a name of ours on an ownerless pod.
    """
    given = _given(pod)
    if _agreed(given) is not None:
        told = _teller(given)
        return Identity(_kind_of(pod, told), namespace, told.name, how=told.where)
    return kinds.of_controller(pod, namespace)


def named_queue(meta: ObjectMeta) -> Named | None:
    """The queue that a pod or its owner names, or None. Raises DisagreementError when two names differ."""
    found = [
        Named(value, f"{where} {key}")
        for where, key, value in (
            ("annotation", names.QUEUE_NAME, meta.annotation(names.QUEUE_NAME)),
            ("annotation", names.QUEUE_NAME_LONG, meta.annotation(names.QUEUE_NAME_LONG)),
            ("label", names.QUEUE_NAME, meta.label(names.QUEUE_NAME)),
        )
        if value
    ]
    return _agreed(found)


def _given(pod: Pod) -> list[Named]:
    meta, spec = pod.metadata, pod.spec
    found = [Named(v, f"annotation {k}") for k in _ANNOTATIONS if (v := meta.annotation(k)) and not _is_ours(pod, v)]
    found += [Named(v, f"label {k}") for k in _LABELS if (v := meta.label(k)) and not _is_ours(pod, v)]
    if spec.scheduling_group and spec.scheduling_group.pod_group_name:
        found.append(Named(spec.scheduling_group.pod_group_name, "field spec.schedulingGroup.podGroupName"))
    if spec.workload_ref and spec.workload_ref.name:
        found.append(Named(spec.workload_ref.name, "field spec.workloadRef.name"))
    return found


def _teller(given: list[Named]) -> Named:
    """The place that tells the dialect: the annotation that we write ourselves only where no other names a PodGroup."""
    ours = f"annotation {names.GROUP_NAME}"
    return next((g for g in given if g.where != ours and not g.where.startswith("field ")), given[0])


def _is_ours(pod: Pod, name: str) -> bool:
    """Our own PodGroup, written back by the lift: the controller decides, the name adds nothing."""
    if not name.startswith(names.OWN_PODGROUP_PREFIX):
        return False
    if pod.metadata.controller is None:
        raise ReservedNameError(f"PodGroup names starting with {names.OWN_PODGROUP_PREFIX!r} are ganggate's: {name!r}")
    return True


def _agreed(found: list[Named]) -> Named | None:
    for other in found[1:]:
        if other.name != found[0].name:
            raise DisagreementError(
                f"{found[0].where} says {_shown(found[0].name)} and {other.where} says {_shown(other.name)}: "
                "give one name"
            )
    return found[0] if found else None


def _shown(name: str) -> str:
    """For an error's text: an annotation may hold 256 KiB, and both names must be seen."""
    return repr(name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…")


def _kind_of(pod: Pod, given: Named) -> str:
    if given.where.startswith("field "):
        return NATIVE
    lite = pod.metadata.label(names.COSCHEDULING_LITE_NAME) == given.name
    sized = pod.metadata.label(names.COSCHEDULING_LITE_MIN) is not None
    return LITE if lite and sized else PODGROUP
