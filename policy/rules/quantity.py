"""Kubernetes quantities as exact integers.

A quantity is held in *nano units*: the API server keeps no finer amounts and rounds up to them
(k8s.io/apimachinery pkg/api/resource, "no number may have more than nano precision"). Integers only: `0.1` cores ten
times is one core. May know nothing of ours.
"""

import re
from functools import lru_cache

NANO = 10**9
_FORM = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d{1,3}|[KMGTPE]i|[numkMGTPE]?)\Z", re.ASCII)
_POWER_OF_TEN = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_POWER_OF_TWO = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST = 64  # characters; the API server's own writer stays far below


class QuantityError(ValueError):
    """The text is no Kubernetes quantity; the message holds the text."""


def parse(value: str | int | float) -> int:
    """Read a quantity as nano units, rounded away from zero as the API server does.

    >>> parse("1500m"), parse("1Ki"), parse(2)
    (1500000000, 1024000000000, 2000000000)

    Raises QuantityError for anything that the API server would not parse.
    """
    return _parse(str(value))


@lru_cache(maxsize=4096)
def _parse(text: str) -> int:
    match = _FORM.match(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(f"not a quantity: {text[:_LONGEST]!r}")
    sign, number, suffix = match.groups()
    whole, _, fraction = number.partition(".")
    digits = int((whole + fraction) or "0")
    amount = _scale(digits, len(fraction), suffix)
    return -amount if sign == "-" else amount


def _scale(digits: int, decimals: int, suffix: str) -> int:
    """`digits` x 10^-decimals x suffix in nano units, rounded up."""
    if suffix in _POWER_OF_TWO:
        return _ceil_div((digits << _POWER_OF_TWO[suffix]) * NANO, 10**decimals)
    exponent = int(suffix[1:]) if suffix[:1] in ("e", "E") and len(suffix) > 1 else _POWER_OF_TEN[suffix]
    power = exponent + 9 - decimals
    return digits * 10**power if power >= 0 else _ceil_div(digits, 10**-power)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def ceil_units(nano: int) -> int:
    """Whole units, rounded up: how the scheduler counts every resource but cpu."""
    return _ceil_div(nano, NANO)


def ceil_milli(nano: int) -> int:
    """Thousandths, rounded up: how the scheduler counts cpu."""
    return _ceil_div(nano, 10**6)


def text(nano: int, resource: str = "") -> str:
    """Write an amount as a person would: bytes in binary units where they come out even, else decimal."""
    if nano % NANO == 0:
        return _whole(nano // NANO, binary=_is_bytes(resource))
    for suffix, power in (("m", 6), ("u", 3)):
        if nano % 10**power == 0:
            return f"{nano // 10**power}{suffix}"
    return f"{nano}n"


def _whole(units: int, *, binary: bool) -> str:
    if binary:
        for suffix, power in reversed(_POWER_OF_TWO.items()):
            if units and units % (1 << power) == 0:
                return f"{units >> power}{suffix}"
    return str(units)


def _is_bytes(resource: str) -> bool:
    return resource.endswith(("memory", "storage")) or "hugepages-" in resource
