"""Exit codes that scripts can use, and errors as one line on standard error.

Every command's failure ends here, whatever library raised it. Imports nothing heavy, for every command needs it.
"""

from enum import IntEnum

import click


class Exit(IntEnum):
    """What the process answers; docs/cli.md lists them."""

    OK = 0  # why: the group is admitted or runs
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    WAITS = 4
    NEVER_FITS = 5


class Failure(click.ClickException):
    """A command cannot do what it was asked: exit code 1."""

    exit_code = Exit.ERROR


class Misuse(Failure):
    """An argument cannot be used as it is: exit code 2."""

    exit_code = Exit.USAGE


class NotFound(Failure):
    """What was named does not exist: exit code 3."""

    exit_code = Exit.NOT_FOUND


def line(error: click.ClickException) -> str:
    """The one line; a wrong option also names the help that lists the right ones."""
    text = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        text = f"{text.rstrip('.')} (see {error.ctx.command_path} --help)"
    return f"error: {text}"
