"""The process: arguments, configuration, certificates, then gunicorn with one worker until told to stop.

One worker keeps the counters in one process; threads are enough, since a call costs well under a millisecond. May know
everything of the webhook; nothing imports it.
"""

import argparse
import gc
import logging
import logging.config
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from ssl import SSLContext
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication
from prometheus_client import CollectorRegistry, ProcessCollector

from webhook import config, logs, tls
from webhook.app import create_app
from webhook.metrics import Metrics
from webhook.worker import Drain, Worker, close_if

# Longer than Go's 90 s of idling, so that the API server closes first: with gunicorn's 2 s a call now and then meets a
# connection that is just being closed, and fails (linkerd2 #14096 is the same).
KEEPALIVE_SECONDS: Final = 120
THREADS: Final = 16  # API servers call in parallel, and a stalled peer holds one thread for --io-timeout
HEARTBEAT_SECONDS: Final = 30  # of the worker's main thread, which never handles a call
# A peer holds a thread for one --io-timeout at most, and gunicorn lingers 2 s for calls that are on their way.
STOP_SECONDS: Final = 4
LOG_EVERY_SECONDS: Final = 10

_log = logging.getLogger("webhook")


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    bind: str
    cert_dir: Path
    config: Path | None
    wait_for_certificate: float  # seconds, as are those below
    drain: float
    io_timeout: float


def options(argv: Sequence[str]) -> Options:
    """Read the command line. Ends the process with status 2 when it is wrong, as argparse does."""
    parser = argparse.ArgumentParser("ganggate-webhook", description="Admission webhook of ganggate.")
    parser.add_argument("--bind", default="0.0.0.0:9443", metavar="HOST:PORT")
    parser.add_argument("--cert-dir", type=Path, required=True, metavar="DIR", help="holds tls.crt and tls.key")
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML; without it the defaults hold")
    parser.add_argument("--wait-for-certificate", type=float, default=300, metavar="SECONDS")
    parser.add_argument("--drain", type=float, default=5, metavar="SECONDS", help="served on after SIGTERM, not ready")
    parser.add_argument("--io-timeout", type=float, default=5, metavar="SECONDS", help="per request and peer")
    return Options(**vars(parser.parse_args(argv)))


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn used as a library: no command line, no configuration file, no environment of its own."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.drain = Drain(options.drain)
        self.io_seconds = options.io_timeout
        self._said = ""  # the last failure to load certificates
        super().__init__()

    @cached_property
    def metrics(self) -> Metrics:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        return Metrics(registry)

    @cached_property
    def certificates(self) -> tls.Certificates:
        def stalled(phase: str) -> None:
            self.metrics.stalls.labels(phase).inc()

        sockets = tls.bounded(self.io_seconds, time.monotonic, stalled)
        return tls.Certificates(self.options.cert_dir, sockets, tls.Watchers(self._loaded, self._failed))

    def _loaded(self, expires: float) -> None:
        self.metrics.reloads.labels("loaded").inc()
        self.metrics.expiry.set(expires)
        self._said = ""
        _log.info("certificate loaded", extra={"fields": {"expires": int(expires)}})

    def _failed(self, why: str) -> None:
        """Counted each time, said once: probes ask every two seconds."""
        self.metrics.reloads.labels("failed").inc()
        if why != self._said:
            _log.error("certificate not loaded", extra={"fields": {"why": why}})
        self._said = why

    def load_config(self) -> None:
        """Called by gunicorn, at start and at SIGHUP: the file is read again then."""
        self.config = config.load(self.options.config)
        for key, value in self._settings().items():
            self.cfg.set(key, value)

    def _settings(self) -> dict[str, Any]:
        folder = tls.generation(self.options.cert_dir)
        return {
            "bind": self.options.bind,
            "worker_class": Worker,
            "workers": 1,
            "threads": THREADS,
            "keepalive": KEEPALIVE_SECONDS,
            "timeout": HEARTBEAT_SECONDS,
            "graceful_timeout": int(self.options.drain + self.io_seconds + STOP_SECONDS),
            "worker_tmp_dir": heartbeat_dir(Path("/dev/shm")),  # noqa: S108 -- memory: no disk delays a heartbeat
            "control_socket_disable": True,  # it wants a writable home and nobody uses it
            "certfile": str(folder / tls.CERTIFICATE),  # makes gunicorn speak TLS; loading is up to ssl_context
            "keyfile": str(folder / tls.KEY),
            "ssl_context": self._ssl_context,
            "pre_request": self._pre_request,
            "logconfig_dict": logs.configuration(self.config.log_level),
            "loglevel": self.config.log_level,
        }

    def _ssl_context(self, _settings: Any, _default: Callable[[], SSLContext]) -> SSLContext:
        return self.certificates.context()

    def _pre_request(self, _worker: Any, request: Any) -> None:
        close_if(request, lambda: self.drain.begun)  # what moves an API server to another replica

    def load(self) -> Flask:
        """Called by gunicorn in the worker's process."""
        self.certificates.context()
        app = create_app(self.config, self.metrics, self.unready)
        gc.collect()
        gc.freeze()  # what is here now stays: looking through it again and again would be the longest pause of a call
        return app

    def unready(self) -> str | None:
        """Why /readyz says no."""
        if self.drain.begun:
            return "draining"
        expires = self.certificates.expires()
        return "certificate expired" if expires <= time.time() else None


def heartbeat_dir(memory: Path) -> str:
    """The worker touches a file here each second; containers without /dev/shm have to do with /tmp."""
    return str(memory) if memory.is_dir() and os.access(memory, os.W_OK) else tempfile.gettempdir()


def wait_for_certificate(
    directory: Path, seconds: float, clock: Callable[[], float], sleep: Callable[[float], None]
) -> bool:
    """Wait until both files are there, saying so now and then; False when `seconds` have gone by without."""
    start = clock()
    said = start - LOG_EVERY_SECONDS
    while not tls.are_there(directory):
        now = clock()
        if now - start >= seconds:
            return False
        if now - said >= LOG_EVERY_SECONDS:
            said = now
            fields = {"directory": str(directory), "waited": round(now - start), "limit": round(seconds)}
            _log.info("waiting for %s and %s", tls.CERTIFICATE, tls.KEY, extra={"fields": fields})
        sleep(min(0.2, seconds))
    return True


def run(argv: Sequence[str] | None = None) -> None:
    """Entry point. Exit status 2: wrong arguments or configuration; 1: no certificate; 0: told to stop."""
    chosen = options(sys.argv[1:] if argv is None else argv)
    try:
        level = config.load(chosen.config).log_level
    except config.ConfigError as error:
        sys.stderr.write(f"ganggate-webhook: {error}\n")
        sys.exit(2)
    logging.config.dictConfig(logs.configuration(level))
    if not wait_for_certificate(chosen.cert_dir, chosen.wait_for_certificate, time.monotonic, time.sleep):
        _log.error("no certificate", extra={"fields": {"directory": str(chosen.cert_dir)}})
        sys.exit(1)
    Application(chosen).run()


if __name__ == "__main__":
    run()
