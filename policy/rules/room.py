"""How many pods like one each node is to take, and in what order nodes are filled: the fullest that takes it first.

Amounts come from the pool, closed nodes from the company, and rules that bind nodes together from policy.rules.domains.
Asks; books nothing. May know the pool, the domains and the model.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from policy.rules import domains
from policy.rules.domains import Rows
from policy.rules.model import PodFacts
from policy.rules.pool import NOWHERE, Counts, Kind, Mask, Pool

TAKEN = "taken by a pod with the same port or anti-affinity"
AWAY = "away from the pods that they must join"
_FEW = 16  # members, whose nodes are picked one by one


class Room(msgspec.Struct, frozen=True):
    """`counts`: how many each row is to take; `takes`: how many it could, were it not bound to others."""

    kind: Kind
    counts: Counts
    takes: Counts
    closed: dict[str, Mask] = {}  # by why, rows that pods already there close


def room_for(pool: Pool, pod: PodFacts, wanted: int, bundle: Rows | None = None) -> Room:
    """Room for `wanted` pods like this one. `bundle`: what all members ask for that go to its node with it."""
    kind = pool.kind(pod.shape)
    takes, closed = pool.counts(kind), _closed(pool, pod)
    for mask in closed.values():
        takes = np.where(mask, 0, takes)
    if pod.shape.beside and AWAY not in closed:  # the first of their kind
        return Room(kind, _on_one(pool, kind, takes, wanted, bundle), takes, closed)
    if pod.shape.spread:
        there = pool.company.alike(pod)
        return Room(kind, _spread(pool, kind, takes, wanted, there), takes, closed)
    return Room(kind, takes, takes, closed)


def _closed(pool: Pool, pod: PodFacts) -> dict[str, Mask]:
    found: dict[str, Mask] = {}
    if rows := pool.company.closed_to(pod) | pool.shut:
        found[TAKEN] = _mask(pool, rows)
    joined = pool.company.joined(pod) if pod.shape.beside else set()
    bound = pool.company.bound_to(pod)
    if joined or bound is not None:
        found[AWAY] = ~_mask(pool, joined if bound is None else bound & joined if joined else bound)
    return found


def _mask(pool: Pool, rows: set[int]) -> Mask:
    mask = np.zeros(len(pool.nodes), dtype=np.bool_)
    mask[list(rows)] = True
    return mask


def fit(pool: Pool, kind: Kind, counts: Counts, wanted: int) -> int:
    """How many of `wanted` fit where each row takes so many and nobody is there yet."""
    if kind.shape.beside:
        return int(_on_one(pool, kind, counts, wanted, None).sum())
    if kind.shape.spread:
        return int(_spread(pool, kind, counts, wanted, np.empty(0, dtype=np.int64)).sum())
    return int(np.minimum(counts, wanted).sum())


def _on_one(pool: Pool, kind: Kind, takes: Counts, wanted: int, bundle: Rows | None) -> Counts:
    order = _sorted(pool, kind, np.flatnonzero(takes))
    if bundle is not None:
        all_fit = order[(pool.free[order] >= bundle).all(axis=1)]
        order = all_fit if len(all_fit) else order
    return domains.together(takes, order, wanted)


def _spread(pool: Pool, kind: Kind, takes: Counts, wanted: int, there: Rows) -> Counts:
    """`there` holds the row of each pod that counts."""
    spread = kind.shape.spread
    if spread is None:
        return takes
    domain = np.where(pool.selected(kind.shape), pool.domains(spread.topology_key), -1)
    known, numbered = np.unique(domain, return_inverse=True)
    shift = int(len(known) > 0 and known[0] < 0)  # rows outside all domains are numbered first
    domain, domain_of_pods = numbered - shift, (numbered - shift)[there]
    counted = np.bincount(domain_of_pods[domain_of_pods >= 0], minlength=len(known) - shift)
    order = _sorted(pool, kind, np.flatnonzero(takes))
    room = np.minimum(takes, wanted)
    return domains.even(room, order, wanted, domain=domain, there=counted.astype(np.int64), skew=spread.max_skew)


# --- the order of nodes --------------------------------------------------------------------------------------


def fullest_first(pool: Pool, room: Room, wanted: int, *, reverse: bool = False) -> Iterator[int]:
    """Rows that are to take some, by what is free of the scarcest thing they ask for, then by name."""
    if wanted > _FEW or reverse:
        ordered = _sorted(pool, room.kind, np.flatnonzero(room.counts)).tolist()
        yield from reversed(ordered) if reverse else ordered
        return
    own = room.counts is room.kind.counts
    free = room.kind.free if own else np.where(room.counts > 0, pool.free[:, room.kind.scarce[0]], NOWHERE)
    for _ in range(min(wanted, len(free))):  # the first few are found without sorting thousands
        row = _first(pool, room.kind, free)
        if free[row] == NOWHERE:
            return
        yield row
        free = free.copy() if own else free
        own = False
        free[row] = NOWHERE


def _first(pool: Pool, kind: Kind, free: Rows) -> int:
    """The row with least of what is scarce, and of such with the first name, which is the first row."""
    row = int(free.argmin())
    if len(kind.scarce) == 1 or free[row] == NOWHERE:
        return row
    ties = np.flatnonzero(free == free[row])
    for column in kind.scarce[1:]:
        values = pool.free[ties, column]
        ties = ties[values == values.min()]
    return int(ties[0])


def _sorted(pool: Pool, kind: Kind, rows: Rows) -> Rows:
    keys = [rows, *(pool.free[rows, column] for column in reversed(kind.scarce))]  # the last is the first to sort by
    return rows[np.lexsort(keys)]
