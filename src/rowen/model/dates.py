"""Parse times of sources and users into aware datetimes in UTC, limited so that days can be added without overflow."""

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from rowen.errors import UsageError

_MARGIN = timedelta(days=3)  # The largest extension: a day to its end, and twice the widest time zone offset.
EARLIEST = datetime.min.replace(tzinfo=UTC) + _MARGIN
LATEST = datetime.max.replace(tzinfo=UTC) - _MARGIN


def http_date(text: str | None) -> datetime | None:
    """Parse the date of a header such as Date; a date without a time zone, or with `-0000`, is in UTC."""
    try:
        return in_utc(parsedate_to_datetime(text)) if text else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def iso_moment(text: str, *, zone_h: float = 0) -> datetime | None:
    """Parse an ISO 8601 time; a time without a time zone is in the zone `zone_h` hours east of UTC."""
    try:
        value = datetime.fromisoformat(text)
        return in_utc(value if value.tzinfo else value - timedelta(hours=zone_h))
    except (ValueError, OverflowError):
        return None


def in_utc(value: datetime) -> datetime | None:
    """Return the moment in UTC; a moment without a time zone is in UTC already. Return None if it is out of range."""
    if value.tzinfo is None:
        return bounded(value.replace(tzinfo=UTC))
    try:
        return bounded(value.astimezone(UTC))
    except OverflowError:
        return None


def bounded(value: datetime) -> datetime:
    """Return the moment, limited to the supported range."""
    return min(max(value, EARLIEST), LATEST)


_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PASSED = re.compile(r"(\d{1,7})\s*(s|min|m|h|d|w)")
# A thousand years. A longer duration is a mistake, and twice as much exceeds the range of dates.
_LONGEST = timedelta(days=365_000)


def parse_since(text: str) -> int | timedelta | datetime:
    """Parse a change number, a duration or a date as users type it; raise `ValueError` or `OverflowError`."""
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


def since_of(text: str) -> int | datetime | timedelta:
    """Return a change number, a duration or a date; raise `UsageError` if `text` is invalid."""
    try:
        start = parse_since(text.strip())
    except (ValueError, OverflowError):
        start = -1
    # A bigint has 19 digits, and the database rejects larger numbers.
    if isinstance(start, int) and not 0 <= start < 10**18:
        raise UsageError(
            f"{text!r} is no change number, span of time or date.", hint="Such as 42, 2h, 1d, 4w, 2026-01-31."
        )
    return start


def period_of(text: str) -> datetime | timedelta:
    """Return a date or a duration; raise `UsageError` if `text` is invalid."""
    start = since_of(text)
    if isinstance(start, int):
        raise UsageError(f"{text!r} is no date or span of time.", hint="Such as 2h, 1d, 4w, 2026-01-31.")
    return start


def moment_of(text: str) -> datetime:
    """Return a date, or the moment a duration ago; raise `UsageError` if `text` is invalid."""
    start = period_of(text)
    return datetime.now(UTC) - start if isinstance(start, timedelta) else start
