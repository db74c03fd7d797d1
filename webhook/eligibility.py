"""Which pods are gated: the one place where design section 3, "Gated or not", is decided.

Pure: the pod and what the API server tells about the request in, a verdict out. Says nothing about how the pod is
changed (webhook.mutate) nor what may happen to it later (webhook.validate).

Order matters. Requesters whom Kubernetes itself vouches for come first, then spec.nodeName: a pod that names its node
never meets a scheduler, so neither a foreign schedulerName nor a label of Kueue may carry it past the gate. The exempt
label plays no part here: the API server does not send a pod with it where its creator holds the verb `lift`
(matchConditions in deploy/kustomize/base/webhooks.yaml), so whoever reaches us with it had no right to it.
"""

from enum import StrEnum
from typing import Final

import msgspec

from policy import names
from policy.rules import resources
from policy.rules.membership.identify import Named, identify, named_queue
from policy.rules.membership.identity import DisagreementError, Identity, ReservedNameError
from policy.rules.objects import Pod
from webhook.config import Config
from webhook.wording import one_line, shown

_MOST_MEMBERS: Final = 2**31 - 1  # minMember is an int32 in every PodGroup


class Facts(msgspec.Struct, frozen=True):
    """What a request tells beside the pod."""

    namespace: str
    username: str
    groups: tuple[str, ...]
    policy: names.Policy
    config: Config


class Spared(StrEnum):
    """Why a pod passes without our gate. Also a metric label: the set is closed."""

    SYSTEM_NAMESPACE = "system-namespace"
    NODE = "placed-by-node"
    DAEMON_SET = "daemon-set"
    BOUND = "placed-by-hand"
    KUEUE = "managed-by-kueue"
    OTHER_SCHEDULER = "other-scheduler"
    ALONE = "alone"
    BINPACK = "binpack"


# Written by the cluster itself: not even a forged mark of ours is taken off them.
TRUSTED: Final = frozenset({Spared.SYSTEM_NAMESPACE, Spared.NODE, Spared.DAEMON_SET})
# Ours to schedule, though not to gate.
SERVED: Final = frozenset({Spared.ALONE, Spared.BINPACK})


class Gate(msgspec.Struct, frozen=True):
    """Hold the pod. Without an identity it is a group of its own."""

    identity: Identity | None
    queue: Named | None


class Pass(msgspec.Struct, frozen=True):
    why: Spared


class Refusal(msgspec.Struct, frozen=True):
    """Deny the request. `why` is a metric label, `message` one line that names field and value."""

    why: str
    message: str
    code: int = 422  # HTTP: 403 for what one may not do, 422 for a pod that contradicts itself

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "message", one_line(self.message))


Verdict = Gate | Pass | Refusal


def judge(pod: Pod, facts: Facts) -> Verdict:
    """The verdict on a pod that is being created."""
    if (trusted := _trusted(pod, facts)) is not None:
        return Pass(trusted)
    if facts.policy is names.Policy.BINPACK:
        return Pass(_untouched(pod, facts) or Spared.BINPACK)
    if not pod.spec.node_name and (untouched := _untouched(pod, facts)) is not None:
        return Pass(untouched)
    try:
        wanted = Gate(identify(pod, facts.namespace, facts.config.kinds), named_queue(pod.metadata))
    except DisagreementError as error:
        return Refusal("names-disagree", str(error))
    except ReservedNameError as error:
        return Refusal("reserved-name", str(error))
    return _minimum_refused(pod) or _placed(pod, wanted) or _gated(pod, wanted)


def _trusted(pod: Pod, facts: Facts) -> Spared | None:
    if facts.namespace in names.UNTOUCHED_NAMESPACES:
        return Spared.SYSTEM_NAMESPACE
    if pod.spec.node_name and names.NODES_GROUP in facts.groups:
        return Spared.NODE  # mirror pods among them: the annotation alone proves nothing, a tenant can write it
    owner = pod.metadata.controller
    is_daemon = owner is not None and owner.kind == "DaemonSet" and owner.api_version.startswith("apps/")
    return Spared.DAEMON_SET if is_daemon and facts.username in names.DAEMONSET_REQUESTERS else None


def _untouched(pod: Pod, facts: Facts) -> Spared | None:
    if pod.spec.node_name:
        return Spared.BOUND
    if facts.config.kueue and (
        pod.metadata.label(names.KUEUE_MANAGED) is not None or pod.metadata.label(names.KUEUE_QUEUE_NAME) is not None
    ):
        return Spared.KUEUE
    return None if is_served(pod, facts.config) else Spared.OTHER_SCHEDULER


def scheduler_of(pod: Pod) -> str:
    return pod.spec.scheduler_name or names.DEFAULT_SCHEDULER


def is_rewritten(pod: Pod, config: Config) -> bool:
    """Whether the pod asks for a gang scheduler that does not run here, so that the default one must take it."""
    name = scheduler_of(pod)
    known = name in config.scheduler_profiles or name in config.live_schedulers
    return name in names.REWRITTEN_SCHEDULERS and not known


def is_served(pod: Pod, config: Config) -> bool:
    """Whether the default scheduler takes the pod, by a profile or because we rewrite its schedulerName."""
    return scheduler_of(pod) in config.scheduler_profiles or is_rewritten(pod, config)


def _minimum_refused(pod: Pod) -> Refusal | None:
    value = pod.metadata.label(names.COSCHEDULING_LITE_MIN)
    if value is None or _is_count(value):
        return None
    message = f"metadata.labels[{names.COSCHEDULING_LITE_MIN}]: {shown(value)} is no number of members: 1 or more"
    return Refusal("bad-minimum", message)


def _is_count(value: str) -> bool:
    short = len(value) <= len(str(_MOST_MEMBERS))
    return short and value.isascii() and value.isdigit() and 1 <= int(value) <= _MOST_MEMBERS


def _placed(pod: Pod, wanted: Gate) -> Verdict | None:
    """A pod that names its node: the API server refuses a gate beside it (KEP-3521), so it may want nothing of us."""
    if not pod.spec.node_name:
        return None
    sign = _sign(pod, wanted)
    if sign is None:
        return Pass(Spared.BOUND)
    message = f"spec.nodeName: {shown(pod.spec.node_name)} would bypass the gate of a pod with {sign}: leave it out"
    return Refusal("node-name", message, code=403)


def _gated(pod: Pod, wanted: Gate) -> Verdict:
    return Pass(Spared.ALONE) if _sign(pod, wanted) is None else wanted


def _sign(pod: Pod, wanted: Gate) -> str | None:
    """What makes the pod one to hold: a group, a named queue or an extended resource; None for a pod alone."""
    if wanted.identity is not None:
        return f"a group ({wanted.identity.how}: {shown(wanted.identity.name)})"
    if wanted.queue is not None:
        return f"a queue ({wanted.queue.where}: {shown(wanted.queue.name)})"
    owner = pod.metadata.controller
    if owner is not None and (owner.group, owner.kind) == ("", "Pod"):
        return f"a pod for its controller ({owner.name})"  # a driver's executors: who leads them is found by its uid
    extended = resources.extended(pod)
    return f"an extended resource ({min(extended)})" if extended else None
