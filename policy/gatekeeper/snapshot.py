"""The stores of one gatekeeper, what each holds, and a Snapshot of them all.

Facts are made once per object, when the watch delivers it (policy.rules.facts); taking a snapshot only gathers
references. Knows which resources are watched; decides nothing.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from policy import names
from policy.gatekeeper.cache import Store
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.fallen import Fallen
from policy.gatekeeper.flights import Flights
from policy.gatekeeper.remembered import Remembered
from policy.gatekeeper.source import Source
from policy.rules import facts, objects, owner_facts, refusal
from policy.rules.membership import families
from policy.rules.membership.custom import OwnerKind
from policy.rules.membership.families import Kinds
from policy.rules.model import OwnerFacts, PodGroupFacts, RefusalFacts, Resources, Snapshot

PODGROUP_SOURCES: tuple[Source[Any], ...] = (
    Source(names.VOLCANO_API, names.VOLCANO_VERSION, "podgroups", objects.PodGroup),
    Source(names.COSCHEDULING_API, names.COSCHEDULING_VERSION, "podgroups", objects.PodGroup),
    Source(names.COSCHEDULING_OLD_API, names.COSCHEDULING_VERSION, "podgroups", objects.PodGroup),
)
# Reasons differ by operator and a selector has no "or"; those about pods are most of all warnings, and none of ours.
_OF_OWNERS = "type=Warning,involvedObject.kind!=Pod"
PREEMPTIONS = "preemptions"
DEVICES = "deviceclasses"
_OF_VICTIMS = "reason=Preempted,involvedObject.kind=Pod"  # written by every kube-scheduler
SOURCES: dict[str, Source[Any]] = {
    "pods": Source("", "v1", "pods", objects.Pod),
    "nodes": Source("", "v1", "nodes", objects.Node),
    "namespaces": Source("", "v1", "namespaces", objects.Namespace),
    "resourcequotas": Source("", "v1", "resourcequotas", objects.ResourceQuota),
    "queues": Source(names.VOLCANO_API, names.VOLCANO_VERSION, "queues", objects.Queue),
    "priorityclasses": Source("scheduling.k8s.io", "v1", "priorityclasses", objects.PriorityClass),
    "limitranges": Source("", "v1", "limitranges", objects.LimitRange),
    "runtimeclasses": Source("node.k8s.io", "v1", "runtimeclasses", objects.RuntimeClass),
    DEVICES: Source("resource.k8s.io", "v1", "deviceclasses", objects.DeviceClass),
    "events": Source("", "v1", "events", objects.Event, field_selector=_OF_OWNERS, bookmarks=False),
    PREEMPTIONS: Source(
        "", "v1", "events", objects.Event, field_selector=_OF_VICTIMS, bookmarks=False, alias=PREEMPTIONS
    ),
}
PROJECTIONS: dict[str, Callable[[Any], Any]] = {
    "pods": facts.pod,
    "nodes": facts.node,
    "namespaces": facts.namespace,
    "resourcequotas": facts.quota,
    "queues": facts.queue,
    "priorityclasses": lambda item: (item.metadata.name, item.value, item.global_default),
    "limitranges": facts.limit_range,
    "runtimeclasses": lambda item: (item.metadata.name, item.overhead.pod_fixed or {} if item.overhead else {}),
    DEVICES: lambda item: item.spec.extended_resource_name or None,
    "events": facts.refused,
    PREEMPTIONS: refusal.preemption,
}


class Strangers(Protocol):
    """What is known of controllers of other kinds."""

    def owners(self) -> dict[str, OwnerFacts]: ...

    def unsized(self) -> dict[str, str]: ...


def owner_sources(kinds: Kinds) -> dict[str, Source[Any]]:
    """By kind and group, how owners are listed."""
    return {
        f"{family.kind}.{family.group}": Source(family.group, family.version, family.plural, family.type)
        for family in kinds.families
    }


class Stores:
    """One store per resource, by the name that readiness and metrics show; `added` are kinds of owners from settings.

    `strangers` answers for controllers of kinds that nobody told of, once it is set.
    """

    def __init__(self, clock: Clock, added: tuple[OwnerKind, ...] = ()) -> None:
        self.added, self.kinds = added, families.kinds(added)
        self.owner_sources = owner_sources(self.kinds)
        self.strangers: Strangers | None = None
        self.sources: dict[str, Source[Any]] = {}
        self.by_name: dict[str, Store[Any, Any]] = {}
        self.remembered, self.fallen = Remembered(self._owner), Fallen(clock)
        for name, source in SOURCES.items():
            self._add(name, source, PROJECTIONS[name], clock)
        for source in PODGROUP_SOURCES:
            self._add(f"podgroups.{source.group}", source, _podgroup(source), clock)
        for family, source in zip(self.kinds.families, self.owner_sources.values(), strict=True):
            self._add(source.name, source, owner_facts.owner(family), clock)
            self.by_name[source.name].subscribe(self.remembered.owner)
        self._owners = {kind: self.by_name[source.name] for kind, source in self.owner_sources.items()}
        self.pods.subscribe(self.remembered.pod)
        self.pods.subscribe(self.fallen.pod)

    def _add(self, name: str, source: Source[Any], project: Callable[[Any], Any], clock: Clock) -> None:
        self.sources[name] = source
        self.by_name[name] = Store(project, clock)

    @property
    def pods(self) -> Store[Any, Any]:
        return self.by_name["pods"]

    def not_ready(self) -> list[str]:
        """Stores that a decision may not rest on now. Owners that may not be read hold their own groups only."""
        denied = [store for store in (*self._owners.values(), self.by_name[DEVICES]) if store.denied]
        return [name for name, store in self.by_name.items() if not store.ready and store not in denied]

    def unreadable(self) -> dict[str, str]:
        """The right that is missing, by kind of owner."""
        return {kind: store.denied for kind, store in self._owners.items() if store.denied}

    def _items(self, name: str) -> tuple[Any, ...]:
        return self.by_name[name].items()

    def podgroups(self) -> tuple[PodGroupFacts, ...]:
        return tuple(p for s in PODGROUP_SOURCES for p in self._items(f"podgroups.{s.group}"))

    def _owner(self, uid: str) -> OwnerFacts | None:
        return next((owner for store in self._owners.values() if (owner := store.by_uid(uid))), None)

    def owners(self) -> dict[str, OwnerFacts]:
        """What may not be read any more counts as unknown, and not as what it was."""
        known = {o.uid: o for store in self._owners.values() if not store.denied for o in store.items()}
        return known if self.strangers is None else {**self.strangers.owners(), **known}


def _podgroup(source: Source[Any]) -> Callable[[objects.PodGroup], PodGroupFacts]:
    """A list's items do not say their apiVersion; the source does."""
    return lambda item: facts.podgroup(item, source.group)


