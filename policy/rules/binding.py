"""A lift that has begun and of which fewer than minMember are on nodes: what is wrong with it, and for how long.

A lifted pod's pin cannot change: where its node is gone, or would not take it even if it were up, the pod can never be
bound, and waiting does not help. Whether a group ever ran whole stands in the terms that its lift froze on the pods: a
group that may have run is never given back. May know the model, node_fit and the pool; decides nothing.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from policy.rules import autoscaling, node_fit
from policy.rules.conclusions import Group
from policy.rules.model import Config, NodeFacts, PodFacts
from policy.rules.pool import Pool

PODS_A_SECOND: Final = 50.0  # that a kube-scheduler binds with its default client limits (--kube-api-qps)


class Adrift(NamedTuple):
    """A lifted pod without a node, and why it can never be bound."""

    pod: PodFacts
    why: str


class Standing(NamedTuple):
    """How a begun group stands that fewer than minMember bound pods make up."""

    unbound: tuple[PodFacts, ...]  # lifted, on no node
    adrift: tuple[Adrift, ...]  # of them, those that can never be bound
    taken: int  # of the others, those whose place was taken by pods that we did not let go
    since: float  # that the last of them was lifted
    limit: float  # seconds that they are given

    @property
    def due(self) -> float:
        return self.since + self.limit


def limit(group: Group, config: Config) -> float:
    """Seconds: the PodGroup's own scheduleTimeoutSeconds before the setting; more where pods, or nodes, take longer."""
    stated = group.podgroup.bind_timeout if group.podgroup else 0
    unplaced = (m for m in group.started if not (m.node or m.pin))
    scale_up = max((pool.scale_up_seconds for pool in autoscaling.pools(config, unplaced)), default=0.0)
    return max(stated or config.bind_timeout_seconds, group.need / PODS_A_SECOND, scale_up)


def since(group: Group) -> float:
    """When the last of its members was let go."""
    return max((m.lifted.at for m in group.started if m.lifted), default=0.0)


def standing(group: Group, pool: Pool, config: Config) -> Standing:
    unbound = tuple(m for m in group.started if not m.node)
    nodes = {name: pool.nodes[row] for m in unbound if (name := m.pin) and (row := pool.row_of.get(name)) is not None}
    adrift = tuple(Adrift(m, why) for m in unbound if m.lifted and m.pin and (why := _never(m, nodes)))
    never = {a.pod.uid for a in adrift}
    taken = sum(1 for m in unbound if m.pin in nodes and m.uid not in never and _overfull(pool, m))
    return Standing(unbound, adrift, taken, since(group), limit(group, config))


def _never(pod: PodFacts, nodes: Mapping[str, NodeFacts]) -> str:
    """A node that is down or cordoned may come back: that is left to the limit."""
    node = nodes.get(pod.pin)
    if node is None:
        return f"its node {pod.pin} is gone"
    if not node_fit.passing(node, pod.shape):
        return f"its node {pod.pin} does not take it any more"
    over = next((n for n, amount in sorted(pod.shape.requests.items()) if amount > node.allocatable.get(n, 0)), "")
    return f"its node {pod.pin} has too little {over} by now" if over else ""


def _overfull(pool: Pool, pod: PodFacts) -> bool:
    """Our own promises never book more than a node has."""
    free = pool.free[pool.row_of[pod.pin]]
    return any(free[pool.columns.index(n)] < 0 for n, amount in pod.shape.requests.items() if amount)


def may_have_run(group: Group) -> bool:
    """Whether minMember may have been on nodes together at any time since the lift.

    A pod that is on no node was never on one, so of the members that were there when the lift began, so many at most
    have been bound as do not wait now. Exact as long as no member was lost; else in doubt, it has run.
    """
    return bool(group.bound) and not never_ran(group)  # where none is bound, nothing is left that could be torn


def never_ran(group: Group) -> bool:
    """Whether minMember were never on nodes together since the lift, beyond doubt, whatever is bound now."""
    began = beginning(group)
    if began is None:
        return True
    waiting = sum(1 for m in group.members if not m.node and m.created <= began.newest)
    return began.present - waiting < max(m.lifted.min for m in group.started if m.lifted)


class Beginning(NamedTuple):
    """Who was there when the lift began, or began again, the group having never run."""

    present: int
    newest: float  # when the last of them was created


def beginning(group: Group) -> Beginning | None:
    """As the last lift froze it on the pods; None where none was let go."""
    terms = [m.lifted for m in group.started if m.lifted]
    if not terms:
        return None
    last = max(terms, key=lambda t: (t.at, t.present))
    present = last.present or max(len(group.members), *(t.min for t in terms))  # not told: by a version before
    return Beginning(present, last.newest or last.at)


def stand_ins(group: Group, found: Standing, *, late: bool) -> tuple[PodFacts, ...]:
    """Members still gated that could start in place of those that cannot, role by role; () where they are too few."""
    doubtful = list(found.unbound) if late else [a.pod for a in found.adrift]
    lacking = lacks(group, found, late=late)
    roles = Counter(m.role for m in doubtful)
    chosen: list[PodFacts] = []
    for member in group.gated:
        if len(chosen) < lacking and roles[member.role] > 0:
            roles[member.role] -= 1
            chosen.append(member)
    return tuple(chosen) if len(chosen) >= lacking else ()


def lacks(group: Group, found: Standing, *, late: bool) -> int:
    """How many of minMember are not to be had from those that were let go; members yet to be let go count as coming."""
    doubtful = len(found.unbound) if late else len(found.adrift)
    return max(0, group.need - group.short - (len(group.started) - doubtful))
