"""The part of Kubernetes objects that ganggate reads, as typed structs.

One definition for both processes: the webhook decodes the pod of an AdmissionReview with them, the gatekeeper the
answers of list and watch. Unknown fields are ignored, so that a newer API server breaks nothing; fields that we
write nowhere are left out to keep 50,000 pods small. Quantities stay text here: policy.rules.resources reads them.

Field names and meaning: https://kubernetes.io/docs/reference/kubernetes-api/. May know msgspec and nothing of ours.
"""

from typing import Any

import msgspec

Quantities = dict[str, str | int | float]  # YAML authors write 1 as well as "1"; JSON numbers reach us as they are


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base: camelCase on the wire, immutable here, defaults left out when written."""


class OwnerReference(Wire, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None

    @property
    def group(self) -> str:
        """The API group, without its version; empty for the core's."""
        return self.api_version.rpartition("/")[0]


class ObjectMeta(Wire, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] = ()

    def label(self, key: str) -> str | None:
        return self.labels.get(key) if self.labels else None

    def annotation(self, key: str) -> str | None:
        return self.annotations.get(key) if self.annotations else None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner whose `controller` field is true; the API server allows at most one."""
        return next((o for o in self.owner_references if o.controller), None)


class ManagedFields(Wire, frozen=True):
    manager: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw(b"{}"))


class OwnerMeta(ObjectMeta, frozen=True):
    """Of objects with a lever: who set what is the server's word, which no user can forge."""

    managed_fields: tuple[ManagedFields, ...] = ()


class SchedulingGate(Wire, frozen=True):
    name: str


class ResourceRequirements(Wire, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None
    claims: tuple[dict[str, Any], ...] = ()


class ContainerPort(Wire, frozen=True):
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(name="hostIP", default="")


class Container(Wire, frozen=True):
    name: str = ""
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: tuple[ContainerPort, ...] = ()


class Toleration(Wire, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class SelectorRequirement(Wire, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class LabelSelector(Wire, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[SelectorRequirement, ...] = ()


class PodAffinityTerm(Wire, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(Wire, frozen=True):
    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )
    preferred: tuple[dict[str, Any], ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire, frozen=True):
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    max_skew: int = 1
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class Volume(Wire, frozen=True):
    name: str = ""
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None


class SchedulingGroup(Wire, frozen=True):
    pod_group_name: str = ""


class WorkloadRef(Wire, frozen=True):
    name: str = ""
    pod_group: str = ""


class PodSpec(Wire, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: Quantities | None = None
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    priority_class_name: str = ""
    runtime_class_name: str = ""
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[dict[str, Any], ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None
    host_network: bool = False


class PodCondition(Wire, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(Wire, frozen=True):
    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None


class PodStatus(Wire, frozen=True):
    phase: str = "Pending"
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(Wire, frozen=True):
    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Wire, frozen=True):
    allocatable: Quantities | None = None
    conditions: tuple[PodCondition, ...] = ()


class Node(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class ScopeSelector(Wire, frozen=True):
    match_expressions: tuple["ScopeRequirement", ...] = ()


class ScopeRequirement(Wire, frozen=True):
    scope_name: str
    operator: str
    values: tuple[str, ...] = ()


class ResourceQuotaSpec(Wire, frozen=True):
    hard: Quantities | None = None
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Wire, frozen=True):
    hard: Quantities | None = None
    used: Quantities | None = None


class ResourceQuota(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(Wire, frozen=True):
    type: str = ""
    default: Quantities | None = None
    default_request: Quantities | None = None


class LimitRangeSpec(Wire, frozen=True):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


class RuntimeOverhead(Wire, frozen=True):
    pod_fixed: Quantities | None = None


class RuntimeClass(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    overhead: RuntimeOverhead | None = None


class DeviceClassSpec(Wire, frozen=True):
    extended_resource_name: str = ""


class DeviceClass(Wire, frozen=True):
    """Devices that pods may also ask for as an extended resource of that name, whichever node has them (KEP-5004)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class ObjectReference(Wire, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(Wire, frozen=True):
    last_observed_time: str | None = None


class Event(Wire, frozen=True):
    """core/v1, as controllers write it about objects whose pods are refused, and the scheduler about preempted pods."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None


class PodTemplate(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class JobSpec(Wire, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    completion_mode: str = "NonIndexed"
    active_deadline_seconds: int | None = None
    template: PodTemplate = PodTemplate()


class Condition(Wire, frozen=True):
    type: str = ""
    status: str = ""


def is_true(conditions: tuple[Condition, ...], *types: str) -> bool:
    """Whether one of these conditions stands."""
    return any(c.type in types and c.status == "True" for c in conditions)


class JobStatus(Wire, frozen=True):
    start_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Wire, frozen=True):
    metadata: OwnerMeta = OwnerMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class PodGroupSpec(Wire, frozen=True):
    """Union of the three dialects' specs; a field that a dialect lacks stays at its default."""

    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Quantities | None = None
    schedule_timeout_seconds: int | None = None


class PodGroupCondition(Wire, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    transition_id: str = msgspec.field(name="transitionID", default="")
    last_transition_time: str | None = None


class PodGroupStatus(Wire, frozen=True):
    phase: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[PodGroupCondition, ...] = ()


class PodGroup(Wire, frozen=True):
    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class Guarantee(Wire, frozen=True):
    resource: Quantities | None = None


class QueueSpec(Wire, frozen=True):
    weight: int = 1
    capability: Quantities | None = None
    parent: str = ""
    reclaimable: bool | None = None
    priority: int = 0
    deserved: Quantities | None = None
    guarantee: Guarantee | None = None


class QueueStatus(Wire, frozen=True):
    state: str = ""
    allocated: Quantities | None = None


class Queue(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class PriorityClass(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False


def without_nulls(data: Any) -> Any:
    """JSON as Go means it: an empty slice or map is often written as null."""
    if isinstance(data, dict):
        return {key: without_nulls(each) for key, each in data.items() if each is not None}
    if isinstance(data, list):
        return [without_nulls(each) for each in data if each is not None]
    return data
