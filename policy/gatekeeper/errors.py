"""What can go wrong between us and the API server, as exceptions that callers tell apart by predicate.

Extends the error that certs declares, so that one client serves both packages.
"""

from typing import Final

import msgspec

import certs.api

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_GONE: Final = 410
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
_ENDING: Final = "because it is being terminated"  # k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle
_MESSAGE_LIMIT: Final = 2048  # a proxy between us and the server may answer with a whole web page


class ConfigError(ValueError):
    """No usable kubeconfig or service account: names the file and what it lacks."""


class ApiError(certs.api.ApiError):
    """The API server refused a request. `status` is HTTP's; `reason` the Status object's word, or HTTP's.

    `retry_after` is in seconds and None when the server did not ask for a pause.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(status, reason, message)
        self.retry_after = retry_after

    @property
    def is_unauthorized(self) -> bool:
        return self.status == _UNAUTHORIZED

    @property
    def is_forbidden(self) -> bool:
        return self.status == _FORBIDDEN

    @property
    def is_not_found(self) -> bool:
        return self.status == _NOT_FOUND

    @property
    def is_conflict(self) -> bool:
        """Somebody else wrote first (`Conflict`) or made the object first (`AlreadyExists`)."""
        return self.status == _CONFLICT

    @property
    def is_gone(self) -> bool:
        """The resourceVersion or the continue token is older than what the server keeps."""
        return self.status == _GONE

    @property
    def is_ending(self) -> bool:
        """The namespace is on its way out and takes nothing new; the API server says so in words only."""
        return self.is_forbidden and _ENDING in str(self)

    @property
    def is_overload(self) -> bool:
        """The server asks for a pause (priority and fairness, start-up, EventRateLimit)."""
        return self.status in (_TOO_MANY, _UNAVAILABLE)


class TransportError(ApiError):
    """No answer came: whether the request took effect is unknown. Status 0."""

    def __init__(self, message: str, reason: str = "NoAnswer") -> None:
        super().__init__(0, reason, message)


class StreamError(Exception):
    """A list or watch answered with what is no list or watch event; the only cure is a new list."""


class _Details(msgspec.Struct):
    retry_after_seconds: float = msgspec.field(name="retryAfterSeconds", default=0)


class Status(msgspec.Struct):
    """The part of meta/v1 Status that we read."""

    code: int = 0
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


def api_error(status: int, http_reason: str, body: bytes, retry_after: str | None = None) -> ApiError:
    """Turn an answer of 400 or more into an exception, whether or not its body is a Status object."""
    try:
        answer = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:  # a proxy's page, or nothing
        answer = Status(message=body[:_MESSAGE_LIMIT].decode(errors="replace"))
    return from_status(answer, status, http_reason, _seconds(retry_after))


def from_status(answer: Status, status: int = 0, http_reason: str = "", retry_after: float | None = None) -> ApiError:
    """Turn a Status object, such as that of a watch's ERROR event, into an exception."""
    if retry_after is None and answer.details and answer.details.retry_after_seconds > 0:
        retry_after = answer.details.retry_after_seconds
    message = (answer.message or http_reason)[:_MESSAGE_LIMIT]
    return ApiError(status or answer.code, answer.reason or http_reason or "Unknown", message, retry_after)


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; its other form, a date, is used by no API server."""
    return float(header) if header and header.isascii() and header.isdecimal() else None
