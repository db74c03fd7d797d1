"""Owners that we suspend, and when they go on: to end a quota deadlock, and to save the deadline of a run.

Level-triggered: every answer is drawn from what the cluster shows, so a crash between two levers of one group is
finished by the next pass, whichever way is right by then. A suspension that somebody else ended is never repeated.
May know the model, families, deadlock and explain; asks nothing about room: it is told what a group falls short of.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from policy import names
from policy.rules import deadlock, explain
from policy.rules.conclusions import Action, Decision, Group, Pull
from policy.rules.deadlock import Contender, Cure
from policy.rules.explain import Told
from policy.rules.membership import families
from policy.rules.model import Config, OwnerFacts, PodFacts, Snapshot

FIRST_PAUSE_SECONDS: Final = 5.0  # before a deadline is saved once more, or a lift that failed is repeated; doubles
LONGEST_PAUSE_SECONDS: Final = 300.0
KEPT_SECONDS: Final = 30.0  # that room is kept for a group whose pods are being made again
RETRY_SECONDS: Final = 5.0  # that an owner is given after a refusal before it is woken
WOKEN_SECONDS: Final = 10.0
SILENT_SECONDS: Final = 30.0  # without a refusal that we know of: its event may have been dropped
_WAITS_FOR_ROOM: Final = frozenset(
    {
        names.Reason.NAMESPACE_QUOTA_SHORT,
        names.Reason.QUEUE_CAPABILITY_SHORT,
        names.Reason.NODES_SHORT,
        names.Reason.NEVER_FITS,
        names.Reason.QUEUE_CLOSED,
        names.Reason.QUEUE_MISSING,
        names.Reason.QUEUE_NOT_ALLOWED,
        names.Reason.TOO_MANY_GROUPS,
    }
)


class Move(NamedTuple):
    """What a group is told to do, and by which levers."""

    action: Action
    told: Told
    pulls: tuple[Pull, ...] = ()


def taken_over(group: Group, now: float) -> Move | None:
    """Somebody else ended a suspension of ours: its record is closed, and what we still hold of the group goes on."""
    pulls = deadlock.lost(group, now)
    foreign = any(owner.claim.foreign for owner in group.owners if owner.claim)
    if not pulls and not (foreign and group.suspended):
        return None
    whose = {pull.uid for pull in pulls} or {o.uid for o in group.owners if o.claim and o.claim.foreign}
    owners = [o.called for o in group.owners if o.uid in whose]
    return Move("resume", explain.taken_over(group, owners), pulls + deadlock.resume(group, now))


def released(group: Group, now: float) -> Move:
    """Nobody asks for gangs any more: nothing stays suspended."""
    why = f"namespace {group.identity.namespace} asks for no gangs any more"
    return Move("resume", explain.resumed(group, why), deadlock.resume(group, now))


def begun(group: Group, now: float) -> Move:
    """Its members run: whatever suspended an owner in between, it goes on."""
    return Move("resume", explain.resumed(group, "its members have started"), deadlock.resume(group, now))


def answer(snapshot: Snapshot, group: Group, told: Told | None, now: float) -> Move:
    """For a group whose owners we suspended: `told` is what it still falls short of, None when all of it fits."""
    if told is None:
        why = f"all {group.minimum} pods fit now"
        return Move("resume", explain.resumed(group, why), deadlock.resume(group, now))
    why = deadlock.why_of(group)
    rest = deadlock.give_back(group, why, now)
    if not rest:
        return Move("hold", explain.given_back(group, told))
    problem = deadlock.stuck(snapshot, group, why)
    if problem:  # all owners or none
        return Move("resume", explain.resumed(group, problem), deadlock.resume(group, now))
    return Move("give-back", explain.given_back(group, told), rest)


def pause(group: Group) -> float:
    """Until when a group that was given back after its lift is not tried again, seconds since the epoch; 0: at once."""
    claims = [owner.claim for owner in group.suspended if owner.claim and owner.claim.why in deadlock.OF_BEGUN]
    return max((c.at + backoff(c.fails - 1) for c in claims), default=0.0)


def backoff(times: int) -> float:
    """Seconds, doubling."""
    return min(FIRST_PAUSE_SECONDS * (1 << min(max(times, 0), 16)), LONGEST_PAUSE_SECONDS)


def save_deadline(snapshot: Snapshot, group: Group, told: Told, now: float) -> tuple[Move, float]:
    """For a held group: its owners suspended while their deadline would run, and when to ask again (0: never)."""
    timed = [owner for owner in group.owners if owner.deadline is not None and not owner.held]
    if group.begun or not timed or told[0] not in _WAITS_FOR_ROOM:  # suspending would end members that run
        return Move("hold", told), 0.0
    if deadlock.stuck(snapshot, group, "deadline"):
        return Move("hold", explain.burning(told, _left(timed, now))), 0.0
    due = max(group.touched + 1.0, *(_pause_over(owner) for owner in timed))
    if now < due:
        return Move("hold", told), due
    return Move("give-back", explain.saving_deadline(group, told), deadlock.give_back(group, "deadline", now)), 0.0


def _left(timed: list[OwnerFacts], now: float) -> float:
    return min((o.deadline or 0) - (now - (o.started or o.created)) for o in timed)


def _pause_over(owner: OwnerFacts) -> float:
    """It was suspended for this before, resumed, and could not start after all: something we cannot see stops it."""
    claim = owner.claim
    if claim is None or not claim.tries:
        return 0.0
    return claim.ended + backoff(claim.tries)


def comes_back(group: Group, now: float) -> bool:
    """Whether we resumed it a moment ago: its room is kept while its pods are made."""
    ended = max((o.claim.ended for o in group.owners if o.claim and not o.claim.foreign), default=0.0)
    return bool(ended) and now - ended < KEPT_SECONDS


def going_back(group: Group) -> float:
    """Until when its pods are waited for that it gives back to end a deadlock; 0 where none is left, or it is resumed.

    What it still holds and what is free by now may be enough for it, while the one that it makes way for, which holds
    less, has no room yet: resumed now, it would take it.
    """
    began = max((o.claim.at for o in group.suspended if o.claim and o.claim.why == "deadlock"), default=0.0)
    resumed = not began or any(o.claim.ended >= began for o in group.owners if o.claim and not (o.held or o.over))
    return began + KEPT_SECONDS if (group.members or group.leaving) and not resumed else 0.0


def all_going_back(groups: Iterable[Group]) -> dict[str, float]:
    """By namespace, until when there is somebody to be waited for."""
    found: dict[str, float] = {}
    for group in groups:
        until = going_back(group) if group.suspended else 0.0
        if until:
            found[group.identity.namespace] = max(until, found.get(group.identity.namespace, 0.0))
    return found


def half_resumed(group: Group, now: float) -> float:
    """Until when a group that we are resuming owner by owner goes on coming back; 0 where none is.

    Owners, pods and quota are watched one by one: where the quota's status comes first, the group seems to lack room
    for pods that are charged already. Where somebody else took its room, the one that is later in order gives back.
    """
    ended = [o.claim.ended for o in group.owners if o.claim and not (o.claim.foreign or o.held or o.over)]
    until = max(ended, default=0.0) + KEPT_SECONDS
    return until if now < until else 0.0


def wakes(snapshot: Snapshot, group: Group, now: float) -> tuple[tuple[Pull, ...], float]:
    """Owners that have room and do not use it, since they back off; and when to look again (0: no need)."""
    found: list[Pull] = []
    again: list[float] = []
    makers = [owner for uid in group.makers if (owner := snapshot.owners.get(uid))]
    for owner in makers:
        made = sum(1 for m in group.members if _made(owner, m))
        works = owner.uid in snapshot.refusals or all(m.above is None or m.above.uid != owner.uid for m in makers)
        if not works or not _may_wake(owner, group) or made >= owner.size.possible:
            continue
        due = _wake_due(snapshot, group, owner)
        if now >= due:
            found.append(Pull(owner.uid, None))
        again.append(due if now < due else now + WOKEN_SECONDS)
    return tuple(found), min(again, default=0.0)


def _made(owner: OwnerFacts, pod: PodFacts) -> bool:
    return pod.above.uid == owner.uid if pod.above else pod.owner == owner.uid


def _may_wake(owner: OwnerFacts, group: Group) -> bool:
    """One that is not suspended and listens, and that we may write to: itself a lever, or below one."""
    family = families.KNOWN.of(owner.api, owner.kind)
    if family is not None and family.deaf:
        return False
    lever = owner.lever or (owner.above is not None and any(o.lever for o in group.owners))
    return bool(lever) and not owner.held


def _wake_due(snapshot: Snapshot, group: Group, owner: OwnerFacts) -> float:
    refusal = snapshot.refusals.get(owner.uid)
    made = max((m.created for m in group.members if _made(owner, m)), default=owner.created)
    resumed = owner.claim.ended if owner.claim else 0.0
    patience = RETRY_SECONDS if refusal is not None else SILENT_SECONDS
    return max(max(made, resumed, refusal.at if refusal else 0.0) + patience, owner.woken + WOKEN_SECONDS)


def settle(
    groups: dict[str, Group],
    contenders: list[Contender],
    held: dict[str, Decision],
    config: Config,
    now: float,
) -> tuple[dict[str, Move], float]:
    """Moves that end, or report, quota deadlocks among held groups; and when to look again (0: no need)."""
    found = deadlock.cures(contenders)
    moves: dict[str, Move] = {}
    again: list[float] = []
    for key, cure in found.items():
        group, decision = groups[key], held.get(key)
        if decision is None or decision.action != "hold":
            continue
        due = group.touched + config.give_back_after_seconds
        if now < due:
            again.append(due)
            continue
        moves[key] = _move(groups, group, cure, decision, now)
    return moves, min(again, default=0.0)


def _move(groups: dict[str, Group], group: Group, cure: Cure, decision: Decision, now: float) -> Move:
    told = (decision.reason, decision.limiter, decision.message, decision.numbers)
    keeper = groups[cure.keeper]
    if cure.stuck:
        return Move("hold", explain.deadlocked(cure, keeper, told))
    return Move("give-back", explain.giving_back(group, cure, keeper, told), deadlock.give_back(group, "deadlock", now))
