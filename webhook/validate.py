"""Who may change what: the final object of a create, and later updates of what ganggate wrote.

Pure. A webhook that calls nobody cannot ask RBAC, so updates are split: the API server lets through to us only what
its matchConditions have already found to be a change of ours by somebody without the verb `lift`
(deploy/kustomize/base/webhooks.yaml), and what is found here to be such a change is refused. The same rules stand as
CEL in deploy/policies, for the time when nobody answers here.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from policy import names
from policy.rules.membership.identify import NAMING_ANNOTATIONS, NAMING_LABELS
from policy.rules.objects import Pod
from webhook.eligibility import SERVED, TRUSTED, Facts, Gate, Pass, Refusal, judge, scheduler_of
from webhook.wording import shown

_NEEDS: Final = f"verb {names.LIFT_VERB} on {names.LIFT_RESOURCE}.{names.DOMAIN}"
_OUR_LABELS: Final = (names.LABEL_GROUP, names.LABEL_EXEMPT)
_OUR_ANNOTATIONS: Final = (names.ANNOTATION_LIFTED,)


def created(pod: Pod, facts: Facts) -> Refusal | None:
    """Judge the object as it will be stored: a webhook after ours may have undone what ours wrote."""
    verdict = judge(pod, facts)
    if isinstance(verdict, Refusal):
        return verdict
    if isinstance(verdict, Pass) and verdict.why in TRUSTED:
        return None
    return _lifted(pod) or _ungated(pod, verdict) or _wrong_label(pod, verdict) or _unserved(pod, verdict, facts)


def _lifted(pod: Pod) -> Refusal | None:
    value = pod.metadata.annotation(names.ANNOTATION_LIFTED)
    if value is None:
        return None
    message = f"metadata.annotations[{names.ANNOTATION_LIFTED}]: {shown(value)} is written when a gate is lifted only"
    return Refusal("lifted-forged", message, code=403)


def _ungated(pod: Pod, verdict: Gate | Pass) -> Refusal | None:
    if isinstance(verdict, Pass) or has_gate(pod):
        return None
    message = (
        f"spec.schedulingGates: {shown(names.GATE)} is missing: the webhook of ganggate was not asked, "
        "or a later one dropped it; try again"
    )
    return Refusal("gate-missing", message, code=403)


def _wrong_label(pod: Pod, verdict: Gate | Pass) -> Refusal | None:
    identity = verdict.identity if isinstance(verdict, Gate) else None
    value, right = pod.metadata.label(names.LABEL_GROUP), identity.label if identity else None
    if value == right:
        return None
    found = "missing" if value is None else shown(value)
    wanted = "a pod without group carries none" if right is None else f"this pod's group is {shown(right)}"
    return Refusal("label-wrong", f"metadata.labels[{names.LABEL_GROUP}]: {found}: {wanted}", code=403)


def _unserved(pod: Pod, verdict: Gate | Pass, facts: Facts) -> Refusal | None:
    name = scheduler_of(pod)
    served = name in facts.config.scheduler_profiles
    if served or (isinstance(verdict, Pass) and verdict.why not in SERVED):
        return None
    profiles = ", ".join(facts.config.scheduler_profiles)
    return Refusal("scheduler-unserved", f"spec.schedulerName: {shown(name)} does not run here; known: {profiles}")


def has_gate(pod: Pod) -> bool:
    return any(gate.name == names.GATE for gate in pod.spec.scheduling_gates)


def updated(old: Pod, new: Pod) -> Refusal | None:
    """Refuse a change of our marks, and of the names that decided the group of a pod that was taken in.

    Names of other projects are free on any other pod: a live Volcano writes its group name on pods after creation.
    """
    if is_going(old):
        return None
    found = next(_changes(old, new), None)
    return Refusal("mark-changed", found, code=403) if found else None


def _changes(old: Pod, new: Pod) -> Iterator[str]:
    taken = _is_taken_in(old)
    labels = _OUR_LABELS + (NAMING_LABELS if taken else ())
    annotations = _OUR_ANNOTATIONS + (NAMING_ANNOTATIONS if taken else ())
    yield from _differences("labels", labels, old.metadata.labels or {}, new.metadata.labels or {})
    yield from _differences("annotations", annotations, old.metadata.annotations or {}, new.metadata.annotations or {})


def _is_taken_in(pod: Pod) -> bool:
    meta = pod.metadata
    return has_gate(pod) or meta.label(names.LABEL_GROUP) is not None or bool(meta.annotation(names.ANNOTATION_LIFTED))


def _differences(field: str, keys: tuple[str, ...], old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key in keys:
        before, after = old.get(key), new.get(key)
        if before != after:
            change = f"from {_value(before)} to {_value(after)}"
            yield f"metadata.{field}[{key}]: fixed at creation: {change} takes {_NEEDS}"


def _value(value: str | None) -> str:
    return "none" if value is None else shown(value)


def gate_removed(old: Pod, new: Pod) -> Refusal | None:
    """Refuse the removal of our gate. What removes nothing passes: a lost matchCondition must not stop a cluster."""
    if is_going(old) or not has_gate(old) or has_gate(new):
        return None
    message = (
        f"spec.schedulingGates: removing {shown(names.GATE)} takes {_NEEDS}; "
        f"kubectl describe pod {old.metadata.name} says what its group waits for"
    )
    return Refusal("gate-removal", message, code=403)


def is_going(pod: Pod) -> bool:
    """Whether the pod is being deleted: it will never be scheduled, and nothing may keep it from going."""
    return pod.metadata.deletion_timestamp is not None
