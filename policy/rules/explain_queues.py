"""What a queue, a guarantee or a group ahead stands in the way of -> one line with numbers.

May know the conclusions and the shortages of these questions; decides nothing.
"""

import datetime as dt
import math
from typing import Final

from policy import names
from policy.rules import quantity
from policy.rules.conclusions import Group
from policy.rules.explain import Told
from policy.rules.guarantee import GuaranteeShort
from policy.rules.queue_capacity import CapabilityShort
from policy.rules.reservation import Reservation
from policy.rules.words import called, count, members, pods_need

Reason = names.Reason
_MOST_NAMED: Final = 5  # queues


def capability(group: Group, short: CapabilityShort, pods: int) -> Told:
    """`pods` need the room: the members that start together, or one that would join them."""
    return _capability(group, short, f"{pods_need(pods)} {_amount(short, short.need)} {short.resource}")


def beyond(group: Group, short: CapabilityShort, pods: int) -> Told:
    """Members made anew that ask for more than those before them did."""
    more = f"{_amount(short, short.need)} more {short.resource}"
    return _capability(group, short, f"{pods_need(pods)} {more} than its group was promised")


def _capability(group: Group, short: CapabilityShort, what: str) -> Told:
    free, limit = _amount(short, short.free), _amount(short, short.capability)
    numbers = members(group) | {"needNano": short.need, "freeNano": short.free, "capabilityNano": short.capability}
    limiter = f"queue/{short.queue}/{short.resource}"
    if short.never:
        text = f"can never fit: {what}, queue {short.queue} has a capability of {limit}"
        return Reason.NEVER_FITS, limiter, text, numbers
    return Reason.QUEUE_CAPABILITY_SHORT, limiter, f"{what}, queue {short.queue} has {free} of {limit} left", numbers


def guarantee(group: Group, short: GuaranteeShort, pods: int) -> Told:
    """`pods` need room that is free and kept for others."""
    need, free, kept = (quantity.text(n, short.resource) for n in (short.need, short.free, short.kept))
    text = f"{pods_need(pods)} {need} {short.resource}; {free} free, of which {kept} kept: guaranteed to "
    text += _several("queue", short.whose)
    numbers = members(group) | {"needNano": short.need, "freeNano": short.free, "keptNano": short.kept}
    return Reason.QUEUE_CAPABILITY_SHORT, f"guarantee/{','.join(short.whose)}/{short.resource}", text, numbers


def _several(what: str, those: tuple[str, ...]) -> str:
    shown = ", ".join(those[:_MOST_NAMED])
    more = f" and {len(those) - _MOST_NAMED} more" if len(those) > _MOST_NAMED else ""
    return f"{what} {shown}" if len(those) == 1 else f"{what}s {shown}{more}"


def _amount(short: CapabilityShort, nano: int) -> str:
    return quantity.text(nano, short.resource)


def reserved(made: Reservation) -> str:
    if made.at == math.inf:
        return f"; {count(len(made.rows), 'node')} kept free for it as they become so"
    return f"; starts by {_clock(made.at)} at the latest, when what is in its way has ended"


def behind(group: Group, ahead: Reservation, now: float) -> Told:
    """It would fit now, and would still be there when the one ahead is to start."""
    at = "as soon as its nodes are free" if ahead.at == math.inf else f"by {_clock(ahead.at)}"
    text = f"{count(len(group.first), 'pod')} would fit now, but {called(ahead.group)}, ahead of it, is to start {at}"
    text += ", and nothing says that they will have ended by then"
    numbers = members(group) | starts_in(ahead, now)
    return Reason.BEHIND_RESERVATION, f"group/{ahead.group.key}", text, numbers


def starts_in(made: Reservation, now: float) -> dict[str, int]:
    """Seconds until a reserved group starts at the latest, where that is known."""
    return {} if made.at == math.inf else {"startsIn": int(made.at - now)}


def _clock(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%H:%M:%S UTC")
