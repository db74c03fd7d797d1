"""What people should know of how a group was recognised, while it waits: words only.

May know names and the model.
"""

from collections.abc import Sequence

from policy import names
from policy.rules.model import PodFacts, PodGroupFacts


def several(found: Sequence[PodGroupFacts], chosen: PodGroupFacts | None) -> str:
    """Which PodGroup counts, where several of that name claim the pods."""
    if chosen is None or len(found) < 2:
        return ""
    others = ", ".join(sorted(f"{one.api} (minMember {one.min_member})" for one in found if one is not chosen))
    return f"PodGroup {chosen.name} of {chosen.api} counts, not those of the same name in {others}"


def claimed(pod: PodFacts) -> str:
    """A label that operators put on their pods, on one that nobody controls: it makes it nobody's member."""
    key = next((key for key in names.OWNER_NAME_LABELS if key in pod.labels), "")
    return f"it has no controller, and label {key} ({pod.labels[key]!r}) is only a hint" if key else ""