def _last(refusals: Iterable[RefusalFacts]) -> dict[str, RefusalFacts]:
    """By owner, the newest."""
    found: dict[str, RefusalFacts] = {}
    for one in refusals:
        if one.owner not in found or one.at > found[one.owner].at:
            found[one.owner] = one
    return found


def take(
    stores: Stores,
    flights: Flights,
    stuck: tuple[str, ...] = (),
    usage: dict[str, Resources] | None = None,
    ahead: dict[str, tuple[str, ...]] | None = None,
    refused: tuple[str, ...] = (),
) -> Snapshot:
    """What a pass decides upon: `stuck` are owners whose lever was refused, `refused` groups whose lift was.

    `usage` is what queues used over time, `ahead` are groups for which the pass before kept room. Raises nothing; ask
    `not_ready` first.
    """
    classes = stores.by_name["priorityclasses"].items()
    return Snapshot(
        pods=flights.overlay(stores.pods.items()),
        nodes=stores.by_name["nodes"].items(),
        namespaces={n.name: n for n in stores.by_name["namespaces"].items()},
        owners=stores.owners(),
        podgroups=stores.podgroups(),
        queues={q.name: q for q in stores.by_name["queues"].items()},
        quotas=stores.by_name["resourcequotas"].items(),
        priority_classes={name: value for name, value, _ in classes},
        default_priority_class=min((name for name, _, default in classes if default), default=""),
        limit_ranges=stores.by_name["limitranges"].items(),
        overheads=dict(stores.by_name["runtimeclasses"].items()),
        devices=tuple(sorted({*stores.by_name[DEVICES].items()})),
        refusals=_last(stores.by_name["events"].items()),
        seen=stores.remembered.all(),
        unreadable=stores.unreadable(),
        stuck=stuck,
        kinds=stores.added,
        usage=usage or {},
        ahead=ahead or {},
        unsized=stores.strangers.unsized() if stores.strangers else {},
        refused=refused,
        fallen=stores.fallen.all(),
        preemptors=dict(stores.by_name[PREEMPTIONS].items()),
    )
