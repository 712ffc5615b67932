"""When a source is to be looked at again: after an interval, by cron in a time zone, or as often as it changes."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, Self

from rowen.errors import UsageError
from rowen.model.hours import Hours, Window, windows_of, zone_of
from rowen.model.wording import count

__all__ = ["Schedule"]

_EVERY = re.compile(r"([1-9][0-9]{0,9})(s|min|h|d|w)")
_UNITS = {"w": (604_800, "week"), "d": (86_400, "day"), "h": (3_600, "hour"), "min": (60, "minute"), "s": (1, "second")}
# A hundred years is "never" to everybody; ten times that leaves the calendar of the database's driver.
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
# Sixty minutes one by one take 170 characters, windows for each day of the week 200.
_MOST_CHARS = 1_000
_EVERY_HINT = "Such as 30min, 6h, 1d, 1w, auto, or 'auto between 1h and 1w'."
_AUTO = re.compile(r"auto(?: between (?P<shortest>.+) and (?P<longest>.+))?")
_CRON_HINT = (
    "Five fields: minute (0-59), hour (0-23), day of the month (1-31), month (1-12), day of the week (0-7);"
    " such as '0 3 * * *' for every night at three, or @daily."
)
_HINT = "Such as 'every 6h', 'every auto', or 'cron 0 3 * * * in Europe/Brussels during mon-fri 22:00-06:00'."
# A tenth each way: sources that came due together are spread over a fifth of their interval. Half of it would take
# longer to undo the crowd of a thousand sources added at once; twice would be felt as "not every 6 hours".
_JITTER = 0.1
# An hour spreads a thousand sources to one in seven seconds. A tenth of a month would be three days.
_WIDEST_S = 3_600.0
# What `auto` may choose. A quarter of an hour is as soon as most people notice; more often is a matter of push. A week
# is the longest that something may change unseen, whatever was learned; twice that would be felt as forgotten.
_BETWEEN_S = (900, 604_800)
# Any moment will do: the library wants one to count from.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Schedule:
    """An interval in seconds, `auto`, or a cron expression; in a time zone; only during some hours of the week.

    `between` is the shortest and the longest interval that `auto` may choose, in seconds.
    """

    every: int | Literal["auto"] | None = None
    cron: str | None = None
    tz: str = "UTC"
    during: tuple[Window, ...] = ()
    between: tuple[int, int] = _BETWEEN_S

    @classmethod
    def parse(cls, text: str) -> Self:
        """The schedule that its canonical text stands for; raises `UsageError` for what is none."""
        if len(text) > 2 * _MOST_CHARS:
            raise UsageError(f"A schedule may have {_MOST_CHARS:,} characters.", hint=_HINT)
        body, _, during = " ".join(text.split()).partition(" during ")
        body, _, tz = body.partition(" in ")
        word, _, rest = body.partition(" ")
        if word in _ALIASES and not rest:
            word, rest = "cron", word
        if word not in {"every", "cron"}:
            raise UsageError(f"{text!r} is no schedule.", hint=_HINT)
        every, cron = (rest, None) if word == "every" else (None, rest)
        return cls._of(every, cron, tz or None, during or None)

    @classmethod
    def declared(
        cls, *, every: str | None = None, cron: str | None = None, tz: str | None = None, during: str | None = None
    ) -> Self | None:
        """The schedule that flags or the keys of a file declare, if any; each is named in what is wrong with it."""
        if every is not None and cron is not None:
            raise UsageError("every and cron are two schedules: give one.")
        if every is None and cron is None:
            if lonely := "tz" if tz is not None else "during" if during is not None else None:
                raise UsageError(f"{lonely} belongs to a schedule, and there is none.", hint="Give every or cron, too.")
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
            raise UsageError(f"A schedule may have {_MOST_CHARS:,} characters.", hint=_HINT)
        zone_of(tz if tz is not None else "UTC")
        return cls(
            every=_interval(every) if every is not None else None,
            between=_between(every) if every is not None else _BETWEEN_S,
            cron=_expression(cron) if cron is not None else None,
            tz=tz if tz is not None else "UTC",
            during=windows_of(during) if during is not None else (),
        )

    def __str__(self) -> str:
        zone = "" if self.tz == "UTC" else f" in {self.tz}"
        during = f" during {', '.join(map(str, self.during))}" if self.during else ""
        return f"{self._kind()}{zone}{during}"

    @property
    def is_auto(self) -> bool:
        """Whether the source's own changes decide when it is looked at."""
        return self.every == "auto"

    @property
    def limits(self) -> tuple[int, int] | None:
        """The shortest and the longest interval that somebody allowed `auto` to choose, in seconds."""
        return self.between if self.is_auto and self.between != _BETWEEN_S else None

    @property
    def interval(self) -> str | None:
        """The interval as it is written: `6h`, `auto`, `auto between 1h and 1w`."""
        if self.every is None:
            return None
        if self.every == "auto":
            shortest, longest = map(_written, self.between)
            return "auto" if self.between == _BETWEEN_S else f"auto between {shortest} and {longest}"
        return _written(self.every)

    @property
    def hours(self) -> Hours | None:
        """The hours of the week in which it may come due, if not all."""
        return Hours(self.during, self.tz) if self.during else None

    def words(self) -> str:
        """The schedule as people say it: `at 03:00 every day, Europe/Brussels`."""
        during = f", only during {', '.join(map(str, self.during))}" if self.during else ""
        # An interval is the same in all time zones.
        zone = f", {self.tz}" if self.cron or self.during else ""
        return f"{self._kind_in_words()}{during}{zone}"

    def next_after(self, moment: datetime, *, salt: int, interval_s: float | None = None) -> datetime:
        """The next time after a moment, in UTC; the salt decides where in the jitter of an interval.

        Whatever was missed before the moment does not count: one look makes up for it. `interval_s` is what was found
        to be worth it, for `auto`.
        """
        share = _share(salt)
        if self.cron is not None:
            return self._within(self._next_cron(moment), share)
        every_s = self.every if isinstance(self.every, int) else interval_s
        if every_s is None:
            raise ValueError("a schedule `every auto` has no time of its own")
        reach_s = min(every_s * _JITTER, _WIDEST_S)
        at = moment.astimezone(UTC) + timedelta(seconds=every_s + reach_s * (2 * share - 1))
        return self._within(at, share)

    def _next_cron(self, moment: datetime) -> datetime:
        from cronsim import CronSim

        local = moment.astimezone(zone_of(self.tz))
        # Where the clock goes back, the library gives times of the hour's first passage during its second.
        return next(at for found in CronSim(self.cron or "", local) if (at := found.astimezone(UTC)) > moment)

    def _within(self, at: datetime, share: float) -> datetime:
        """The moment, or one soon after the next window opens: those that waited for it do not start all at once."""
        if self.hours is None:
            return at
        opened = self.hours.opens(at)
        if opened == at:
            return at
        closes = self.hours.closes(opened)
        open_s = (closes - opened).total_seconds() if closes else _WIDEST_S
        return opened + timedelta(seconds=min(open_s * _JITTER, _WIDEST_S) * share)

    def _kind(self) -> str:
        return f"every {self.interval}" if self.cron is None else f"cron {self.cron}"

    def _kind_in_words(self) -> str:
        if self.cron is not None:
            from cronsim import CronSim

            told = CronSim(self.cron, _EPOCH).explain()
            return told[:1].lower() + told[1:]
        if not isinstance(self.every, int):
            shortest, longest = map(_every, self.between)
            limits = "" if self.between == _BETWEEN_S else f", at most {shortest} and at least {longest}"
            return f"as often as it changes{limits}"
        return _every(self.every)


