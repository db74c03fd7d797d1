"""What one family of owners tells about its groups.

A family is data and pure functions over the owner's own object; the gatekeeper finds the object. May know objects.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from policy.rules.objects import Job, PodTemplate, ReplicaSet

Owner = Job | ReplicaSet


class Size(msgspec.Struct, frozen=True):
    """How many members a group has."""

    minimum: int  # fewer than these and nothing starts
    possible: int  # how many its owner would make at once, now
    source: str  # where the figure stands, for people


@dataclass(frozen=True)
class Lever:
    """How members are given back: the owner is told to make none, deletes those it has, and counts no failure."""

    path: tuple[str, ...]  # of the field that is true while the owner is suspended
    free: Callable[[Owner], bool]  # nobody above this owner, and nobody else, decides about that field
    deadline: Callable[[Owner], int | None]  # seconds that its run may take, waiting included unless suspended
    started: Callable[[Owner], str | None]  # when that clock began


@dataclass(frozen=True)
class Family:
    """One kind of owner. `size`, `template` and `over` are asked only where `makes_groups`."""

    group: str  # API group
    kind: str
    makes_groups: bool
    size: Callable[[Owner], Size]
    template: Callable[[Owner], PodTemplate]
    over: Callable[[Owner], bool]  # finished: it will make no pod any more
    held: Callable[[Owner], bool]  # suspended: it makes none now
    lever: Lever | None = None
