"""Who is on which node, as far as pods care about each other: host ports and anti-affinity on the hostname.

The scheduler's plugins nodeports and interpodaffinity (k8s.io/kubernetes pkg/scheduler/framework/plugins), the second
only for terms that look at the labels of pods in their own namespace. Anti-affinity binds both sides: a pod goes
neither to the node of one that it repels nor to the node of one that repels it. May know the model; asks nothing
about amounts.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from policy.rules.model import PodFacts
from policy.rules.objects import PodAffinityTerm
from policy.rules.shape import ANY_ADDRESS, selects

_Claim = tuple[str, bytes]  # a namespace, and a term that pods there have


class Company:
    """Pods by node, a node being its row in the pool. Counts, so that whoever is added can be removed again."""

    def __init__(self) -> None:
        self._ports: dict[str, Counter[int]] = {}
        self._terms: dict[_Claim, PodAffinityTerm] = {}
        self._claims: dict[_Claim, Counter[int]] = {}
        self._present: dict[str, list[tuple[int, PodFacts]]] = {}
        self._arrived: list[tuple[Sequence[int], Sequence[PodFacts]]] = []  # not sorted into _present: seldom asked for

    def add(self, rows: Sequence[int], pods: Sequence[PodFacts]) -> None:
        """Pods of one shape, each with its row."""
        self._arrived.append((rows, pods))
        shape = pods[0].shape
        if shape.host_ports or shape.alone_on_node or shape.repels:
            for row, pod in zip(rows, pods, strict=True):
                self._count(row, pod, 1)

    def remove(self, row: int, pod: PodFacts) -> None:
        self._sort()
        self._present[pod.namespace].remove((row, pod))
        self._count(row, pod, -1)

    def closed_to(self, pod: PodFacts) -> set[int]:
        """Rows where a port that the pod wants is in use, or one of the two wants no company of the other."""
        if not (self._claims or pod.shape.host_ports or pod.shape.alone_on_node or pod.shape.repels):
            return set()
        ports = (used for port in pod.shape.host_ports for name, used in self._ports.items() if clash(port, name))
        claims = (rows for claim, rows in self._claims.items() if self._repels(claim, pod))
        closed = {row for used in (*ports, *claims) for row, count in used.items() if count}
        terms = (*pod.shape.alone_on_node, *pod.shape.repels)
        if terms:
            self._sort()
            present = self._present.get(pod.namespace, ())
            closed |= {row for row, other in present if any(selects(t, other.labels) for t in terms)}
        return closed

    def outlook(self, pod: PodFacts) -> tuple[bool, ...]:
        """Which of the terms present repel the pod: pods of one shape differ to the others by their labels only."""
        if not self._claims:
            return ()
        return tuple(self._repels(claim, pod) for claim in self._claims)

    def _repels(self, claim: _Claim, pod: PodFacts) -> bool:
        return claim[0] == pod.namespace and selects(self._terms[claim], pod.labels)

    def _count(self, row: int, pod: PodFacts, step: int) -> None:
        for port in pod.shape.host_ports:
            self._ports.setdefault(port, Counter())[row] += step
        for claim, term in _claims_of(pod):
            self._terms.setdefault(claim, term)
            self._claims.setdefault(claim, Counter())[row] += step

    def _sort(self) -> None:
        for rows, pods in self._arrived:
            for row, pod in zip(rows, pods, strict=True):
                self._present.setdefault(pod.namespace, []).append((row, pod))
        self._arrived.clear()


def _claims_of(pod: PodFacts) -> Iterator[tuple[_Claim, PodAffinityTerm]]:
    for term in (*pod.shape.alone_on_node, *pod.shape.repels):
        yield (pod.namespace, msgspec.json.encode(term, order="sorted")), term


def clash(one: str, other: str) -> bool:
    """Same protocol and number, and the same address or one of them bound to all."""
    (protocol, number, address), (*other_port, other_address) = one.split("/", 2), other.split("/", 2)
    return [protocol, number] == other_port and (address == other_address or ANY_ADDRESS in (address, other_address))
