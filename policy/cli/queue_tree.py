"""The tree of queues with what each holds: rows for `queues`, in the order of a tree drawn downwards.

The sums are the ledger's (policy.rules.account). Pure. Field names are those of the JSON and stay; amounts are
Kubernetes quantities as text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from policy import names
from policy.cli.rows import UNSTARTED, Row
from policy.cli.wording import amount
from policy.rules import account
from policy.rules.account import LevelLine
from policy.rules.ledger import Ledger
from policy.rules.model import QueueFacts

_DEPTH = 32  # deeper is taken for a cycle, as policy.rules.queue_capacity does


class Queue(msgspec.Struct, frozen=True, rename="camel"):
    """One queue. A resource without capability is unlimited and has no free."""

    name: str
    parent: str
    depth: int
    state: str
    problem: str
    capability: dict[str, str]
    allocated: dict[str, str]
    free: dict[str, str]
    waiting: int  # groups of this queue itself, not of those below it
    running: int

    @property
    def resources(self) -> list[str]:
        """All that it limits or has in use, extended resources first."""
        return sorted({*self.capability, *self.allocated}, key=lambda name: ("/" not in name, name))


def tree(ledger: Ledger, rows: Iterable[Row]) -> list[Queue]:
    """Every queue that exists, that a group names, or that has something allocated; parents before their children."""
    counts = Counter((row.queue, row.state in UNSTARTED) for row in rows)
    known = dict(ledger.snapshot.queues)
    for name in (names.DEFAULT_QUEUE, *(queue for queue, _ in counts), *ledger.allocated):
        known.setdefault(name, QueueFacts(name=name))
    return [_queue(ledger, queue, depth, counts) for queue, depth in _walk(known)]


def _walk(known: Mapping[str, QueueFacts]) -> Iterator[tuple[QueueFacts, int]]:
    """Depth first, by name; what hangs on a missing parent or a cycle comes as a root."""
    children: dict[str, list[str]] = {}
    for name in sorted(known):
        children.setdefault(known[name].parent if known[name].parent in known else "", []).append(name)
    seen: set[str] = set()
    for root in [*children.get("", []), *sorted(known)]:
        yield from _below(known, children, root, 0, seen)


def _below(
    known: Mapping[str, QueueFacts], children: Mapping[str, list[str]], name: str, depth: int, seen: set[str]
) -> Iterator[tuple[QueueFacts, int]]:
    if name in seen or depth > _DEPTH:
        return
    seen.add(name)
    yield known[name], depth
    for child in children.get(name, []):
        yield from _below(known, children, child, depth + 1, seen)


def _queue(ledger: Ledger, queue: QueueFacts, depth: int, counts: Mapping[tuple[str, bool], int]) -> Queue:
    lines = account.queue_lines(ledger, queue.name)
    return Queue(
        name=queue.name,
        parent=queue.parent,
        depth=depth,
        state=account.queue_state(ledger, queue.name),
        problem=queue.problem,
        capability={n.resource: amount(n.capability, n.resource) for n in lines if n.capability is not None},
        allocated={n.resource: amount(n.allocated, n.resource) for n in lines},
        free={n.resource: _free(n) for n in lines if n.capability is not None},
        waiting=counts.get((queue.name, True), 0),
        running=counts.get((queue.name, False), 0),
    )


def _free(line: LevelLine) -> str:
    return amount(line.free, line.resource)
