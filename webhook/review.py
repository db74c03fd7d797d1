"""AdmissionReview v1 (admission.k8s.io): decoded at the door, encoded on the way out.

Two kinds of errors: a *bad call* is no AdmissionReview that we could answer (HTTP 4xx, and the API server's
failurePolicy decides); a *bad object* is a well-formed question about a pod that cannot stand (a denial, which the
user reads). Rules of the answer: k8s.io/apiserver pkg/admission/plugin/webhook/request/admissionreview.go. May know
wire structs; decides nothing.
"""

import base64
from typing import Final, Literal

import msgspec

from policy.rules.objects import Pod, Wire
from webhook.patch import Operation
from webhook.wording import one_line

# The API server takes requests of up to 3 MiB (k8s.io/apiserver server/config.go, MaxRequestBodyBytes) and sends the
# object, on an update the old one too: twice 3 MiB, and 1 MiB for user, options and the JSON around them. Sixteen
# threads hold at most 112 MiB of bodies.
MAX_BODY_BYTES: Final = 7 * 1024 * 1024

_API_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"
_REASONS: Final = {403: "Forbidden", 422: "Invalid", 500: "InternalError"}  # metav1.StatusReason
_JSON_NULL: Final = b"null"


class BadCallError(Exception):
    """The call cannot be answered; `status` is the HTTP status, the text says why."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(one_line(message))
        self.status = status


class BadObjectError(Exception):
    """The object under review does not decode; the text names the field."""


class GroupVersionKind(Wire, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(Wire, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class Request(Wire, frozen=True, kw_only=True):
    """The question. `object` and `old_object` stay raw until somebody has to look."""

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    namespace: str = ""
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = msgspec.Raw(_JSON_NULL)
    old_object: msgspec.Raw = msgspec.Raw(_JSON_NULL)

    def pod(self) -> Pod:
        """The object as a pod. Raises BadObjectError."""
        return _pod(self.object, "object")

    def old_pod(self) -> Pod:
        """The object as it stands. Raises BadObjectError."""
        return _pod(self.old_object, "oldObject")


class _Question(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: Request | None = None


class Answer(msgspec.Struct, frozen=True):
    """What to say. `verdict` and `why` are for counters and the log, the rest for the API server."""

    verdict: Literal["gated", "passed", "refused", "error"]
    why: str = ""
    code: int = 0
    message: str = ""
    operations: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return self.verdict in ("gated", "passed")


class _Status(Wire, frozen=True):
    code: int
    message: str
    reason: str = ""


class _Response(Wire, frozen=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch_type: str = ""
    patch: str = ""
    warnings: tuple[str, ...] = ()


class _Review(Wire, frozen=True):
    api_version: str
    kind: str
    response: _Response


def decode(body: bytes, content_type: str) -> Request:
    """Read a review of a v1 Pod. Raises BadCallError naming what is wrong with the call."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise BadCallError(f"Content-Type: expected application/json, got {content_type!r}")
    try:
        question = msgspec.json.decode(body, type=_Question)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadCallError(f"body: no {_KIND}: {error}") from None
    if (question.api_version, question.kind) != (_API_VERSION, _KIND):
        got = f"{question.api_version!r}, {question.kind!r}"
        raise BadCallError(f"apiVersion, kind: expected {_API_VERSION!r}, {_KIND!r}, got {got}")
    return _checked(question.request)


def _checked(request: Request | None) -> Request:
    if request is None:
        raise BadCallError("request: missing")
    for field, value in (("uid", request.uid), ("namespace", request.namespace)):
        if not value:
            raise BadCallError(f"request.{field}: missing")
    kind = request.kind
    if (kind.group, kind.version, kind.kind) != ("", "v1", "Pod"):
        got = f"{kind.group!r}, {kind.version!r}, {kind.kind!r}"
        raise BadCallError(f"request.kind: expected '', 'v1', 'Pod', got {got}: the webhook's rules match too much")
    return request


def _pod(raw: msgspec.Raw, field: str) -> Pod:
    if bytes(raw) == _JSON_NULL:
        raise BadObjectError(f"request.{field}: missing")
    try:
        return msgspec.json.decode(raw, type=Pod)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadObjectError(f"request.{field}: {error}") from None


def encode(uid: str, answer: Answer) -> bytes:
    """Write the answer to the question `uid`. An empty patch is left out together with its type."""
    patch = msgspec.json.encode(answer.operations) if answer.operations else b""
    response = _Response(
        uid=uid,
        allowed=answer.allowed,
        status=_Status(answer.code, answer.message, _REASONS.get(answer.code, "")) if answer.code else None,
        patch_type="JSONPatch" if patch else "",
        patch=base64.b64encode(patch).decode("ascii"),
        warnings=answer.warnings,
    )
    return msgspec.json.encode(_Review(_API_VERSION, _KIND, response))
