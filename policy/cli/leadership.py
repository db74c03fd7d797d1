"""Whether a gatekeeper is at work, as its Lease tells: a group that fits and is not lifted may simply have nobody.

Reads one object and says nothing where the caller may not read it.
"""

from typing import Final

import msgspec

from policy import names
from policy.cli.wording import age_text
from policy.gatekeeper.client import Client
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.lease import Lease, Record
from policy.rules.facts import epoch

STALE_SECONDS: Final = 60.0  # a leader renews every few seconds; clocks of two machines differ by less than this
_TIMEOUT: Final = 5.0  # seconds


def silence(client: Client, now: float) -> str:
    """Why nobody lifts gates, as the end of a sentence; "" when somebody does or it cannot be told."""
    where = f"Lease {names.SYSTEM_NAMESPACE}/{names.LEASE_NAME}"
    try:
        record = Lease(client, names.SYSTEM_NAMESPACE, names.LEASE_NAME, _TIMEOUT).read().record
    except ApiError as error:
        return f"no gatekeeper has ever led here (no {where})" if error.is_not_found else ""
    except msgspec.MsgspecError:
        return ""
    return judged(record, where, now)


def judged(record: Record, where: str, now: float) -> str:
    """The same, of a lease that was read."""
    if not record.holder_identity:
        return f"no gatekeeper leads ({where} has no holder)"
    since = now - epoch(record.renew_time)
    if since <= STALE_SECONDS:
        return ""
    return f"no gatekeeper leads: {where} was last renewed {age_text(since)} ago by {record.holder_identity}"
