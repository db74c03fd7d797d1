"""A group's identity, and the errors of names that cannot be believed.

May know names and nothing of pods: policy.rules.membership.identify reads those.
"""

import hashlib
from typing import Final

import msgspec

PODGROUP: Final = "PodGroup"  # Volcano's and both coscheduling groups: whichever object of that name exists
NATIVE: Final = "NativePodGroup"  # scheduling.k8s.io (KEP-4671)
LITE: Final = "PodGroupLabels"  # scheduler-plugins v0.18: name and size as labels, no object
POD: Final = "Pod"  # no group: the pod alone

_LABEL_HEX: Final = 40  # characters of SHA-256; a label value holds 63


class Identity(msgspec.Struct, frozen=True, gc=False):
    """A group's identity: by name for a PodGroup, by uid for a controller."""

    kind: str
    namespace: str
    name: str
    uid: str = ""  # of the controller; a PodGroup's is looked up later
    how: str = ""  # where the pod says so, for people
    part: str = ""  # which of several equal groups that the controller makes

    @property
    def key(self) -> str:
        """Stable text: a re-created controller of the same name is another group."""
        own = f"{self.kind}/{self.namespace}/{self.uid or self.name}"
        return f"{own}/{self.part}" if self.part else own

    @property
    def label(self) -> str:
        """Value of the group label; a hint to find members, never trusted."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:_LABEL_HEX]


def of_owner_named(kind: str, namespace: str, name: str, uid: str, part: str = "") -> Identity:
    """Of the group that a controller makes; `part` says which of several."""
    return Identity(kind, namespace, name, uid, f"controller {kind} {name}", part)


class DisagreementError(ValueError):
    """Two given names differ; the message names both and where they stand."""


class ReservedNameError(ValueError):
    """A pod without controller names a PodGroup of ours."""
