"""What the commands ask of a cluster, as a protocol: the real one is policy.cli.cluster.

Commands see a World, so that their tests can hand them a Snapshot made by hand.
"""

from typing import Protocol

from policy.cli.failures import Failure
from policy.cli.reports import Report
from policy.gatekeeper.client import Client
from policy.gatekeeper.config import Settings
from policy.gatekeeper.observe import Partial
from policy.rules.conclusions import Group
from policy.rules.model import Snapshot


class Denied(Failure):
    """The API server forbids what was asked: `lack` says which verb on which resource, the message also who says so."""

    def __init__(self, lack: str, message: str) -> None:
        super().__init__(message)
        self.lack = lack


class World(Protocol):
    """A cluster, as one caller. Whatever goes wrong is raised as a Failure."""

    @property
    def namespace(self) -> str:
        """The one to look at where nobody asks for all: the option's, else the context's."""
        ...

    @property
    def client(self) -> Client:
        """For commands that write; what it raises is ApiError."""
        ...

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    @property
    def settings(self) -> Settings:
        """What the gatekeeper runs with, as far as the caller may know it."""
        ...

    def snapshot(self) -> Snapshot:
        """Everything. Raises Denied where the caller may not see everything."""
        ...

    def partial(self, namespace: str) -> tuple[Partial, dict[str, Report]]:
        """One namespace, and the last report by uid of the object that it is about."""
        ...

    def last_report(self, group: Group) -> Report | None:
        """What the gatekeeper last said of the group."""
        ...

    def silence(self) -> str:
        """Why nobody lifts gates now, "" when somebody does or the caller may not know."""
        ...
