"""Up the chain of controllers, from a pod to the one whose members start together.

JobSet -> Job -> Pod, TrainJob -> JobSet -> Job -> Pod and LeaderWorkerSet -> StatefulSet -> leader Pod -> StatefulSet
-> worker Pod end at the first-named: the topmost known one that is reached without meeting a kind that nobody knows. Of
other kinds only what the gatekeeper looked up is known: until it has, their pods wait.
Only references by uid count, of one namespace. May know the model and families.
"""

from typing import Any, Final, NamedTuple

from policy import names
from policy.rules.conclusions import Problem
from policy.rules.membership import custom, families
from policy.rules.membership.families import ALONE
from policy.rules.membership.family import Family
from policy.rules.model import OwnerFacts, PodFacts, Ref, Snapshot

LONGEST_CHAIN: Final = 8  # controllers above a pod; the longest known has four
_POD: Final = ("", "Pod")
STRANGERS_NOT: Final = ALONE | {_POD}  # kinds whose objects are never looked at


class Root(NamedTuple):
    """The top of a chain, and what is wrong with it: only named there (not seen yet, gone, unreadable), or endless."""

    ref: Ref
    family: Family[Any]
    problem: Problem | None = None


class Roots:
    """The chains of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._owners = snapshot.owners
        self._unreadable = snapshot.unreadable
        self._snapshot = snapshot
        self._kinds = families.kinds(snapshot.kinds)
        self._pods: dict[str, PodFacts] | None = None
        self._found: dict[tuple[str, str], Root | None] = {}  # by namespace and uid of the nearest controller

    def of_pod(self, pod: PodFacts) -> Root | None:
        """The owner of the pod's group; None where no controller of the table stands above it."""
        if pod.above is None:
            return None
        key = (pod.namespace, pod.above.uid)
        if key not in self._found:
            self._found[key] = self._climb(pod.namespace, pod.above)
        found = self._found[key]
        return self._unseen(pod.above) if found is None and pod.gated else found

    def _unseen(self, ref: Ref) -> Root | None:
        """A controller of another kind that nobody has looked at yet: its pod may be one of a group."""
        if (ref.group, ref.kind) in STRANGERS_NOT or ref.uid in self._snapshot.unsized:
            return None
        text = f"{ref.kind} {ref.name} is of a kind that is not in the table of owners: its size is being looked up"
        return Root(ref, custom.STRANGER, Problem(names.Reason.OWNER_UNREADABLE, text))

    def of_owner(self, owner: OwnerFacts) -> Root | None:
        """The owner that it belongs to, itself where nobody of the table stands above."""
        return self._climb(owner.namespace, Ref(owner.api, owner.kind, owner.name, owner.uid))

    def beyond(self, owner: OwnerFacts) -> str:
        """For people, who stands above an owner at the top of its chain and is not looked at; "" for nobody."""
        above = owner.above
        if (
            above is None
            or owner.going
            or self._kinds.of(above.group, above.kind)
            or (above.group, above.kind) in ALONE
        ):
            return ""
        return f"{above.kind} {above.name} above {owner.called} is of a kind that is not in the table of owners"

    def _climb(self, namespace: str, nearest: Ref) -> Root | None:
        found: Root | None = None
        seen: set[str] = set()
        ref: Ref | None = nearest
        while ref is not None:
            if ref.uid in seen or len(seen) == LONGEST_CHAIN:
                return found and found._replace(problem=_endless(ref, cycle=ref.uid in seen))
            seen.add(ref.uid)
            if (ref.group, ref.kind) == _POD:
                ref = self._above_pod(namespace, ref)
                continue
            owner = self._owner(namespace, ref)
            family = self._kinds.of(ref.group, ref.kind) or (custom.STRANGER if owner else None)
            if family is None:
                break
            if found and owner and owner.going:  # what it still makes is for its own end
                break
            found = Root(ref, family, None if owner else self._missing(namespace, ref))
            ref = owner.above if owner else None
        return found

    def _above_pod(self, namespace: str, ref: Ref) -> Ref | None:
        if self._pods is None:
            self._pods = {pod.uid: pod for pod in self._snapshot.pods}
        pod = self._pods.get(ref.uid)
        return pod.above if pod is not None and pod.namespace == namespace else None

    def _owner(self, namespace: str, ref: Ref) -> OwnerFacts | None:
        """A tenant may write any uid into a reference, also one of another namespace or kind."""
        owner = self._owners.get(ref.uid)
        known = owner is not None and (owner.kind, owner.api, owner.namespace) == (ref.kind, ref.group, namespace)
        return owner if known else None

    def _missing(self, namespace: str, ref: Ref) -> Problem:
        right = self._unreadable.get(f"{ref.kind}.{ref.group}")
        if right:
            text = f"{ref.kind} {ref.name} cannot be read: the right to {right} is missing"
            return Problem(names.Reason.OWNER_UNREADABLE, text)
        return gone(ref.kind, ref.name, ref.uid, namespace)


def gone(kind: str, name: str, uid: str, namespace: str) -> Problem:
    return Problem(names.Reason.OWNER_GONE, f"{kind} {name!r} (uid {uid}) does not exist in namespace {namespace!r}")


def _endless(ref: Ref, *, cycle: bool) -> Problem:
    what = "turns in a circle" if cycle else f"has more than {LONGEST_CHAIN} levels"
    return Problem(names.Reason.OWNER_UNREADABLE, f"the chain of controllers {what} at {ref.kind} {ref.name}")
