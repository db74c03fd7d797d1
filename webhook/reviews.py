"""The routes that the API server calls, as a plain WSGI application in front of Flask.

Flask's own work on a request is a third of what a call cost on one kept-alive connection, and every pod of a cluster
waits for it. Every call gets an answer: a verdict, HTTP 4xx with a reason for what is no AdmissionReview, or an
AdmissionReview that carries our own failure, so that the API server never waits for its timeout. No state but counters.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Final

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wsgi import get_input_stream

from policy import names
from webhook import answers, review
from webhook.config import Config
from webhook.logs import whereabouts
from webhook.metrics import Metrics

GATE_REMOVAL: Final = "gate-removal"  # the last element of /validate/<…> that is no policy

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Wsgi = Callable[[Environ, StartResponse], Iterable[bytes]]

_DRAINED_AT_MOST: Final = 4 * review.MAX_BODY_BYTES
_CHUNK: Final = 64 * 1024
_ENTRIES: Final = ("/mutate/", "/validate/")
_MORE: Final = {405: [("Allow", "POST")]}  # headers that a status asks for
_STATUS: Final = {
    200: "200 OK",
    400: "400 Bad Request",
    404: "404 Not Found",
    405: "405 Method Not Allowed",
    413: "413 Content Too Large",
    500: "500 Internal Server Error",
}
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"

_log = logging.getLogger("webhook")


@dataclass(frozen=True, slots=True)
class Route:
    """One path: `entry` and `last` are its elements, for counters and the log."""

    entry: str
    last: str
    judge: Callable[[review.Request], review.Answer]


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    body: bytes
    kind: str = _JSON


def routes(config: Config) -> Mapping[str, Route]:
    """Every review route by its path."""
    found = [Route("validate", GATE_REMOVAL, answers.on_gate_removal)]
    for policy in names.Policy:
        found += [
            Route("mutate", policy, partial(answers.on_mutate, policy=policy, config=config)),
            Route("validate", policy, partial(answers.on_validate, policy=policy, config=config)),
        ]
    return {f"/{each.entry}/{each.last}": each for each in found}


class Reviews:
    """Answers the review routes and hands all else to `rest`."""

    def __init__(self, rest: Wsgi, config: Config, metrics: Metrics) -> None:
        self._rest = rest
        self._routes = routes(config)
        self._metrics = metrics

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith(_ENTRIES):
            return self._rest(environ, start_response)
        with self._metrics.in_flight.track_inprogress():
            reply = self._reply(environ)
        headers = [("Content-Type", reply.kind), ("Content-Length", str(len(reply.body))), *_MORE.get(reply.status, ())]
        start_response(_STATUS[reply.status], headers)
        return [reply.body]

    def _reply(self, environ: Environ) -> _Reply:
        try:
            route = self._route(environ)
            body = _body(environ)
            with self._metrics.latency.labels(route.entry).time():
                return self._judged(route, review.decode(body, environ.get("CONTENT_TYPE", "")))
        except review.BadCallError as error:
            return self._bad_call(error, environ)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the API server gets an answer
            _log.error("failed outside a review", extra={"fields": whereabouts(error)})
            return _Reply(500, b"internal error\n", _TEXT)

    def _route(self, environ: Environ) -> Route:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if (route := self._routes.get(path)) is None:
            raise review.BadCallError(f"path: {path[:64]!r} ends in no policy: {', '.join(names.Policy)}", 404)
        if method != "POST":
            raise review.BadCallError(f"method: expected POST, got {method[:16]!r}", 405)
        return route

    def _judged(self, route: Route, call: review.Request) -> _Reply:
        try:
            answer = route.judge(call)
        except Exception as error:  # noqa: BLE001 -- counted; its text may quote the object, so nobody is given it
            answer = self._failure(route, call, error)
        else:
            self._metrics.verdicts.labels(route.entry, route.last, answer.verdict, answer.why).inc()
            level = logging.DEBUG if answer.allowed else logging.INFO
            if _log.isEnabledFor(level):
                _log.log(level, answer.verdict, extra={"fields": _traits(route, call) | {"why": answer.why}})
        return _Reply(200, review.encode(call.uid, answer))

    def _failure(self, route: Route, call: review.Request, error: Exception) -> review.Answer:
        kind = type(error).__name__
        _log.error("failed", extra={"fields": _traits(route, call) | whereabouts(error)})
        self._metrics.verdicts.labels(route.entry, route.last, "error", kind).inc()
        message = f"ganggate failed on this {call.operation} ({kind}); its log has uid {call.uid}"
        return review.Answer("error", code=500, message=message)

    def _bad_call(self, error: review.BadCallError, environ: Environ) -> _Reply:
        self._metrics.bad_calls.labels(str(error.status)).inc()
        _log.warning("bad call", extra={"fields": {"status": error.status, "path": environ["PATH_INFO"][:100]}})
        return _Reply(error.status, f"{error}\n".encode(), _TEXT)


def _traits(route: Route, call: review.Request) -> dict[str, str]:
    """What may be logged of a call: nothing that its object holds."""
    about = {"uid": call.uid, "namespace": call.namespace, "op": call.operation}
    return {"entry": route.entry, "policy": route.last} | about


def _body(environ: Environ) -> bytes:
    """The whole body. Raises BadCallError when it is above the bound."""
    try:
        return get_input_stream(environ, max_content_length=review.MAX_BODY_BYTES).read()
    except RequestEntityTooLarge:
        _drain(environ["wsgi.input"])
        raise review.BadCallError(f"body: more than {review.MAX_BODY_BYTES} bytes", 413) from None


def _drain(stream: IO[bytes]) -> None:
    """Read on for a while: closing at once would reset the connection before the caller has seen why."""
    read = 0
    while read < _DRAINED_AT_MOST and (chunk := stream.read(_CHUNK)):
        read += len(chunk)
