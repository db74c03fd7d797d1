"""Which nodes fall short for a class of pods, counted by why; and the label that none of them carries.

Looks at what placement found; books nothing. May know the pool, the room and the model.
"""

import difflib
from bisect import bisect
from collections import Counter
from functools import lru_cache

import msgspec
import numpy as np

from policy.rules.model import Shape
from policy.rules.node_fit import NAME, meets, requirements
from policy.rules.objects import SelectorRequirement
from policy.rules.pool import GRADES, Mask, Pool
from policy.rules.room import AWAY, Room, fit

FULL = "full"
_SHORT = "short of "
_NEAREST = 3  # values named
_COMPARED = 50  # on either side in the order of the alphabet: a cluster has thousands of names


class Unknown(msgspec.Struct, frozen=True):
    """What the pods select and no node has; `near` are the most similar values, or keys where nobody has the key."""

    key: str
    text: str
    near: tuple[str, ...] = ()
    known: bool = True  # some node has the key


class NodesShort(msgspec.Struct, frozen=True):
    """Members that no node takes. `reasons` counts nodes; `empty_fit` is how many would fit if nothing ran."""

    wanted: int
    fit: int
    empty_fit: int
    shape: Shape
    reasons: dict[str, int]
    on: int = 0  # nodes that take at least one
    up_fit: int = 0  # how many would fit if, besides, every node were ready and uncordoned
    unknown: Unknown | None = None

    @property
    def never(self) -> bool:
        """Not even one member would fit on any node, were it up and empty."""
        return self.up_fit == 0


def shortage(pool: Pool, wanted: int, room: Room) -> NodesShort | None:
    """None where all find a place."""
    told = _shortage(pool, wanted, room)
    if told is not None and room.counts is room.kind.counts:
        room.kind.short[wanted] = len(pool.booked), told
    return told


def known(pool: Pool, shape: Shape, wanted: int) -> NodesShort | None:
    """The shortage that was found for as many pods of a shape that minds nobody, where nothing was booked since."""
    at, told = pool.kind(shape).short.get(wanted, (-1, None))
    return told if at == len(pool.booked) and isinstance(told, NodesShort) else None


def _shortage(pool: Pool, wanted: int, room: Room) -> NodesShort | None:
    kind = room.kind
    found = int(np.minimum(room.counts, wanted).sum())
    if found >= wanted:
        return None
    empty, up = (fit(pool, kind, counts, wanted) for counts in (kind.empty, kind.up))
    reasons = sorted(_reasons(pool, wanted, room).items(), key=_rank)
    on = int(np.count_nonzero(room.counts))
    missing = None if up else unknown(pool, kind.shape)
    return NodesShort(wanted, found, empty, kind.shape, dict(reasons), on=on, up_fit=up, unknown=missing)


def _rank(item: tuple[str, int]) -> tuple[bool, int, str]:
    """Most frequent first, but what is only in use comes last: what waiting does not help is read first."""
    why, count = item
    return why == FULL or why.startswith(_SHORT), -count, why


def _reasons(pool: Pool, wanted: int, room: Room) -> Counter[str]:
    """Nodes that take none, by why: refused, closed by company, out of something, or held back by others."""
    found = Counter(room.kind.refusals)
    free = ~room.kind.refused
    for why, closed in room.closed.items():
        found[why] += int(np.count_nonzero(closed & free))
        free &= ~closed
    found += _lacking(pool, room, free)
    spread = room.kind.shape.spread
    if room.kind.shape.beside and AWAY not in room.closed:
        found["with room for fewer"] = int(np.count_nonzero((room.takes > 0) & (room.takes < wanted)))
    elif spread:
        idle = (room.takes > 0) & (room.counts == 0)
        found[f"held back by the spread over {spread.topology_key}"] = int(np.count_nonzero(idle))
    return +found


def _lacking(pool: Pool, room: Room, free: Mask) -> Counter[str]:
    """A node short of an extended resource that it has is full; of anything else the resource is named."""
    found: Counter[str] = Counter()
    counts = np.bincount(pool.lacking(room.kind)[free] + 1)[1:]
    for code in np.flatnonzero(counts).tolist():
        name, grade = pool.columns[code // GRADES], code % GRADES
        what = "places for pods" if name == "pods" else name
        in_use = FULL if "/" in name else _SHORT + what
        found[(f"without {what}", f"with too little {what}", in_use)[grade]] += int(counts[code])
    return found


def unknown(pool: Pool, shape: Shape) -> Unknown | None:
    """The first label or name that the shape insists on and no node has: of every alternative at least one."""
    missing = [[r for r in term if not _somewhere(pool, r)] for term in requirements(shape)]
    if not pool.nodes or not all(missing):
        return None
    first = missing[0][0]
    values = list(pool.values(first.key))
    if values:
        wish = first.values[0] if first.values else ""
        return Unknown(_called(first.key), _text(first), _closest(wish, _around(wish, values), 0.0))
    return Unknown(first.key, _text(first), _closest(first.key, _around(first.key, pool.labels), 0.6), known=False)


def _somewhere(pool: Pool, requirement: SelectorRequirement) -> bool:
    """Whether a node may meet it, as far as one label tells; what forbids labels is no label that is missing."""
    if requirement.operator in ("NotIn", "DoesNotExist"):
        return True
    values = pool.values(requirement.key)
    return any(meets(requirement, {requirement.key: value}) for value in values)


def _around(wish: str, known: list[str]) -> tuple[str, ...]:
    """Of sorted texts those beside which the wish would stand."""
    at = bisect(known, wish)
    return tuple(known[max(0, at - _COMPARED) : at + _COMPARED])


@lru_cache(maxsize=5000)
def _closest(wish: str, known: tuple[str, ...], least: float) -> tuple[str, ...]:
    """The most similar, upper case or lower; kept from pass to pass: what can never fit is asked again and again."""
    lowered = {text.lower(): text for text in known}
    return tuple(lowered[each] for each in difflib.get_close_matches(wish.lower(), lowered, n=_NEAREST, cutoff=least))


def _called(key: str) -> str:
    return "metadata.name" if key == NAME else key


def _text(requirement: SelectorRequirement) -> str:
    key, values = _called(requirement.key), requirement.values
    match requirement.operator:
        case "In":
            return f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({', '.join(values)})"
        case "Exists":
            return key
        case _:
            return f"{key} {requirement.operator} {', '.join(values)}"
