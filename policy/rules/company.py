"""Who is on which node, as far as pods care about each other: host ports, affinity and anti-affinity, even spread.

The scheduler's plugins nodeports, interpodaffinity and podtopologyspread (k8s.io/kubernetes pkg/scheduler/framework/
plugins). Anti-affinity binds both sides: a pod goes neither to the node of one that it repels nor to the node of one
that repels it. Terms that cannot be judged for a pod that waits still close nodes to others once that pod is there: as
many as they may mean. May know the model; asks nothing about amounts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from policy import names
from policy.rules.domains import Rows
from policy.rules.model import PodFacts, Shape
from policy.rules.objects import PodAffinityTerm
from policy.rules.shape import ANY_ADDRESS, picks, selects

_Claim = tuple[str, bytes]  # a namespace, and a term that pods there have


class Company:
    """Pods by node, a node being its row in the pool. Counts, so that whoever is added can be removed again.

    `domains` numbers the values that rows have of a label, -1 for none.
    """

    def __init__(self, domains: Callable[[str], Rows]) -> None:
        self._domains = domains
        self._ports: dict[str, Counter[int]] = {}
        self._terms: dict[_Claim, PodAffinityTerm] = {}
        self._claims: dict[_Claim, Counter[int]] = {}
        self._bonds: dict[_Claim, tuple[tuple[PodAffinityTerm, ...], Counter[int]]] = {}
        self._looked_at: dict[str, None] = {}  # labels that any of these terms look at
        self._outlooks: dict[tuple[str | None, ...], tuple[bool, ...]] = {}  # by namespace and these labels
        self._present: dict[str, list[tuple[int, PodFacts]]] = {}
        self._arrived: list[tuple[Sequence[int], Sequence[PodFacts]]] = []  # not sorted into _present: seldom asked for

    # --- books -----------------------------------------------------------------------------------------------

    def add(self, rows: Sequence[int], pods: Sequence[PodFacts]) -> None:
        """Pods of one shape, each with its row."""
        self._arrived.append((rows, pods))
        shape = pods[0].shape
        if shape.host_ports or shape.beside or repelling(shape):
            for row, pod in zip(rows, pods, strict=True):
                self._count(row, pod, 1)

    def remove(self, row: int, pod: PodFacts) -> None:
        self._sort()
        self._present[pod.namespace].remove((row, pod))
        self._count(row, pod, -1)

    def _count(self, row: int, pod: PodFacts, step: int) -> None:
        for port in pod.shape.host_ports:
            self._ports.setdefault(port, Counter())[row] += step
        for term in repelling(pod.shape):
            claim = (pod.namespace, msgspec.json.encode(term, order="sorted"))
            if claim not in self._claims:
                self._terms[claim], self._claims[claim] = term, Counter()
                self._look((term,))
            self._claims[claim][row] += step
        if pod.shape.beside and not pod.node:
            claim = (pod.namespace, msgspec.json.encode(pod.shape.beside, order="sorted"))
            if claim not in self._bonds:
                self._bonds[claim] = pod.shape.beside, Counter()
                self._look(pod.shape.beside)
            self._bonds[claim][1][row] += step

    def _look(self, terms: Iterable[PodAffinityTerm]) -> None:
        """New terms: what was told of labels is told no more."""
        self._outlooks.clear()
        for selector in (term.label_selector for term in terms if term.label_selector):
            keys = (*(selector.match_labels or {}), *(r.key for r in selector.match_expressions))
            self._looked_at |= dict.fromkeys(keys)

    def _sort(self) -> None:
        for rows, pods in self._arrived:
            for row, pod in zip(rows, pods, strict=True):
                self._present.setdefault(pod.namespace, []).append((row, pod))
        self._arrived.clear()

    def _there(self, namespace: str) -> Sequence[tuple[int, PodFacts]]:
        self._sort()
        return self._present.get(namespace, ())

    # --- questions -------------------------------------------------------------------------------------------

    def closed_to(self, pod: PodFacts) -> set[int]:
        """Rows where a port that the pod wants is in use, or one of the two wants no company of the other."""
        terms = (*pod.shape.alone_on_node, *pod.shape.repels)
        if not (self._claims or pod.shape.host_ports or terms):
            return set()
        ports = (used for port in pod.shape.host_ports for name, used in self._ports.items() if clash(port, name))
        closed = {row for used in ports for row, count in used.items() if count}
        for claim, used in self._claims.items():
            if self._repels(claim, pod):
                closed |= self._near(self._terms[claim].topology_key, {row for row, count in used.items() if count})
        if terms:
            there = self._there(pod.namespace)
            closed |= {row for row, other in there if any(selects(t, other.labels) for t in terms)}
        return closed

    def joined(self, pod: PodFacts) -> set[int]:
        """Rows of pods that all of its affinity terms select; it goes to one of these where there are any."""
        there = self._there(pod.namespace)
        return {row for row, other in there if likes(pod.shape.beside, other)}

    def bound_to(self, pod: PodFacts) -> set[int] | None:
        """Rows where pods are expected that want this one beside them; None where nobody does.

        Were it bound elsewhere, and before them, they could not go any more to the node that they are pinned to: unless
        one like it is there, or will be without asking for company itself.
        """
        here = [bond for (space, _), bond in self._bonds.items() if space == pod.namespace]
        found = [self._alone(pod.namespace, terms, used) for terms, used in here if likes(terms, pod)]
        rows = [each for each in found if each]
        return set.intersection(*rows) if rows else None

    def _alone(self, namespace: str, terms: tuple[PodAffinityTerm, ...], used: Counter[int]) -> set[int]:
        """Of the rows used those where nobody else keeps the place for pods of such terms."""
        there = self._there(namespace)
        kept = {row for row, other in there if (other.node or not other.shape.beside) and likes(terms, other)}
        return {row for row, count in used.items() if count and row not in kept}

    def alike(self, pod: PodFacts) -> Rows:
        """For each pod that its spread counts, the row: those of its namespace but the terminating ones."""
        spread = pod.shape.spread
        found = (
            row
            for row, other in self._there(pod.namespace)
            if spread and other.deleted is None and picks(spread.label_selector, other.labels)
        )
        return np.fromiter(found, dtype=np.int64)

    @property
    def indifferent(self) -> bool:
        """Nobody there minds who comes."""
        return not (self._claims or self._bonds)

    def outlook(self, pod: PodFacts) -> tuple[bool, ...]:
        """Which of the terms present mean the pod: pods of one shape differ to the others by their labels only.

        Of those only the ones that terms look at: a pod's number among its siblings is none of them.
        """
        told = (pod.namespace, *(pod.labels.get(key) for key in self._looked_at))
        found = self._outlooks.get(told)
        if found is None:
            bonds = ((space, terms) for (space, _), (terms, _) in self._bonds.items())
            liked = tuple(space == pod.namespace and likes(terms, pod) for space, terms in bonds)
            found = self._outlooks[told] = tuple(self._repels(claim, pod) for claim in self._claims) + liked
        return found

    def _near(self, key: str, rows: set[int]) -> set[int]:
        """Rows of the same domain; by hostname each row is its own."""
        if key == names.HOSTNAME_LABEL or not rows:
            return rows
        domains = self._domains(key)
        own = np.unique(domains[list(rows)])
        return set(map(int, np.flatnonzero(np.isin(domains, own[own >= 0]))))

    def _repels(self, claim: _Claim, pod: PodFacts) -> bool:
        term = self._terms[claim]
        return _may_mean(term, claim[0], pod.namespace) and selects(term, pod.labels)


def repelling(shape: Shape) -> tuple[PodAffinityTerm, ...]:
    """All of its anti-affinity."""
    return (*shape.alone_on_node, *shape.repels, *shape.repels_afar)


def likes(terms: tuple[PodAffinityTerm, ...], pod: PodFacts) -> bool:
    return all(selects(t, pod.labels) for t in terms)


def _may_mean(term: PodAffinityTerm, own: str, other: str) -> bool:
    """Whether a term of a pod in namespace `own` looks at namespace `other`; a selector of namespaces may pick any."""
    if term.namespace_selector is not None:
        return True
    return other in term.namespaces if term.namespaces else other == own


def clash(one: str, other: str) -> bool:
    """Same protocol and number, and the same address or one of them bound to all."""
    (protocol, number, address), (*other_port, other_address) = one.split("/", 2), other.split("/", 2)
    return [protocol, number] == other_port and (address == other_address or ANY_ADDRESS in (address, other_address))
