"""From a Snapshot to its groups: how many members there must be, their queue, priority and age.

Whose members they are is told by policy.rules.belonging. May know the model and how groups are sized.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from policy import names
from policy.rules import group_size, notes, order
from policy.rules.belonging import COSCHEDULING_FIRST, NAMED, VOLCANO_FIRST, Index, Surroundings, by_dialect
from policy.rules.conclusions import Absent, Group, Problem
from policy.rules.membership.identity import NATIVE, POD, Identity
from policy.rules.model import OwnerFacts, PodFacts, PodGroupFacts, Snapshot
from policy.rules.roots import gone


def groups_of(snapshot: Snapshot) -> dict[str, Group]:
    """Every group of the snapshot by key, in a stable order."""
    return {group.key: group for group in sorted(built(snapshot, Surroundings(snapshot)), key=order.key)}


def built(snapshot: Snapshot, around: Surroundings) -> list[Group]:
    """The groups of the snapshot, or of a part of it that nothing outside it points at; in no order."""
    index = Index(snapshot, around)
    return [_build(index, identity, index.members.get(key, [])) for key, identity in index.identities.items()]


class _Basis(NamedTuple):
    """What a group rests on: who makes it, how large it must be, and what is wrong with that."""

    uid: str
    minimum: int
    possible: int | None
    source: str
    owners: Sequence[OwnerFacts] = ()
    podgroup: PodGroupFacts | None = None
    problem: Problem | None = None
    note: str = ""


def _build(index: Index, identity: Identity, pods: list[PodFacts]) -> Group:
    live = sorted([p for p in pods if p.live], key=order.member_key)
    others = [p for p in pods if not p.live] if len(live) < len(pods) else []
    basis = _basis(index, identity, live)
    minimum = group_size.left(basis.minimum, basis.possible, basis.owners, others)
    due = group_size.due(basis.owners, live, minimum, index.around.sizes.of)
    if basis.podgroup is not None and basis.podgroup.min_task_member:
        due = group_size.by_task(due, live, basis.podgroup.min_task_member)
    queue = next(filter(None, _queue_candidates(index, identity, basis, live)), names.DEFAULT_QUEUE)
    singly = queue in index.snapshot.queues and index.snapshot.queues[queue].policy == names.Policy.BINPACK
    if singly:
        due = due._replace(minimum=1, absent=(), later=())
    leaving = [p for p in others if not p.over]
    return Group(
        identity,
        basis.uid,
        due.minimum,
        basis.possible,
        f"annotation {names.ANNOTATION_POLICY} of queue {queue}" if singly else basis.source,
        due.order,
        leaving=len(leaving),
        going=tuple(sorted((p for p in leaving if not p.gated), key=order.member_key)),
        succeeded=group_size.succeeded_since_lift(others, live) if others else 0,
        queue=queue,
        priority=_priority(index, basis, live, due.absent),
        created=_created(basis, live),
        absent=due.absent,
        later=due.later,
        waits=due.waits,
        continues=group_size.continues(basis.owners, others),
        makers=index.makers.of(basis.owners),
        podgroup=basis.podgroup,
        owners=tuple(basis.owners),
        problem=basis.problem,
        note=basis.note,
    )


def _basis(index: Index, identity: Identity, live: list[PodFacts]) -> _Basis:
    if identity.kind == POD:
        return _alone(index, live[0])
    if identity.kind in NAMED:
        return _named(index, identity, live)
    return _owned(index, identity, live)


def _alone(index: Index, pod: PodFacts) -> _Basis:
    problem = Problem(names.Reason.PODGROUP_INVALID, pod.problem) if pod.problem else None
    why = index.snapshot.unsized.get(pod.above.uid, "") if pod.above else notes.claimed(pod)
    note = f"it stands alone, since {why}" if why else ""
    return _Basis(pod.uid, 1, 1, "the pod alone", problem=problem, note=note)


def _owned(index: Index, identity: Identity, live: list[PodFacts]) -> _Basis:
    """A group whose identity is its controller."""
    owner = index.owner_of(identity)
    if owner is None:
        root = index.roots.of_pod(live[0]) if live else None
        missing = gone(identity.kind, identity.name, identity.uid, identity.namespace)
        return _Basis(identity.uid, 1, None, "unknown", problem=(root and root.problem) or missing)
    minimum = owner.min_member or max(1, owner.size.minimum)
    source = f"annotation {names.GROUP_MIN_MEMBER}" if owner.min_member else owner.size.source
    problem = Problem(names.Reason.PODGROUP_INVALID, owner.problem) if owner.problem else None
    told, podgroup = f"{source} of {owner.called}", index.podgroup_of(owner, identity.part)
    possible = len(live) if owner.over else owner.size.possible  # one that is over makes nobody anew
    note = index.roots.beyond(owner)
    return _Basis(owner.uid, minimum, possible, told, (owner,), podgroup, problem, note)


def _named(index: Index, identity: Identity, live: list[PodFacts]) -> _Basis:
    """A group whose identity is a name that its pods give."""
    owners = index.makers.naming.get(identity.key, [])
    podgroup = _find(index, identity)
    minimum, source, problem = group_size.named_size(identity, podgroup, owners, live)
    uid, note = (
        podgroup.uid if podgroup else "",
        notes.several(index.podgroups.get((identity.namespace, identity.name), []), podgroup),
    )
    done = bool(live) and not owners and all(index.over(p.owner) for p in live)
    possible = len(live) if done else group_size.possible(owners, live)
    return _Basis(uid, minimum, possible, source, owners, podgroup, problem, note)


def _find(index: Index, identity: Identity) -> PodGroupFacts | None:
    if identity.kind == NATIVE:
        return None
    preferred = COSCHEDULING_FIRST if identity.how.startswith("label ") else VOLCANO_FIRST
    found = index.podgroups.get((identity.namespace, identity.name), [])
    return next(by_dialect(found, preferred), None)


def _queue_candidates(index: Index, identity: Identity, basis: _Basis, live: list[PodFacts]) -> Iterator[str]:
    yield from (m.lifted.queue for m in live if m.lifted and not m.gated)  # charged there
    podgroup = basis.podgroup
    if podgroup and not podgroup.ours and podgroup.queue != names.DEFAULT_QUEUE:
        yield podgroup.queue
    yield from (m.queue for m in live)
    yield from (owner.queue for owner in basis.owners[:1])
    namespace = index.snapshot.namespaces.get(identity.namespace)
    yield from namespace.queues[:1] if namespace else ()


def _priority(index: Index, basis: _Basis, live: list[PodFacts], absent: Iterable[Absent]) -> int:
    """The PodGroup's class, else the lowest member's, else what the template's class says."""
    classes = index.snapshot.priority_classes
    if basis.podgroup and basis.podgroup.priority_class in classes:
        return classes[basis.podgroup.priority_class]
    if live:
        return min(m.shape.priority for m in live)
    return min((classes.get(a.shape.priority_class, 0) for a in absent), default=0)


def _created(basis: _Basis, live: list[PodFacts]) -> float:
    """Age counts from the oldest owner that is not over, whether it has pods now or gave them back.

    A PodGroup lives longer than its runs: without owners, from the oldest live member.
    """
    if basis.owners:
        return basis.owners[0].created
    if live:
        return min(m.created for m in live)
    return basis.podgroup.created if basis.podgroup else 0.0
