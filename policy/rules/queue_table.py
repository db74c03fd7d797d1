"""A short table of queues, as one file: `queues: - {name, weight, capability, reclaimable, policy, ...}`.

Read strictly: a key that nobody knows, a quantity that does not parse and a name that stands twice are errors which
name the entry, the field and the value. Pure: a text in, objects out. May know names and quantities.
"""

import re
from typing import Any, Final, Literal

import msgspec

from policy import names
from policy.rules import quantity
from policy.rules.objects import Quantities

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253
_MOST_WEIGHT: Final = 65_535  # as the definition of Queue has it


class TableError(ValueError):
    """The table cannot be used; the message names entry, field and value."""


class Row(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """One queue. What is left out is left to whoever wrote it."""

    name: str
    weight: int | None = None
    capability: Quantities | None = None
    deserved: Quantities | None = None
    guarantee: Quantities | None = None
    parent: str | None = None
    priority: int | None = None
    reclaimable: bool | None = None
    policy: Literal["gang", "binpack"] | None = None


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    queues: tuple[Row, ...]


def read(document: Any) -> tuple[Row, ...]:
    """The rows of a document. Raises TableError."""
    try:
        rows = msgspec.convert(document, Table).queues
    except msgspec.ValidationError as error:
        raise TableError(str(error)) from None
    seen: set[str] = set()
    for row in rows:
        if row.name in seen:
            raise TableError(f"queues: {row.name!r} stands there twice")
        seen.add(row.name)
        _check(row)
    return rows


def _check(row: Row) -> None:
    if not _NAME.fullmatch(row.name) or len(row.name) > _LONGEST_NAME:
        raise TableError(f"queues: name: {row.name[:_LONGEST_NAME]!r} is no name of an object")
    if row.weight is not None and not 1 <= row.weight <= _MOST_WEIGHT:
        raise TableError(f"queue {row.name}: weight: {row.weight}: must be 1 to {_MOST_WEIGHT}")
    for field in ("capability", "deserved", "guarantee"):
        for resource, amount in (getattr(row, field) or {}).items():
            _check_amount(f"queue {row.name}: {field}: {resource}", amount)


def _check_amount(where: str, amount: str | int | float) -> None:
    try:
        found = quantity.parse(amount)
    except quantity.QuantityError as error:
        raise TableError(f"{where}: {error}") from None
    if found < 0:
        raise TableError(f"{where}: {amount} is less than 0")


def manifest(row: Row) -> dict[str, Any]:
    """The Queue, with the fields that the row gives and no other."""
    fields = ("weight", "capability", "deserved", "parent", "priority", "reclaimable")
    spec: dict[str, Any] = {field: value for field in fields if (value := getattr(row, field)) is not None}
    if row.guarantee is not None:
        spec["guarantee"] = {"resource": row.guarantee}
    metadata: dict[str, Any] = {"name": row.name}
    if row.policy is not None:
        metadata["annotations"] = {names.ANNOTATION_POLICY: row.policy}
    api = f"{names.VOLCANO_API}/{names.VOLCANO_VERSION}"
    return {"apiVersion": api, "kind": "Queue", "metadata": metadata, "spec": spec}
