"""What the gatekeeper believes the API server holds: one Store a resource, fed by a Reflector and by our own writes.

An object's newest version wins, whatever the order of arrival: resourceVersions of one resource compare as integers
(KEP-5504). A uid that was deleted is remembered for a while, so that a late answer to a write of ours cannot
bring it back. Does no I/O; may be read from any thread.

    replace  a fresh list         -> everything older than the list goes
    apply    a watch event        -> the object if newer; DELETED leaves a tombstone
    assume   our write's answer   -> the object if newer and not deleted; the watch shows it later and changes nothing
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeVar

from policy.gatekeeper.clock import Clock
from policy.rules.objects import ObjectMeta

READY_GRACE: Final = 30.0  # seconds without a watch after which a cache must not be decided upon
TOMBSTONE_SECONDS: Final = 600.0  # far beyond any request's timeout
DELETED: Final = "DELETED"


class KubernetesObject(Protocol):
    """Any struct that has metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=KubernetesObject)
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Corrupt:
    """An object that does not decode: who it is, as far as it says, and what is wrong with it."""

    metadata: ObjectMeta
    error: str


@dataclass(frozen=True, slots=True)
class Delta(Generic[U]):
    """One object's change; `before` is None when it is new, `after` when it is gone or corrupt."""

    uid: str
    before: U | None
    after: U | None


@dataclass(slots=True)
class _Held(Generic[U]):
    version: int
    key: tuple[str, str]
    value: U | None
    error: str = ""  # not empty: corrupt


