"""Schedules: an interval, cron in a time zone, or `auto`, which follows the source's changes; and hours of the week.

A window lasts from the moment when the clock first shows its start to the moment when it first shows its end. If the
clock skips one of them, the moment of the skip counts, so that adjacent windows stay adjacent when clocks change.
"""

import hashlib
import itertools
import re
import zoneinfo
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Literal, Self

from rowen.errors import UsageError
from rowen.model.wording import count

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FULL_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {name: number for names in (_DAYS, _FULL_NAMES) for number, name in enumerate(names)}
_EVERY_DAY = tuple(range(7))
_CLOCKS = re.compile(r"(?P<start>[0-9]{1,2}:[0-9]{2}) ?- ?(?P<end>[0-9]{1,2}:[0-9]{2})$")
_HOURS_HINT = "Such as '22:00-06:00', or 'mon-fri 22:00-06:00, sat-sun 00:00-24:00'."
_DAY_MINUTES = 24 * 60
# Windows repeat every week. The second week is needed for a window that the clock skips in the first week.
_FURTHEST = timedelta(days=15)


@dataclass(frozen=True, slots=True)
class Window:
    """A range of time on some days of the week (Monday is 0); its ends are minutes after midnight."""

    days: tuple[int, ...]
    start: int
    end: int

    def __str__(self) -> str:
        start, end = (f"{minutes // 60:02}:{minutes % 60:02}" for minutes in (self.start, self.end))
        if self.days == _EVERY_DAY:
            return f"{start}-{end}"
        first = [day for day in self.days if day - 1 not in self.days]
        last = [day for day in self.days if day + 1 not in self.days]
        days = (_DAYS[a] if a == b else f"{_DAYS[a]}-{_DAYS[b]}" for a, b in zip(first, last, strict=True))
        return f"{','.join(days)} {start}-{end}"

    @property
    def length(self) -> int:
        """The minutes from start to end; a window whose end is before its start crosses midnight."""
        return self.end - self.start + (0 if self.end > self.start else _DAY_MINUTES)


