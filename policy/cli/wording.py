"""How amounts, ages, names and tables are written. Pure; knows the terminal not at all."""

from collections.abc import Mapping, Sequence
from typing import Final

from policy.rules import quantity
from policy.rules.namespace_quota import resource_of

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_UNITS: Final = (("d", _DAY), ("h", _HOUR), ("m", _MINUTE), ("s", 1))
_TWO_UNITS_BELOW: Final = 10  # 9m30s, but 12m
GAP: Final = "   "


def age_text(seconds: float) -> str:
    """As kubectl writes an age: one unit, and the next smaller one while that still matters.

    >>> age_text(5), age_text(95), age_text(3599), age_text(90061)
    ('5s', '1m35s', '59m', '1d1h')
    """
    left = max(0, int(seconds))
    for i, (unit, size) in enumerate(_UNITS):
        if left >= size > 1:
            smaller, width = _UNITS[i + 1]
            rest = left % size // width
            return f"{left // size}{unit}" + (f"{rest}{smaller}" if rest and left // size < _TWO_UNITS_BELOW else "")
    return f"{left}s"


def amount(nano: int | None, resource: str) -> str:
    """An amount of a resource or quota key; None is unlimited."""
    bare = resource_of(resource)
    return "unlimited" if nano is None else quantity.text(nano, bare)


def amounts(many: Mapping[str, int | None]) -> dict[str, str]:
    """The same for a list of resources, for JSON."""
    return {name: amount(nano, name) for name, nano in many.items()}


def table(header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Columns as wide as their widest cell, without rules and without an end: what kubectl's users grep and awk.

    >>> print(table(("A", "B"), [("long", "x"), ("", "y")]))
    A      B
    long   x
           y
    """
    everything = [header, *rows]
    widths = [max(len(row[i]) for row in everything) for i in range(len(header))]
    lines = (GAP.join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in everything)
    return "\n".join((indent + text).rstrip() for text in lines)


def count(number: int, noun: str) -> str:
    """Number and noun.

    >>> count(1, "pod"), count(8, "pod")
    ('1 pod', '8 pods')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
