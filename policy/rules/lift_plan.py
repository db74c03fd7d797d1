"""A lift as a plan of safe writes: which patches, in which order, and what each leaves behind.

The generator yields the next write; the shell carries it out, conditionally, and on any failure stops and lets the
next pass re-derive the rest from what the cluster shows. Every interrupted prefix is a state that decide() finishes:
before the first patch nothing is lifted and the group is judged anew; after it, the annotation of the lifted members
carries the frozen minMember. Patches are strategic merges keyed by name and conditional on the uid, so that neither a
gate of somebody else nor a pod of the same name but another life is touched. May know the model and names.
"""

from collections.abc import Iterator
from hashlib import sha256

import msgspec

from policy import names
from policy.rules import binding, promise
from policy.rules.belonging import own_podgroup
from policy.rules.conclusions import Decision, Group
from policy.rules.membership.identity import LITE, NATIVE, POD
from policy.rules.model import Lifted, PodFacts
from policy.rules.objects import NodeSelectorTerm, SelectorRequirement


class Report(msgspec.Struct, frozen=True):
    """Tell the PodGroup before the first gate goes. A report, never an input."""

    group: str


class LiftPatch(msgspec.Struct, frozen=True):
    """Remove our gate from one pod and pin it, in one strategic merge patch."""

    namespace: str
    name: str
    uid: str
    node: str
    body: bytes
    kind: str = ""  # alike for pods that admission would treat alike


Write = Report | LiftPatch


def plan(group: Group, decision: Decision, now: float, *, pin: bool = True) -> Iterator[Write]:
    """The writes of one decision, the report first, then members in their order of release."""
    yield Report(group.key)
    lifted, kinds = terms(group, decision, now), Kinds()
    for member in group.members:
        if member.uid in decision.places:
            node = decision.places[member.uid] if pin else ""
            patch = body(group, member, lifted, node)
            yield LiftPatch(member.namespace, member.name, member.uid, node, patch, kinds.of(member))


class Kinds:
    """Names classes of pods, as far as others' admission can tell them apart: by namespace, labels and shape.

    Of labels the keys only: members of one job differ in the values of an index or a name.
    """

    def __init__(self) -> None:
        self._shapes: dict[int, str] = {}

    def of(self, member: PodFacts) -> str:
        known = id(member.shape)
        if known not in self._shapes:
            self._shapes[known] = sha256(msgspec.json.encode(member.shape, order="sorted")).hexdigest()[:16]
        return "/".join([member.namespace, self._shapes[known], *sorted(member.labels)])


def terms(group: Group, decision: Decision, now: float) -> Lifted:
    """What the lift freezes: how many must run together, since when, which room in which queue is theirs.

    And who was there when it began, so that those made anew can be told from them. As long as nobody who is left can
    have run with the others it begins again: whoever was lost before has no part in this life of the group.
    """
    began = binding.beginning(group) if binding.may_have_run(group) else None
    return Lifted(
        min=decision.need,
        at=now,
        queue=group.queue,
        room=promise.room(group),
        present=began.present if began else len(group.members),
        newest=began.newest if began else max((m.created for m in group.members), default=0.0),
    )


def body(group: Group, member: PodFacts, lifted: Lifted, node: str) -> bytes:
    """The patch: uid as precondition, marks, our gate deleted by name, the pin where there is a node."""
    spec: dict[str, object] = {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}
    if node:
        required = {"nodeSelectorTerms": [msgspec.to_builtins(t) for t in pinned_terms(member, node)]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    metadata: dict[str, object] = {"uid": member.uid, "annotations": annotations(group, member, lifted)}
    if group.identity.kind != POD:  # the webhook sees a pod's nearest controller only, and no object
        metadata["labels"] = {names.LABEL_GROUP: group.identity.label}
    return msgspec.json.encode({"metadata": metadata, "spec": spec})


def annotations(group: Group, member: PodFacts, lifted: Lifted) -> dict[str, str]:
    """The frozen terms, and the names of group and queue as other tools look for them.

    A queue that the pod names stays: its PodGroup's may be another, and a pod with two names would belong to no group.
    """
    found = {names.ANNOTATION_LIFTED: msgspec.json.encode(lifted, order="deterministic").decode()}
    if not member.queue:
        found[names.QUEUE_NAME] = group.queue
    name = podgroup_name(group)
    if name:
        found[names.GROUP_NAME] = name
    return found


def podgroup_name(group: Group) -> str:
    """The PodGroup that stands for the group; "" for a pod alone or a group that never has an object."""
    if group.identity.kind in (POD, NATIVE, LITE):
        return ""
    return own_podgroup(group.identity.uid, group.identity.part) if group.identity.uid else group.identity.name


def pinned_terms(member: PodFacts, node: str) -> tuple[NodeSelectorTerm, ...]:
    """The node, added to every required term that the pod has: a gated pod's terms may only be narrowed (KEP-3838)."""
    here = SelectorRequirement("metadata.name", "In", (node,))
    terms = member.shape.node_terms or (NodeSelectorTerm(),)
    return tuple(NodeSelectorTerm(t.match_expressions, (*t.match_fields, here)) for t in terms)
