"""What one family of owners tells about its groups.

A family is data and pure functions over the owner's own object; the gatekeeper finds the object. May know objects.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from policy.rules.objects import OwnerMeta, PodTemplate

T = TypeVar("T")
Labels = Mapping[str, str]


class Size(msgspec.Struct, frozen=True):
    """How many members a group has."""

    minimum: int  # fewer than these and nothing starts
    possible: int  # how many its owner would make at once, now
    source: str  # where the figure stands, for people


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Members of one role."""

    role: str = ""
    count: int  # that the owner makes now
    minimum: int  # of them without which nothing starts
    template: PodTemplate
    stage: int = 0  # members of a later stage are made when those of the stages before it have come as far as they must
    first: int = 0  # of them, those that are made before the others; 0: all at once
    unit: int = 1  # members that are added and taken away together
    waits: str = ""  # what later ones wait for, for people


@dataclass(frozen=True)
class Lever(Generic[T]):
    """How members are given back: the owner is told to make none, deletes those it has, and counts no failure."""

    path: tuple[str, ...]  # of the field that is true while the owner is suspended
    free: Callable[[T], bool]  # nobody above this owner, and nobody else, decides about that field
    deadline: Callable[[T], int | None]  # seconds that its run may take, waiting included unless suspended
    started: Callable[[T], str | None]  # when that clock began


def _no_name(_: Labels) -> str:
    return ""


def _one(_: Any) -> int:
    return 1


def _unnamed(_: Any) -> str:
    return ""


def _unsaid(_: Any) -> int | None:
    return None


@dataclass(frozen=True, kw_only=True)
class Family(Generic[T]):
    """One kind of owner whose pods start together."""

    group: str  # API group
    version: str  # that is read
    kind: str
    plural: str
    type: type[T]
    parts: Callable[[T], tuple[Part, ...]]
    source: str  # where the size stands, for people
    stages: str  # which members come later, for people
    over: Callable[[T], bool]  # finished: it will make no pod any more
    held: Callable[[T], bool]  # suspended: it makes none now
    minimum: Callable[[T], int | None] = _unsaid  # that the object states beside its parts
    sliced: bool = False  # it makes several equal groups, each of all its parts
    slices: Callable[[T], int] = _one  # how many
    role: Callable[[Labels], str] = _no_name  # of a pod, by its labels
    queue: Callable[[T], str] = _unnamed  # that a field of it names
    slice: Callable[[Labels], str] = _no_name  # which of the groups a pod belongs to, by its labels
    unit: Callable[[Labels], str] = _no_name  # what is added and taken away together with it, by its labels
    lever: Lever[T] | None = None
    delegates: str = ""  # kind of the owner below it that knows the parts, once that exists

    @property
    def plain(self) -> bool:
        """Its pods are all alike: their labels tell nothing."""
        return not self.sliced and self.role is _no_name and self.unit is _no_name


def unmanaged(meta: OwnerMeta, *, kueue: tuple[str, ...]) -> bool:
    """Whether nobody above the owner decides about its suspension, and Kueue does not either."""
    return meta.controller is None and all(meta.label(key) is None for key in kueue)
