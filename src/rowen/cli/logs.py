"""The log on stderr, for those who ask for it with -v."""

import logging
import sys

from rowen.cli.words import escaped, one_line

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


def start_logging(verbose: int) -> None:
    """Write logs to stderr: errors only, everything that happened (-v), or every detail (-vv)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=_LEVELS[min(verbose, 2)], handlers=[handler])
