"""apps/v1 ReplicaSet (and so Deployment): each pod alone, unless the pods name a PodGroup.

A rolling update grows the new set with the readiness of its own pods; a gang of the full size would wait for ever.
May know objects.
"""

from policy.rules.membership.family import Family, Owner, Size
from policy.rules.objects import PodTemplate


def size(_: Owner) -> Size:
    return Size(1, 1, "each pod of a ReplicaSet alone")


def template(owner: Owner) -> PodTemplate:
    return owner.spec.template


def never(_: Owner) -> bool:
    return False


FAMILY = Family("apps", "ReplicaSet", makes_groups=False, size=size, template=template, over=never, held=never)
