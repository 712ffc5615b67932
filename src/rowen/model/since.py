"""Since when: a number of the change log, a time that has passed, or a date, as people type it."""

import re
from datetime import UTC, datetime, timedelta

__all__ = ["parse_since"]

_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PASSED = re.compile(r"(\d{1,7})\s*(s|min|m|h|d|w)")
# A thousand years. Longer spans are mistakes, and twice as much exceeds the range of dates.
_LONGEST = timedelta(days=365_000)


def parse_since(text: str) -> int | timedelta | datetime:
    """Read what a user typed; raises `ValueError` or `OverflowError` for anything else."""
    if text.isascii() and text.isdigit():
        return int(text)
    if match := _PASSED.fullmatch(text.lower()):
        unit = "min" if match[2] == "m" else match[2]
        passed = timedelta(**{_UNITS[unit]: int(match[1])})
        if passed > _LONGEST:
            raise ValueError(f"{text} is too long ago")
        return passed
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