@dataclass(frozen=True, slots=True)
class Hours:
    """Windows of a week in one time zone."""

    windows: tuple[Window, ...]
    tz: str = "UTC"

    def __str__(self) -> str:
        windows = ", ".join(map(str, self.windows))
        return windows if self.tz == "UTC" else f"{windows} in {self.tz}"

    def contains(self, moment: datetime) -> bool:
        """Return whether a moment is in one of the windows."""
        return self.opens(moment) == moment

    def opens(self, moment: datetime) -> datetime:
        """Return the first moment in a window that is not before `moment`."""
        return next(max(start, moment) for start, end in self._spans(moment) if end > moment)

    def closes(self, moment: datetime) -> datetime | None:
        """Return the first moment outside all windows that is not before `moment`; None if there is none."""
        at = moment
        for start, end in self._spans(moment):
            if start > at:
                return at
            if start - moment > _FURTHEST:
                break
            at = max(at, end)
        return None

    def _spans(self, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield the windows as moments in order, starting on the day before, since its windows may cross midnight."""
        zone = zone_of(self.tz)
        today = moment.astimezone(zone).date()
        windows = sorted(self.windows, key=lambda window: window.start)
        for offset in itertools.count(-1):
            day = today + timedelta(days=offset)
            for window in windows:
                if day.weekday() in window.days:
                    start = _moment(day, window.start, zone)
                    end = _moment(day, window.start + window.length, zone)
                    if start < end:
                        yield start, end


def zone_of(name: str) -> tzinfo:
    """Return the time zone with a name such as `Europe/Brussels`; raise `UsageError` if the name is unknown."""
    if name == "UTC":
        return UTC
    with suppress(zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return zoneinfo.ZoneInfo(name)
    from difflib import get_close_matches

    zones = {zone.lower(): zone for zone in sorted(zoneinfo.available_timezones())}
    hint = "Such as Europe/Brussels or UTC." if zones else "This machine has no time zone database. Install tzdata."
    if close := get_close_matches(name.lower(), zones, n=1):
        hint = f"Did you mean {zones[close[0]]}?"
    raise UsageError(f"tz = {name!r} is not a known time zone.", hint=hint)


def windows_of(text: str) -> tuple[Window, ...]:
    """Parse a comma-separated list of windows; raise `UsageError` if it is invalid."""
    windows: list[Window] = []
    days: list[str] = []
    for part in (" ".join(part.split()) for part in text.lower().split(",")):
        match = _CLOCKS.search(part)
        # Days in a list share the hours that follow the last day.
        days.append(part[: match.start()].strip() if match else part)
        if not match:
            continue
        try:
            start, end = _minutes(match["start"]), _minutes(match["end"])
            if start in {end, _DAY_MINUTES}:
                raise ValueError(f"the window from {match['start']} to {match['end']} is empty")
            numbers = sorted({number for name in days if name for number in _day_numbers(name)})
        except ValueError as problem:
            raise UsageError(f"during = {text!r} cannot be read: {problem}.", hint=_HOURS_HINT) from None
        windows.append(Window(tuple(numbers) or _EVERY_DAY, start, end))
        days = []
    if days:
        raise UsageError(f"during = {text!r} cannot be read: {', '.join(days)!r} has no hours.", hint=_HOURS_HINT)
    return tuple(windows)


def _minutes(clock: str) -> int:
    hour, minute = map(int, clock.split(":"))
    if minute > 59 or hour * 60 + minute > _DAY_MINUTES:
        raise ValueError(f"{clock} is not a time of day")
    return hour * 60 + minute


def _day_numbers(name: str) -> Iterator[int]:
    """Parse a day or a range of days; `fri-mon` crosses the end of the week."""
    first, dash, last = (part.strip() for part in name.partition("-"))
    if first not in _NUMBERS or (dash and last not in _NUMBERS):
        raise ValueError(f"{name!r} is not a day of the week")
    start = _NUMBERS[first]
    days = (_NUMBERS[last] - start) % 7 if dash else 0
    return ((start + day) % 7 for day in range(days + 1))


def _moment(day: date, minutes: int, zone: tzinfo) -> datetime:
    """Return the moment at which the clock first shows `minutes` after midnight, or skips that time."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
    moment = wall.replace(tzinfo=zone).astimezone(UTC)
    while moment.astimezone(zone).replace(tzinfo=None) != wall:
        wall += timedelta(minutes=1)
        moment = wall.replace(tzinfo=zone).astimezone(UTC)
    return moment


_EVERY = re.compile(r"([1-9][0-9]{0,9})(s|min|h|d|w)")
_UNITS = {"w": (604_800, "week"), "d": (86_400, "day"), "h": (3_600, "hour"), "min": (60, "minute"), "s": (1, "second")}
# Nobody needs a longer interval than a hundred years; ten times as much exceeds the dates of the database driver.
_LONGEST_S = 100 * 366 * 86_400
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# A list of sixty single minutes takes 170 characters, windows for each day of the week take 200.
_MOST_CHARS = 1_000
_EVERY_HINT = "Such as 30min, 6h, 1d, 1w, auto, or 'auto between 1h and 1w'."
_AUTO = re.compile(r"auto(?: between (?P<shortest>.+) and (?P<longest>.+))?")
_CRON_HINT = (
    "Five fields: minute (0-59), hour (0-23), day of the month (1-31), month (1-12), day of the week (0-7);"
    " such as '0 3 * * *' for every night at three, or @daily."
)
_HINT = "Such as 'every 6h', 'every auto', or 'cron 0 3 * * * in Europe/Brussels during mon-fri 22:00-06:00'."
# A tenth in each direction spreads sources over a fifth of their interval. With half of it, a thousand sources that
# were added at once would be spread too slowly; with twice as much, users would notice irregular intervals.
_JITTER = 0.1
# One hour spreads a thousand sources to one in seven seconds. A tenth of a month would be three days.
_WIDEST_S = 3_600.0
# The limits of `auto`. Updates within a quarter of an hour require push. A week is the longest acceptable time for an
# unseen change; after two weeks, users would assume that the source is no longer synced.
_BETWEEN_S = (900, 604_800)
# The library requires a start; any moment will do.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Schedule:
    """An interval in seconds, `auto`, or a cron expression; optionally with a time zone and hours of the week.

    `between` is the shortest and the longest interval in seconds that `auto` may choose.
    """

    every: int | Literal["auto"] | None = None
    cron: str | None = None
    tz: str = "UTC"
    during: tuple[Window, ...] = ()
    between: tuple[int, int] = _BETWEEN_S

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a schedule in its canonical notation; raise `UsageError` if it is invalid."""
        if len(text) > 2 * _MOST_CHARS:
            raise UsageError(f"A schedule may have at most {_MOST_CHARS:,} characters.", hint=_HINT)
        body, _, during = " ".join(text.split()).partition(" during ")
        body, _, tz = body.partition(" in ")
        word, _, rest = body.partition(" ")
        if word in _ALIASES and not rest:
            word, rest = "cron", word
        if word not in {"every", "cron"}:
            raise UsageError(f"{text!r} is not a schedule.", hint=_HINT)
        every, cron = (rest, None) if word == "every" else (None, rest)
        return cls._of(every, cron, tz or None, during or None)

    @classmethod
    def declared(
        cls, *, every: str | None = None, cron: str | None = None, tz: str | None = None, during: str | None = None
    ) -> Self | None:
        """Return the schedule that options or keys of a file declare; None if there is none. Errors quote the keys."""
        if every is not None and cron is not None:
            raise UsageError("every and cron cannot be combined.")
        if every is None and cron is None:
            if tz is not None or during is not None:
                name = "tz" if tz is not None else "during"
                raise UsageError(f"{name} needs a schedule.", hint="Set every or cron as well.")
            return None
        if tz is not None and cron is None and during is None:
            raise UsageError(
                f"tz = {tz!r} changes nothing: an interval is the same in all time zones.",
                hint="A time zone goes with cron or during.",
            )
        return cls._of(every, cron, tz, during)

    @classmethod
    def _of(cls, every: str | None, cron: str | None, tz: str | None, during: str | None) -> Self:
        if sum(len(text) for text in (cron, tz, during) if text is not None) > _MOST_CHARS:
            raise UsageError(f"A schedule may have at most {_MOST_CHARS:,} characters.", hint=_HINT)
        tz = tz if tz is not None else "UTC"
        zone_of(tz)
        windows = windows_of(during) if during is not None else ()
        if cron is not None:
            return cls(cron=_expression(cron), tz=tz, during=windows)
        every = every or ""
        auto = _AUTO.fullmatch(" ".join(every.lower().split()))
        if auto is None:
            return cls(_length_s(every), tz=tz, during=windows)
        if auto["shortest"] is None:
            return cls("auto", tz=tz, during=windows)
        shortest, longest = _length_s(auto["shortest"]), _length_s(auto["longest"])
        if shortest > longest:
            raise UsageError(f"every = {every!r}: the shorter interval must come first.", hint=_EVERY_HINT)
        return cls("auto", tz=tz, during=windows, between=(shortest, longest))

    def __str__(self) -> str:
        kind = f"every {self.interval}" if self.cron is None else f"cron {self.cron}"
        zone = "" if self.tz == "UTC" else f" in {self.tz}"
        during = f" during {', '.join(map(str, self.during))}" if self.during else ""
        return f"{kind}{zone}{during}"

    @property
    def is_auto(self) -> bool:
        """Whether the interval is learned from the source's changes."""
        return self.every == "auto"

    @property
    def limits(self) -> tuple[int, int] | None:
        """The shortest and the longest interval of `auto` in seconds; None if the defaults apply."""
        return self.between if self.is_auto and self.between != _BETWEEN_S else None

    @property
    def interval(self) -> str | None:
        """The interval in canonical notation: `6h`, `auto`, `auto between 1h and 1w`; None for cron."""
        if self.every is None:
            return None
        if self.every == "auto":
            shortest, longest = map(_written, self.between)
            return "auto" if self.between == _BETWEEN_S else f"auto between {shortest} and {longest}"
        return _written(self.every)

    @property
    def hours(self) -> Hours | None:
        """The hours of the week in which a check may start; None if it may start at any time."""
        return Hours(self.during, self.tz) if self.during else None

    def words(self) -> str:
        """Describe the schedule: `at 03:00 every day, Europe/Brussels`."""
        if self.cron is not None:
            from cronsim import CronSim

            explanation = CronSim(self.cron, _EPOCH).explain()
            kind = explanation[:1].lower() + explanation[1:]
        elif isinstance(self.every, int):
            kind = _every(self.every)
        else:
            shortest, longest = map(_every, self.between)
            limits = "" if self.between == _BETWEEN_S else f", at most {shortest} and at least {longest}"
            kind = f"as often as it changes{limits}"
        during = f", only during {', '.join(map(str, self.during))}" if self.during else ""
        # An interval is the same in all time zones.
        zone = f", {self.tz}" if self.cron or self.during else ""
        return f"{kind}{during}{zone}"

    def next_after(self, moment: datetime, *, salt: int, interval_s: float | None = None) -> datetime:
        """Return the next time after `moment`, in UTC; `salt` determines the position within the jitter of an interval.

        Several missed times result in a single check. `interval_s` is the learned interval for `auto`.
        """
        # A number from 0 to 1 that is constant for a salt, and independent of the number for the next salt.
        share = int.from_bytes(hashlib.sha256(str(salt).encode()).digest()[:8]) / 2**64
        if self.cron is not None:
            from cronsim import CronSim

            times = (at.astimezone(UTC) for at in CronSim(self.cron, moment.astimezone(zone_of(self.tz))))
            # When clocks go back, the library returns times of the first pass of the repeated hour during the second
            # pass.
            return self._within(next(at for at in times if at > moment), share)
        every_s = self.every if isinstance(self.every, int) else interval_s
        if every_s is None:
            raise ValueError("a schedule `every auto` has no time of its own")
        reach_s = min(every_s * _JITTER, _WIDEST_S)
        at = moment.astimezone(UTC) + timedelta(seconds=every_s + reach_s * (2 * share - 1))
        return self._within(at, share)

    def _within(self, at: datetime, share: float) -> datetime:
        """Return `at`, or a moment soon after the next window opens; `share` spreads the starts of waiting sources."""
        if self.hours is None:
            return at
        opened = self.hours.opens(at)
        if opened == at:
            return at
        closes = self.hours.closes(opened)
        open_s = (closes - opened).total_seconds() if closes else _WIDEST_S
        return opened + timedelta(seconds=min(open_s * _JITTER, _WIDEST_S) * share)


def _every(length_s: int) -> str:
    number, unit = _in_units(length_s)
    noun = _UNITS[unit][1]
    return f"every {noun}" if number == 1 else f"every {count(number, noun)}"


def _length_s(text: str) -> int:
    plain = "".join(text.split()).lower()
    match = _EVERY.fullmatch(plain)
    if not match:
        raise UsageError(f"every = {text!r} is not a length of time.", hint=_EVERY_HINT)
    length_s = int(match[1]) * _UNITS[match[2]][0]
    if length_s > _LONGEST_S:
        raise UsageError(f"every = {text!r} is longer than a hundred years.", hint=_EVERY_HINT)
    return length_s


def _written(length_s: int) -> str:
    number, unit = _in_units(length_s)
    return f"{number}{unit}"


def _in_units(length_s: int) -> tuple[int, str]:
    """Return a duration in the largest unit that divides it."""
    return next((length_s // unit_s, unit) for unit, (unit_s, _) in _UNITS.items() if length_s % unit_s == 0)


def _expression(text: str) -> str:
    from cronsim import CronSim, CronSimError

    cron = " ".join(text.split())
    cron = _ALIASES.get(cron.lower(), cron)
    try:
        # The library would accept a sixth field for seconds.
        if len(cron.split()) != 5:
            raise CronSimError("it does not have five fields")
        CronSim(cron, _EPOCH)
    except CronSimError as problem:
        raise UsageError(f"cron = {text!r} is not a schedule: {str(problem).lower()}.", hint=_CRON_HINT) from None
    return cron
