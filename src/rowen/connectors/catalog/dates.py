"""Dates as catalogs write them, read into ISO 8601: in UTC where a time is told, no more exact than they were."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any

__all__ = ["iso", "moment"]

EARLIEST_YEAR = 1000
"""What is older is no date that a catalog means: year 1 is what a database gives for "none"."""

_LONGEST = 64
_ISO = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)? ?(Z|UTC|GMT|[+-]\d{2}:?(?:\d{2})?)?",
    re.IGNORECASE,
)
_DATE = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})")
_DAY_OR_MONTH_FIRST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?:[ T,].*)?")
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
_DIGITS = re.compile(r"-?\d+(?:\.0+)?")


def iso(value: Any) -> str | None:
    """A date, year, month or moment in ISO 8601; None for what is none: intervals, free text, 31 February."""
    match value:
        case bool():
            return None
        case int() | float():
            return _written(_epoch(value))
        case str() if 4 <= len(text := value.strip()) <= _LONGEST:
            return _of_text(text)
    return None


def moment(value: Any) -> datetime | None:
    """The same as an aware moment, for comparing; a time without a zone is UTC, a day begins at midnight."""
    text = iso(value)
    if text is None or len(text) < len("2000-01-01"):
        return None
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _of_text(text: str) -> str | None:
    if len(text) > 16 and text[10] == "T":
        with suppress(ValueError, OverflowError):
            said = datetime.fromisoformat(text)
            if said.tzinfo is None and said.year >= EARLIEST_YEAR:
                return said.isoformat() + "Z"
            return _written(_in_utc(said))
    if _DIGITS.fullmatch(text):
        return _of_digits(text.partition(".")[0])
    if _MONTH.fullmatch(text):
        return text if int(text[:4]) >= EARLIEST_YEAR else None
    if found := _ISO.fullmatch(text):
        return _written(_zoned(found))
    if found := _DATE.fullmatch(text):
        return _written(_day(*map(int, found.groups())))
    if found := _DAY_OR_MONTH_FIRST.fullmatch(text):
        return _written(_sorted_out(int(found[1]), int(found[3]), int(found[4])))
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        return _written(_in_utc(parsedate_to_datetime(text)))
    return None


def _of_digits(text: str) -> str | None:
    match len(text):
        case 4:
            return text if text.isdigit() and int(text) >= EARLIEST_YEAR else None
        case 8:
            return _written(_day(int(text[:4]), int(text[4:6]), int(text[6:])))
        case 14:
            with suppress(ValueError):
                return _written(datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC))
            return None
        case 9 | 10 | 12 | 13:
            return _written(_epoch(int(text)))
    return None


def _epoch(number: float) -> datetime | None:
    """Seconds or, where that would be the far future, milliseconds since 1970."""
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(number / 1000 if abs(number) > 1e11 else number, UTC)
    return None


def _zoned(found: re.Match[str]) -> datetime | None:
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    digits = (zone or "").upper().replace(":", "")
    offset = "+0000" if digits in ("", "Z", "UTC", "GMT") else digits.ljust(5, "0")
    written = f"{year}-{month}-{day} {hour}:{minute}:{second or '00'}.{(fraction or '0')[:6]}{offset}"
    with suppress(ValueError, OverflowError):
        return datetime.strptime(written, "%Y-%m-%d %H:%M:%S.%f%z").astimezone(UTC)
    return None


def _in_utc(value: datetime) -> datetime:
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _day(year: int, month: int, day: int) -> date | None:
    with suppress(ValueError):
        return date(year, month, day)
    return None


def _sorted_out(first: int, second: int, year: int) -> date | None:
    """A day and a month in either order, if the numbers tell which is which."""
    if first > 12 or first == second:
        return _day(year, second, first)
    return _day(year, first, second) if second > 12 else None


def _written(value: date | None) -> str | None:
    if value is None or value.year < EARLIEST_YEAR:
        return None
    return value.isoformat().replace("+00:00", "Z")
