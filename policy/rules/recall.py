"""What a pass leaves for the next one: groups, what their pods take, and answers that no room can change.

Whoever changed is grouped anew together with its kin; of the rest everything stands as it was. The result is what
grouping the whole snapshot gives: a Recall saves time and is never asked what to do. Facts are compared by identity,
since each is made once for one version of its object. May know kin, grouping and charges; decides nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import msgspec

from policy.rules import charges, grouping, order
from policy.rules.belonging import Surroundings
from policy.rules.charges import Charges, Taken
from policy.rules.conclusions import Decision, Group
from policy.rules.kin import Kin, Relative, kins, ties
from policy.rules.model import OwnerFacts, PodFacts, PodGroupFacts, Snapshot

_Entry = tuple[tuple[int, float, str], Group]  # with its place in the order


class _Known(NamedTuple):
    """What was concluded of one kin."""

    kin: Kin
    entries: list[_Entry]
    taken: Charges


class Recall:
    """Of one gatekeeper. Not for several threads."""

    def __init__(self) -> None:
        self._tables: tuple[object, ...] = ()
        self._snapshot = Snapshot()
        self._facts: dict[int, Relative] = {}  # by id(), which holds as long as they are kept here
        self._known: dict[int, _Known] = {}  # by id() of the kin
        self._kin_of: dict[str, Kin] = {}  # by tie
        self._entries: list[_Entry] = []
        self.taken = Taken()  # what all pods of the snapshot take
        self.groups: dict[str, Group] = {}
        self.settled: dict[str, Decision] = {}  # answers for groups at rest, by key

    def look(self, snapshot: Snapshot) -> None:
        """Take the snapshot in. One that fails to be understood leaves everything as it was."""
        tables = _tables(snapshot)
        there: list[Relative] = [*snapshot.pods, *snapshot.owners.values(), *snapshot.podgroups]
        facts = dict(zip(map(id, there), there, strict=True))
        fresh = [fact for key, fact in facts.items() if key not in self._facts]
        gone = [fact for key, fact in self._facts.items() if key not in facts]
        same = tables == self._tables
        touched = self._touched(snapshot, [*fresh, *gone]) if same else list(self._known.values())
        rest = (f for known in touched for f in known.kin.facts if id(f) in facts)
        around = Surroundings(snapshot)
        found = [_concluded(kin, snapshot, around) for kin in kins(chain(rest, fresh))]
        self._tables, self._snapshot, self._facts = tables, snapshot, facts
        self._put(touched, found)

    def _touched(self, snapshot: Snapshot, changed: Iterable[Relative]) -> list[_Known]:
        """The kins whose facts changed, or something that is told of them beside."""
        moved = [tie for fact in changed for tie in ties(fact)]
        for name in ("refusals", "seen", "unsized"):
            moved += _different(getattr(self._snapshot, name), getattr(snapshot, name))
        kin = {id(k): k for tie in moved if (k := self._kin_of.get(tie))}
        spaces = set(_different(self._snapshot.namespaces, snapshot.namespaces))
        if spaces:
            kin |= {i: k.kin for i, k in self._known.items() if any(f.namespace in spaces for f in k.kin.facts)}
        return [self._known[i] for i in kin]

    def _put(self, old: list[_Known], new: list[_Known]) -> None:
        if not (old or new):
            return
        for known in old:
            del self._known[id(known.kin)]
            self.taken.remove(known.taken)
            for tie in known.kin.ties:
                del self._kin_of[tie]
            for _, group in known.entries:
                self.settled.pop(group.key, None)
        for known in new:
            self._known[id(known.kin)] = known
            self.taken.add(known.taken)
            self._kin_of.update(dict.fromkeys(known.kin.ties, known.kin))
        dropped = {id(group) for known in old for _, group in known.entries}
        kept = [entry for entry in self._entries if id(entry[1]) not in dropped]
        self._entries = sorted(chain(kept, *(known.entries for known in new)), key=itemgetter(0))
        self.groups = {place[2]: group for place, group in self._entries}


def _tables(snapshot: Snapshot) -> tuple[object, ...]:
    """What any group may depend on, and seldom changes."""
    return (
        {name: queue.policy for name, queue in snapshot.queues.items() if queue.policy},
        snapshot.priority_classes,
        snapshot.default_priority_class,
        snapshot.limit_ranges,
        snapshot.overheads,
        snapshot.unreadable,
        snapshot.kinds,
    )


def _different(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    yield from (key for key, value in after.items() if before.get(key) is not value)
    yield from (key for key in before if key not in after)


def _concluded(kin: Kin, snapshot: Snapshot, around: Surroundings) -> _Known:
    pods = tuple(f for f in kin.facts if isinstance(f, PodFacts))
    part = msgspec.structs.replace(
        snapshot,
        pods=pods,
        owners={f.uid: f for f in kin.facts if isinstance(f, OwnerFacts)},
        podgroups=tuple(f for f in kin.facts if isinstance(f, PodGroupFacts)),
    )
    groups = {group.key: group for group in grouping.built(part, around)}
    entries = [(order.key(group), group) for group in groups.values()]
    return _Known(kin, entries, charges.of_pods(part, pods, groups))
