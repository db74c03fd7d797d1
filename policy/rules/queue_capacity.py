"""Whether the queue's capability, and that of every ancestor, takes the group.

Volcano's Queue as its users know it: only requested resources are compared; cpu and memory that are absent or zero in
the capability are unlimited, an extended resource that is absent is unlimited too, an explicit zero is none.
May know the model; `default` and `root` exist and are unlimited where nobody wrote them.
"""

from collections.abc import Iterator, Mapping

import msgspec

from policy import names
from policy.rules.conclusions import Problem
from policy.rules.model import QueueFacts, Resources

DEPTH = 32  # ancestors; deeper is taken for a cycle
_ZERO_IS_UNLIMITED = ("cpu", "memory")


class CapabilityShort(msgspec.Struct, frozen=True):
    """One resource of one queue (the group's or an ancestor) that the group does not fit into; nano units."""

    queue: str
    resource: str
    need: int
    capability: int
    allocated: int

    @property
    def free(self) -> int:
        return max(0, self.capability - self.allocated)

    @property
    def never(self) -> bool:
        return self.need > self.capability


def chain(queues: Mapping[str, QueueFacts], name: str) -> Iterator[QueueFacts]:
    """The queue and its ancestors, up to the root where one is written; ends at a cycle, too."""
    seen: set[str] = set()
    while name and name not in seen and len(seen) < DEPTH:
        seen.add(name)
        queue = queues.get(name) or QueueFacts(name=name)
        yield queue
        if name == names.ROOT_QUEUE:  # whatever parent somebody wrote there
            return
        name = queue.parent or (names.ROOT_QUEUE if names.ROOT_QUEUE in queues else "")


def problem(queues: Mapping[str, QueueFacts], name: str, allowed: tuple[str, ...]) -> Problem | None:
    """Why the queue cannot admit anything: not allowed, or at any level missing, closed or wrong."""
    if allowed and name not in allowed:
        return Problem(
            names.Reason.QUEUE_NOT_ALLOWED,
            f"queue {name!r} is not one that this namespace may use: {', '.join(allowed)}",
        )
    below = ""
    turns = circle(queues, name)
    if turns:
        return Problem(names.Reason.QUEUE_CLOSED, f"queue {name!r}: its parents turn in a circle: {turns}")
    for queue in chain(queues, name):
        if queue.name not in queues and queue.name not in (names.DEFAULT_QUEUE, names.ROOT_QUEUE):
            text = f"queue {queue.name!r}{below} does not exist; it starts when it is created"
            return Problem(names.Reason.QUEUE_MISSING, text)
        below = f", parent of {queue.name!r},"
        if queue.state not in ("", "Open"):
            return Problem(names.Reason.QUEUE_CLOSED, f"queue {queue.name!r} is {queue.state}")
        if queue.problem:
            return Problem(names.Reason.QUEUE_CLOSED, f"queue {queue.name!r}: {queue.problem}")
    return None


def circle(queues: Mapping[str, QueueFacts], name: str) -> str:
    """The way from the queue to one that it passes twice, or too far; "" where it ends at the top."""
    passed: list[str] = []
    while name in queues and name != names.ROOT_QUEUE:
        if name in passed or len(passed) >= DEPTH:
            shown = [*passed[:5], *(["…"] if len(passed) > 5 else []), name]
            return " -> ".join(shown)
        passed.append(name)
        name = queues[name].parent
    return ""


def shortage(
    queues: Mapping[str, QueueFacts], name: str, need: Resources, allocated: Mapping[str, Resources]
) -> CapabilityShort | None:
    """The first level, from the queue upwards, whose capability cannot take the need beside what is allocated."""
    for queue in chain(queues, name):
        taken = allocated.get(queue.name, {})
        for resource in sorted(need):
            capability = limit(queue, resource)
            if need[resource] and capability is not None and taken.get(resource, 0) + need[resource] > capability:
                return CapabilityShort(queue.name, resource, need[resource], capability, taken.get(resource, 0))
    return None


def limit(queue: QueueFacts, resource: str) -> int | None:
    """The capability for one resource, None for unlimited."""
    found = queue.capability.get(resource)
    return None if found == 0 and resource in _ZERO_IS_UNLIMITED else found


def charge(queues: Mapping[str, QueueFacts], name: str, need: Resources, allocated: dict[str, Resources]) -> None:
    """Book the need at the queue and every ancestor."""
    for queue in chain(queues, name):
        book = allocated.setdefault(queue.name, {})
        for resource, amount in need.items():
            book[resource] = book.get(resource, 0) + amount
