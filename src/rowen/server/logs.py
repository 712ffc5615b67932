"""The log as JSON lines, each with the request that it is about."""

import json
import logging
import sys
from datetime import UTC, datetime

from rowen.server.requests import REQUEST_ID

__all__ = ["log_as_json"]


class JsonLine(logging.Formatter):
    """One JSON object a line: when, how bad, who, what, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line; a line break inside would end it, and JSON has none."""
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if number := REQUEST_ID.get():
            told["request"] = number
        told |= {name: value for name, value in (getattr(record, "fields", None) or {}).items() if name not in told}
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def log_as_json(level: int) -> None:
    """Write all logs to stderr this way."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine())
    logging.basicConfig(level=level, handlers=[handler], force=True)
