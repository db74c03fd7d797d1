"""What a lift promises a group in its queue: room for the members that must run together, kept while the group lives.

Without it a new group could take the room of members that a crash left behind their gate, or of members that are made
anew, and the queue would be above its capability when the first is completed (promise I2). The room is frozen by the
lift, on the pods themselves. May know the model.
"""

import functools
from collections.abc import Iterable

from policy.rules.conclusions import Group
from policy.rules.model import PodFacts, Resources
from policy.rules.resources import add, largest, scale, total


def room(group: Group) -> Resources:
    """Frozen by the lift, else what the members ask for that start together."""
    return _frozen(group) or _asked((*group.started, *group.first))


def kept(group: Group) -> Resources:
    """Of a begun group's room, what is left for members to be let go, and for those yet to be made anew."""
    rest = group.gated[: group.owed]
    one = functools.reduce(largest, (m.shape.requests for m in group.started))
    wanted = add(_asked(rest), scale(one, group.owed - len(rest)))
    used = _asked((*group.started, *group.going))
    promised = _frozen(group) or add(used, wanted)
    return {name: min(wanted[name], max(0, promised.get(name, 0) - used.get(name, 0))) for name in wanted}


def beyond(group: Group, members: Iterable[PodFacts]) -> Resources:
    """What these members of a begun group ask for above the room that is kept for them."""
    free = kept(group)
    return {name: more for name, amount in _asked(members).items() if (more := amount - free.get(name, 0)) > 0}


def _frozen(group: Group) -> Resources:
    rooms = (m.lifted.room for m in group.started if m.lifted)
    return functools.reduce(largest, rooms, {})


def _asked(pods: Iterable[PodFacts]) -> Resources:
    return total(p.shape.requests for p in pods)
