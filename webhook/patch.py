"""JSON Patch (RFC 6902) operations, built by hand: comparing two copies of a pod would cost as much as the whole call.

Only `add` and `remove`: an `add` on a member that exists replaces it (RFC 6902 section 4.1), so an operation holds
whatever another webhook has put there in between. Knows nothing of pods.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec


class Operation(msgspec.Struct, frozen=True):
    op: Literal["add", "remove"]
    path: str
    value: Any = msgspec.UNSET


def pointer(*parts: str) -> str:
    """A JSON Pointer (RFC 6901) to a member below the document."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def add(value: Any, *path: str) -> Operation:
    return Operation("add", pointer(*path), value)


def change_map(present: Mapping[str, str] | None, wanted: Mapping[str, str | None], *path: str) -> Iterator[Operation]:
    """Operations that give the map at `path` the wanted values; None takes a key out, other keys stay."""
    if present is None:
        created = {key: value for key, value in wanted.items() if value is not None}
        if created:
            yield add(created, *path)
        return
    for key, value in wanted.items():
        if value is None and key in present:
            yield Operation("remove", pointer(*path, key))
        elif value is not None and present.get(key) != value:
            yield add(value, *path, key)
