"""`--since`: a number of the change log, a time that has passed, or a date."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

__all__ = ["SinceParam", "parse"]

_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PASSED = re.compile(r"(\d{1,7})\s*(s|min|m|h|d|w)")


def parse(text: str) -> int | timedelta | datetime:
    """Read what a user typed; raises `ValueError` for anything else."""
    if text.isascii() and text.isdigit():
        return int(text)
    if match := _PASSED.fullmatch(text.lower()):
        unit = "min" if match[2] == "m" else match[2]
        return timedelta(**{_UNITS[unit]: int(match[1])})
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


class SinceParam(click.ParamType[int | timedelta | datetime]):
    """The same as a type of option."""

    name = "N|1d|DATE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | timedelta | datetime:
        """Read it."""
        try:
            return parse(value) if isinstance(value, str) else value
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no change number (42), time passed (30min, 2h, 1d) or date (2026-01-31).")
