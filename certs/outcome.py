"""What a step of a rotator or a mirror came to, as a value: they raise nothing that an API server may cause."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

LONGEST_PAUSE: Final = 60.0  # seconds, after errors


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one step came to. `wait` is in seconds until the next; the texts are for events and logs.

    `did` tells what was written, `waiting` what a rotation waits for, `error` what went wrong; mostly all are empty.
    """

    wait: float
    did: str = ""
    waiting: str = ""
    error: str = ""
    leaf_ends: datetime | None = None
    ca_ends: datetime | None = None
