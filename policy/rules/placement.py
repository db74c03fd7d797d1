"""A node for every member, or which nodes fall short and why.

Free capacity is an integer matrix, nodes x resources, in the scheduler's own units (cpu in thousandths, the rest
whole, rounded up; the pods count is a column), with all pods of the cluster and all promises charged. Pods of one shape
are one class: without inter-pod rules the answer for one class is exact; several classes go largest first, each onto
the fullest nodes that take it. A Pool lives for one pass and is the only mutable thing here; a trial that fails leaves
it as it was. May know the model, node_fit and quantities.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from policy.rules import quantity
from policy.rules.model import NodeFacts, PodFacts, Resources, Shape
from policy.rules.node_fit import refusal
from policy.rules.shape import ANY_ADDRESS, selects

Matrix = npt.NDArray[np.int64]
Mark = tuple["Matrix", dict[str, set[int]], dict[int, list[PodFacts]]]
_LARGEST = np.iinfo(np.int64).max // 4  # a column where the shape asks for nothing never limits


class NodesShort(msgspec.Struct, frozen=True):
    """Members that no node takes. `reasons` counts nodes; `empty_fit` is how many would fit if nothing ran."""

    wanted: int
    fit: int
    empty_fit: int
    shape: Shape
    reasons: dict[str, int]
    on: int = 0  # nodes that take at least one

    @property
    def never(self) -> bool:
        """Not even one member would fit on any node, were it empty."""
        return self.empty_fit == 0


class Pool:
    """Nodes and what is free on them, for one pass."""

    def __init__(self, nodes: Sequence[NodeFacts], columns: Iterable[str]) -> None:
        self.nodes = list(nodes)
        self.columns = ["pods", *sorted(set(columns) - {"pods"})]
        self._row = {node.name: i for i, node in enumerate(self.nodes)}
        self.total = self._matrix()
        self.free = self.total.copy()
        self._refusals: dict[int, list[str]] = {}
        self._vectors: dict[int, Matrix] = {}
        self._ports: dict[str, set[int]] = {}
        self._present: dict[int, list[PodFacts]] = {}

    def _matrix(self) -> Matrix:
        rows = [[scheduler_units(c, n.allocatable.get(c, 0), up=False) for c in self.columns] for n in self.nodes]
        return np.array(rows, dtype=np.int64).reshape(len(self.nodes), len(self.columns))

    def vector(self, shape: Shape) -> Matrix:
        """The shape's request as a row; one pod takes one place in the pods column."""
        found = self._vectors.get(id(shape))
        if found is None:
            row = [1 if c == "pods" else scheduler_units(c, shape.requests.get(c, 0)) for c in self.columns]
            found = self._vectors[id(shape)] = np.array(row, dtype=np.int64)
        return found

    def charge(self, node: str, pod: PodFacts) -> None:
        """Book a pod that is on the node, or promised to it. A node that is gone charges nothing."""
        row = self._row.get(node)
        if row is None:
            return
        self.free[row] -= self.vector(pod.shape)
        for port in pod.shape.host_ports:
            self._ports.setdefault(port, set()).add(row)
        if pod.labels:
            self._present.setdefault(row, []).append(pod)

    def mark(self) -> Mark:
        """What `restore` needs to undo every charge made since."""
        ports = {port: set(rows) for port, rows in self._ports.items()}
        return self.free.copy(), ports, {row: list(found) for row, found in self._present.items()}

    def restore(self, mark: Mark) -> None:
        self.free, self._ports, self._present = mark

    def refusals(self, shape: Shape) -> list[str]:
        """Per node, why it takes no pod of this shape whatever is free; "" where it does."""
        found = self._refusals.get(id(shape))
        if found is None:
            found = self._refusals[id(shape)] = [refusal(node, shape) for node in self.nodes]
        return found

    def capacity(self, pod: PodFacts, free: Matrix) -> Matrix:
        """How many pods like this one each node takes."""
        shape = pod.shape
        request = self.vector(shape)
        safe = np.where(request > 0, request, 1)
        counts: Matrix = np.where(request > 0, free // safe, _LARGEST).min(axis=1)
        counts = np.maximum(counts, 0)
        counts[[bool(r) for r in self.refusals(shape)]] = 0
        if shape.host_ports or shape.alone_on_node:
            counts = np.minimum(counts, 1)
        return np.asarray(counts, dtype=np.int64)

    def taken(self, pod: PodFacts) -> set[int]:
        """Rows where a host port is in use, or a pod that this one wants no company of."""
        rows = {row for port in pod.shape.host_ports for used in self._clashes(port) for row in self._ports[used]}
        for term in pod.shape.alone_on_node:
            for row, present in self._present.items():
                if any(p.namespace == pod.namespace and selects(term, p.labels) for p in present):
                    rows.add(row)
        return rows

    def _clashes(self, port: str) -> list[str]:
        return [used for used in self._ports if ports_clash(port, used)]


def ports_clash(one: str, other: str) -> bool:
    """Same protocol and number, and the same address or one of them bound to all."""
    (protocol, number, address), (*other_port, other_address) = one.split("/", 2), other.split("/", 2)
    return [protocol, number] == other_port and (address == other_address or ANY_ADDRESS in (address, other_address))


def scheduler_units(resource: str, nano: int, *, up: bool = True) -> int:
    """Nano units as the scheduler counts them; capacity is rounded down, requests up."""
    per_unit = 10**6 if resource == "cpu" else quantity.NANO
    return -(-nano // per_unit) if up else nano // per_unit


def place(pool: Pool, pods: Sequence[PodFacts]) -> dict[str, str] | NodesShort:
    """A node for each pod, charged in the pool; or the shortage, with the pool as it was."""
    mark = pool.mark()
    places: dict[str, str] = {}
    for members in _classes(pods):
        found = _place_class(pool, members)
        if isinstance(found, NodesShort):
            pool.restore(mark)
            return found
        places.update(found)
    return places


def _classes(pods: Sequence[PodFacts]) -> list[list[PodFacts]]:
    """Pods by shape, the most demanding first: extended resources, then the rest."""
    by_shape: dict[tuple[int, str], list[PodFacts]] = {}
    for pod in pods:
        labelled = repr(sorted(pod.labels.items())) if pod.shape.alone_on_node else ""
        by_shape.setdefault((id(pod.shape), labelled), []).append(pod)
    return sorted(by_shape.values(), key=lambda members: _demand(members[0].shape), reverse=True)


def _demand(shape: Shape) -> tuple[int, int, int]:
    extended = sum(amount for name, amount in shape.requests.items() if "/" in name)
    return (extended, shape.requests.get("cpu", 0), shape.requests.get("memory", 0))


def _place_class(pool: Pool, members: list[PodFacts]) -> dict[str, str] | NodesShort:
    one = members[0]
    counts = pool.capacity(one, pool.free)
    blocked = pool.taken(one) if one.shape.host_ports or one.shape.alone_on_node else set()
    counts[list(blocked)] = 0
    fit = int(np.minimum(counts, len(members)).sum())
    if fit < len(members):
        return _short(pool, members, fit, counts, blocked)
    return _fill(pool, members, counts)


def _fill(pool: Pool, members: list[PodFacts], counts: Matrix) -> dict[str, str]:
    """Fullest node first, so that whole nodes stay free for whole gangs."""
    places: dict[str, str] = {}
    waiting = iter(members)
    left = len(members)
    for row in _fullest_first(pool, members[0].shape, counts):
        for _ in range(min(int(counts[row]), left)):
            pod = next(waiting)
            places[pod.uid] = pool.nodes[row].name
            pool.charge(pool.nodes[row].name, pod)
            left -= 1
        if not left:
            break
    return places


def _fullest_first(pool: Pool, shape: Shape, counts: Matrix) -> list[int]:
    """Rows that take the shape, by what is free of the scarcest thing it asks for, then by name."""
    request = pool.vector(shape)
    extended = [i for i, c in enumerate(pool.columns) if "/" in c and request[i]]
    columns = extended or [i for i, c in enumerate(pool.columns) if c != "pods" and request[i]] or [0]
    rows = [int(r) for r in np.flatnonzero(counts)]
    return sorted(rows, key=lambda r: (*(int(pool.free[r, c]) for c in columns), pool.nodes[r].name))


def _short(pool: Pool, members: list[PodFacts], fit: int, counts: Matrix, blocked: set[int]) -> NodesShort:
    empty = pool.capacity(members[0], pool.total)
    reasons = Counter(_why(pool, members[0].shape, row, blocked) for row in range(len(pool.nodes)) if not counts[row])
    return NodesShort(
        wanted=len(members),
        fit=fit,
        empty_fit=int(np.minimum(empty, len(members)).sum()),
        shape=members[0].shape,
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        on=int(np.count_nonzero(counts)),
    )


def _why(pool: Pool, shape: Shape, row: int, blocked: set[int]) -> str:
    static = pool.refusals(shape)[row]
    if static:
        return static
    if row in blocked:
        return "taken by a pod with the same port or anti-affinity"
    request = pool.vector(shape)
    lacking = [c for i, c in enumerate(pool.columns) if request[i] and pool.free[row, i] < request[i]]
    main = next((c for c in lacking if "/" in c), lacking[0] if lacking else "room")
    return "without enough " + ("places for pods" if main == "pods" else main)


def columns_of(shapes: Iterable[Resources]) -> set[str]:
    return {name for requests in shapes for name, amount in requests.items() if amount}
