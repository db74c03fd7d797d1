"""What a decision is made from: frozen, typed, and written to JSON and back without loss.

A Snapshot holds facts of the cluster at one moment, each made from one object when the watch delivered it, and no
conclusions (policy.rules.conclusions). Amounts are nano units, times seconds since the epoch. May know names.
"""

from typing import Literal

import msgspec

from policy import names
from policy.rules.membership.custom import OwnerKind
from policy.rules.membership.family import Size
from policy.rules.membership.identity import Identity
from policy.rules.objects import NodeSelectorTerm, PodAffinityTerm, Taint, Toleration, TopologySpreadConstraint
from policy.rules.settings import Config as Config  # noqa: PLC0414 -- whoever knows the model knows it

Resources = dict[str, int]


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of everything in a Snapshot. Of those that come in thousands the garbage collector need not know (`gc`)."""


class Shape(Fact, frozen=True):
    """What pods of one template share, as far as quota and placement care. Interned: equal shapes are one object."""

    requests: Resources = {}
    limits: Resources = {}
    node_selector: dict[str, str] = {}
    node_terms: tuple[NodeSelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[str, ...] = ()  # "TCP/8080", with the address where one is bound
    alone_on_node: tuple[PodAffinityTerm, ...] = ()  # anti-affinity on the hostname that selects the pod itself
    repels: tuple[PodAffinityTerm, ...] = ()  # anti-affinity on the hostname that selects other pods
    repels_afar: tuple[PodAffinityTerm, ...] = ()  # any other anti-affinity: it closes nodes to others, too
    beside: tuple[PodAffinityTerm, ...] = ()  # affinity on the hostname, each term of which selects the pod itself
    spread: TopologySpreadConstraint | None = None  # a hard one, over pods like itself
    unverifiable: tuple[str, ...] = ()  # what no snapshot can tell: claims, volumes, other inter-pod terms
    scheduler: str = names.DEFAULT_SCHEDULER
    priority: int = 0
    priority_class: str = ""
    terminating: bool = False  # the quota scope: activeDeadlineSeconds is set
    best_effort: bool = False  # the QoS class, and quota scope
    cross_namespace: bool = False  # the quota scope CrossNamespacePodAffinity
    unstated: tuple[str, ...] = ()  # "requests.cpu", "limits.memory"…: some container does not state it


class Lifted(Fact, frozen=True, gc=False):
    """Value of the annotation that only the lift writes: the frozen terms of the decision."""

    min: int
    at: float
    queue: str = ""  # charged for the pod as long as it lives
    room: Resources = {}  # there, of all members that start together: their successors ask for no more
    present: int = 0  # members when the lift began; 0 where a version before this field lifted
    newest: float = 0.0  # when the last of them was created: any later one takes somebody's place


Why = Literal["deadlock", "deadline", "bind", "preempted"]


class Claim(Fact, frozen=True):
    """Value of the annotation that stands beside a suspension of ours, and stays as its record."""

    group: str  # key
    why: Why
    at: float
    times: int = 0  # that this owner has given back to end a deadlock
    tries: int = 0  # that it was suspended to save its deadline
    fails: int = 0  # that it was lifted lately and given back, since it was not bound whole or was preempted
    requests: Resources = {}  # of one member, as it was seen: a suspended owner has none to ask
    limits: Resources = {}
    template: str = ""  # digest of the template they came of: a suspended owner may be given another
    ended: float = 0.0  # when we resumed it, or found that somebody else had
    foreign: bool = False  # somebody else did: it is theirs, for good


class Ref(Fact, frozen=True, gc=False):
    """The controller of an object, as the object names it."""

    group: str  # of its API
    kind: str
    name: str
    uid: str


class PodFacts(Fact, frozen=True, gc=False):
    uid: str
    namespace: str
    name: str
    shape: Shape
    created: float = 0.0
    phase: str = "Pending"
    node: str = ""  # bound to
    gated: bool = False  # carries our gate
    foreign_gates: tuple[str, ...] = ()
    deleted: float | None = None  # when quota stops counting it: deletionTimestamp + grace
    group: Identity | None = None
    problem: str = ""  # why no group could be told (names disagree)
    owner: str = ""  # uid of the controller; of a member, of the one that makes its group
    above: Ref | None = None  # the controller
    role: str = ""  # among the members of its group
    unit: str = ""  # what comes and goes together with it
    index: int = -1
    labels: dict[str, str] = {}
    queue: str = ""  # that the pod names
    lifted: Lifted | None = None
    pin: str = ""  # the one node that its required affinity allows
    nominated: str = ""  # the node that preemption makes room on, for it
    task_min: int = 0  # from the labels of a group without object
    started: float = 0.0  # when its kubelet took it
    lasts: int = 0  # seconds from then until its deadline has ended it for good; 0: nobody says
    preempted: bool = False  # by the scheduler, in favour of another pod

    @property
    def over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def live(self) -> bool:
        return self.deleted is None and not self.over  # a member: neither finished nor going


class NodeFacts(Fact, frozen=True):
    name: str
    allocatable: Resources = {}
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool = True


class PartFacts(Fact, frozen=True, gc=False):
    """Members of one role that an owner makes; see policy.rules.membership.family.Part."""

    count: int
    minimum: int
    shape: Shape  # of a member that does not exist yet, as far as the template tells
    template: str = ""  # that member as JSON, for what the namespace's LimitRanges and the cluster add to it
    role: str = ""
    stage: int = 0
    first: int = 0
    unit: int = 1
    waits: str = ""
    group: Identity | None = None  # that these pods will name


class OwnerFacts(Fact, frozen=True, gc=False):
    """A controller that makes groups, read by its family."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str
    created: float
    size: Size
    parts: tuple[PartFacts, ...] = ()
    above: Ref | None = None  # its own controller
    slices: int | None = None  # equal groups that it makes; None: its pods are one
    version: str = ""  # resourceVersion
    lever: tuple[str, ...] = ()  # path of the field that suspends it; () when it is not ours to pull
    claim: Claim | None = None
    ours: bool = False  # suspended, by us, and by nobody since
    deadline: int | None = None  # seconds of its run, waiting included
    started: float = 0.0  # when that clock began
    woken: float = 0.0
    queue: str = ""
    min_member: int | None = None  # the owner's annotation
    over: bool = False
    going: bool = False  # it is being deleted
    held: bool = False
    group: Identity | None = None  # that its pods will name
    task_min: int = 0  # from the labels of a group without object
    problem: str = ""

    @property
    def called(self) -> str:
        """As people know it."""
        return f"{self.kind} {self.name}"

    @property
    def api(self) -> str:
        """The API group, without its version."""
        return self.api_version.rpartition("/")[0]

    @property
    def part(self) -> PartFacts | None:
        """Its one kind of member, where it has only one."""
        return self.parts[0] if len(self.parts) == 1 else None


