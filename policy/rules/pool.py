"""Nodes and what is free on them: an integer matrix, nodes x resources, in the scheduler's own units.

cpu counts in thousandths, the rest whole; requests are rounded up, capacity down; the number of pods is a column.
Pods of equal shape and nodes of equal state and labels are one class: a question is asked once for each pair of
classes. A Pool lives for one pass and is mutable: charges can be refunded. May know the model, node_fit and company.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from policy.rules import quantity
from policy.rules.company import Company
from policy.rules.model import NodeFacts, PodFacts, Resources, Shape
from policy.rules.node_fit import NAME, passing, referenced, refusal

Matrix = npt.NDArray[np.int64]
_LARGEST = np.iinfo(np.int64).max // 4  # a column where the shape asks for nothing never limits
_MOST_OFFERED = 1 << 50  # a petabyte, or 10^12 cores: sums of what thousands of pods ask for stay in 64 bits
_MOST_ASKED = _MOST_OFFERED + 1  # more than any node offers


class Refusals(msgspec.Struct, frozen=True):
    """Why nodes take no pod of one shape whatever is free, "" where they do: a text per class of nodes."""

    texts: tuple[str, ...]
    passing: tuple[bool, ...]  # a refusal that ends when the node is up again
    class_of: Matrix  # row -> class

    def text(self, row: int) -> str:
        return self.texts[int(self.class_of[row])]

    @property
    def now(self) -> npt.NDArray[np.bool_]:
        """Rows that refuse the shape."""
        return np.array([bool(t) for t in self.texts], dtype=np.bool_)[self.class_of]

    @property
    def lasting(self) -> npt.NDArray[np.bool_]:
        """Rows that would refuse it even if every node were up."""
        return ~np.array(self.passing, dtype=np.bool_)[self.class_of]


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
        self._shapes: dict[int, bytes] = {}
        self._vectors: dict[bytes, Matrix] = {}
        self._refusals: dict[bytes, Refusals] = {}
        self._classes: dict[tuple[str, ...], tuple[list[NodeFacts], Matrix]] = {}

    def _matrix(self) -> Matrix:
        rows = [[_offered(c, n.allocatable.get(c, 0)) for c in self.columns] for n in self.nodes]
        return np.array(rows, dtype=np.int64).reshape(len(self.nodes), len(self.columns))

    def key(self, shape: Shape) -> bytes:
        """The same for equal shapes: a snapshot that was written and read back has many objects of one shape."""
        found = self._shapes.get(id(shape))
        if found is None:
            found = self._shapes[id(shape)] = msgspec.json.encode(shape, order="sorted")
        return found

    def vector(self, shape: Shape) -> Matrix:
        """The shape's request as a row; one pod takes one place in the pods column."""
        key = self.key(shape)
        found = self._vectors.get(key)
        if found is None:
            row = [1 if c == "pods" else _asked(c, shape.requests.get(c, 0)) for c in self.columns]
            found = self._vectors[key] = np.array(row, dtype=np.int64)
        return found

    def charge_all(self, pods: Iterable[tuple[str, PodFacts]]) -> None:
        """Book pods that are on nodes, or promised to them. A node that is gone charges nothing."""
        rows: dict[int, list[int]] = {}
        shapes: dict[int, Shape] = {}
        for name, pod in pods:
            row = self.row_of.get(name)
            if row is not None:
                shapes[id(pod.shape)] = pod.shape
                rows.setdefault(id(pod.shape), []).append(row)
                self.company.add(row, pod)
        for shape, at in rows.items():
            np.subtract.at(self.free, np.array(at), self.vector(shapes[shape]))

    def charge(self, node: str, pod: PodFacts) -> None:
        """Book one pod; a node that is gone charges nothing."""
        self.charge_all([(node, pod)])

    def book(self, row: int, pod: PodFacts) -> None:
        self.free[row] -= self.vector(pod.shape)
        self.company.add(row, pod)

    def refund(self, row: int, pod: PodFacts) -> None:
        """Undo a booking."""
        self.free[row] += self.vector(pod.shape)
        self.company.remove(row, pod)

    def refusals(self, shape: Shape) -> Refusals:
        key = self.key(shape)
        found = self._refusals.get(key)
        if found is None:
            examples, class_of = self._node_classes(referenced(shape))
            texts = tuple(refusal(node, shape) for node in examples)
            later = tuple(passing(node, shape) for node in examples)
            found = self._refusals[key] = Refusals(texts, later, class_of)
        return found

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

    def capacity(self, shape: Shape, free: Matrix, refused: npt.NDArray[np.bool_]) -> Matrix:
        """How many pods of this shape each node takes, as far as amounts tell and the node does not refuse."""
        request = self.vector(shape)
        safe = np.where(request > 0, request, 1)
        counts: Matrix = np.where(request > 0, free // safe, _LARGEST).min(axis=1)
        counts = np.where(refused, 0, np.maximum(counts, 0))
        if shape.host_ports or shape.alone_on_node:
            counts = np.minimum(counts, 1)
        return np.asarray(counts, dtype=np.int64)


def _offered(resource: str, nano: int) -> int:
    return max(-_MOST_OFFERED, min(nano // _unit(resource), _MOST_OFFERED))


def _asked(resource: str, nano: int) -> int:
    return min(-(-nano // _unit(resource)), _MOST_ASKED)


def _unit(resource: str) -> int:
    """Nano units in one of the scheduler's."""
    return 10**6 if resource == "cpu" else quantity.NANO


def columns_of(shapes: Iterable[Resources]) -> set[str]:
    return {name for requests in shapes for name, amount in requests.items() if amount}
