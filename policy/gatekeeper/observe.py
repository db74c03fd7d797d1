"""One look at a cluster: everything that the gatekeeper watches, listed once with the caller's own rights.

The command line's way to the same Snapshot that the loop decides upon, and, for callers who may see one namespace
only, to the part of it that is theirs. Reads only; decides nothing.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

import msgspec

from policy.gatekeeper.cache import Corrupt, KubernetesObject, as_version
from policy.gatekeeper.client import Client
from policy.gatekeeper.clock import SystemClock
from policy.gatekeeper.decode import Decoder
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.flights import Flights
from policy.gatekeeper.lookup import Lookup, wanted
from policy.gatekeeper.snapshot import DEVICES, Stores, take
from policy.gatekeeper.source import Source, group_path
from policy.gatekeeper.watch import Tuning, list_pages
from policy.rules import facts
from policy.rules.membership.custom import OwnerKind
from policy.rules.model import NamespaceFacts, OwnerFacts, Snapshot
from policy.rules.objects import Namespace

AT_ONCE: Final = 4  # resources listed at the same time: enough to hide the network, too few to be a burden
CLUSTER_SCOPED: Final = frozenset({"nodes", "namespaces", "queues", "priorityclasses", "runtimeclasses", DEVICES})
_BUILT_IN: Final = frozenset({"batch", "apps"})  # API groups of owners that every cluster has
MOST_LOOKED_UP: Final = 200  # controllers of other kinds
_TRIES: Final = 3  # a list whose continue token expired begins again

T = TypeVar("T", bound=KubernetesObject)


class ForbiddenError(ApiError):
    """The caller lacks a right: `verb`, `resource` and the namespace, "" for all of them."""

    def __init__(self, verb: str, resource: str, namespace: str, error: ApiError) -> None:
        super().__init__(error.status, error.reason, error.message)
        self.verb, self.resource, self.namespace = verb, resource, namespace

    @property
    def lack(self) -> str:
        """The right that is missing, in words; the server's message follows it in the error's text."""
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        return f"you may not {self.verb} {self.resource} {where}"

    def __str__(self) -> str:
        return f"{self.lack}: {self.message}"


@dataclass(frozen=True, slots=True)
class Within(Source[T]):
    """The objects of one namespace; of all where that is empty."""

    namespace: str = ""

    @property
    def path(self) -> str:
        inside = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{group_path(self.group, self.version)}{inside}/{self.plural}"


@dataclass(frozen=True, slots=True)
class Partial:
    """The facts of one namespace. No decision may rest on it: nodes, queues and other namespaces are not in it."""

    snapshot: Snapshot
    unseen: tuple[str, ...]  # resources that the caller may not list


class Asked:
    """What was found of controllers of other kinds than those of the table."""

    def __init__(self, client: Client, stores: Stores) -> None:
        lookup = Lookup(client, SystemClock())
        asked = wanted(stores.pods.items(), stores.kinds)
        self._answers = {uid: lookup.ask(one) for uid, one in islice(asked.items(), MOST_LOOKED_UP)}

    def owners(self) -> dict[str, OwnerFacts]:
        return {uid: answer.owner for uid, answer in self._answers.items() if answer.owner is not None}

    def unsized(self) -> dict[str, str]:
        return {uid: answer.why for uid, answer in self._answers.items() if answer.owner is None}


def once(client: Client, added: tuple[OwnerKind, ...] = ()) -> Snapshot:
    """The whole cluster, each resource as one consistent list; a resource that is not installed is empty.

    `added` are kinds of owners beside the table's. Raises ForbiddenError naming verb and resource; ApiError or
    StreamError where the server gives no usable answer.
    """
    stores = Stores(SystemClock(), added)
    executor = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="list")
    try:
        for answer in [executor.submit(_fill, client, stores, name, "") for name in stores.by_name]:
            answer.result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)  # the first failure ends it: no ten timeouts in a row
    stores.strangers = Asked(client, stores)
    return take(stores, Flights())


def within(client: Client, namespace: str, added: tuple[OwnerKind, ...] = ()) -> Partial:
    """What rights in one namespace show. Raises ForbiddenError where not even its pods may be listed."""
    stores = Stores(SystemClock(), added)
    unseen: list[str] = []
    for name in stores.by_name:
        if name in CLUSTER_SCOPED:
            continue
        try:
            _fill(client, stores, name, namespace)
        except ForbiddenError as error:
            if name == "pods":
                raise
            unseen.append(error.resource)
    stores.strangers = Asked(client, stores)
    snapshot = msgspec.structs.replace(take(stores, Flights()), namespaces=_itself(client, namespace, unseen))
    return Partial(snapshot, tuple(unseen))


def listed(client: Client, source: Within[T]) -> tuple[list[T | Corrupt], str]:
    """Every object of a resource, and the version of the list; none where the resource is not installed.

    Raises as `once` does.
    """
    for _ in range(_TRIES - 1):
        try:
            return _pages(client, source)
        except ApiError as error:
            if not error.is_gone:
                raise
    return _pages(client, source)


def _pages(client: Client, source: Within[T]) -> tuple[list[T | Corrupt], str]:
    items: list[T | Corrupt] = []
    version = ""
    try:
        for page in list_pages(client, source, Decoder(source.type), Tuning()):
            items += page.items
            version = page.version
    except ApiError as error:
        if error.is_forbidden:
            raise ForbiddenError("list", source.resource, source.namespace, error) from error
        if not error.is_not_found:
            raise
    return items, version


def _fill(client: Client, stores: Stores, name: str, namespace: str) -> None:
    """An operator's kind that the caller may not list, or that is not even installed, keeps nothing else from view."""
    try:
        items, version = listed(client, narrowed(stores.sources[name], namespace))
    except ForbiddenError as error:
        if not _optional(stores, name):
            raise
        stores.by_name[name].denied = f"{error.verb} {error.resource}"
        return
    stores.by_name[name].replace(items, as_version(version))


def _optional(stores: Stores, name: str) -> bool:
    source = stores.sources[name]
    return name == DEVICES or (source in stores.owner_sources.values() and source.group not in _BUILT_IN)


def narrowed(source: Source[T], namespace: str) -> Within[T]:
    """The same resource, in one namespace."""
    return Within(source.group, source.version, source.plural, source.type, source.field_selector, namespace=namespace)


def _itself(client: Client, name: str, unseen: list[str]) -> dict[str, NamespaceFacts]:
    """The namespace's own object, which rights in a namespace usually include; nothing where they do not."""
    try:
        found = facts.namespace(msgspec.json.decode(client.get(f"/api/v1/namespaces/{name}"), type=Namespace))
    except ApiError as error:
        if error.is_not_found:
            return {}
        if not error.is_forbidden:
            raise
        unseen.append("namespaces")
        return {}
    return {found.name: found}
