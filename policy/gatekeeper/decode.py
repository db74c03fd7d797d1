"""List pages and watch lines as structs; one bad object spoils neither its page nor the watch.

Pure. An object is read strictly, then once more without its nulls (Go writes `null` for an empty slice or map), and is
else kept as Corrupt, with as much of its metadata as can be read.
"""

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from policy.gatekeeper.cache import Corrupt, KubernetesObject
from policy.gatekeeper.errors import Status, StreamError, from_status
from policy.rules.objects import ObjectMeta, without_nulls

BOOKMARK: Final = "BOOKMARK"
_ERROR: Final = "ERROR"
_WHO: Final = {"name": "name", "namespace": "namespace", "uid": "uid", "resourceVersion": "resource_version"}

T = TypeVar("T", bound=KubernetesObject)


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str  # required: an answer without it is no list, and must not empty a cache
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bare(msgspec.Struct):
    metadata: _ListMeta


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list; `next` is the continue token, empty on the last page."""

    items: list[T | Corrupt]
    version: str
    next: str


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """One line of a watch; a BOOKMARK has no item."""

    kind: str
    version: str
    item: T | Corrupt | None


class Decoder(Generic[T]):
    """Reads one kind. Safe to use from several threads."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._one = msgspec.json.Decoder(kind)
        self._page = msgspec.json.Decoder(_Page)
        self._event = msgspec.json.Decoder(_Event)

    def page(self, body: bytes) -> Page[T]:
        """Raise StreamError where the body is no list at all."""
        try:
            page = self._page.decode(body)
        except msgspec.DecodeError as error:
            raise StreamError(f"list: {error}") from error
        items = [self.item(raw) for raw in page.items or ()]
        return Page(items, page.metadata.resource_version, page.metadata.continue_)

    def event(self, line: bytes) -> Event[T]:
        """Raise StreamError where the line is no event, ApiError where it is an ERROR event."""
        try:
            event = self._event.decode(line)
            if event.type == _ERROR:
                raise from_status(msgspec.json.decode(event.object, type=Status))
            if event.type == BOOKMARK:
                version = msgspec.json.decode(event.object, type=_Bare).metadata.resource_version
                return Event(BOOKMARK, version, None)
        except msgspec.DecodeError as error:
            raise StreamError(f"watch: {error}") from error
        item = self.item(event.object)
        return Event(event.type, item.metadata.resource_version, item)

    def item(self, raw: bytes | msgspec.Raw) -> T | Corrupt:
        """Read one object."""
        try:
            return self._one.decode(raw)
        except msgspec.DecodeError:
            return self._leniently(raw)

    def _leniently(self, raw: bytes | msgspec.Raw) -> T | Corrupt:
        try:
            data = without_nulls(msgspec.json.decode(raw))
        except (msgspec.DecodeError, RecursionError) as error:
            raise StreamError(f"object: {error}") from error
        try:
            return msgspec.convert(data, self._kind)
        except msgspec.ValidationError as error:
            return Corrupt(_who(data), str(error))


def _who(data: Any) -> ObjectMeta:
    metadata = data.get("metadata") if isinstance(data, dict) else None
    told = metadata if isinstance(metadata, dict) else {}
    return ObjectMeta(**{ours: told[key] for key, ours in _WHO.items() if isinstance(told.get(key), str)})
