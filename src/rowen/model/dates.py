"""Moments as the outside writes them: aware, in UTC, and so far from the ends of time that they can be moved.

Nothing here raises: what is no moment is None.
"""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

__all__ = ["bounded", "http_date", "in_utc", "iso_moment"]

_MARGIN = timedelta(days=3)  # a day to its end, and twice the widest time zone
EARLIEST = datetime.min.replace(tzinfo=UTC) + _MARGIN
LATEST = datetime.max.replace(tzinfo=UTC) - _MARGIN


def http_date(text: str | None) -> datetime | None:
    """The moment of a header such as Date; one that tells no zone, or `-0000`, is meant in UTC."""
    try:
        return in_utc(parsedate_to_datetime(text)) if text else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def iso_moment(text: str, *, zone_h: float = 0) -> datetime | None:
    """The moment that ISO 8601 writes so; a time without a zone is told in one of so many hours east of UTC."""
    try:
        value = datetime.fromisoformat(text)
        return in_utc(value if value.tzinfo else value - timedelta(hours=zone_h))
    except (ValueError, OverflowError):
        return None


def in_utc(value: datetime) -> datetime | None:
    """The same moment in UTC, for which a time without a zone is taken; None beyond the ends of time."""
    if value.tzinfo is None:
        return bounded(value.replace(tzinfo=UTC))
    try:
        return bounded(value.astimezone(UTC))
    except OverflowError:
        return None


def bounded(value: datetime) -> datetime:
    """The moment, or the first or last one that can be moved."""
    return min(max(value, EARLIEST), LATEST)
