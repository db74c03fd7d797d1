"""Nodes and what is free on them: an integer matrix, nodes x resources, in the scheduler's own units.

cpu counts in thousandths, the rest whole; requests are rounded up, capacity down; the number of pods is a column.
Pods of equal shape are one kind, nodes of equal state and labels one class: a question is asked once for each pair, and
how many pods of a kind a node takes is counted anew only where something was booked since. A Pool lives for one pass
and is mutable: bookings can be refunded. May know the model, node_fit and company.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat

import msgspec
import numpy as np
import numpy.typing as npt

from policy.rules.company import Company
from policy.rules.model import NodeFacts, PodFacts, Resources, Shape
from policy.rules.node_fit import NAME, passing, referenced, refusal, selected
from policy.rules.units import asked_units, offered_units, unit

Matrix = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_MANY = 1 << 30  # pods: where nothing is asked for, nothing limits
GRADES = 3  # of what a row lacks: it has none at all, too little, or what it has is in use
NOWHERE = np.iinfo(np.int64).max
_FEW = 64  # rows that are better booked one by one
_MOST_KINDS = 512  # counted at the same time; each takes 32 bytes a node


def _none() -> Matrix:
    return np.empty(0, dtype=np.int64)


@dataclass
class Kind:
    """One shape in one pool. Rows are those of the nodes."""

    shape: Shape
    request: Matrix
    refused: Mask  # rows that take no such pod, whatever is free
    refusals: dict[str, int]  # how many rows, by why
    empty: Counts  # how many each row would take if nothing ran
    up: Counts  # and if it were ready and uncordoned besides
    asked: list[int]  # columns
    scarce: list[int]  # columns by which nodes are filled: extended resources, else any but the number of pods
    counts: Counts = field(default_factory=_none)  # how many each row takes, as far as amounts tell
    free: Matrix = field(default_factory=_none)  # of the first scarce column, where a row takes any; else NOWHERE
    seen: int = 0  # bookings that counts and free have taken in
    lacks: Matrix = field(default_factory=_none)  # what each row is short of
    weighed: int = 0  # bookings that lacks has taken in
    short: dict[int, tuple[int, object]] = field(default_factory=dict)  # by pods wanted: bookings by then, the shortage


class Pool:
    """Nodes and what is free on them, for one pass. Rows stand in the order of names."""

    def __init__(self, nodes: Sequence[NodeFacts], columns: Iterable[str]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.columns = ["pods", *sorted(set(columns) - {"pods"})]
        self.row_of = {node.name: i for i, node in enumerate(self.nodes)}
        self.total = self._matrix()
        self.free = self.total.copy()
        self.company = Company(self.domains)
        self.booked: list[int] = []  # rows, in the order of bookings and refunds
        self.shut: frozenset[int] = frozenset()  # rows that nobody is placed on for the moment
        self._keys: dict[int, bytes] = {}
        self._vectors: dict[int, Matrix] = {}
        self._kinds: dict[bytes, Kind] = {}
        self._classes: dict[tuple[str, ...], tuple[list[NodeFacts], Matrix]] = {}
        self._values: dict[str, tuple[dict[str, int], Matrix]] = {}

    def _matrix(self) -> Matrix:
        """Most nodes of a cluster offer the same."""
        known: dict[tuple[int, ...], list[int]] = {}
        rows: list[list[int]] = []
        for node in self.nodes:
            told = tuple(node.allocatable.get(column, 0) for column in self.columns)
            row = known.get(told)
            if row is None:
                row = known[told] = [offered_units(c, amount) for c, amount in zip(self.columns, told, strict=True)]
            rows.append(row)
        return np.array(rows, dtype=np.int64).reshape(len(self.nodes), len(self.columns))

    # --- books -----------------------------------------------------------------------------------------------

    def charge_all(self, placed: Iterable[tuple[list[str], list[PodFacts]]]) -> None:
        """Book pods, each time of one shape, and their nodes, or promised ones; one that is gone charges nothing."""
        for names, pods in placed:
            rows = list(map(self.row_of.get, names, repeat(-1)))
            those = pods if min(rows, default=0) >= 0 else [p for row, p in zip(rows, pods, strict=True) if row >= 0]
            if those:
                rows = rows if those is pods else [row for row in rows if row >= 0]
                self._take(rows, self.vector(pods[0].shape))
                self.company.add(rows, those)
                self.booked += rows

    def _take(self, rows: list[int], each: Matrix) -> None:
        if len(rows) < _FEW:
            np.subtract.at(self.free, rows, each)
        else:
            self.free -= np.outer(np.bincount(rows, minlength=len(self.nodes)), each)

    def charge(self, node: str, pod: PodFacts) -> None:
        """Book one pod; a node that is gone charges nothing."""
        self.charge_all([([node], [pod])])

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
        keys = (chosen, taken[:, 0], taken[:, extended].sum(axis=1))
        return [int(row) for row in chosen[np.lexsort(keys)]]

    def offered(self) -> Resources:
        """What all nodes offer, of the resources that the pool knows. Nano units."""
        return self._sum(self.total)

    def left(self) -> Resources:
        """What is free on nodes that are up. Nano units."""
        return self._sum(np.maximum(self.free[self._up], 0))

    @cached_property
    def _up(self) -> Mask:
        return np.array([node.ready and not node.cordoned for node in self.nodes], dtype=np.bool_)

    def _sum(self, rows: Matrix) -> Resources:
        return {c: int(n) * unit(c) for c, n in zip(self.columns, rows.sum(axis=0), strict=True)}

    # --- questions -------------------------------------------------------------------------------------------

    def key(self, shape: Shape) -> bytes:
        """The same for equal shapes: a snapshot that was written and read back has many objects of one shape."""
        found = self._keys.get(id(shape))
        if found is None:
            found = self._keys[id(shape)] = msgspec.json.encode(shape, order="sorted")
        return found

    def vector(self, shape: Shape) -> Matrix:
        """The shape's request as a row; one pod takes one place in the pods column."""
        found = self._vectors.get(id(shape))
        if found is None:
            row = [1 if c == "pods" else asked_units(c, shape.requests.get(c, 0)) for c in self.columns]
            found = self._vectors[id(shape)] = np.array(row, dtype=np.int64)
        return found

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
        asked = np.flatnonzero(request).tolist()
        extended = [c for c in asked if "/" in self.columns[c]]
        scarce = extended or [c for c in asked if self.columns[c] != "pods"] or [0]
        empty, up = (_counts(shape, request, asked, self.total, mask) for mask in (refused, down))
        return Kind(shape, request, refused, refusals, empty, up, asked, scarce)

    @cached_property
    def _states(self) -> Matrix:
        """The number of each row's state and taints: most are alike."""
        numbers: dict[object, int] = {}
        told = (numbers.setdefault((n.ready, n.cordoned, n.taints), len(numbers)) for n in self.nodes)
        return np.fromiter(told, dtype=np.int64, count=len(self.nodes))

    def _node_classes(self, labels: tuple[str, ...]) -> tuple[list[NodeFacts], Matrix]:
        """An example of each class of nodes that a shape can tell apart, and each row's class."""
        found = self._classes.get(labels)
        if found is None:
            class_of = self._states
            for label in labels:
                apart = class_of * (len(self.values(label)) + 1) + self.domains(label) + 1
                class_of = np.unique(apart, return_inverse=True)[1]
            _, first, class_of = np.unique(class_of, return_index=True, return_inverse=True)
            found = self._classes[labels] = [self.nodes[row] for row in first.tolist()], class_of
        return found

    def selected(self, shape: Shape) -> Mask:
        """Rows that selector and required affinity allow, whatever their state."""
        examples, class_of = self._node_classes(referenced(shape))
        return np.array([selected(node, shape) for node in examples], dtype=np.bool_)[class_of]

    def values(self, label: str) -> dict[str, int]:
        """Values of a label, NAME among labels, numbered in their order."""
        return self._labelled(label)[0]

    def domains(self, label: str) -> Matrix:
        """The number of each row's value of a label, -1 for rows without it."""
        return self._labelled(label)[1]

    def _labelled(self, label: str) -> tuple[dict[str, int], Matrix]:
        found = self._values.get(label)
        if found is None:
            told = [node.name if label == NAME else node.labels.get(label) for node in self.nodes]
            numbers = {value: number for number, value in enumerate(sorted({v for v in told if v is not None}))}
            rows = np.array([-1 if value is None else numbers[value] for value in told], dtype=np.int64)
            found = self._values[label] = numbers, rows
        return found

    @cached_property
    def labels(self) -> list[str]:
        """Keys of all labels, in order."""
        return sorted({key for node in self.nodes for key in node.labels})

    def counts(self, kind: Kind) -> Counts:
        """How many pods of the kind each node takes now. Not to be written to."""
        changed = self.booked[kind.seen :]
        kind.seen = len(self.booked)
        if len(kind.counts) != len(self.nodes) or len(changed) > len(self.nodes):
            kind.counts = _counts(kind.shape, kind.request, kind.asked, self.free, kind.refused)
            kind.free = np.where(kind.counts > 0, self.free[:, kind.scarce[0]], NOWHERE)
        elif changed:
            rows = list(set(changed))
            free = self.free[rows]
            counts = _counts(kind.shape, kind.request, kind.asked, free, kind.refused[rows])
            kind.counts[rows] = counts
            kind.free[rows] = np.where(counts > 0, free[:, kind.scarce[0]], NOWHERE)
        return kind.counts

    def lacking(self, kind: Kind) -> Matrix:
        """Of what each row has not enough for one more, as column x GRADES + grade; -1 where it has."""
        changed = self.booked[kind.weighed :]
        kind.weighed = len(self.booked)
        if len(kind.lacks) != len(self.nodes) or len(changed) > len(self.nodes):
            kind.lacks = self._lacks(kind, self.free, self.total)
        elif changed:
            rows = list(set(changed))
            kind.lacks[rows] = self._lacks(kind, self.free[rows], self.total[rows])
        return kind.lacks

    def _lacks(self, kind: Kind, free: Matrix, total: Matrix) -> Matrix:
        """Of several an extended resource is told, else the first."""
        found = np.full(len(free), -1, dtype=np.int64)
        for column in sorted(kind.asked, key=lambda c: ("/" not in self.columns[c], c), reverse=True):
            own, request = total[:, column], kind.request[column]
            grade = (own > 0).astype(np.int64) + (own >= request)
            found = np.where(free[:, column] < request, column * GRADES + grade, found)
        return found


def _counts(shape: Shape, request: Matrix, asked: list[int], free: Matrix, refused: Mask) -> Counts:
    """How many pods of the shape nodes with so much free take, as far as amounts tell and none refuses."""
    most = 1 if shape.host_ports or shape.alone_on_node else _MANY
    counts = np.full(len(free), most, dtype=np.int64)
    for column in asked:
        np.minimum(counts, free[:, column] // request[column], out=counts)
    counts[refused | (counts < 0)] = 0
    return counts


def columns_of(shapes: Iterable[Resources]) -> set[str]:
    return {name for requests in shapes for name, amount in requests.items() if amount}
