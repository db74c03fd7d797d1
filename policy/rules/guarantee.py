"""What queues are guaranteed and do not use: nobody else's, however idle it is.

Volcano takes the sum of all other guarantees off a queue's ceiling; so a group starts only where what is then free on
the nodes still holds them. A queue's own part, and that of its ancestors, is its to take. May know the model and the
tree of queues.
"""

from collections.abc import Mapping

import msgspec

from policy.rules import queue_capacity, shares
from policy.rules.model import QueueFacts, Resources


class GuaranteeShort(msgspec.Struct, frozen=True):
    """One resource that is free, and kept for others. Nano units."""

    resource: str
    need: int
    free: int  # on nodes that are up, whoever may take it
    kept: int  # of it, for the queues in `whose`
    whose: tuple[str, ...]


def shortage(
    queues: Mapping[str, QueueFacts],
    name: str,
    need: Resources,
    allocated: Mapping[str, Resources],
    free: Resources,
) -> GuaranteeShort | None:
    """The first resource whose unused guarantees of others would not fit beside the need any more."""
    guaranteed = {r for queue in queues.values() for r, amount in queue.guarantee.items() if amount}
    tree = shares.siblings(queues) if guaranteed & need.keys() else {}
    for resource in sorted(r for r in guaranteed & need.keys() if need[r]):
        holders = [q.name for q in queues.values() if q.guarantee.get(resource)]
        unused = {q: queues[q].guarantee[resource] - allocated.get(q, {}).get(resource, 0) for q in holders}
        for level in queue_capacity.chain(queues, name):
            unused.pop(level.name, None)  # it is the one that asks, or above it
        kept = sum(_kept(tree, top, unused, 0) for top in tree.get(shares.TOP, ()))
        if need[resource] + kept > free.get(resource, 0):
            whose = tuple(sorted(q for q, left in unused.items() if left > 0))
            if whose:  # else the nodes are full: placement's matter
                return GuaranteeShort(resource, need[resource], free.get(resource, 0), kept, whose)
    return None


def _kept(tree: Mapping[str, Mapping[str, QueueFacts]], name: str, unused: Mapping[str, int], depth: int) -> int:
    """Of a queue and those below it: a parent's guarantee holds its children's."""
    own = max(0, unused.get(name, 0))
    if depth >= queue_capacity.DEPTH:
        return own
    return max(own, sum(_kept(tree, child, unused, depth + 1) for child in tree.get(name, ())))
