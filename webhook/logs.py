"""One JSON object per log line, on standard error, for our own loggers and gunicorn's alike.

A line holds what its caller put there, never the text of an exception: that may quote the pod under review. May know
the standard library only.
"""

import json
import logging
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class JsonFormatter(logging.Formatter):
    """`logger.info("text", extra={"fields": {...}})` becomes one object."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1]:
            line.update(whereabouts(record.exc_info[1]))
        return json.dumps(line, ensure_ascii=False)


def whereabouts(error: BaseException) -> dict[str, Any]:
    """Type and places of an error, innermost last, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
    return {"error": type(error).__name__, "at": places[-12:]}


def configuration(level: str) -> dict[str, Any]:
    """For logging.config.dictConfig and gunicorn's `logconfig_dict`. gunicorn insists on a handler of that name."""
    threshold = level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "webhook.logs.JsonFormatter"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
        "root": {"level": threshold, "handlers": ["console"]},
        "loggers": {"gunicorn.error": {"level": threshold, "handlers": [], "propagate": True}},
    }
