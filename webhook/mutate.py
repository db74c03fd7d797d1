"""What is written into a pod that is being created: gate, label, names, scheduler, and what packs it.

Pure. The operations are built from the verdict of webhook.eligibility and from what the pod lacks, so that the
webhook's own output gives no operation (reinvocationPolicy: IfNeeded). Reserves nothing and remembers nothing: a
dry run is answered like any other call.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from policy import names
from policy.rules import resources
from policy.rules.membership.identity import LITE, PODGROUP
from policy.rules.objects import Affinity, Pod
from webhook.eligibility import SERVED, TRUSTED, Facts, Gate, Pass, Verdict, is_rewritten, judge, scheduler_of
from webhook.patch import Operation, add, change_map

# Each at most 120 characters: kubectl prints them in one line.
WARN_HELD: Final = "ganggate holds this pod until its whole group fits: kubectl describe pod says what it waits for"
WARN_LIFTED: Final = f"annotation {names.ANNOTATION_LIFTED} is written by ganggate only: removed"
WARN_EXEMPT: Final = f"label {names.LABEL_EXEMPT} has no effect: setting it takes verb lift on groups.{names.DOMAIN}"

_WEIGHT: Final = 100  # the heaviest: InterPodAffinity has to outweigh NodeResourcesFit, which spreads by default
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Change(msgspec.Struct, frozen=True):
    """The answer to one create."""

    verdict: Verdict
    operations: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()


def change(pod: Pod, facts: Facts) -> Change:
    """Judge the pod and say what to write. A refused pod, and one that the cluster itself wrote, stay as they are."""
    verdict = judge(pod, facts)
    if not isinstance(verdict, Gate | Pass) or (isinstance(verdict, Pass) and verdict.why in TRUSTED):
        return Change(verdict)
    return Change(verdict, tuple(_operations(pod, verdict, facts)), tuple(_warnings(pod, verdict)))


def _operations(pod: Pod, verdict: Gate | Pass, facts: Facts) -> Iterator[Operation]:
    affine = _is_packed(verdict, facts) and not facts.config.binpack_scheduler_name and bool(resources.extended(pod))
    yield from change_map(pod.metadata.labels, _labels(verdict, affine=affine), "metadata", "labels")
    yield from change_map(pod.metadata.annotations, _annotations(verdict), "metadata", "annotations")
    if isinstance(verdict, Gate):
        yield from _gate(pod)
    scheduler = _scheduler(pod, verdict, facts)
    if scheduler != scheduler_of(pod):
        yield add(scheduler, "spec", "schedulerName")
    if affine:
        yield from _affinity(pod)


def _labels(verdict: Gate | Pass, *, affine: bool) -> dict[str, str | None]:
    """Our label is always computed anew: a value that somebody wrote is replaced, or taken off a pod without group."""
    identity = verdict.identity if isinstance(verdict, Gate) else None
    wanted: dict[str, str | None] = {names.LABEL_GROUP: identity.label if identity else None}
    if affine:
        wanted[names.LABEL_BINPACK] = names.BINPACK_VALUE
    return wanted


def _annotations(verdict: Gate | Pass) -> dict[str, str | None]:
    """The names that the pod gives elsewhere, under the two keys that everybody reads."""
    wanted: dict[str, str | None] = {names.ANNOTATION_LIFTED: None}
    if isinstance(verdict, Gate):
        # A native PodGroup is another kind of object: under this key it would name a group that does not exist.
        if verdict.identity and verdict.identity.kind in (PODGROUP, LITE):
            wanted[names.GROUP_NAME] = verdict.identity.name
        if verdict.queue:
            wanted[names.QUEUE_NAME] = verdict.queue.name
    return wanted


def _gate(pod: Pod) -> Iterator[Operation]:
    gates = pod.spec.scheduling_gates
    if any(gate.name == names.GATE for gate in gates):
        return
    ours = {"name": names.GATE}
    yield add(ours, "spec", "schedulingGates", "-") if gates else add([ours], "spec", "schedulingGates")


def _scheduler(pod: Pod, verdict: Gate | Pass, facts: Facts) -> str:
    """The schedulerName that the pod shall have; it can never be changed afterwards."""
    if isinstance(verdict, Pass) and verdict.why not in SERVED:
        return scheduler_of(pod)
    if _is_packed(verdict, facts) and facts.config.binpack_scheduler_name:
        return facts.config.binpack_scheduler_name
    return facts.config.default_scheduler if is_rewritten(pod, facts.config) else scheduler_of(pod)


def _is_packed(verdict: Gate | Pass, facts: Facts) -> bool:
    return facts.policy is not names.Policy.GANG and (isinstance(verdict, Gate) or verdict.why in SERVED)


def _affinity(pod: Pod) -> Iterator[Operation]:
    """Prefer nodes that hold pods like this one. No `namespaces`: CrossNamespacePodAffinity quotas stay untouched."""
    term = {
        "weight": _WEIGHT,
        "podAffinityTerm": {
            "labelSelector": {"matchLabels": {names.LABEL_BINPACK: names.BINPACK_VALUE}},
            "topologyKey": names.HOSTNAME_LABEL,
        },
    }
    affinity = pod.spec.affinity or Affinity()
    if pod.spec.affinity is None:
        yield add({"podAffinity": {_PREFERRED: [term]}}, "spec", "affinity")
    elif affinity.pod_affinity is None:
        yield add({_PREFERRED: [term]}, "spec", "affinity", "podAffinity")
    elif not affinity.pod_affinity.preferred:
        yield add([term], "spec", "affinity", "podAffinity", _PREFERRED)
    elif not any(_is_ours(other) for other in affinity.pod_affinity.preferred):
        yield add(term, "spec", "affinity", "podAffinity", _PREFERRED, "-")


def _is_ours(preferred: dict[str, Any]) -> bool:
    """By what it selects, not by equality: the API server may have added defaults to the term since."""
    term = preferred.get("podAffinityTerm") or {}
    labels = (term.get("labelSelector") or {}).get("matchLabels") or {}
    return term.get("topologyKey") == names.HOSTNAME_LABEL and names.LABEL_BINPACK in labels


def _warnings(pod: Pod, verdict: Gate | Pass) -> Iterator[str]:
    if isinstance(verdict, Gate) and pod.metadata.controller is None:
        yield WARN_HELD  # nobody reads what a controller is told; its log would hold one line per pod
    if pod.metadata.annotation(names.ANNOTATION_LIFTED) is not None:
        yield WARN_LIFTED
    if pod.metadata.label(names.LABEL_EXEMPT) is not None:
        yield WARN_EXEMPT
