"""List and watch: keeps one Store as fresh as the API server lets us, for as long as the process lives.

Lists once, in consistent pages, then watches from there with bookmarks; lists again when its place in history is lost
(410), when a stream cannot be read, and after an outage that made the Store unready. Knows no kind and no rule.
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from policy.gatekeeper.backoff import Backoff, Uniform, system_uniform
from policy.gatekeeper.cache import Corrupt, KubernetesObject, Store, as_version
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.decode import Decoder, Page
from policy.gatekeeper.errors import ApiError, StreamError
from policy.gatekeeper.source import Source
from policy.gatekeeper.stream import Stream
from policy.gatekeeper.threads import repeat

_LOG: Final = logging.getLogger(__name__)

T = TypeVar("T", bound=KubernetesObject)
U = TypeVar("U")


class Api(Protocol):
    """What a Reflector needs of the client."""

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        timeout: float | None = None,
        accept: str = "",
    ) -> bytes: ...

    def stream(self, path: str, query: Mapping[str, str], *, timeout: float, accept: str) -> Stream: ...


@dataclass(frozen=True, slots=True)
class Tuning:
    """All in seconds but the page; the defaults fit any cluster, tests shorten them."""

    page: int = 500
    list_timeout: float = 30.0
    watch: tuple[float, float] = (240.0, 300.0)  # drawn anew each time, so that watches do not end in step
    silence: float = 90.0  # bookmarks come every 60 to 75, where they come
    absent_poll: float = 10.0  # how soon a definition that is installed later is noticed
    short_watch: float = 1.0  # a watch that ends sooner counts as a failure


class Reflector(Generic[T, U]):
    """Feeds `store` from `source`: `run` in one thread, `check` from a watchdog every second or so."""

    def __init__(
        self,
        client: Api,
        source: Source[T],
        store: Store[T, U],
        clock: Clock,
        *,
        tuning: Tuning = Tuning(),
        uniform: Uniform | None = None,
    ) -> None:
        self._client, self.source, self.store, self._clock, self._tuning = client, source, store, clock, tuning
        self._uniform = uniform or system_uniform()
        self._backoff = Backoff(uniform=self._uniform)
        self._decoder = Decoder(source.type)
        self._version = ""  # where to watch from; empty: list first
        self._stream: Stream | None = None
        self._problem = ""
        self._heard = False  # bookmarks are to be expected
        self.relists = 0

    @property
    def problem(self) -> str:
        """Why the store is not being fed right now, such as `forbidden: list resourcequotas`; empty when it is."""
        return self._problem

    def run(self, stop: threading.Event) -> None:
        """Keep the store fed until `stop` is set."""
        repeat(lambda: self._turn(stop), self._broken, self._clock, stop)

    def check(self, stop: threading.Event) -> None:
        """End the watch if we are stopping, or if it has been silent for longer than bookmarks allow.

        The API server sends none of a resource of which it has seen no change since it started: until we have heard of
        one, silence tells nothing, and a watch lasts for as long as it was asked for.
        """
        stream, age = self._stream, self.store.age()
        if stream and stop.is_set():
            stream.abort("stopping")
        elif stream and self._heard and age > self._tuning.silence:
            self._heard = False
            stream.abort(f"silent for {age:.0f} s")

    def _turn(self, stop: threading.Event) -> float:
        """List if need be and watch; return the seconds to wait before the next turn."""
        verb = "list"
        try:
            if not self._version:
                self._list()
            verb, since = "watch", self._clock.monotonic()
            self._watch(stop)
        except StreamError as error:
            return self._broken(str(error))
        except ApiError as error:
            return 0.0 if stop.is_set() else self._refused(verb, error)
        lasted = self._clock.monotonic() - since
        return self._backoff.next() if lasted < self._tuning.short_watch else 0.0

    def _list(self) -> None:
        pages = list_pages(self._client, self.source, self._decoder, self._tuning)
        first = next(pages)
        self.store.replace(self._items(first, pages), as_version(first.version))
        self._version = first.version
        self.relists += 1

    def _items(self, first: Page[T], rest: Iterator[Page[T]]) -> Iterator[T | Corrupt]:
        yield from first.items
        for page in rest:
            yield from page.items

    def _watch(self, stop: threading.Event) -> None:
        seconds = self._uniform(*self._tuning.watch)
        query = self.source.selectors | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(round(seconds)),
        }
        accept = self.source.watch_accept
        with self._client.stream(self.source.path, query, timeout=seconds * 1.1, accept=accept) as stream:
            self._opened(stream)
            try:
                for line in stream if not stop.is_set() else ():
                    self._take(line)
            finally:
                self._stream = None
                self.store.watching(on=False)
        self.store.alive()  # the server ended it as it should

    def _opened(self, stream: Stream) -> None:
        self.store.alive()
        self.store.watching(on=True)
        self.store.denied = ""
        self._stream = stream
        self._tell("")

    def _take(self, line: bytes) -> None:
        event = self._decoder.event(line)
        self._heard = self.source.bookmarks
        if event.item is None:
            self.store.alive(as_version(event.version))
        else:
            self.store.apply(event.kind, event.item)
        self._version = event.version or self._version
        self._backoff.reset()

    def _refused(self, verb: str, error: ApiError) -> float:
        if error.is_not_found:
            return self._absent()
        if error.is_gone or not self.store.ready:
            self._version = ""  # after an outage only a list is known to be fresh
        if error.is_forbidden:
            self.store.denied = f"{verb} {self.source.resource}"
            return self._failed(f"forbidden: {self.store.denied}")
        return self._failed(f"{verb} {self.source.name}: {error}", error.retry_after or 0.0)

    def _absent(self) -> float:
        """Treat a resource that is not installed (no CRD) as an empty one."""
        self._version = ""
        self.store.replace((), 0)
        self.store.watching(on=True)
        self.store.denied = ""
        self._tell("")
        return self._tuning.absent_poll

    def _broken(self, problem: str) -> float:
        self._version = ""
        return self._failed(problem)

    def _failed(self, problem: str, least: float = 0.0) -> float:
        self.store.watching(on=False)
        self._tell(problem)
        return max(least, self._backoff.next())

    def _tell(self, problem: str) -> None:
        if problem != self._problem:
            _LOG.log(logging.WARNING if problem else logging.INFO, "%s: %s", self.source.name, problem or "watching")
        self._problem = problem


def list_pages(client: Api, source: Source[T], decoder: Decoder[T], tuning: Tuning) -> Iterator[Page[T]]:
    """Read a consistent list (no resourceVersion asked for), page by page; all pages show the same version.

    Raises ApiError (410 when a continue token has expired) and StreamError.
    """
    query = source.selectors | {"limit": str(tuning.page)}
    while True:
        body = client.request("GET", source.path, query=query, timeout=tuning.list_timeout, accept=source.list_accept)
        page = decoder.page(body)
        yield page
        if not page.next:
            return
        query["continue"] = page.next
