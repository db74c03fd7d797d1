"""What this package needs of an API server's client, as a protocol, and the errors it knows.

Declared here, not imported: the gatekeeper's client fulfils the protocol, a test may bring its own. Nothing
in this package opens a connection to the API server by itself.
"""

from collections.abc import Mapping
from typing import Protocol

_NOT_FOUND = 404
_CONFLICT = 409


class ApiError(Exception):
    """A request that the API server refused, or that never reached it (status 0).

    `reason` is the Status object's machine-readable word (`NotFound`, `Conflict`, `Forbidden`, ...).
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message

    @property
    def absent(self) -> bool:
        """Tell whether the object does not exist."""
        return self.status == _NOT_FOUND

    @property
    def conflict(self) -> bool:
        """Tell whether somebody else wrote first (`Conflict`) or made the object first (`AlreadyExists`)."""
        return self.status == _CONFLICT


class Api(Protocol):
    """One request to the API server; the answer's body as it came."""

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send `body` as JSON. Raises ApiError for any status of 400 or more, and for a failed connection."""
        ...


class CertificateError(Exception):
    """What cannot be put right by trying again soon: a person has to look."""


class ForeignSecretError(CertificateError):
    """A Secret of the name that we would write exists, and is not labelled as ours."""
