"""Pods whose nodes an autoscaler makes: which of them a node that does not exist yet would take.

A gate hides a pod from autoscalers, so where the settings tell of a pool of nodes that one makes, whoever finds no room
on the nodes there are is let go by quota and queue alone, unpinned. May know the model, settings, quantities and
node_fit; knows nothing of how many nodes may be made.
"""

from collections.abc import Iterable

from policy import names
from policy.rules.model import Config, NodeFacts, PodFacts, Shape
from policy.rules.node_fit import refusal
from policy.rules.quantity import parse
from policy.rules.settings import AutoscaledPool
from policy.rules.shape import shapes_of


def awaited(config: Config, members: Iterable[PodFacts]) -> list[PodFacts]:
    """Those that an empty new node of some pool takes."""
    pods = list(members) if config.autoscaled_pools else []
    known = {id(pod.shape): bool(_pools(config, pod.shape)) for pod in pods}
    return [pod for pod in pods if known[id(pod.shape)]]


def pools(config: Config, members: Iterable[PodFacts]) -> list[AutoscaledPool]:
    """The pools of which they may wait for a node, as the settings order them."""
    shapes = shapes_of(members) if config.autoscaled_pools else []
    taking = {pool.name for shape in shapes for pool in _pools(config, shape)}
    return [pool for pool in config.autoscaled_pools if pool.name in taking]


def _pools(config: Config, shape: Shape) -> list[AutoscaledPool]:
    return [pool for pool in config.autoscaled_pools if _takes(pool, shape)]


def _takes(pool: AutoscaledPool, shape: Shape) -> bool:
    """By labels, taints and amounts. Of an extended resource a node has what is stated, and else none."""
    node = NodeFacts("", labels=pool.labels | {names.HOSTNAME_LABEL: ""}, taints=pool.taints)
    if refusal(node, shape):
        return False
    offered = {name: parse(amount) for name, amount in pool.allocatable.items()}
    wanted = {name: amount for name, amount in shape.requests.items() if amount and (name in offered or "/" in name)}
    return all(amount <= offered.get(name, 0) for name, amount in wanted.items())
