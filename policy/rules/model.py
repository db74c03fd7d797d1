"""What a decision is made from, and what it is: frozen, typed, and written to JSON and back without loss.

A Snapshot holds facts of the cluster at one moment, each made from one object when the watch delivered it
(policy.rules.facts); it holds no conclusions. `Group` is the first conclusion (policy.rules.grouping), `Decision` the
last (policy.rules.decide). Amounts are nano units, times are seconds since the epoch. May know names and identities.
"""

from typing import Literal

import msgspec

from policy import names
from policy.rules.lifecycle import Seen, State
from policy.rules.membership.family import Size
from policy.rules.membership.identity import Identity
from policy.rules.objects import NodeSelectorTerm, PodAffinityTerm, Taint, Toleration

Resources = dict[str, int]


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of everything in a Snapshot."""


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
    unverifiable: tuple[str, ...] = ()  # what no snapshot can tell: claims, volumes, other inter-pod terms
    scheduler: str = names.DEFAULT_SCHEDULER
    priority: int = 0
    priority_class: str = ""
    terminating: bool = False  # the quota scope: activeDeadlineSeconds is set
    best_effort: bool = False  # the QoS class, and quota scope
    cross_namespace: bool = False  # the quota scope CrossNamespacePodAffinity
    unstated: tuple[str, ...] = ()  # "requests.cpu", "limits.memory"…: some container does not state it


class Lifted(Fact, frozen=True):
    """Value of the annotation that only the lift writes: the frozen terms of the decision."""

    min: int
    at: float
    queue: str = ""  # charged for the pod as long as it lives
    room: Resources = {}  # there, of all members that start together: their successors ask for no more


class PodFacts(Fact, frozen=True):
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
    owner: str = ""  # uid of the controller
    role: str = ""
    index: int = -1
    labels: dict[str, str] = {}
    queue: str = ""  # that the pod names
    lifted: Lifted | None = None
    pin: str = ""  # the one node that its required affinity allows
    task_min: int = 0  # from the labels of a group without object

    @property
    def over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def live(self) -> bool:
        """Counts as a member: neither finished nor going."""
        return self.deleted is None and not self.over


class NodeFacts(Fact, frozen=True):
    name: str
    allocatable: Resources = {}
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool = True


class OwnerFacts(Fact, frozen=True):
    """A controller that makes groups, read by its family."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str
    created: float
    size: Size
    shape: Shape  # of a member that does not exist yet, as far as the template tells
    queue: str = ""
    min_member: int | None = None  # the owner's annotation
    over: bool = False
    held: bool = False
    group: Identity | None = None  # that its pods will name
    task_min: int = 0  # from the labels of a group without object
    problem: str = ""


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


class QueueFacts(Fact, frozen=True):
    name: str
    capability: Resources = {}
    parent: str = ""
    state: str = ""
    problem: str = ""  # a quantity that does not parse


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


class NamespaceFacts(Fact, frozen=True):
    name: str
    policy: str = ""
    queues: tuple[str, ...] = ()  # the namespace may use only these; the first is the default
    deleted: bool = False


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


class Config(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Settings of the deciding half; units in the names."""

    placement: bool = True
    pin: bool = True
    bind_timeout_seconds: float = 120.0
    max_waiting_groups_per_namespace: int = 1000


class Absent(msgspec.Struct, frozen=True):
    """Members of one role that do not exist yet."""

    shape: Shape
    count: int


class Problem(msgspec.Struct, frozen=True):
    """What keeps a group from being judged at all."""

    reason: names.Reason
    message: str


class Group(msgspec.Struct, frozen=True):
    """Members that start together or not at all."""

    identity: Identity
    uid: str  # of the PodGroup or the owner; "" while neither exists
    minimum: int
    possible: int | None  # how many its owner makes at once; None when nobody says
    source: str  # where the size stands
    members: tuple[PodFacts, ...]  # live, in the order of release
    leaving: int = 0  # terminating members
    going: tuple[PodFacts, ...] = ()  # of them, those that were started: they keep their place until they are gone
    succeeded: int = 0  # of those lifted together with live members
    queue: str = names.DEFAULT_QUEUE
    priority: int = 0
    created: float = 0.0
    absent: tuple[Absent, ...] = ()  # members that do not exist yet, up to the minimum
    podgroup: PodGroupFacts | None = None
    owner: OwnerFacts | None = None
    problem: Problem | None = None

    # Drawn once from the above: a pass asks thousands of groups for them again and again.
    gated: tuple[PodFacts, ...] = ()
    started: tuple[PodFacts, ...] = ()
    bound: int = 0  # of those started
    begun: bool = False  # a live member lacks our gate and carries the lift's annotation
    need: int = 0  # that must run together: frozen by the lift once it has begun, less what will never come back

    def __post_init__(self) -> None:
        gated = [m for m in self.members if m.gated]
        started = [m for m in self.members if not m.gated] if gated else self.members
        frozen = [m.lifted.min for m in started if m.lifted]
        derive = msgspec.structs.force_setattr
        derive(self, "gated", tuple(gated))
        derive(self, "started", tuple(started))
        derive(self, "bound", len([m for m in started if m.node]))
        derive(self, "begun", bool(frozen))
        derive(self, "need", self._left(max(frozen)) if frozen else self.minimum)

    def _left(self, frozen: int) -> int:
        left = frozen - self.succeeded
        return max(1, left if self.possible is None else min(left, self.possible))

    @property
    def key(self) -> str:
        return self.identity.key

    @property
    def short(self) -> int:
        """Members that a begun lift has still to let go, or to wait for."""
        return max(0, self.need - len(self.started)) if self.begun else 0

    @property
    def owed(self) -> int:
        """Of these, the ones whose room is promised: a terminating member's successor takes over its room, later."""
        return max(0, self.short - len(self.going))

    @property
    def first(self) -> tuple[PodFacts, ...]:
        """The gated members that start together; members that came round us count as started."""
        return self.gated[: max(1, self.minimum - len(self.started))]

    @property
    def missing(self) -> int:
        return max(0, self.minimum - len(self.members))


Action = Literal["lift", "hold", "none"]


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one answer for one group in one pass."""

    group: str  # key
    action: Action
    state: State  # as seen in this pass alone
    seen: Seen
    reason: names.Reason
    message: str
    limiter: str = ""  # what is short: part of the event's key, so that a changed number alone is no new event
    numbers: dict[str, int] = {}
    position: int = 0  # among the waiting groups of its queue, from 1; 0 when it does not wait
    places: dict[str, str] = {}  # uid of a member to lift -> node, "" where none is pinned
    need: int = 0


class Outcome(msgspec.Struct, frozen=True):
    """All decisions of a pass, in the order in which they were taken, and the groups that they speak of."""

    decisions: tuple[Decision, ...]
    groups: dict[str, Group]
    allocated: dict[str, Resources] = {}  # by queue, what is charged there after this pass, promises included
