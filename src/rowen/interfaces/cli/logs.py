"""The log on stderr, for those who ask for it with -v."""

import json
import logging
import sys
from datetime import UTC, datetime

from rowen.interfaces.cli.words import escaped, one_line

__all__ = ["start_logging"]

_LEVELS = (logging.ERROR, logging.INFO, logging.DEBUG)


class _Line(logging.Formatter):
    """A past-tense phrase and its fields, on one line; a traceback is set in below it."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record)).replace("\n", "\n    ")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the name is logging's)
        line = super().formatMessage(record)
        fields = getattr(record, "fields", None) or {}
        told = (f"{name}={value}" for name, value in fields.items() if value not in (None, 0, ""))
        return one_line(" ".join([line, *told]))


class _JsonLine(logging.Formatter):
    """The same as one JSON object: what happened under `event`, when, where, and its fields beside them."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = {"at": at, "level": record.levelname.lower(), "logger": record.name, "event": record.getMessage()}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        fields = {name: value for name, value in (getattr(record, "fields", None) or {}).items() if name not in told}
        # Only ASCII, so that nothing from outside can end a line or speak to a terminal.
        return json.dumps({**told, **fields}, default=str)


def start_logging(verbose: int, *, as_json: bool = False) -> None:
    """Write logs to stderr: errors only, everything that happened (-v), or every detail (-vv)."""
    handler = logging.StreamHandler(sys.stderr)
    usual = _Line("%(asctime)s %(name)s: %(message)s", "%H:%M:%S")
    handler.setFormatter(_JsonLine() if as_json else usual)
    logging.basicConfig(level=_LEVELS[min(verbose, 2)], handlers=[handler])
