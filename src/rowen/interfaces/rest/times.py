"""Moments in questions: a date, or a time that has passed."""

from datetime import UTC, datetime, timedelta

from rowen.errors import UsageError
from rowen.model.dates import parse_since

__all__ = ["moment_of", "since_of"]


def since_of(text: str | None) -> int | datetime | timedelta:
    """A number of the change log, a time that has passed or a date; nothing is the beginning."""
    if text is None:
        return 0
    try:
        found = parse_since(text)
    except (ValueError, OverflowError):
        found = -1
    # A bigint has 19 digits, and the database refuses more.
    if isinstance(found, int) and not 0 <= found < 10**18:
        raise UsageError(f"{text!r} is no change number, time passed or date.", hint="Such as 42, 2h, 1d, 2026-01-31.")
    return found


def moment_of(text: str | None) -> datetime | None:
    """A date, or a time that has passed, as a moment."""
    if text is None:
        return None
    found = since_of(text)
    if isinstance(found, int):
        raise UsageError(f"{text!r} is no date and no time that has passed.", hint="Such as 2h, 1d, 2026-01-31.")
    return datetime.now(UTC) - found if isinstance(found, timedelta) else found
