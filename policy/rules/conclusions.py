"""What is concluded from a Snapshot: groups first (policy.rules.grouping), decisions last (policy.rules.decide).

Frozen, typed, and written to JSON and back without loss. Amounts are nano units, times are seconds since the epoch.
May know the model, names and identities.
"""

from typing import Literal

import msgspec

from policy import names
from policy.rules.lifecycle import Seen, State
from policy.rules.membership.identity import Identity
from policy.rules.model import Claim, Fact, OwnerFacts, PodFacts, PodGroupFacts, Resources, Shape


class Absent(msgspec.Struct, frozen=True, gc=False):
    """Members of one role that do not exist yet."""

    shape: Shape
    count: int
    role: str = ""


class Problem(msgspec.Struct, frozen=True):
    """What keeps a group from being judged at all."""

    reason: names.Reason
    message: str


class Group(msgspec.Struct, frozen=True, gc=False):
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
    later: tuple[Absent, ...] = ()  # those that are made once the others have come far enough
    waits: str = ""  # what later ones wait for
    continues: bool = False  # members of a stage before have started and are done
    makers: tuple[str, ...] = ()  # uids of all controllers that make members, those below the owners among them
    podgroup: PodGroupFacts | None = None
    owners: tuple[OwnerFacts, ...] = ()
    problem: Problem | None = None
    note: str = ""  # what people should know of how it was recognised, while it waits

    # Drawn once from the above: a pass asks thousands of groups for them again and again.
    gated: tuple[PodFacts, ...] = ()
    started: tuple[PodFacts, ...] = ()
    bound: int = 0  # of those started
    begun: bool = False  # a live member lacks our gate and carries the lift's annotation
    need: int = 0  # that must run together: frozen by the lift once it has begun, less what will never come back
    rests: bool = False  # begun, and everybody of it is there, let go and bound: nothing is left to do for it

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
        derive(self, "rests", bool(frozen) and self._rests())

    def _left(self, frozen: int) -> int:
        left = frozen - self.succeeded
        return max(1, left if self.possible is None else min(left, self.possible))

    def _rests(self) -> bool:
        whole = self.need <= len(self.members) == self.bound
        return whole and not (self.gated or self.absent or self.later or self.suspended)

    @property
    def key(self) -> str:
        return self.identity.key

    @property
    def commanded(self) -> bool:
        """Its operator made the PodGroup, and may make no pod until that one's phase has left Pending."""
        found = self.podgroup
        return found is not None and not found.ours and found.controller in self.makers

    @property
    def owner(self) -> OwnerFacts | None:
        """The one that the group is called by and its PodGroup is controlled by: the oldest."""
        return self.owners[0] if self.owners else None

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
        """Members without which nothing starts: of each role its own."""
        return max(0, self.minimum - len(self.members), sum(a.count for a in self.absent))

    @property
    def coming(self) -> tuple[Absent, ...]:
        """All that is yet to be made."""
        return self.absent + self.later

    @property
    def awaited(self) -> tuple[Absent, ...]:
        """Of a begun group with stages, all that is yet to be made: later members, and those of any stage made anew.

        Less the owed ones, which count without roles: a running later stage stands in for a lost first one there.
        """
        covered = self.owed + len(self.going)
        found: list[Absent] = []
        for one in self.absent if self.waits else ():
            rest = max(0, one.count - covered)
            covered = max(0, covered - one.count)
            found += [Absent(one.shape, rest, one.role)] if rest else []
        return (*found, *self.later)

    @property
    def suspended(self) -> tuple[OwnerFacts, ...]:
        """Owners that we suspended, and nobody else since."""
        return tuple(owner for owner in self.owners if owner.ours)

    @property
    def touched(self) -> float:
        """When a member or an owner came last, or an owner was resumed or woken."""
        owners = (max(o.created, o.woken, o.claim.ended if o.claim else 0.0) for o in self.owners)
        return max([*(m.created for m in self.members), *owners], default=0.0)


class Pull(Fact, frozen=True):
    """One owner's lever: suspend it, or resume it, and write down why; `suspend` None only touches the record."""

    uid: str
    suspend: bool | None
    claim: Claim | None = None  # None: only wake it


Action = Literal["lift", "hold", "none", "give-back", "resume"]


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
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
    pulls: tuple[Pull, ...] = ()
    called: bool = False  # its operator may make the pods


class Outcome(msgspec.Struct, frozen=True):
    """All decisions of a pass, in the order in which they were taken, and the groups that they speak of."""

    decisions: tuple[Decision, ...]
    groups: dict[str, Group]
    again: float = 0.0  # when, by the clock, something is due that no change announces; 0 for nothing
    ahead: dict[str, tuple[str, ...]] = {}  # for which room is kept, and where: looked at first in the next pass
    allocated: dict[str, Resources] = {}  # by queue, what is charged there after this pass, promises included
