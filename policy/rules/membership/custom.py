"""Kinds that no file here is about: told of by the settings, or met as the controller of a pod.

The settings say where an owner's object holds the number of its pods, their template and the field that suspends it.
Of a kind that nobody told of only `spec.replicas` is known, as its scale subresource has it
(https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#scale-subresource).
May know objects.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from policy.rules.membership.family import Family, Labels, Lever, Part
from policy.rules.objects import OwnerMeta, PodTemplate, Wire, without_nulls

_FINISHED: Final = frozenset({"Complete", "Completed", "Succeeded", "Failed", "Finished"})  # conditions, by custom
_PATH: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9.-]*")
_MOST: Final = 2**31 - 1  # replicas are an int32 wherever Kubernetes defines them


class _Setting(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base: a key that nobody knows is an error."""


class OwnerPart(_Setting, frozen=True):
    """Members of one role. Paths are fields joined by dots; below `each` where that is given."""

    replicas: str  # where their number stands; an object without it makes one
    minimum: str = ""  # where it stands how many of them must be there; "": all
    template: str = ""  # where the pod template stands; "": members are sized from those that exist
    role: str = ""  # value of `role_label` on these pods; of `each`: the key of the map, or the item's `name`
    each: str = ""  # a list or map with one such part for every item


class Finished(_Setting, frozen=True):
    field: str
    values: tuple[str, ...]


class OwnerKind(_Setting, frozen=True):
    """A kind of owner whose pods start together. Raises ValueError naming the field and its value."""

    api_version: str
    kind: str
    plural: str
    parts: tuple[OwnerPart, ...] = (OwnerPart("spec.replicas", template="spec.template"),)
    role_label: str = ""
    suspend: str = ""  # a field that, while true, makes the owner delete its pods and make none
    finished: Finished | None = None  # beside the conditions that kinds have by custom

    def __post_init__(self) -> None:
        for field, value in (("apiVersion", self.api_version), ("kind", self.kind), ("plural", self.plural)):
            _check(field, value, _NAME, "a name", slashes=int(field == "apiVersion"))
        for field, path in self._paths():
            _check(field, path, _PATH, "fields joined by dots")
        if not self.parts:
            raise ValueError("parts: needs one at least")
        if not self.role_label and (len(self.parts) > 1 or any(part.each for part in self.parts)):
            raise ValueError("roleLabel: is needed to tell members of several parts apart")

    def _paths(self) -> Iterator[tuple[str, str]]:
        for part in self.parts:
            yield "parts.replicas", part.replicas
            yield from (
                (f"parts.{field}", path)
                for field, path in (("minimum", part.minimum), ("template", part.template), ("each", part.each))
                if path
            )
        if self.suspend:
            yield "suspend", self.suspend
        if self.finished:
            yield "finished.field", self.finished.field

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


def _check(field: str, value: str, form: re.Pattern[str], what: str, slashes: int = 0) -> None:
    pieces = value.split("/")
    if len(pieces) != slashes + 1 or not all(form.fullmatch(piece) for piece in pieces):
        raise ValueError(f"{field}: {value!r}: must be {'group/version' if slashes else what}")


class Custom(Wire, frozen=True):
    """An object of which only the metadata's form is known."""

    metadata: OwnerMeta = OwnerMeta()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class UnreadError(ValueError):
    """A field of an owner holds what cannot be used; the message names the field and the value."""


class _Read(NamedTuple):
    parts: tuple[Part, ...] = ()
    problem: str = ""


def family(kind: OwnerKind) -> Family[Custom]:
    """What the settings tell of a kind, in the form of the table's."""
    label = kind.role_label

    def role(labels: Labels) -> str:
        return labels.get(label, "").lower()

    told: dict[str, Any] = {"role": role} if label else {}
    if kind.suspend:
        path = kind.suspend
        told |= {"lever": Lever[Custom](tuple(path.split("."))), "held": lambda item: _at(_root(item), path) is True}
    return Family(
        group=kind.group,
        version=kind.api_version.rpartition("/")[2],
        kind=kind.kind,
        plural=kind.plural,
        type=Custom,
        parts=lambda item: _read(kind, item).parts,
        problem=lambda item: _read(kind, item).problem,
        source=", ".join(f"{part.each}.{part.replicas}" if part.each else part.replicas for part in kind.parts),
        stages="at once",
        over=lambda item: _over(kind.finished, item),
        **told,
    )


@lru_cache(maxsize=1_000)
def met(group: str, version: str, kind: str, plural: str) -> Family[Custom]:
    """Of a kind that nobody told of, found to have replicas."""
    return family(OwnerKind(f"{group}/{version}", kind, plural))


STRANGER: Final = met("unknown", "v1", "Unknown", "unknowns")  # which one does not matter: pods of all are alike


def _read(kind: OwnerKind, item: Custom) -> _Read:
    try:
        return _Read(tuple(_parts(kind, _root(item))))
    except UnreadError as error:
        return _Read(problem=str(error))


def _parts(kind: OwnerKind, root: dict[str, Any]) -> Iterator[Part]:
    for part in kind.parts:
        if not part.each:
            yield _part(part, root, part.role, "")
        for role, inner in _items(_at(root, part.each), part.each) if part.each else ():
            yield _part(part, inner, role, f"{part.each}[{role}].")


def _items(found: Any, path: str) -> Iterator[tuple[str, Any]]:
    pairs = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else None
    if pairs is None and found is not None:
        raise UnreadError(f"{path}: {_shown(found)} is no list and no map")
    for key, inner in pairs or ():
        named = inner.get("name") if isinstance(inner, dict) and isinstance(found, list) else None
        yield str(key if named is None else named), inner


def _part(part: OwnerPart, root: Any, role: str, prefix: str) -> Part:
    count = _number(root, part.replicas, prefix, 1)
    least = _number(root, part.minimum, prefix, count) if part.minimum else count
    template = _template(_at(root, part.template), prefix + part.template) if part.template else PodTemplate()
    return Part(role=role.lower(), count=count, minimum=min(count, least), template=template)


def _number(root: Any, path: str, prefix: str, usual: int) -> int:
    value = _at(root, path)
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise UnreadError(f"{prefix}{path}: {_shown(value)} is no number of pods")
    return value


def _template(value: Any, path: str) -> PodTemplate:
    try:
        return msgspec.convert(without_nulls(value) or {}, PodTemplate)
    except msgspec.ValidationError as error:
        raise UnreadError(f"{path}: {error}") from None


def _over(finished: Finished | None, item: Custom) -> bool:
    conditions = item.status.get("conditions")
    for one in conditions if isinstance(conditions, list) else ():
        if isinstance(one, dict) and one.get("type") in _FINISHED and one.get("status") == "True":
            return True
    return finished is not None and _at(_root(item), finished.field) in finished.values


def _root(item: Custom) -> dict[str, Any]:
    return {"spec": item.spec, "status": item.status}


def _at(root: Any, path: str) -> Any:
    for key in path.split("."):
        root = root.get(key) if isinstance(root, dict) else None
    return root


def _shown(value: Any) -> str:
    """For an error's text: an object may hold a megabyte."""
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"