class PodGroupFacts(Fact, frozen=True):
    api: str  # API group of the dialect
    namespace: str
    name: str
    uid: str
    created: float
    min_member: int
    queue: str = ""
    priority_class: str = ""
    controller: str = ""  # uid
    ours: bool = False
    problem: str = ""
    min_task_member: dict[str, int] = {}  # by role; empty where Volcano would not look at it
    bind_timeout: int = 0  # seconds, coscheduling's scheduleTimeoutSeconds; 0 where it says nothing


class QueueFacts(Fact, frozen=True):
    name: str
    capability: Resources = {}
    parent: str = ""
    state: str = ""
    problem: str = ""  # a field that cannot be used
    weight: int = 1  # of its share, against that of its siblings
    deserved: Resources = {}  # its share, where it is stated; orders only, until something can be taken back
    guarantee: Resources = {}  # kept for it, whoever asks
    reclaimable: bool = True  # stored: nothing is taken back yet
    priority: int = 0  # among its siblings, before shares
    policy: str = ""  # names.Policy of its groups; "": the namespace's


class ScopeFact(Fact, frozen=True):
    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class QuotaFacts(Fact, frozen=True):
    namespace: str
    name: str
    hard: Resources = {}
    used: Resources = {}
    scopes: tuple[ScopeFact, ...] = ()
    problem: str = ""
    uid: str = ""


class LimitRangeFacts(Fact, frozen=True):
    """What a LimitRange adds to containers that state nothing."""

    namespace: str
    name: str
    default: dict[str, str | int | float] = {}  # limits
    default_request: dict[str, str | int | float] = {}


class RefusalFacts(Fact, frozen=True):
    """An owner's create of a pod that the API server refused, as its controller's event tells."""

    owner: str  # uid
    at: float
    message: str
    quota: str = ""
    requested: Resources = {}  # per key of the quota that was exceeded, for one pod
    unstated: bool = False  # no shortage: the quota demands amounts that the pod does not state


class SeenFacts(Fact, frozen=True):
    """The last member of an owner that went: its size when no pod is left to ask."""

    template: str  # that it was made of
    shape: Shape


class NamespaceFacts(Fact, frozen=True):
    name: str
    policy: str = ""
    queues: tuple[str, ...] = ()  # the namespace may use only these; the first is the default
    deleted: bool = False
    report_deadlocks: bool = False  # and leave them


class Snapshot(Fact, frozen=True):
    """The cluster as one pass sees it. Pods whose lift patch is under way stand here as lifted already."""

    pods: tuple[PodFacts, ...] = ()
    nodes: tuple[NodeFacts, ...] = ()
    namespaces: dict[str, NamespaceFacts] = {}
    owners: dict[str, OwnerFacts] = {}  # by uid
    podgroups: tuple[PodGroupFacts, ...] = ()
    queues: dict[str, QueueFacts] = {}
    quotas: tuple[QuotaFacts, ...] = ()
    priority_classes: dict[str, int] = {}
    default_priority_class: str = ""
    limit_ranges: tuple[LimitRangeFacts, ...] = ()
    overheads: dict[str, dict[str, str | int | float]] = {}  # by RuntimeClass
    devices: tuple[str, ...] = ()  # extended resources that a DeviceClass provides, whatever nodes say
    refusals: dict[str, RefusalFacts] = {}  # the last one, by owner uid
    seen: dict[str, SeenFacts] = {}  # by owner uid
    unreadable: dict[str, str] = {}  # by `kind.group` of an owner, the right that is missing: "list jobs.batch"
    stuck: tuple[str, ...] = ()  # uids of owners whose lever was refused a moment ago
    ahead: dict[str, tuple[str, ...]] = {}  # groups for which the pass before kept room, in order: key -> nodes
    kinds: tuple[OwnerKind, ...] = ()  # of owners, that the settings add
    usage: dict[str, Resources] = {}  # by queue, what it used over time, less the further back
    unsized: dict[str, str] = {}  # by uid of an owner of another kind, why its size cannot be read
    refused: tuple[str, ...] = ()  # keys of groups whose lift the API server refuses
    fallen: tuple[PodFacts, ...] = ()  # pods that were preempted not long ago, as they were last seen
    preemptors: dict[str, str] = {}  # by uid of a preempted pod, that of the pod which takes its place