class Store(Generic[T, U]):
    """The objects of one resource, as `project` made them when they arrived.

    `project` runs once a version, on the thread that brings the object. Where it returns None readers do not see the
    object; a ValueError or TypeError makes it corrupt. Listeners run on that thread too, outside the lock: cheap, and
    in no promised order between threads.
    """

    def __init__(
        self,
        project: Callable[[T], U | None],
        clock: Clock,
        *,
        listeners: Iterable[Callable[[Delta[U]], None]] = (),
        grace: float = READY_GRACE,
    ) -> None:
        self._project, self._clock, self._grace = project, clock, grace
        self._listeners = list(listeners)
        self._lock = threading.Lock()
        self._held: dict[str, _Held[U]] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._tombstones: dict[str, tuple[int, float]] = {}  # uid -> version, time; oldest first
        self._items: tuple[int, tuple[U, ...]] = (0, ())
        self._generation = 0
        self._observed = 0
        self._synced = self._watching = False
        self.denied = ""  # the right without which nothing feeds it: "list jobs.batch"
        self._alive = clock.monotonic()

    # --- reading ---------------------------------------------------------------------------------------------

    def items(self) -> tuple[U, ...]:
        """All objects that readers see; the same tuple until something changes."""
        with self._lock:
            if self._items[0] != self._generation:
                values = tuple(h.value for h in self._held.values() if h.value is not None)
                self._items = (self._generation, values)
            return self._items[1]

    def by_uid(self, uid: str) -> U | None:
        with self._lock:
            held = self._held.get(uid)
            return held.value if held else None

    def by_name(self, namespace: str, name: str) -> U | None:
        """The newest object of that name; `namespace` is empty for cluster-scoped ones."""
        with self._lock:
            held = self._held.get(self._names.get((namespace, name), ""))
            return held.value if held else None

    def versions(self) -> dict[str, int]:
        """The resourceVersion held of each uid, corrupt objects included."""
        with self._lock:
            return {uid: held.version for uid, held in self._held.items()}

    def version_of(self, uid: str) -> int:
        """The resourceVersion held of one object, 0 when it is not held."""
        with self._lock:
            held = self._held.get(uid)
            return held.version if held else 0

    def corrupt(self) -> tuple[Corrupt, ...]:
        """The objects that do not decode."""
        with self._lock:
            bad = [(uid, held) for uid, held in self._held.items() if held.error]
        return tuple(Corrupt(_meta(uid, held), held.error) for uid, held in bad)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def generation(self) -> int:
        """Grows with every change that a reader could see."""
        return self._generation

    @property
    def observed(self) -> int:
        """The newest resourceVersion that list or watch has shown; our own writes do not count."""
        return self._observed

    # --- writing ---------------------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[Delta[U]], None]) -> None:
        """Have `listener` told of every later change."""
        self._listeners.append(listener)

    def apply(self, kind: str, item: T | Corrupt) -> bool:
        """Take a watch event in (ADDED, MODIFIED, DELETED); tell whether it changed anything."""
        held = self._hold(item)
        uid = item.metadata.uid
        with self._lock:
            self._observed = max(self._observed, held.version)
            self._alive = self._clock.monotonic()
            delta = self._remove(uid, held.version) if kind == DELETED else self._put(uid, held)
        return self._tell(delta)

    def assume(self, item: T) -> bool:
        """Take in the server's answer to a write of ours; tell whether it changed anything.

        Nothing that was deleted, or left the selection, comes back this way.
        """
        held = self._hold(item)
        with self._lock:
            gone = item.metadata.uid in self._tombstones
            delta = None if gone else self._put(item.metadata.uid, held)
        return self._tell(delta)

    def replace(self, items: Iterable[T | Corrupt], version: int) -> None:
        """Take in a consistent list, made at `version`: what it lacks is gone, unless we hold it newer than that.

        A list older than what the watch has shown means that the server's history was set back (etcd restored from
        a backup): then nothing held counts any more.
        """
        listed = {item.metadata.uid: self._hold(item) for item in items}
        with self._lock:
            deltas = self._forget_all() if version < self._observed else []
            gone = [uid for uid in self._held if uid not in listed]
            deltas += [self._remove(uid, version) for uid in gone]
            deltas += [self._put(uid, held) for uid, held in listed.items()]
            self._observed = version
            self._synced = True
            self._alive = self._clock.monotonic()
        for delta in deltas:
            self._tell(delta)

    # --- life of the watch, told by the Reflector ------------------------------------------------------------

    def alive(self, version: int = 0) -> None:
        """The watch showed a sign of life; a bookmark brings its version along."""
        with self._lock:
            self._observed = max(self._observed, version)
            self._alive = self._clock.monotonic()

    def watching(self, *, on: bool) -> None:
        """The watch is open, or has ended."""
        self._watching = on

    @property
    def synced(self) -> bool:
        """Whether a list was ever taken in."""
        return self._synced

    def age(self) -> float:
        """Seconds since the last list, event or bookmark."""
        return self._clock.monotonic() - self._alive

    @property
    def ready(self) -> bool:
        """Whether decisions may rest on it: listed, and watched now or not long ago (a clean reconnect is short)."""
        return self._synced and (self._watching or self.age() < self._grace)

    # --- under the lock --------------------------------------------------------------------------------------

    def _put(self, uid: str, held: _Held[U]) -> Delta[U] | None:
        old = self._held.get(uid)
        tombstone = self._tombstones.get(uid)
        if (old and old.version >= held.version) or (tombstone and tombstone[0] >= held.version):
            return None
        self._tombstones.pop(uid, None)  # newer than its deletion: it came back into the selection
        self._held[uid] = held
        self._index(uid, held)
        self._generation += 1
        return Delta(uid, old.value if old else None, held.value)

    def _index(self, uid: str, held: _Held[U]) -> None:
        other = self._held.get(self._names.get(held.key, ""))
        if other is None or other.version <= held.version:
            self._names[held.key] = uid

    def _remove(self, uid: str, version: int) -> Delta[U] | None:
        old = self._held.get(uid)
        if old and old.version > version:
            return None
        self._bury(uid, version)
        if old is None:
            return None
        del self._held[uid]
        if self._names.get(old.key) == uid:
            del self._names[old.key]
        self._generation += 1
        return Delta(uid, old.value, None)

    def _bury(self, uid: str, version: int) -> None:
        now = self._clock.monotonic()
        known = self._tombstones.pop(uid, (0, now))[0]
        self._tombstones[uid] = (max(known, version), now)
        oldest = tuple(islice(self._tombstones.items(), 2))  # two out for one in: what is stale cannot pile up
        for other, (_, since) in oldest:
            if now - since > TOMBSTONE_SECONDS:
                del self._tombstones[other]

    def _forget_all(self) -> list[Delta[U] | None]:
        gone: list[Delta[U] | None] = [Delta(uid, held.value, None) for uid, held in self._held.items()]
        self._held, self._names, self._tombstones = {}, {}, {}
        self._generation += 1
        return gone

    # --- outside the lock ------------------------------------------------------------------------------------

    def _hold(self, item: T | Corrupt) -> _Held[U]:
        meta = item.metadata
        key, version = (meta.namespace, meta.name), as_version(meta.resource_version)
        if isinstance(item, Corrupt):
            return _Held(version, key, None, item.error)
        try:
            return _Held(version, key, self._project(item))
        except (ValueError, TypeError) as error:
            return _Held(version, key, None, f"{type(error).__name__}: {error}")

    def _tell(self, delta: Delta[U] | None) -> bool:
        if delta is None:
            return False
        for listener in self._listeners:
            listener(delta)
        return True


def identity(item: T) -> T:
    """The projection that keeps the whole object."""
    return item


def as_version(text: str) -> int:
    """A resourceVersion as a number; 0 for what is none, which is older than everything."""
    return int(text) if text.isascii() and text.isdecimal() else 0


def _meta(uid: str, held: _Held[Any]) -> ObjectMeta:
    namespace, name = held.key
    return ObjectMeta(name=name, namespace=namespace, uid=uid, resource_version=str(held.version))
