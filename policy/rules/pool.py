"""Nodes and what is free on them: an integer matrix, nodes x resources, in the scheduler's own units.

cpu counts in thousandths, the rest whole; requests are rounded up, capacity down; the number of pods is a column.
Pods of equal shape are one kind, nodes of equal state and labels one class: a question is asked once for each pair, and
how many pods of a kind a node takes is counted anew only where something was booked since. A Pool lives for one pass
and is mutable: bookings can be refunded. May know the model, node_fit and company.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from policy.rules import quantity
from policy.rules.company import Company
from policy.rules.model import NodeFacts, PodFacts, Resources, Shape
from policy.rules.node_fit import NAME, passing, referenced, refusal

Matrix = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
_MANY = 1 << 30  # pods: where nothing is asked for, nothing limits
_MOST_OFFERED = 1 << 50  # a petabyte, or 10^12 cores: sums of what thousands of pods ask for stay in 64 bits
_MOST_ASKED = _MOST_OFFERED + 1  # more than any node offers
_MOST_KINDS = 512  # counted at the same time; each takes 8 bytes a node


@dataclass
class Kind:
    """One shape in one pool. Rows are those of the nodes."""

    shape: Shape
    request: Matrix
    refused: Mask  # rows that take no such pod, whatever is free
    refusals: dict[str, int]  # how many rows, by why
    empty: Counts  # how many each row would take if nothing ran
    up: Counts  # and if it were ready and uncordoned besides
    counts: Counts  # how many each row takes, as far as amounts tell
    lacking: Matrix  # the column of which a row has not enough for one more, -1 where it has
    seen: int = 0  # bookings that counts and lacking have taken in


class Pool:
    """Nodes and what is free on them, for one pass."""

    def __init__(self, nodes: Sequence[NodeFacts], columns: Iterable[str]) -> None:
        self.nodes = list(nodes)
        self.columns = ["pods", *sorted(set(columns) - {"pods"})]
        self.row_of = {node.name: i for i, node in enumerate(self.nodes)}
        self.rank = np.argsort(np.argsort(np.array([node.name for node in self.nodes], dtype=np.str_)))
        self.total = self._matrix()
        self.free = self.total.copy()
        self.company = Company()
        self.booked: list[int] = []  # rows, in the order of bookings and refunds
        self.shut: frozenset[int] = frozenset()  # rows that nobody is placed on for the moment
        self._keys: dict[int, bytes] = {}
        self._kinds: dict[bytes, Kind] = {}
        self._classes: dict[tuple[str, ...], tuple[list[NodeFacts], Matrix]] = {}

    def _matrix(self) -> Matrix:
        """Most nodes of a cluster offer the same."""
        known: dict[tuple[int, ...], list[int]] = {}
        rows: list[list[int]] = []
        for node in self.nodes:
            told = tuple(node.allocatable.get(column, 0) for column in self.columns)
            row = known.get(told)
            if row is None:
                row = known[told] = [_offered(c, amount) for c, amount in zip(self.columns, told, strict=True)]
            rows.append(row)
        return np.array(rows, dtype=np.int64).reshape(len(self.nodes), len(self.columns))

    # --- books -----------------------------------------------------------------------------------------------

    def charge_all(self, pods: Iterable[tuple[str, PodFacts]]) -> None:
        """Book pods that are on nodes, or promised to them. A node that is gone charges nothing."""
        found: dict[int, tuple[list[int], list[PodFacts]]] = {}
        for name, pod in pods:
            row = self.row_of.get(name)
            if row is not None:
                rows, those = found.setdefault(id(pod.shape), ([], []))
                rows.append(row)
                those.append(pod)
        for rows, those in found.values():
            np.subtract.at(self.free, np.array(rows), self.vector(those[0].shape))
            self.company.add(rows, those)
            self.booked += rows

    def charge(self, node: str, pod: PodFacts) -> None:
        """Book one pod; a node that is gone charges nothing."""
        self.charge_all([(node, pod)])

    def book(self, row: int, pods: Sequence[PodFacts]) -> None:
        """Book pods of one shape."""
        self.free[row] -= self.vector(pods[0].shape) * len(pods)
        self.company.add([row] * len(pods), pods)
        self.booked.append(row)

    def refund(self, row: int, pod: PodFacts) -> None:
        """Undo a booking."""
        self.free[row] += self.vector(pod.shape)
        self.company.remove(row, pod)
        self.booked.append(row)

    def lend(self, pods: Iterable[tuple[int, PodFacts]], *, back: bool = False) -> None:
        """Have pods on these rows take nothing there, as if they were gone, for a trial; or take it again.

        Their ports and what they repel stay: what is found so is true, if not all that is true.
        """
        by_shape: dict[int, tuple[Shape, list[int]]] = {}
        for row, pod in pods:
            by_shape.setdefault(id(pod.shape), (pod.shape, []))[1].append(row)
        for shape, rows in by_shape.values():
            np.add.at(self.free, np.array(rows), -self.vector(shape) if back else self.vector(shape))
            self.booked += rows

    def rows_for(self, shapes: Iterable[Shape]) -> Mask:
        """Rows that would take a pod of one of these shapes, were nothing there."""
        found = np.zeros(len(self.nodes), dtype=np.bool_)
        for shape in shapes:
            found |= self.kind(shape).empty > 0
        return found

    def nearest_to_free(self, rows: Mask) -> list[int]:
        """These rows, by how much of their extended resources is taken, then by how many pods, then by name."""
        chosen = np.flatnonzero(rows)
        taken = (self.total - self.free)[chosen]
        extended = [i for i, column in enumerate(self.columns) if "/" in column]
        keys = (self.rank[chosen], taken[:, 0], taken[:, extended].sum(axis=1))
        return [int(row) for row in chosen[np.lexsort(keys)]]

    def offered(self) -> Resources:
        """What all nodes offer, of the resources that the pool knows. Nano units."""
        return self._sum(self.total)

    def left(self) -> Resources:
        """What is free on nodes that are up. Nano units."""
        up = np.array([node.ready and not node.cordoned for node in self.nodes], dtype=np.bool_)
        return self._sum(np.maximum(self.free[up], 0))

    def _sum(self, rows: Matrix) -> Resources:
        return {c: int(n) * _unit(c) for c, n in zip(self.columns, rows.sum(axis=0), strict=True)}

    # --- questions -------------------------------------------------------------------------------------------

    def key(self, shape: Shape) -> bytes:
        """The same for equal shapes: a snapshot that was written and read back has many objects of one shape."""
        found = self._keys.get(id(shape))
        if found is None:
            found = self._keys[id(shape)] = msgspec.json.encode(shape, order="sorted")
        return found

    def vector(self, shape: Shape) -> Matrix:
        """The shape's request as a row; one pod takes one place in the pods column."""
        row = [1 if c == "pods" else _asked(c, shape.requests.get(c, 0)) for c in self.columns]
        return np.array(row, dtype=np.int64)

    def kind(self, shape: Shape) -> Kind:
        key = self.key(shape)
        found = self._kinds.get(key)
        if found is None:
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            found = self._kinds[key] = self._new_kind(shape)
        return found

    def _new_kind(self, shape: Shape) -> Kind:
        examples, class_of = self._node_classes(referenced(shape))
        texts = [refusal(node, shape) for node in examples]
        refused = np.array([bool(text) for text in texts], dtype=np.bool_)[class_of]
        down = ~np.array([passing(node, shape) for node in examples], dtype=np.bool_)[class_of]
        refusals: dict[str, int] = {}
        for text, count in zip(texts, np.bincount(class_of, minlength=len(texts)), strict=True):
            refusals[text] = refusals.get(text, 0) + int(count)
        refusals.pop("", None)
        request = self.vector(shape)
        empty, up = (_counts(shape, request, self.total, mask) for mask in (refused, down))
        nothing = np.empty(0, dtype=np.int32)
        return Kind(shape, request, refused, refusals, empty, up, nothing, nothing.astype(np.int64))

    def _node_classes(self, labels: tuple[str, ...]) -> tuple[list[NodeFacts], Matrix]:
        """An example of each class of nodes that a shape can tell apart, and each row's class."""
        found = self._classes.get(labels)
        if found is None:
            numbers: dict[object, int] = {}
            examples: list[NodeFacts] = []
            class_of = np.empty(len(self.nodes), dtype=np.int64)
            for row, node in enumerate(self.nodes):
                told = tuple(node.name if label == NAME else node.labels.get(label) for label in labels)
                key = (node.ready, node.cordoned, node.taints, told)
                class_of[row] = numbers.setdefault(key, len(numbers))
                if len(numbers) > len(examples):
                    examples.append(node)
            found = self._classes[labels] = examples, class_of
        return found

    def counts(self, kind: Kind) -> Counts:
        """How many pods of the kind each node takes now. Not to be written to."""
        changed = self.booked[kind.seen :]
        if len(kind.counts) != len(self.nodes) or len(changed) > len(self.nodes):
            kind.counts = _counts(kind.shape, kind.request, self.free, kind.refused)
            kind.lacking = self._lacking(kind, self.free)
        elif changed:
            rows = np.array(sorted(set(changed)), dtype=np.int64)
            kind.counts[rows] = _counts(kind.shape, kind.request, self.free[rows], kind.refused[rows])
            kind.lacking[rows] = self._lacking(kind, self.free[rows])
        kind.seen = len(self.booked)
        return kind.counts

    def _lacking(self, kind: Kind, free: Matrix) -> Matrix:
        """Of several columns that fall short an extended resource is told, else the first."""
        found = np.full(len(free), -1, dtype=np.int64)
        asked = [int(c) for c in np.flatnonzero(kind.request)]
        for column in sorted(asked, key=lambda c: ("/" not in self.columns[c], c), reverse=True):
            found[free[:, column] < kind.request[column]] = column
        return found


def _counts(shape: Shape, request: Matrix, free: Matrix, refused: Mask) -> Counts:
    """How many pods of the shape nodes with so much free take, as far as amounts tell and none refuses."""
    asked = np.flatnonzero(request)
    counts = (free[:, asked] // request[asked]).min(axis=1, initial=_MANY)
    most = 1 if shape.host_ports or shape.alone_on_node else _MANY
    return np.where(refused, 0, np.clip(counts, 0, most)).astype(np.int32)


def _offered(resource: str, nano: int) -> int:
    return max(-_MOST_OFFERED, min(nano // _unit(resource), _MOST_OFFERED))


def _asked(resource: str, nano: int) -> int:
    return min(-(-nano // _unit(resource)), _MOST_ASKED)


def _unit(resource: str) -> int:
    """Nano units in one of the scheduler's."""
    return 10**6 if resource == "cpu" else quantity.NANO


def columns_of(shapes: Iterable[Resources]) -> set[str]:
    return {name for requests in shapes for name, amount in requests.items() if amount}
