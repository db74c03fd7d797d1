"""What events tell of pods: why one was refused, by which quota, and how much it asked; and who preempted one.

The sentences are those of k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go: `exceeded quota: Q,
requested: k=v, used: k=v, limited: k=v` and `failed quota: Q: must specify k for: container`. Anything else is told as
it stands. May know objects, quantities and the model.
"""

import re
from typing import Final

from policy.rules import quantity
from policy.rules.model import RefusalFacts, Resources
from policy.rules.objects import Event

_EXCEEDED: Final = re.compile(r"exceeded quota: (?P<quota>[^,\s]+), requested: (?P<asked>.*?), used: ")
_UNSTATED: Final = re.compile(r"failed quota: (?P<quota>[^:\s]+): must specify ")
_PREEMPTED: Final = re.compile(r"Preempted by (?:a )?pod(?:group)? (?P<uid>[0-9a-f-]{36})\b")
_LONGEST: Final = 300  # characters of a message that is told on
# By reason, what the message holds when it is about a pod: Kubernetes' controllers and LeaderWorkerSet, Kubeflow's
# training operator, KubeRay, the MPI operator (whose reason also stands for a job that failed).
REASONS: Final = {
    "FailedCreate": "",
    "FailedCreatePod": "Error creating",
    "FailedToCreateHeadPod": "",
    "FailedToCreateWorkerPod": "",
    "MPIJobFailed": "pod created failed",
}


def tells(event: Event) -> bool:
    """Whether the event is about a pod that was refused."""
    return event.reason in REASONS and REASONS[event.reason] in event.message


def read(event: Event, at: float) -> RefusalFacts:
    """Raises nothing: what cannot be understood is kept as a sentence."""
    owner, message = event.involved_object.uid, event.message[:_LONGEST]
    if found := _EXCEEDED.search(event.message):
        return RefusalFacts(owner, at, message, found["quota"], _amounts(found["asked"]))
    if found := _UNSTATED.search(event.message):
        return RefusalFacts(owner, at, message, found["quota"], unstated=True)
    return RefusalFacts(owner, at, message)


def preemption(event: Event) -> tuple[str, str] | None:
    """Which pod was preempted and which one takes its place, by uid; None where the event does not say.

    k8s.io/kubernetes pkg/scheduler/framework/preemption/executor.go: `Preempted by pod UID on node NODE`.
    """
    found = _PREEMPTED.match(event.message)
    return (event.involved_object.uid, found["uid"]) if found else None


def _amounts(text: str) -> Resources:
    amounts: Resources = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        try:
            if equals:
                amounts[key.strip()] = quantity.parse(value.strip())
        except quantity.QuantityError:
            continue
    return amounts
