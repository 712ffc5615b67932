"""Convert the dates of catalogs to ISO 8601 in their own precision; times are converted to UTC."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from rowen.model.dates import iso_moment

# Older dates are placeholders: databases write year 1 for "none".
EARLIEST_YEAR = 1000
_LATEST_YEAR = 2999  # 9999 stands for "never"; dates of coverage reach to 2100
_LONGEST = 64  # characters: twice the longest written-out date; a longer text is a sentence
_ISO = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)? ?(Z|UTC|GMT|[+-]\d{2}:?(?:\d{2})?)?",
    re.IGNORECASE,
)
_DATE = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})")
_DAY_OR_MONTH_FIRST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?:[ T,].*)?")
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
_DIGITS = re.compile(r"-?\d+(?:\.0+)?", re.ASCII)
_COMPACT = re.compile(r"\d{8}T\d{4}(?:\d{2})?(?:Z|[+-]\d{2}:?(?:\d{2})?)?", re.ASCII)
_WORDED = re.compile(r"[\w .,/-]+")
_WORD = re.compile(r"[0-9]+|[^\W\d_]+")
_FILLERS = frozenset({"st", "nd", "rd", "th", "of", "er", "º", "de", "del"})
# Month names and abbreviations in English, German, French, Spanish, Italian and Portuguese.
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar jänner janvier janv enero ene gennaio gen janeiro",
            "february feb februar février févr febrero febbraio fevereiro fev",
            "march mar märz mrz mars marzo março",
            "april apr avril avr abril abr aprile",
            "may mai mayo maggio mag maio",
            "june jun juni juin junio giugno giu junho",
            "july jul juli juillet juil julio luglio lug julho",
            "august aug août aout agosto ago",
            "september sep sept septembre septiembre settembre set setembro",
            "october oct oktober okt octobre octubre ottobre ott outubro out",
            "november nov novembre noviembre novembro",
            "december dec dezember dez décembre déc diciembre dic dicembre dezembro",
        ),
        start=1,
    )
    for name in names.split()
}


def iso(value: Any) -> str | None:
    """Return a date, year, month or time in ISO 8601; None for anything else: intervals, free text, 31 February."""
    match value:
        case bool():
            return None
        case int() | float():
            # A number is a calendar date, such as 2020 or 20201231, else the time since 1970.
            if 1e3 <= value < 1e14 and value == int(value) and (dated := _of_calendar(str(int(value)))):
                return dated
            return _written(_epoch(value))
        case str() if 4 <= len(text := value.strip()) <= _LONGEST:
            return _of_text(text)
    return None


def moment(value: Any) -> datetime | None:
    """Return a date as an aware datetime, by default in UTC and at midnight; None for a date without a day."""
    text = iso(value)
    if text is None or len(text) < len("2000-01-01"):
        return None
    return iso_moment(text)


def _of_text(text: str) -> str | None:
    if len(text) > 16 and text[10] == "T":
        with suppress(ValueError, OverflowError):
            said = datetime.fromisoformat(text)
            if said.tzinfo is None and said.year >= EARLIEST_YEAR:
                return said.isoformat() + "Z"
            return _written(_in_utc(said))
    if _DIGITS.fullmatch(text):
        digits = text.partition(".")[0]
        return _of_calendar(digits) or (_written(_epoch(int(digits))) if len(digits) in (9, 10, 12, 13) else None)
    if _MONTH.fullmatch(text):
        return text if int(text[:4]) >= EARLIEST_YEAR else None
    if match := _ISO.fullmatch(text):
        year, month, day, hour, minute, second, fraction, zone = match.groups()
        digits = (zone or "").upper().replace(":", "")
        offset = "+0000" if digits in ("", "Z", "UTC", "GMT") else digits.ljust(5, "0")
        written = f"{year}-{month}-{day} {hour}:{minute}:{second or '00'}.{(fraction or '0')[:6]}{offset}"
        with suppress(ValueError, OverflowError):
            return _written(datetime.strptime(written, "%Y-%m-%d %H:%M:%S.%f%z").astimezone(UTC))
        return None
    if match := _DATE.fullmatch(text):
        return _written(_day(*map(int, match.groups())))
    if match := _DAY_OR_MONTH_FIRST.fullmatch(text):
        # The order is known only if one number is above 12, and so is the day, or if both numbers are equal.
        former, latter, year_number = int(match[1]), int(match[3]), int(match[4])
        if former > 12 or former == latter:
            return _written(_day(year_number, latter, former))
        return _written(_day(year_number, former, latter)) if latter > 12 else None
    if _COMPACT.fullmatch(text):
        with suppress(ValueError, OverflowError):
            return _written(_in_utc(datetime.fromisoformat(text)))
        return None
    if _WORDED.fullmatch(text) and (named := _of_words(text)):
        return named
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        return _written(_in_utc(parsedate_to_datetime(text)))
    return None


def _of_words(text: str) -> str | None:
    """Parse a date with the name of a month, such as "May 2024" or "3 May 2024"; None for other text."""
    parts = [part for part in _WORD.findall(text.casefold()) if part not in _FILLERS]
    months = [_MONTHS[part] for part in parts if part in _MONTHS]
    numbers = [part for part in parts if part.isdecimal()]
    if len(months) != 1 or len(parts) != len(numbers) + 1:
        return None
    match numbers:
        case [year] if len(year) == 4 and int(year) >= EARLIEST_YEAR:
            return f"{year}-{months[0]:02}"
        case [day, year] if len(day) <= 2 and len(year) == 4:
            return _written(_day(int(year), months[0], int(day)))
    return None


def _of_calendar(digits: str) -> str | None:
    """Return the year, month, day or minute that consists only of digits; None for other digits."""
    if not digits.isdigit():
        return None
    match len(digits):
        case 4:
            return digits if EARLIEST_YEAR <= int(digits) <= _LATEST_YEAR else None
        case 6:
            month = f"{digits[:4]}-{digits[4:]}"
            return month if _MONTH.fullmatch(month) and EARLIEST_YEAR <= int(digits[:4]) <= _LATEST_YEAR else None
        case 8:
            return _written(_day(int(digits[:4]), int(digits[4:6]), int(digits[6:])))
        # Milliseconds since 1970 have 12 digits until 2001: such a number is a date only if it begins with 19 or 20.
        case 12 | 14 as length if length == 14 or digits.startswith(("19", "20")):
            with suppress(ValueError):
                return _written(datetime.strptime(digits.ljust(14, "0"), "%Y%m%d%H%M%S").replace(tzinfo=UTC))
    return None


def _epoch(number: float) -> datetime | None:
    """Convert seconds since 1970 to a date; read a number as milliseconds if seconds would give a far future date."""
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(number / 1000 if abs(number) > 1e11 else number, UTC)
    return None


def _in_utc(value: datetime) -> datetime:
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _day(year: int, month: int, day: int) -> date | None:
    with suppress(ValueError):
        return date(year, month, day)
    return None


def _written(value: date | None) -> str | None:
    if value is None or value.year < EARLIEST_YEAR:
        return None
    return value.isoformat().replace("+00:00", "Z")
