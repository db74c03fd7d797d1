"""The routes: a Flask factory around webhook.answers.

Every call gets an answer: a verdict, HTTP 4xx with a reason for what is no AdmissionReview, or an AdmissionReview that
carries our own failure, so that the API server never waits for its timeout. No state but counters.
"""

import logging
from collections.abc import Callable
from typing import Final

from flask import Flask, Response, g, request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from werkzeug.exceptions import HTTPException, NotFound, RequestEntityTooLarge

from policy import names
from webhook import answers, review
from webhook.config import Config
from webhook.logs import whereabouts
from webhook.metrics import Metrics

GATE_REMOVAL: Final = "gate-removal"  # the last element of /validate/<…> that is no policy

Ready = Callable[[], str | None]  # why the process should get no new calls; None when it should
_Judge = Callable[[review.Request], review.Answer]

_DRAINED_AT_MOST: Final = 4 * review.MAX_BODY_BYTES
_CHUNK: Final = 64 * 1024

_log = logging.getLogger("webhook")


def create_app(config: Config, metrics: Metrics, ready: Ready) -> Flask:
    """Make the WSGI application. `ready` is asked by /readyz and must answer at once."""
    app = Flask("webhook", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = review.MAX_BODY_BYTES
    _add_reviews(app, config, metrics)
    _add_probes(app, metrics, ready)
    _add_errors(app, metrics)
    return app


def _add_reviews(app: Flask, config: Config, metrics: Metrics) -> None:
    def mutate(last: str) -> Response:
        policy = _policy(last)
        return _review("mutate", last, lambda call: answers.on_mutate(call, policy, config), metrics)

    def validate(last: str) -> Response:
        if last == GATE_REMOVAL:
            return _review("validate", last, answers.on_gate_removal, metrics)
        policy = _policy(last)
        return _review("validate", last, lambda call: answers.on_validate(call, policy, config), metrics)

    app.add_url_rule("/mutate/<last>", view_func=mutate, methods=["POST"])
    app.add_url_rule("/validate/<last>", view_func=validate, methods=["POST"])


def _policy(last: str) -> names.Policy:
    try:
        return names.Policy(last)
    except ValueError:
        raise NotFound(f"policy: {last[:64]!r} is none of {', '.join(names.Policy)}") from None


def _review(entry: str, last: str, judge: _Judge, metrics: Metrics) -> Response:
    with metrics.in_flight.track_inprogress():
        body = request.get_data(cache=False)
        with metrics.latency.labels(entry).time():
            call = review.decode(body, request.headers.get("Content-Type", ""))
            g.call = (entry, last, call)
            return _answer(entry, last, call, judge(call), metrics)


def _answer(entry: str, last: str, call: review.Request, answer: review.Answer, metrics: Metrics) -> Response:
    metrics.verdicts.labels(entry, last, answer.verdict, answer.why).inc()
    level = logging.DEBUG if answer.allowed else logging.INFO
    if _log.isEnabledFor(level):
        _log.log(level, answer.verdict, extra={"fields": _traits(entry, last, call) | {"why": answer.why}})
    return Response(review.encode(call.uid, answer), content_type="application/json")


def _traits(entry: str, last: str, call: review.Request) -> dict[str, str]:
    """What may be logged of a call: nothing that its object holds."""
    return {"entry": entry, "policy": last, "uid": call.uid, "namespace": call.namespace, "op": call.operation}


def _add_probes(app: Flask, metrics: Metrics, ready: Ready) -> None:
    def healthz() -> Response:
        return _text("ok\n")

    def readyz() -> Response:
        reason = ready()
        return _text("ok\n") if reason is None else _text(f"{reason}\n", 503)

    def expose() -> Response:
        return Response(generate_latest(metrics.registry), content_type=CONTENT_TYPE_LATEST)

    app.add_url_rule("/healthz", view_func=healthz)
    app.add_url_rule("/readyz", view_func=readyz)
    app.add_url_rule("/metrics", view_func=expose, endpoint="metrics")


def _add_errors(app: Flask, metrics: Metrics) -> None:
    def bad_call(error: review.BadCallError) -> Response:
        return _bad_call(str(error), error.status, metrics)

    def http_error(error: HTTPException) -> Response:
        if isinstance(error, RequestEntityTooLarge):
            _drain()
            return _bad_call(f"body: more than {review.MAX_BODY_BYTES} bytes", 413, metrics)
        return _bad_call(error.description or error.name, error.code or 500, metrics)

    def failure(error: Exception) -> Response:
        return _failure(error, metrics)

    app.register_error_handler(review.BadCallError, bad_call)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(Exception, failure)


def _bad_call(text: str, status: int, metrics: Metrics) -> Response:
    metrics.bad_calls.labels(str(status)).inc()
    _log.warning("bad call", extra={"fields": {"status": status, "path": request.path[:100]}})
    return _text(f"{text}\n", status)


def _drain() -> None:
    """Read on for a while: closing at once would reset the connection before the caller has seen why."""
    stream, read = request.environ["wsgi.input"], 0
    while read < _DRAINED_AT_MOST and (chunk := stream.read(_CHUNK)):
        read += len(chunk)


def _failure(error: Exception, metrics: Metrics) -> Response:
    """A fault of ours. The text of the error may quote the object, so neither caller nor log is given it."""
    if "call" not in g:
        _log.error("failed outside a review", extra={"fields": whereabouts(error)})
        return _text("internal error\n", 500)
    entry, last, call = g.call
    _log.error("failed", extra={"fields": _traits(entry, last, call) | whereabouts(error)})
    metrics.verdicts.labels(entry, last, "error", type(error).__name__).inc()
    message = f"ganggate failed on this {call.operation} ({type(error).__name__}); its log has uid {call.uid}"
    answer = review.Answer("error", code=500, message=message)
    return Response(review.encode(call.uid, answer), content_type="application/json")


def _text(text: str, status: int = 200) -> Response:
    return Response(text, status, content_type="text/plain; charset=utf-8")