def _every(length_s: int) -> str:
    number, unit = _in_units(length_s)
    noun = _UNITS[unit][1]
    return f"every {noun}" if number == 1 else f"every {count(number, noun)}"


def _interval(text: str) -> int | Literal["auto"]:
    return "auto" if _limits(text) else _length_s(text)


def _limits(text: str) -> re.Match[str] | None:
    return _AUTO.fullmatch(" ".join(text.lower().split()))


def _between(text: str) -> tuple[int, int]:
    """The shortest and the longest interval that `auto` may choose."""
    found = _limits(text)
    if found is None or found["shortest"] is None:
        return _BETWEEN_S
    shortest, longest = _length_s(found["shortest"]), _length_s(found["longest"])
    if shortest > longest:
        raise UsageError(f"every = {text!r}: the shortest interval comes first.", hint=_EVERY_HINT)
    return shortest, longest


def _length_s(text: str) -> int:
    plain = "".join(text.split()).lower()
    found = _EVERY.fullmatch(plain)
    if not found:
        raise UsageError(f"every = {text!r} is no length of time.", hint=_EVERY_HINT)
    length_s = int(found[1]) * _UNITS[found[2]][0]
    if length_s > _LONGEST_S:
        raise UsageError(f"every = {text!r} is longer than a hundred years.", hint=_EVERY_HINT)
    return length_s


def _written(length_s: int) -> str:
    number, unit = _in_units(length_s)
    return f"{number}{unit}"


def _in_units(length_s: int) -> tuple[int, str]:
    """A length of time in the largest unit that tells it without a remainder."""
    return next((length_s // unit_s, unit) for unit, (unit_s, _) in _UNITS.items() if length_s % unit_s == 0)


def _expression(text: str) -> str:
    cron = " ".join(text.split())
    cron = _ALIASES.get(cron.lower(), cron)
    if problem := _problem(cron):
        raise UsageError(f"cron = {text!r} is no schedule: {problem}.", hint=_CRON_HINT)
    return cron


def _problem(cron: str) -> str | None:
    """What is wrong with a cron expression; the library would take a sixth field, of seconds."""
    from cronsim import CronSim, CronSimError

    if len(cron.split()) != 5:
        return "it does not have five fields"
    try:
        CronSim(cron, _EPOCH)
    except CronSimError as problem:
        return str(problem).lower()
    return None


def _share(salt: int) -> float:
    """A number from 0 to 1 that is always the same for a salt, and unlike that of the next one."""
    digest = hashlib.sha256(str(salt).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64
