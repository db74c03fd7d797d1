"""Who is next: priority, then age, then identity. Ties never depend on iteration order.

Shares between queues come before these later; the key is one tuple so that they have a place. May know the model.
"""

from policy.rules.model import Group


def key(group: Group) -> tuple[int, float, str]:
    return (-group.priority, group.created, group.key)


def member_key(pod_created: float, index: int, name: str) -> tuple[int, float, str]:
    """Members of a group: by completion index where there is one, else by age and name."""
    return (index if index >= 0 else 1 << 30, pod_created, name)
