"""Who is next: priority, then age, then identity. Ties never depend on iteration order.

Shares between queues come before these later; the key is one tuple so that they have a place. May know the model.
"""

from policy.rules.conclusions import Group
from policy.rules.model import PodFacts

_NO_INDEX = 1 << 30


def key(group: Group) -> tuple[int, float, str]:
    return (-group.priority, group.created, group.key)


def member_key(pod: PodFacts) -> tuple[int, float, str]:
    """Members of a group: by completion index where there is one, else by age and name."""
    return (pod.index if pod.index >= 0 else _NO_INDEX, pod.created, pod.name)
