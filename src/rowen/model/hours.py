"""Hours of the week in a time zone, such as `mon-fri 22:00-06:00, sat-sun 00:00-24:00`, as spans between moments.

A window begins when the clock first shows its start and ends when it first shows its end. Where the clock skips one of
the two, the moment of the skip counts. So windows that meet on the clock meet in time, whatever summer time does.
"""

import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import count

from rowen.errors import UsageError

__all__ = ["Hours", "Window", "hours_of", "windows_of", "zone_of"]

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FULL_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {name: number for names in (_DAYS, _FULL_NAMES) for number, name in enumerate(names)}
_EVERY_DAY = tuple(range(7))
_CLOCKS = re.compile(r"(?P<start>[0-9]{1,2}:[0-9]{2}) ?- ?(?P<end>[0-9]{1,2}:[0-9]{2})$")
_HINT = "Such as '22:00-06:00', or 'mon-fri 22:00-06:00, sat-sun 00:00-24:00'."
_DAY_MINUTES = 24 * 60
# Windows repeat every week. The second week is for a window that the clock skips in the first.
_FURTHEST = timedelta(days=15)


@dataclass(frozen=True, slots=True)
class Window:
    """From one time of the day to another, on some days of the week (Monday is 0), in minutes after midnight."""

    days: tuple[int, ...]
    start: int
    end: int

    def __str__(self) -> str:
        hours = f"{_clock(self.start)}-{_clock(self.end)}"
        return hours if self.days == _EVERY_DAY else f"{_day_names(self.days)} {hours}"

    @property
    def length(self) -> int:
        """Minutes from start to end; one that ends before it starts goes on over midnight."""
        return self.end - self.start + (0 if self.end > self.start else _DAY_MINUTES)


@dataclass(frozen=True, slots=True)
class Hours:
    """Windows on the clock of one time zone."""

    windows: tuple[Window, ...]
    tz: str = "UTC"

    def __str__(self) -> str:
        windows = ", ".join(map(str, self.windows))
        return windows if self.tz == "UTC" else f"{windows} in {self.tz}"

    def contains(self, moment: datetime) -> bool:
        """Whether a moment is in one of the windows."""
        return self.opens(moment) == moment

    def opens(self, moment: datetime) -> datetime:
        """The first moment from this one on that is in a window."""
        return next(max(start, moment) for start, end in self._spans(moment) if end > moment)

    def closes(self, moment: datetime) -> datetime | None:
        """The first moment from this one on that is in no window, if there ever is one."""
        at = moment
        for start, end in self._spans(moment):
            if start > at:
                return at
            if start - moment > _FURTHEST:
                break
            at = max(at, end)
        return None

    def _spans(self, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The windows as moments, by their start; from the day before, whose windows may go on over midnight."""
        zone = zone_of(self.tz)
        today = moment.astimezone(zone).date()
        windows = sorted(self.windows, key=lambda window: window.start)
        for offset in count(-1):
            day = today + timedelta(days=offset)
            for window in windows:
                if day.weekday() in window.days:
                    start = _moment(day, window.start, zone)
                    end = _moment(day, window.start + window.length, zone)
                    if start < end:
                        yield start, end


def zone_of(name: str, *, key: str = "tz") -> tzinfo:
    """The time zone of a name such as `Europe/Brussels`; raises `UsageError` where there is none."""
    if name == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"{key} = {name!r} is no time zone that is known here.", hint=_zone_hint(name)) from None


def hours_of(text: str, *, key: str) -> Hours:
    """Windows with their time zone: `mon-fri 08:00-18:00 in Europe/Brussels`; without one they are in UTC."""
    windows, _, tz = " ".join(text.split()).partition(" in ")
    zone_of(tz or "UTC", key=key)
    return Hours(windows_of(windows, key=key), tz or "UTC")


def windows_of(text: str, *, key: str = "during") -> tuple[Window, ...]:
    """The windows that a text lists, separated by commas; raises `UsageError` for what is none."""
    windows: list[Window] = []
    days: list[str] = []
    for part in (" ".join(part.split()) for part in text.lower().split(",")):
        found = _CLOCKS.search(part)
        # Days that are listed one by one belong to the hours after the last of them.
        days.append(part[: found.start()].strip() if found else part)
        if found:
            try:
                windows.append(_window([name for name in days if name], found["start"], found["end"]))
            except ValueError as problem:
                raise UsageError(f"{key} = {text!r} cannot be read: {problem}.", hint=_HINT) from None
            days = []
    if days:
        raise UsageError(f"{key} = {text!r} cannot be read: {', '.join(days)!r} tells no hours.", hint=_HINT)
    return tuple(windows)


def _window(days: list[str], start: str, end: str) -> Window:
    first, last = _minutes(start), _minutes(end)
    if first in {last, _DAY_MINUTES}:
        raise ValueError(f"no time passes from {start} to {end}")
    numbers = {number for name in days for number in _day_numbers(name)}
    return Window(tuple(sorted(numbers)) if numbers else _EVERY_DAY, first, last)


def _minutes(clock: str) -> int:
    hour, minute = map(int, clock.split(":"))
    if minute > 59 or hour * 60 + minute > _DAY_MINUTES:
        raise ValueError(f"{clock} is no time of the day")
    return hour * 60 + minute


def _day_numbers(name: str) -> Iterator[int]:
    """A day, or those from one day to another; `fri-mon` goes over the end of the week."""
    first, dash, last = (part.strip() for part in name.partition("-"))
    if first not in _NUMBERS or (dash and last not in _NUMBERS):
        raise ValueError(f"{name!r} is no day of the week")
    start = _NUMBERS[first]
    days = (_NUMBERS[last] - start) % 7 if dash else 0
    return ((start + day) % 7 for day in range(days + 1))


def _day_names(days: tuple[int, ...]) -> str:
    """Days as they are written: neighbours joined by a dash."""
    first = [day for day in days if day - 1 not in days]
    last = [day for day in days if day + 1 not in days]
    runs = zip(first, last, strict=True)
    return ",".join(_DAYS[a] if a == b else f"{_DAYS[a]}-{_DAYS[b]}" for a, b in runs)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _moment(day: date, minutes: int, zone: tzinfo) -> datetime:
    """When the clock first shows so many minutes after the midnight of a day, or skips them."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
    moment = wall.replace(tzinfo=zone).astimezone(UTC)
    while moment.astimezone(zone).replace(tzinfo=None) != wall:
        wall += timedelta(minutes=1)
        moment = wall.replace(tzinfo=zone).astimezone(UTC)
    return moment


def _zone_hint(name: str) -> str:
    from difflib import get_close_matches

    known = zoneinfo.available_timezones()
    if not known:
        return "This machine has no time zone database. Install tzdata."
    by_lower_case = {one.lower(): one for one in sorted(known)}
    close = get_close_matches(name.lower(), by_lower_case, n=1)
    return f"Did you mean {by_lower_case[close[0]]}?" if close else "Such as Europe/Brussels or UTC."
