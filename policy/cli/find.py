"""Which group is meant by what somebody typed.

NAME, KIND/NAME, NAMESPACE/NAME or KIND/NAMESPACE/NAME; a name may be the group's, its PodGroup's, its owner's or a
member's, and for KIND/NAMESPACE/… the controller's uid, which makes a group's key one too. Pure; prints nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from policy import names
from policy.cli.failures import Misuse, NotFound
from policy.rules.belonging import managed
from policy.rules.conclusions import Group
from policy.rules.membership import families
from policy.rules.membership.identity import LITE, NATIVE, POD, PODGROUP
from policy.rules.model import OwnerFacts, PodFacts, Snapshot

_PODGROUP: Final = PODGROUP.lower()
_ALIASES: Final = {"pg": _PODGROUP, "po": "pod", NATIVE.lower(): _PODGROUP, LITE.lower(): _PODGROUP}
_KINDS: Final = frozenset({_PODGROUP, "pod", *(family.kind.lower() for family in families.TABLE)})
_SHOWN: Final = 10  # candidates in one message


class Wanted(NamedTuple):
    """One way to read the reference; "" leaves a part open."""

    kind: str
    namespace: str
    name: str


def group(snapshot: Snapshot, groups: Mapping[str, Group], reference: str, namespace: str | None) -> Group:
    """The one group that `reference` means, in `namespace` where it names none itself (None: in any).

    Raises Misuse for an ambiguous or malformed reference, listing the candidates; NotFound, saying what there is.
    """
    readings = list(_readings(reference, namespace))
    found = {g.key: g for wanted in readings for g in groups.values() if _matches(snapshot, g, wanted)}
    if len(found) > 1:
        raise Misuse(f"GROUP: {reference!r} fits {len(found)} groups: {_listed(list(found.values()))}")
    if not found:
        raise NotFound(f"GROUP: {_absent(snapshot, groups, reference, namespace)}")
    return next(iter(found.values()))


def _listed(several: list[Group]) -> str:
    """By address, or by key where a controller that is gone and a new one share the address."""
    addresses = [address(g) for g in several]
    shown = addresses if len(set(addresses)) == len(addresses) else [g.key for g in several]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


def address(found: Group) -> str:
    """How to name a group from anywhere."""
    identity = found.identity
    return f"{identity.kind.lower()}/{identity.namespace}/{identity.name}"


def namespace_in(reference: str) -> str:
    """The namespace that the reference names, "" for none; a first part that is a known kind is taken for one."""
    parts = reference.split("/")
    if len(parts) == 3:
        return parts[1]
    return parts[0] if len(parts) == 2 and _kind(parts[0]) not in _KINDS else ""


def _readings(reference: str, namespace: str | None) -> Iterator[Wanted]:
    here = namespace or ""
    match reference.split("/"):
        case [name] if name:
            yield Wanted("", here, name)
        case [first, name] if first and name:
            yield Wanted(_kind(first), here, name)
            yield Wanted("", first, name)
        case [kind, elsewhere, name] if kind and elsewhere and name:
            yield Wanted(_kind(kind), elsewhere, name)
        case _:
            forms = "NAME, KIND/NAME, NAMESPACE/NAME, KIND/NAMESPACE/NAME"
            raise Misuse(f"GROUP: {reference!r} is none of {forms}")


def _kind(text: str) -> str:
    """A kind as kubectl's users write it: Job, job, jobs, jobs.batch, pg."""
    bare = text.lower().partition(".")[0]
    return _ALIASES.get(bare, bare.removesuffix("s"))


def _matches(snapshot: Snapshot, found: Group, wanted: Wanted) -> bool:
    if wanted.namespace not in ("", found.identity.namespace):
        return False
    return any(wanted.name == name and wanted.kind in ("", kind) for kind, name in _known_as(snapshot, found))


def _known_as(snapshot: Snapshot, found: Group) -> Iterator[tuple[str, str]]:
    """Every kind and name by which people may know the group."""
    identity = found.identity
    yield _kind(identity.kind), identity.name
    if identity.uid:
        yield _kind(identity.kind), identity.uid
    if found.podgroup:
        yield _PODGROUP, found.podgroup.name
    for owner in _owners(snapshot, found):
        yield _kind(owner.kind), owner.name
    for member in found.members:
        yield "pod", member.name


def _owners(snapshot: Snapshot, found: Group) -> Iterator[OwnerFacts]:
    if found.owner:
        yield found.owner
    for uid in found.makers:
        if uid in snapshot.owners:
            yield snapshot.owners[uid]


def _absent(snapshot: Snapshot, groups: Mapping[str, Group], reference: str, namespace: str | None) -> str:
    """What there is instead: the same name elsewhere, or an object that is in no group."""
    asked = namespace_in(reference) or namespace
    where = f"namespace {asked}" if asked else "any namespace"
    anywhere = [Wanted(w.kind, "", w.name) for w in _readings(reference, None)]
    elsewhere = [g for g in groups.values() if any(_matches(snapshot, g, w) for w in anywhere)]
    if elsewhere:
        return f"no {reference!r} in {where}; there is {_listed(elsewhere)}"
    for wanted in _readings(reference, namespace):
        told = next(_bystanders(snapshot, wanted), "")
        if told:
            return told
    return f"no group, pod, owner or PodGroup {reference!r} in {where}"


def _bystanders(snapshot: Snapshot, wanted: Wanted) -> Iterator[str]:
    """Objects of that name that are in no group now, and why."""
    for owner in snapshot.owners.values():
        if _is(wanted, owner.kind, owner.namespace, owner.name):
            yield _idle_owner(snapshot, owner)
    for pod in snapshot.pods:
        if _is(wanted, POD, pod.namespace, pod.name):
            yield _free_pod(snapshot, pod)
    for podgroup in snapshot.podgroups:
        if _is(wanted, PODGROUP, podgroup.namespace, podgroup.name):
            yield f"PodGroup {podgroup.namespace}/{podgroup.name} exists, and no live pod or owner names it"


def _is(wanted: Wanted, kind: str, namespace: str, name: str) -> bool:
    return wanted.name == name and wanted.namespace in ("", namespace) and wanted.kind in ("", _kind(kind))


def _idle_owner(snapshot: Snapshot, owner: OwnerFacts) -> str:
    what = f"{owner.kind} {owner.namespace}/{owner.name}"
    if owner.over:
        return f"{what} is finished or being deleted: it has no live pods and no group"
    if owner.held:
        return f"{what} is suspended: its group is judged when it is resumed"
    return f"{what} makes no group: {_unmanaged(snapshot, owner.namespace)}"


def _free_pod(snapshot: Snapshot, pod: PodFacts) -> str:
    what = f"pod {pod.namespace}/{pod.name}"
    if not pod.live:
        return f"{what} has finished or is being deleted: it is in no group any more"
    if managed(snapshot.namespaces.get(pod.namespace)):
        return f"{what} stands alone: it names no group, no controller of a known kind makes it, and no gate holds it"
    return f"{what} is in no group: {_unmanaged(snapshot, pod.namespace)}, and no gate of ours holds it"


def _unmanaged(snapshot: Snapshot, namespace: str) -> str:
    if namespace not in snapshot.namespaces:
        return f"whether namespace {namespace} asks for gangs cannot be seen"
    return f"namespace {namespace} has no label {names.NAMESPACE_POLICY}=gang (or hybrid)"
