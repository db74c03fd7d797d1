"""What can go wrong with a local control plane, each with the exit code that the command line answers.

Knows nothing else of ours. A message names the field and the value, or the program and its log.
"""


class LocalError(Exception):
    """Something failed: exit code 1."""

    exit_code = 1


class UsageError(LocalError):
    """A value that was given cannot be used: exit code 2."""

    exit_code = 2


class NotFoundError(LocalError):
    """What was named does not exist: exit code 3."""

    exit_code = 3
