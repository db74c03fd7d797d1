"""Who is next within a queue: priority, then age, then identity. Ties never depend on iteration order.

Whose queue is next is the matter of policy.rules.shares. May know the model.
"""

from policy.rules.conclusions import Group
from policy.rules.model import PodFacts

_NO_INDEX = 1 << 30


def key(group: Group) -> tuple[int, float, str]:
    return (-group.priority, group.created, group.key)


def aged(group: Group, now: float, points_per_hour: int) -> tuple[int, float, str]:
    """As `key`, with the priority raised by waiting: for the order alone, never for whom a pod may preempt."""
    gained = int(max(0.0, now - group.created) * points_per_hour / 3600)
    return (-group.priority - gained, group.created, group.key)


def member_key(pod: PodFacts) -> tuple[int, float, str]:
    """Members of a group: by completion index where there is one, else by age and name."""
    return (pod.index if pod.index >= 0 else _NO_INDEX, pod.created, pod.name)
