"""From a controller that makes groups to the facts that decisions use; and whose its suspension is.

Total, like policy.rules.facts: what cannot be read becomes a `problem`. May know objects, families and the model; sees
one object at a time.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from policy import names
from policy.rules import resources
from policy.rules.facts import epoch, membership, natural, ref, task_min
from policy.rules.membership.family import Family, Part, Size
from policy.rules.membership.identify import named_queue
from policy.rules.membership.identity import DisagreementError, Identity
from policy.rules.model import Claim, OwnerFacts, PartFacts
from policy.rules.objects import ObjectMeta, OwnerMeta, Pod, PodTemplate
from policy.rules.shape import shape_of


def owner(family: Family[Any]) -> Callable[[Any], OwnerFacts]:
    """The reader of one family's objects."""
    return lambda item: _owner(family, item)


def _owner(family: Family[Any], item: Any) -> OwnerFacts:
    """Where templates name no group of their own, the owner is it."""
    meta: OwnerMeta = item.metadata
    parts = family.parts(item)
    members = [_member(part.template, meta.namespace) for part in parts] or [_member(PodTemplate(), meta.namespace)]
    told = [membership(member) for member in members]
    identity, queue_name, problem = told[0]
    minimum, complaint = _min_member(meta)
    claim, lever = _claim(meta), family.lever
    return OwnerFacts(
        kind=family.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        api_version=f"{family.group}/{family.version}",
        created=epoch(meta.creation_timestamp),
        size=_size(family, item, parts),
        parts=tuple(_part(part, m, group) for part, m, (group, _, _) in zip(parts, members, told, strict=False)),
        above=ref(meta.controller) if meta.controller else None,
        slices=family.slices(item) if family.slices else None,
        version=meta.resource_version,
        lever=lever.path if lever and lever.free(item) else (),
        claim=claim,
        ours=_is_ours(meta, claim, family, item),
        deadline=lever.deadline(item) if lever else None,
        started=epoch(lever.started(item)) if lever else 0.0,
        woken=epoch(meta.annotation(names.ANNOTATION_WOKEN)),
        queue=queue_name or _queue(family, item),
        min_member=minimum,
        over=family.over(item) or meta.deletion_timestamp is not None,
        going=meta.deletion_timestamp is not None,
        held=family.held(item),
        group=identity if all(group == identity for group, _, _ in told) else None,
        task_min=task_min(members[0].metadata),
        problem=problem or complaint or family.problem(item),
    )


def _size(family: Family[Any], item: Any, parts: tuple[Part, ...]) -> Size:
    """What the object states beside its parts counts before their sum."""
    stated, possible = family.minimum(item), sum(part.count for part in parts)
    least = sum(part.minimum for part in parts)
    return Size(least if stated is None else stated, possible, family.source)


def _part(part: Part, member: Pod, group: Identity | None) -> PartFacts:
    return PartFacts(
        count=part.count,
        minimum=part.minimum,
        shape=shape_of(member),
        template=msgspec.json.encode(member).decode(),
        role=part.role,
        stage=part.stage,
        first=part.first,
        unit=part.unit,
        waits=part.waits,
        group=group,
    )


def _queue(family: Family[Any], item: Any) -> str:
    """That the owner names, in its metadata as a pod would, or in a field of its kind."""
    try:
        named = named_queue(item.metadata)
    except DisagreementError:
        named = None  # its pods say which: they name one, or are refused
    return named.name if named else family.queue(item)


def _claim(meta: ObjectMeta) -> Claim | None:
    text = meta.annotation(names.ANNOTATION_GIVEN_BACK)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Claim)
    except msgspec.MsgspecError:
        return None  # not as we write it: somebody else's, and so is the suspension beside it


def _is_ours(meta: ObjectMeta, claim: Claim | None, family: Family[Any], item: Any) -> bool:
    """The record stands, the owner is suspended, and the server says that we set the field last."""
    if claim is None or claim.ended or not family.held(item) or family.lever is None:
        return False
    return isinstance(meta, OwnerMeta) and _set_by_us(meta, family.lever.path)


def _set_by_us(meta: OwnerMeta, path: tuple[str, ...]) -> bool:
    ours = (e for e in meta.managed_fields if e.manager == names.FIELD_MANAGER and not e.subresource)
    return any(_has(msgspec.json.decode(entry.fields), path) for entry in ours)


def _has(fields: object, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(fields, dict) or f"f:{name}" not in fields:
            return False
        fields = fields[f"f:{name}"]
    return True


def _member(template: PodTemplate, namespace: str) -> Pod:
    """The pod that the owner will make, as far as the template tells: controllers copy labels and annotations only."""
    said = template.metadata
    meta = ObjectMeta(namespace=namespace, labels=said.labels, annotations=said.annotations)
    return resources.defaulted(Pod(metadata=meta, spec=template.spec))


def _min_member(meta: ObjectMeta) -> tuple[int | None, str]:
    text = meta.annotation(names.GROUP_MIN_MEMBER)
    if text is None:
        return None, ""
    value = natural(text)
    if not value:
        return None, f"annotation {names.GROUP_MIN_MEMBER} is {text!r}: it must be a whole number from 1"
    return value, ""
