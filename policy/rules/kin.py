"""Which facts can only be understood together: pods, owners and PodGroups that point at one another.

They point by uid, as owner references do, or by the name of a PodGroup. What one kin's groups are depends on nothing
of another's. May know the model and identities.
"""

from collections.abc import Iterable, Iterator

from policy.rules.membership.identity import Identity
from policy.rules.model import OwnerFacts, PodFacts, PodGroupFacts

Relative = PodFacts | OwnerFacts | PodGroupFacts


class Kin:
    """Facts of one kin, and all ties among them."""

    __slots__ = ("facts", "ties")

    def __init__(self) -> None:
        self.facts: list[Relative] = []
        self.ties: list[str] = []


def ties(fact: Relative) -> list[str]:
    """The uids and names by which others may point at the fact, or it at them."""
    if isinstance(fact, PodFacts):
        return _of_pod(fact)
    if isinstance(fact, OwnerFacts):
        return [fact.uid, *([fact.above.uid] if fact.above else ()), *_of_identities(fact)]
    named = f"{fact.namespace}/{fact.name}"
    return [named, fact.controller] if fact.controller else [named]


def _of_pod(pod: PodFacts) -> list[str]:
    found = [pod.uid]
    if pod.above is not None:
        found.append(pod.above.uid)
    if pod.owner and (pod.above is None or pod.owner != pod.above.uid):
        found.append(pod.owner)
    if pod.group is not None and pod.group.uid not in found:
        found.append(_of_identity(pod.group))
    return found


def _of_identities(owner: OwnerFacts) -> Iterator[str]:
    yield from (_of_identity(named) for named in (owner.group, *(part.group for part in owner.parts)) if named)


def _of_identity(identity: Identity) -> str:
    """No uid has a slash."""
    return identity.uid or f"{identity.namespace}/{identity.name}"


def kins(facts: Iterable[Relative]) -> list[Kin]:
    """The facts by kin."""
    of: dict[str, Kin] = {}
    for fact in facts:
        own = ties(fact)
        kin: Kin | None = None
        for tie in own:
            other = of.get(tie)
            if other is not None and other is not kin:
                kin = other if kin is None else _joined(kin, other, of)
        kin = kin or Kin()
        kin.facts.append(fact)
        for tie in own:
            if tie not in of:
                of[tie] = kin
                kin.ties.append(tie)
    return list({id(kin): kin for kin in of.values()}.values())


def _joined(one: Kin, other: Kin, of: dict[str, Kin]) -> Kin:
    """The smaller goes into the larger: no fact moves more often than the number of facts has binary digits."""
    small, large = sorted((one, other), key=lambda kin: len(kin.ties))
    of.update(dict.fromkeys(small.ties, large))
    large.ties += small.ties
    large.facts += small.facts
    return large
