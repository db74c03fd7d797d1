"""Amounts in the scheduler's own units: cpu in thousandths, the rest whole; requests rounded up, capacity down.

Its 64-bit integers (NodeInfo in k8s.io/kubernetes pkg/scheduler/framework/types.go) bound what can be asked or offered.
"""

from policy.rules import quantity

_MOST_OFFERED = 1 << 50  # a petabyte, or 10^12 cores: sums of what thousands of pods ask for stay in 64 bits
_MOST_ASKED = _MOST_OFFERED + 1  # more than any node offers


def offered_units(resource: str, nano: int) -> int:
    return max(-_MOST_OFFERED, min(nano // unit(resource), _MOST_OFFERED))


def asked_units(resource: str, nano: int) -> int:
    return min(-(-nano // unit(resource)), _MOST_ASKED)


def unit(resource: str) -> int:
    """Nano units in one of the scheduler's."""
    return 10**6 if resource == "cpu" else quantity.NANO
