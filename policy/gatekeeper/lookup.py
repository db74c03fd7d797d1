"""Asks for one controller of a kind that nobody told of: whether it says how many pods it makes, and how many.

The size is the scale subresource's, else `spec.replicas`; what the kind is called is asked of discovery. Reads with the
rights that the process has: one that is missing is an answer too. Keeps discovery's answers for a while, and no object.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

import msgspec

from policy.gatekeeper import discovery
from policy.gatekeeper.cache import Corrupt
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.decode import Decoder
from policy.gatekeeper.errors import ApiError, StreamError
from policy.gatekeeper.source import group_path
from policy.rules import owner_facts
from policy.rules.membership import custom
from policy.rules.membership.custom import Custom
from policy.rules.membership.families import Kinds
from policy.rules.model import OwnerFacts, PodFacts, Ref
from policy.rules.roots import STRANGERS_NOT

KIND_SECONDS: Final = 60.0  # before discovery is asked again
MOST_KINDS: Final = 1_000  # kept; a tenant may name any kind
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")  # it becomes part of a path, and a tenant wrote it
_DECODER: Final = Decoder(Custom)


class Api(Protocol):
    """What we need of the client."""

    def request(self, method: str, path: str) -> bytes: ...


class Asked(NamedTuple):
    """A controller, and where it would be."""

    namespace: str
    ref: Ref


class Answer(msgspec.Struct, frozen=True):
    """What is known of one object: its facts, or why it has no size; `failed` where the server did not answer."""

    owner: OwnerFacts | None = None
    why: str = ""
    failed: bool = False


class Lookup:
    """Answers one question at a time. Keeps what discovery said of each kind for a while."""

    def __init__(self, client: Api, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._kinds: dict[tuple[str, str], tuple[float, discovery.Found | None]] = {}

    def ask(self, asked: Asked) -> Answer:
        """Read the object. Raises nothing."""
        ref = asked.ref
        named = f"the size of {ref.kind} {ref.name} cannot be read"
        if not _NAME.fullmatch(ref.name) or not _NAME.fullmatch(ref.group):
            return Answer(why=f"{named}: no object can have that name")
        try:
            found = self._kind(ref)
            if found is None:
                return Answer(why=f"{named}: {ref.group} has no kind {ref.kind}")
            return self._read(asked, found, named)
        except ApiError as error:
            if error.is_forbidden:
                return Answer(why=f"{named}: {error.message}")
            return Answer(why=f"{named}: {error}", failed=not error.is_not_found)
        except StreamError as error:
            return Answer(why=f"{named}: {error}")

    def _kind(self, ref: Ref) -> discovery.Found | None:
        key, now = (ref.group, ref.kind), self._clock.monotonic()
        until, found = self._kinds.get(key, (0.0, None))
        if now >= until:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            found = discovery.kind(self._client, ref.group, ref.kind)
            self._kinds[key] = (now + KIND_SECONDS, found)
        return found

    def _read(self, asked: Asked, found: discovery.Found, named: str) -> Answer:
        ref = asked.ref
        path = f"{group_path(ref.group, found.version)}/namespaces/{asked.namespace}/{found.plural}/{ref.name}"
        item = _object(self._client.request("GET", path))
        if isinstance(item, Corrupt):
            return Answer(why=f"{named}: {item.error}")
        if item.metadata.uid != ref.uid:
            return Answer(why=f"{named}: there is another one of that name, uid {item.metadata.uid}")
        if found.scales:
            scale = _object(self._client.request("GET", f"{path}/scale"))
            replicas = scale.spec.get("replicas", 0) if isinstance(scale, Custom) else None
            item = msgspec.structs.replace(item, spec=item.spec | {"replicas": replicas})
        if item.spec.get("replicas") is None:
            return Answer(why=f"{named}: it has neither a scale subresource nor spec.replicas")
        family = custom.met(ref.group, found.version, ref.kind, found.plural)
        return Answer(owner_facts.owner(family)(item))


def _object(body: bytes) -> Custom | Corrupt:
    return _DECODER.item(body)


def wanted(pods: Iterable[PodFacts], kinds: Kinds) -> dict[str, Asked]:
    """The controllers to look at, by uid: of pods that are ours to hold and name no group."""
    return {
        pod.above.uid: Asked(pod.namespace, pod.above)
        for pod in pods
        if pod.above is not None
        and pod.group is None
        and pod.live
        and (pod.gated or pod.lifted)
        and is_other(pod.above, kinds)
    }


def is_other(ref: Ref, kinds: Kinds) -> bool:
    """Whether a controller is of a kind that is looked up."""
    return (ref.group, ref.kind) not in STRANGERS_NOT and kinds.of(ref.group, ref.kind) is None
