"""The application: the review routes, and behind them a Flask app for probes and metrics."""

import logging
from collections.abc import Callable

from flask import Flask, Response, request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from werkzeug.exceptions import HTTPException

from webhook import review
from webhook.config import Config
from webhook.logs import whereabouts
from webhook.metrics import Metrics
from webhook.reviews import Reviews

Ready = Callable[[], str | None]  # why the process should get no new calls; None when it should

_log = logging.getLogger("webhook")


def create_app(config: Config, metrics: Metrics, ready: Ready) -> Flask:
    """Make the WSGI application. `ready` is asked by /readyz and must answer at once."""
    app = Flask("webhook", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = review.MAX_BODY_BYTES
    _add_probes(app, metrics, ready)
    _add_errors(app, metrics)
    app.wsgi_app = Reviews(app.wsgi_app, config, metrics)  # type: ignore[method-assign]  # Flask's way to wrap an app
    return app


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
    def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        metrics.bad_calls.labels(str(status)).inc()
        _log.warning("bad call", extra={"fields": {"status": status, "path": request.path[:100]}})
        return _text(f"{error.description or error.name}\n", status)

    def failure(error: Exception) -> Response:
        _log.error("failed outside a review", extra={"fields": whereabouts(error)})
        return _text("internal error\n", 500)

    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(Exception, failure)


def _text(text: str, status: int = 200) -> Response:
    return Response(text, status, content_type="text/plain; charset=utf-8")
