"""Reads the logs of a cluster's programs, to the end or as they grow. Reads only."""

import time
from collections.abc import Iterator
from typing import Final

from deploy.local.process import Process, tail

POLL_SECONDS: Final = 0.2


def last(process: Process, lines: int) -> str:
    """The last `lines` of one program's log."""
    return tail(process.program.log, lines)


def follow(process: Process) -> Iterator[str]:
    """What is appended to the log from now on, until the program has ended and all is read."""
    with process.program.log.open(errors="replace") as file:
        file.seek(0, 2)
        while (text := file.read()) or process.alive:
            if text:
                yield text
            else:
                time.sleep(POLL_SECONDS)
