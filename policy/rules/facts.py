"""From one Kubernetes object to the facts that decisions use: run once per object, when the watch delivers it.

Everything here is total: an object that cannot be read becomes facts with a `problem`, so that one bad object makes
only its own groups wait. May know objects, quantities, membership and the model; sees one object at a time.
"""

import datetime as dt
from functools import lru_cache

import msgspec

from policy import names
from policy.rules import quantity, refusal, resources
from policy.rules.membership.identify import identify, named_queue
from policy.rules.membership.identity import DisagreementError, Identity, ReservedNameError
from policy.rules.model import (
    Lifted,
    LimitRangeFacts,
    NamespaceFacts,
    NodeFacts,
    PodFacts,
    PodGroupFacts,
    QueueFacts,
    QuotaFacts,
    Ref,
    RefusalFacts,
    Resources,
    ScopeFact,
)
from policy.rules.objects import (
    Event,
    LimitRange,
    Namespace,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
    PodGroup,
    PodSpec,
    Quantities,
    Queue,
    ResourceQuota,
)
from policy.rules.shape import shape_of, single_node


def epoch(stamp: str | None) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0 for none, and for what is no time."""
    try:
        return dt.datetime.fromisoformat(stamp).timestamp() if stamp else 0.0
    except (ValueError, OverflowError):
        return 0.0


def pod(item: Pod) -> PodFacts:
    meta, spec = item.metadata, item.spec
    identity, queue, problem = membership(item)
    owner = meta.controller
    gates = tuple(g.name for g in spec.scheduling_gates)
    return PodFacts(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        shape=shape_of(item),
        created=epoch(meta.creation_timestamp),
        phase=item.status.phase,
        node=spec.node_name,
        gated=names.GATE in gates,
        foreign_gates=tuple(g for g in gates if g != names.GATE),
        deleted=_gone_at(meta),
        group=identity,
        problem=problem,
        owner=owner.uid if owner else "",
        above=ref(owner) if owner else None,
        role=meta.annotation(names.TASK_SPEC) or meta.label(names.TASK_SPEC) or "",
        index=_index(meta),
        labels=meta.labels or {},
        queue=queue,
        lifted=_lifted(meta),
        pin=single_node(item),
        nominated=item.status.nominated_node_name,
        task_min=task_min(meta),
        started=epoch(item.status.start_time) if spec.active_deadline_seconds else 0.0,
        lasts=_lasts(spec),
        preempted=any(_preempted(c) for c in item.status.conditions),
    )


def _lasts(spec: PodSpec) -> int:
    if spec.active_deadline_seconds is None:
        return 0
    grace = spec.termination_grace_period_seconds
    return spec.active_deadline_seconds + (names.DEFAULT_GRACE_SECONDS if grace is None else max(0, grace))


def _preempted(condition: PodCondition) -> bool:
    """https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions."""
    by_scheduler = condition.reason == names.PREEMPTED_BY_SCHEDULER
    return by_scheduler and condition.type == names.DISRUPTION_TARGET and condition.status == "True"


@lru_cache(maxsize=20_000)
def ref(owner: OwnerReference) -> Ref:
    """One object for all that an owner controls."""
    return Ref(owner.group, owner.kind, owner.name, owner.uid)


def membership(item: Pod) -> tuple[Identity | None, str, str]:
    """Group, queue, and why neither can be told."""
    try:
        queue = named_queue(item.metadata)
        return _shared(identify(item, item.metadata.namespace)), queue.name if queue else "", ""
    except (DisagreementError, ReservedNameError) as error:
        return None, "", str(error)


@lru_cache(maxsize=20_000)
def _shared(identity: Identity | None) -> Identity | None:
    """Equal identities are one object: a gang of thousands keeps one."""
    return identity


def _gone_at(meta: ObjectMeta) -> float | None:
    if meta.deletion_timestamp is None:
        return None
    return epoch(meta.deletion_timestamp) + (meta.deletion_grace_period_seconds or 0)


def _index(meta: ObjectMeta) -> int:
    found = natural(meta.annotation(names.COMPLETION_INDEX) or meta.label(names.COMPLETION_INDEX))
    return -1 if found is None else found


def task_min(meta: ObjectMeta) -> int:
    return natural(meta.label(names.COSCHEDULING_LITE_MIN)) or 0


def natural(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _lifted(meta: ObjectMeta) -> Lifted | None:
    text = meta.annotation(names.ANNOTATION_LIFTED)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Lifted)
    except msgspec.MsgspecError:
        return Lifted(min=1, at=0.0)  # admission lets only our own writes through: a broken one still marks a start


def node(item: Node) -> NodeFacts:
    ready = next((c.status for c in item.status.conditions if c.type == "Ready"), "True")
    return NodeFacts(
        name=item.metadata.name,
        allocatable=_tolerant(item.status.allocatable),
        labels=item.metadata.labels or {},
        taints=item.spec.taints,
        cordoned=item.spec.unschedulable,
        ready=ready == "True",
    )


def _tolerant(amounts: Quantities | None) -> dict[str, int]:
    """Amounts that parse; one that does not is no capacity."""
    found: dict[str, int] = {}
    for name, amount in (amounts or {}).items():
        try:
            found[name] = quantity.parse(amount)
        except quantity.QuantityError:
            continue
    return found


def namespace(item: Namespace) -> NamespaceFacts:
    listed = item.metadata.annotation(names.ANNOTATION_QUEUES) or ""
    return NamespaceFacts(
        name=item.metadata.name,
        policy=item.metadata.label(names.NAMESPACE_POLICY) or "",
        report_deadlocks=item.metadata.annotation(names.ANNOTATION_DEADLOCK) == names.DEADLOCK_REPORT,
        queues=tuple(q for q in (part.strip() for part in listed.split(",")) if q),
        deleted=item.metadata.deletion_timestamp is not None,
    )


def quota(item: ResourceQuota) -> QuotaFacts:
    spec, status = item.spec, item.status
    requirements = spec.scope_selector.match_expressions if spec.scope_selector else ()
    scopes = tuple(ScopeFact(s) for s in spec.scopes)
    scopes += tuple(ScopeFact(r.scope_name, r.operator, r.values) for r in requirements)
    return QuotaFacts(
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        uid=item.metadata.uid,
        hard=_tolerant(status.hard),
        used=_tolerant(status.used),
        scopes=scopes,
    )


def limit_range(item: LimitRange) -> LimitRangeFacts:
    """Its defaults for containers; it has none for pods."""
    default: Quantities = {}
    request: Quantities = {}
    for one in item.spec.limits:
        if one.type == "Container":
            default, request = {**default, **(one.default or {})}, {**request, **(one.default_request or {})}
    return LimitRangeFacts(item.metadata.namespace, item.metadata.name, default, request)


def refused(item: Event) -> RefusalFacts | None:
    """None for an event about anything else."""
    if not refusal.tells(item):
        return None
    seen = item.series.last_observed_time if item.series else None
    stamps = (seen, item.last_timestamp, item.event_time, item.metadata.creation_timestamp)
    return refusal.read(item, next((epoch(stamp) for stamp in stamps if stamp), 0.0))


def queue(item: Queue) -> QueueFacts:
    spec = item.spec
    capability, wrong_capability = _amounts("capability", spec.capability)
    deserved, wrong_deserved = _amounts("deserved", spec.deserved)
    guarantee, wrong_guarantee = _amounts("guarantee.resource", spec.guarantee.resource if spec.guarantee else None)
    wrong_weight = f"spec.weight is {spec.weight}: it must be 1 or more" if spec.weight < 1 else ""
    policy = item.metadata.annotation(names.ANNOTATION_POLICY) or ""
    known = policy in ("", names.Policy.GANG, names.Policy.BINPACK)
    wrong_policy = "" if known else f"annotation {names.ANNOTATION_POLICY} is {policy[:63]!r}: gang or binpack"
    return QueueFacts(
        name=item.metadata.name,
        capability=capability,
        parent=spec.parent,
        state=item.status.state,
        problem=wrong_capability or wrong_deserved or wrong_guarantee or wrong_weight or wrong_policy,
        weight=max(1, spec.weight),
        deserved=deserved,
        guarantee=guarantee,
        reclaimable=spec.reclaimable is not False,
        priority=spec.priority,
        policy=policy if known else "",
    )


def _amounts(field: str, written: Quantities | None) -> tuple[Resources, str]:
    """The amounts, and what is wrong with them: then there are none."""
    try:
        found = resources.read(written)
    except quantity.QuantityError as error:
        return {}, f"spec.{field}: {error}"
    negative = next((name for name, amount in sorted(found.items()) if amount < 0), None)
    if negative is None:
        return found, ""
    return {}, f"spec.{field}: {negative}: {(written or {})[negative]} is less than 0"


def podgroup(item: PodGroup, api: str) -> PodGroupFacts:
    """`api` is the dialect's API group, which items of a list do not carry."""
    spec, meta = item.spec, item.metadata
    controller = meta.controller
    problem = f"spec.minMember is {spec.min_member}: it must be 1 or more" if spec.min_member < 0 else ""
    tasks = {role: least for role, least in (spec.min_task_member or {}).items() if least > 0}
    return PodGroupFacts(
        api=api,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=epoch(meta.creation_timestamp),
        min_member=max(1, spec.min_member),
        min_task_member=tasks if sum(tasks.values()) <= spec.min_member else {},  # as Volcano has it
        queue=spec.queue,
        priority_class=spec.priority_class_name,
        controller=controller.uid if controller else "",
        ours=meta.label(names.LABEL_MANAGED) == names.MANAGER,
        problem=problem,
        bind_timeout=max(0, spec.schedule_timeout_seconds or 0) if api != names.VOLCANO_API else 0,
    )
