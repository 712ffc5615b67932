"""Times of members and bounds of pages, as microseconds; a time that is not exact is an interval."""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rowen.model.dates import iso_moment

__all__ = ["Interval", "interval_of", "microseconds", "moment_of", "moment_within"]

_EPOCH = datetime(1, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# XML Schema 1.1, part 2, section 3.3.7.2: zones reach from -14:00 to +14:00, so a time without one may be any of these.
_ZONES_US = 14 * 3600 * 1_000_000
_SHORTEST_EXACT = len("2024-01-01T00:00:00Z")
_LAST_YEAR = 9999  # moments at the ends of time are moved inwards, one by one
_ZONE = re.compile(r"[+-]\d\d:?\d\d", re.ASCII)
_PARTIAL = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)(?:T(?P<hour>\d\d)(?::(?P<minute>\d\d))?)?)?)?"
    r"(?P<zone>Z|[+-]\d\d:\d\d)?",
    re.ASCII,
)


class Interval(NamedTuple):
    """From the first moment that is meant to the last one; the same where it is exact."""

    low: int
    high: int


def microseconds(at: datetime) -> int:
    """A moment as a number that sorts as time does."""
    return (at - _EPOCH) // _MICROSECOND


def moment_of(number: int) -> str:
    """The moment of such a number, written in ISO 8601."""
    return (_EPOCH + number * _MICROSECOND).isoformat().replace("+00:00", "Z")


def moment_within(text: str) -> int | None:
    """The moment that a text stands for, the middle of what it may mean; one without a zone counts as UTC."""
    if len(text) >= _SHORTEST_EXACT:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            return None
        if at.tzinfo is not None and 1 < at.year < _LAST_YEAR:
            return (at - _EPOCH) // _MICROSECOND
    found = interval_of(text)
    return None if found is None else (found.low + found.high) // 2


def interval_of(text: str) -> Interval | None:
    """What a `dateTime`, a date, a month, a year or a part of a time stands for; None for what is none of them."""
    if found := _PARTIAL.fullmatch(text):
        return _span(found)
    at = iso_moment(text)
    if at is None:
        return None
    number = microseconds(at)
    return Interval(number, number) if _has_zone(text) else Interval(number - _ZONES_US, number + _ZONES_US)


def _has_zone(text: str) -> bool:
    return text.endswith(("Z", "z")) or ("T" in text and _ZONE.fullmatch(text[-6:].lstrip("0123456789.")) is not None)


def _span(found: re.Match[str]) -> Interval | None:
    year, month, day, hour, minute = (int(part) if part else None for part in found.groups()[:5])
    try:
        low = datetime(year if year is not None else 1, month or 1, day or 1, hour or 0, minute or 0, tzinfo=UTC)
        if minute is not None:
            high = low + timedelta(minutes=1)
        elif hour is not None:
            high = low + timedelta(hours=1)
        elif day is not None:
            high = low + timedelta(days=1)
        elif month is not None:
            high = (low.replace(day=28) + timedelta(days=4)).replace(day=1)
        else:
            high = low.replace(year=low.year + 1)
    except (ValueError, OverflowError):
        return None
    zone = found["zone"]
    slack, shift = (0, _offset_us(zone)) if zone else (_ZONES_US, 0)
    return Interval(microseconds(low) - shift - slack, microseconds(high) - shift + slack - 1)


def _offset_us(zone: str) -> int:
    if zone == "Z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[4:])
    return (minutes if zone[0] == "+" else -minutes) * 60_000_000
