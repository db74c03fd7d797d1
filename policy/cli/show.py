"""Prints: one structure as JSON or YAML, a table, or names, on standard output; notes on standard error.

Colour only on a terminal: click strips it elsewhere, and NO_COLOR is heeded (policy.cli.main).
"""

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec
import yaml

from policy import names
from policy.cli.wording import table

_GOOD: Final = frozenset({names.Reason.RUNNING, names.Reason.LIFTED, names.Reason.ADMITTED, names.Reason.RELEASED})
_BAD: Final = frozenset(
    {
        names.Reason.NEVER_FITS,
        names.Reason.BIND_TIMEOUT,
        names.Reason.LIFT_REFUSED,
        names.Reason.DEGRADED,
        names.Reason.PREEMPTED,
    }
)


def structure(content: Any, output: str) -> None:
    """Print a msgspec structure as JSON or YAML, under the names that it has on the wire."""
    plain = msgspec.to_builtins(content)
    if output == "yaml":
        click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).rstrip("\n"))
    else:
        click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())


def items(content: Sequence[Any], output: str, **rest: Any) -> None:
    """Print a list as kubectl does, under `items`."""
    structure({**rest, "items": content}, output)


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], reasons: Sequence[str] = ()) -> None:
    """Print a table; `reasons` colours its rows, one each."""
    head, *lines = table(header, rows).split("\n")
    click.echo(head)
    for i, text in enumerate(lines):
        click.echo(click.style(text, fg=colour(reasons[i])) if reasons else text)


def colour(reason: str) -> str:
    """Red where waiting cannot help or something failed, green where all is well, yellow between."""
    if reason in _BAD:
        return "red"
    return "green" if reason in _GOOD else "yellow"


def note(text: str) -> None:
    """What is worth knowing and no answer; on standard error, so that pipes stay clean."""
    click.echo(f"note: {text}", err=True)
