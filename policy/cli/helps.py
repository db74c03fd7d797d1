"""What would unblock a group, one line for each way, from the same sums that say what is short.

Pure. A reason of names.Reason without an entry here has no advice of its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from policy import names
from policy.cli.rows import Row
from policy.cli.wording import amount, count
from policy.rules import words
from policy.rules.account import LevelLine, QuotaLine
from policy.rules.conclusions import Group
from policy.rules.model import Snapshot
from policy.rules.shortage import NodesShort

Reason = names.Reason


@dataclass(frozen=True)
class Case:
    """What advice is made from."""

    snapshot: Snapshot
    group: Group
    row: Row
    quota: list[QuotaLine]
    levels: list[LevelLine]
    nodes: NodesShort | None


def of(case: Case) -> Iterator[str]:
    """Ways that help, the most direct first; none for a group that runs."""
    if case.row.reason in _ADVICE and (case.row.waiting or case.row.reason in _OF_BEGUN):
        yield from _ADVICE[Reason(case.row.reason)](case)


def _forming(case: Case) -> Iterator[str]:
    owner, group = case.group.owner, case.group
    what = count(case.row.missing, "more pod")
    if owner:
        yield f"{owner.kind} {owner.name} must create {what}; `kubectl describe` of it tells if creates are refused"
    else:
        yield f"create {what} of this group"
    if group.podgroup and not group.podgroup.ours:
        yield f"or lower spec.minMember of PodGroup {group.podgroup.name} to {case.row.present or 1}"


def _quota(case: Case) -> Iterator[str]:
    for line in case.quota:
        if line.short:
            short, enough = (amount(n, line.key) for n in (line.short, line.hard + line.short))
            yield f"free {short} {line.key} in namespace {case.row.namespace}, or raise quota {line.quota} to {enough}"
            if line.promised:
                yield f"or wait for the groups ahead, to which {amount(line.promised, line.key)} of it is promised"


def _capability(case: Case) -> Iterator[str]:
    for line in case.levels:
        if line.short and line.capability is not None:
            short, enough = (amount(n, line.resource) for n in (line.short, line.capability + line.short))
            yield f"free {short} {line.resource} in queue {line.queue}, or raise its spec.capability to {enough}"
    kind, _, rest = case.row.limiter.partition("/")
    if kind == "guarantee":
        whose, _, resource = rest.partition("/")
        yield f"free {resource} on nodes, or lower spec.guarantee of {whose.replace(',', ', ')}: its rest is kept"


def _nodes(case: Case) -> Iterator[str]:
    if case.nodes is None:
        return
    lacking = case.nodes.wanted - case.nodes.fit
    yield f"room for {count(lacking, 'more pod')} of {words.request_text(case.nodes.shape)}"
    for why, what in (("cordoned", "uncordon nodes"), ("not ready", "mend nodes")):
        if why in case.nodes.reasons:
            yield f"{what}: {case.nodes.reasons[why]} {why}"
    never = case.nodes.wanted - case.nodes.empty_fit
    if never > 0:
        yield f"nodes for {count(never, 'more pod')}: those there are would be too few even if empty and up"


def _behind(_: Case) -> Iterator[str]:
    yield "a deadline (activeDeadlineSeconds) by which its pods are gone before the group ahead is to start"
    yield "or wait until that one has started"


def _never(case: Case) -> Iterator[str]:
    kind, _, rest = case.row.limiter.partition("/")
    match kind:
        case "quota":
            yield from _never_quota(case, rest)
        case "queue":
            yield from _capability_for_good(case)
        case "minMember":
            yield f"lower minMember to {case.group.possible} or less, or let its owner make {case.group.minimum} pods"
        case "nodes":
            yield from _never_nodes(case)


def _never_nodes(case: Case) -> Iterator[str]:
    missing = case.nodes.unknown if case.nodes else None
    if missing is None:
        yield "a node that takes such a pod, or pods that ask for less, or for other nodes"
        return
    yield f"a node with {missing.text}"
    if missing.near:
        yield f"or pods that select what there is: {', '.join(missing.near)}"


def _never_quota(case: Case, rest: str) -> Iterator[str]:
    quota, _, key = rest.partition("/")
    line = next((each for each in case.quota if (each.quota, each.key) == (quota, key)), None)
    if line and line.unstated:
        yield f"state {key} in every container, or set a default with a LimitRange in namespace {case.row.namespace}"
    elif line:
        yield f"raise quota {quota} to {amount(line.whole, key)} {key} or more, or make the group smaller"


def _capability_for_good(case: Case) -> Iterator[str]:
    for line in case.levels:
        if line.capability is not None and line.need > line.capability:
            enough = amount(line.need, line.resource)
            yield f"raise spec.capability of queue {line.queue} to {enough} {line.resource} or more, or ask for less"


def _queue_missing(case: Case) -> Iterator[str]:
    yield f"create Queue {case.row.queue}, or name one that exists"


def _queue_closed(case: Case) -> Iterator[str]:
    yield f"open or mend Queue {case.row.queue} or its ancestor, or name another"


def _queue_not_allowed(case: Case) -> Iterator[str]:
    namespace = case.snapshot.namespaces.get(case.row.namespace)
    allowed = ", ".join(namespace.queues) if namespace else ""
    yield f"name one of {allowed}, or add {case.row.queue} to annotation {names.ANNOTATION_QUEUES} of the namespace"


def _podgroup_missing(case: Case) -> Iterator[str]:
    yield f"create PodGroup {case.row.name} in namespace {case.row.namespace}"


def _podgroup_invalid(case: Case) -> Iterator[str]:
    yield f"correct it: {case.row.message}"


def _owner_gone(_: Case) -> Iterator[str]:
    yield "delete the pods: nothing will complete their group"


def _owner_unreadable(_: Case) -> Iterator[str]:
    yield "grant ganggate what the message says is missing, or end the chain of controllers that it names"


def _foreign_gate(case: Case) -> Iterator[str]:
    yield f"whoever set {case.row.limiter} must remove it first"


def _create_refused(_: Case) -> Iterator[str]:
    yield "whatever refuses the pods must let them pass: the message ends with the refusal"


def _given_back(_: Case) -> Iterator[str]:
    yield "nothing: it is resumed by itself when the whole of it fits"


def _deadlock(case: Case) -> Iterator[str]:
    _, quota, key = case.row.limiter.split("/", 2)
    yield f"raise {key} of quota {quota}, or delete one of the groups that hold part of it"


def _too_many(case: Case) -> Iterator[str]:
    yield f"fewer groups waiting in namespace {case.row.namespace}"


def _refused(_: Case) -> Iterator[str]:
    yield "whatever refuses the patch (an admission webhook, a policy, RBAC) must let it pass"


def _unbound(case: Case) -> Iterator[str]:
    pods = ", ".join(m.name for m in case.group.started if not m.node)
    yield f"`kubectl describe pod` of {pods}: the scheduler says why it binds them nowhere"
    yield "where the node of a pod's pin is gone, delete the pod: its owner makes it anew"


def _degraded(case: Case) -> Iterator[str]:
    if case.group.owner:
        yield f"`kubectl describe` of {case.group.owner.called}: it makes lost members anew, and tells if it gave up"
    yield "or delete the whole group, if what is left of it does no work"


def _preempted(_: Case) -> Iterator[str]:
    yield "a higher PriorityClass for the group, or preemptionPolicy Never for those that take its places"
    yield "or preemptedGiveBack in the settings: the rest of a preempted group is given back then"


_OF_BEGUN: Final = frozenset({Reason.BIND_TIMEOUT, Reason.DEGRADED, Reason.PREEMPTED})
_ADVICE: dict[Reason, Callable[[Case], Iterator[str]]] = {
    Reason.FORMING: _forming,
    Reason.NAMESPACE_QUOTA_SHORT: _quota,
    Reason.QUEUE_CAPABILITY_SHORT: _capability,
    Reason.NODES_SHORT: _nodes,
    Reason.BEHIND_RESERVATION: _behind,
    Reason.NEVER_FITS: _never,
    Reason.REQUESTS_MISSING: _never,
    Reason.CREATE_REFUSED: _create_refused,
    Reason.GIVEN_BACK: _given_back,
    Reason.QUOTA_DEADLOCK: _deadlock,
    Reason.QUEUE_MISSING: _queue_missing,
    Reason.QUEUE_CLOSED: _queue_closed,
    Reason.QUEUE_NOT_ALLOWED: _queue_not_allowed,
    Reason.PODGROUP_MISSING: _podgroup_missing,
    Reason.PODGROUP_INVALID: _podgroup_invalid,
    Reason.OWNER_GONE: _owner_gone,
    Reason.OWNER_UNREADABLE: _owner_unreadable,
    Reason.FOREIGN_GATE: _foreign_gate,
    Reason.TOO_MANY_GROUPS: _too_many,
    Reason.LIFT_REFUSED: _refused,
    Reason.BIND_TIMEOUT: _unbound,
    Reason.DEGRADED: _degraded,
    Reason.PREEMPTED: _preempted,
}
