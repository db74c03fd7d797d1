"""What one family of owners tells about its groups.

A family is data and pure functions over the owner's own object; the gatekeeper finds the object. May know names and
objects.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from policy import names
from policy.rules.objects import ObjectMeta, PodTemplate

T = TypeVar("T")
Labels = Mapping[str, str]


class Size(msgspec.Struct, frozen=True, gc=False):
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


def _no_name(_: Labels) -> str:
    return ""


def _unnamed(_: Any) -> str:
    return ""


def _unsaid(_: Any) -> None:
    return None


def _never(_: Any) -> bool:
    return False


def kueues(meta: ObjectMeta) -> bool:
    """Whether Kueue decides about the owner's suspension."""
    return any(meta.label(key) is not None for key in (names.KUEUE_QUEUE_NAME, names.KUEUE_MANAGED))


def unmanaged(meta: ObjectMeta) -> bool:
    """Whether nobody above the owner decides about its suspension, and Kueue does not either."""
    return meta.controller is None and not kueues(meta)


def _unmanaged(owner: Any) -> bool:
    return unmanaged(owner.metadata)


@dataclass(frozen=True)
class Lever(Generic[T]):
    """How members are given back: the owner is told to make none, deletes those it has, and counts no failure."""

    path: tuple[str, ...]  # of the field that is true while the owner is suspended
    free: Callable[[T], bool] = _unmanaged  # nobody above this owner, and nobody else, decides about that field
    deadline: Callable[[T], int | None] = _unsaid  # seconds that its run may take, waiting included unless suspended
    started: Callable[[T], str | None] = _unsaid  # when that clock began


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
    over: Callable[[T], bool] = _never  # finished: it will make no pod any more
    held: Callable[[T], bool] = _never  # suspended: it makes none now
    minimum: Callable[[T], int | None] = _unsaid  # that the object states beside its parts
    slices: Callable[[T], int] | None = None  # how many equal groups it makes, each of all its parts; None: one
    role: Callable[[Labels], str] = _no_name  # of a pod, by its labels
    queue: Callable[[T], str] = _unnamed  # that a field of it names
    problem: Callable[[T], str] = _unnamed  # what of it cannot be read; its parts are none then
    slice: Callable[[Labels], str] = _no_name  # which of the groups a pod belongs to, by its labels
    unit: Callable[[Labels], str] = _no_name  # what is added and taken away together with it, by its labels
    lever: Lever[T] | None = None
    delegates: str = ""  # kind of the owner below it that knows the parts, once that exists
    deaf: bool = False  # its controller, while it backs off, takes a change of the object for one more failure

    @property
    def plain(self) -> bool:
        """Its pods are all alike: their labels tell nothing."""
        return self.slices is None and self.role is _no_name and self.unit is _no_name
