"""The log on stderr, for those who ask for it with -v."""

import logging
import sys

__all__ = ["start_logging"]

_LEVELS = (logging.ERROR, logging.INFO, logging.DEBUG)


class _Line(logging.Formatter):
    """A past-tense phrase and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        fields = getattr(record, "fields", None) or {}
        return " ".join([line, *(f"{name}={value}" for name, value in fields.items() if value not in (None, 0, ""))])


def start_logging(verbose: int) -> None:
    """Write logs to stderr: errors only, everything that happened (-v), or every detail (-vv)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=_LEVELS[min(verbose, 2)], handlers=[handler])
