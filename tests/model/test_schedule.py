"""Schedules: what their texts mean, what is wrong with others, and when the next time is."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rowen.errors import UsageError
from rowen.model.schedules import Schedule

BRUSSELS = ZoneInfo("Europe/Brussels")
# In 2026 the clocks of Brussels go from 02:00 to 03:00 on 29 March, and from 03:00 to 02:00 on 25 October.
FORWARD, BACK = (2026, 3, 29), (2026, 10, 25)
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type]


def times(text: str, start: datetime, number: int) -> list[datetime]:
    """The next times of a schedule, each counted from the one before."""
    schedule, found = Schedule.parse(text), [start]
    for _ in range(number):
        found.append(schedule.next_after(found[-1], salt=7))
    return found[1:]


@pytest.mark.parametrize(
    ("text", "canonical", "words"),
    [
        ("every 6h", "every 6h", "every 6 hours"),
        ("every 24h", "every 1d", "every day"),
        ("every 90min", "every 90min", "every 90 minutes"),
        ("every 7 d", "every 1w", "every week"),
        ("every auto", "every auto", "as often as it changes"),
        (
            "every Auto between 60 min and 14d",
            "every auto between 1h and 2w",
            "as often as it changes, at most every hour and at least every 2 weeks",
        ),
        ("every auto between 15min and 1w", "every auto", "as often as it changes"),
        (
            "every auto between 60min and 1h",
            "every auto between 1h and 1h",
            "as often as it changes, at most every hour and at least every hour",
        ),
        ("every 36600d", "every 36600d", "every 36,600 days"),
        ("cron 0 3 * * *", "cron 0 3 * * *", "at 03:00 every day, UTC"),
        ("  cron  0 3 * *  mon ", "cron 0 3 * * mon", "at 03:00 on Monday, UTC"),
        (
            "cron 0 3 * * * in Europe/Brussels",
            "cron 0 3 * * * in Europe/Brussels",
            "at 03:00 every day, Europe/Brussels",
        ),
        ("cron 0 3 * * * in UTC", "cron 0 3 * * *", "at 03:00 every day, UTC"),
        ("@hourly", "cron 0 * * * *", "at the start of every hour, UTC"),
        ("@daily", "cron 0 0 * * *", "at 00:00 every day, UTC"),
        ("cron @weekly", "cron 0 0 * * 0", "at 00:00 on Sunday, UTC"),
        ("@monthly", "cron 0 0 1 * *", "at 00:00 on the first day of every month, UTC"),
        (
            "every 1h during 22:00-06:00",
            "every 1h during 22:00-06:00",
            "every hour, only during 22:00-06:00, UTC",
        ),
        (
            "every 1h in Europe/Brussels during MON - FRI 22:00 - 6:00, sat,sunday 0:00-24:00",
            "every 1h in Europe/Brussels during mon-fri 22:00-06:00, sat-sun 00:00-24:00",
            "every hour, only during mon-fri 22:00-06:00, sat-sun 00:00-24:00, Europe/Brussels",
        ),
        (
            "every auto during fri-mon,wed 08:00-18:00",
            "every auto during mon,wed,fri-sun 08:00-18:00",
            "as often as it changes, only during mon,wed,fri-sun 08:00-18:00, UTC",
        ),
    ],
)
def test_a_schedule_has_one_text_and_words_for_people(text: str, canonical: str, words: str) -> None:
    schedule = Schedule.parse(text)

    assert str(schedule) == canonical
    assert Schedule.parse(canonical) == schedule
    assert schedule.words() == words


@pytest.mark.parametrize(
    "cron",
    [
        "0 3 * * *",
        "*/15 8-18/2 1,15 jan,JUL-sep mon-fri",
        "0,30 0 31 12 7",
        "59 23 1 1 0",
        "5-5 * * * sun",
        "0 0 L * *",
    ],
)
def test_a_cron_expression_that_makes_sense_is_kept(cron: str) -> None:
    assert str(Schedule.declared(cron=f" {cron.replace(' ', '   ')} ")) == f"cron {cron}"


@pytest.mark.parametrize(
    ("cron", "why"),
    [
        ("99 99 99 99 99", "bad minute"),
        ("60 * * * *", "bad minute"),
        ("0 24 * * *", "bad hour"),
        ("0 0 0 * *", "bad day-of-month"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 * 13 *", "bad month"),
        ("0 0 * * 8", "bad day-of-week"),
        ("0 0 * * mnd", "bad day-of-week"),
        ("jan 0 * * *", "bad minute"),
        ("0 18-8 * * *", "bad hour"),
        ("*/0 * * * *", "bad minute"),
        ("1,,2 * * * *", "bad minute"),
        ("-5 * * * *", "bad minute"),
        ("² * * * *", "bad minute"),
        ("0 3 * *", "five fields"),
        ("0 3 * * * *", "five fields"),
        ("@fortnightly", "five fields"),
        ("", "five fields"),
    ],
)
def test_what_is_wrong_with_a_cron_expression_is_told(cron: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        Schedule.declared(cron=cron)

    assert str(caught.value).startswith(f"cron = {cron!r} is not a schedule")
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "message", "hint"),
    [
        ({"every": "often"}, "every = 'often' is not a length of time.", "Such as 30min"),
        ({"every": "0h"}, "every = '0h' is not a length of time.", "Such as 30min"),
        ({"every": "5000000w"}, "every = '5000000w' is longer than a hundred years.", "Such as"),
        ({"every": "9" * 5000 + "h"}, "is not a length of time.", "Such as"),
        ({"every": "6h", "cron": "@daily"}, "every and cron cannot be combined.", ""),
        ({"tz": "Europe/Brussels"}, "tz needs a schedule.", "every or cron"),
        ({"during": "22:00-06:00"}, "during needs a schedule.", "every or cron"),
        ({"every": "6h", "tz": "Europe/Brussels"}, "tz = 'Europe/Brussels' changes nothing", "cron or during"),
        ({"cron": "@daily", "tz": "europe/brussel"}, "is not a known time zone", "Did you mean Europe/Brussels?"),
        ({"cron": "@daily", "tz": ""}, "tz = '' is not a known time zone", "Such as Europe/Brussels"),
        ({"cron": "@daily", "tz": "../../etc/passwd"}, "is not a known time zone", ""),
        ({"cron": "@daily", "tz": "Europe"}, "tz = 'Europe' is not a known time zone", ""),
        ({"every": "6h", "during": ""}, "during = '' cannot be read: '' has no hours.", "Such as '22:00"),
        ({"every": "6h", "during": "mon"}, "'mon' has no hours", "Such as"),
        ({"every": "6h", "during": "9-17"}, "'9-17' has no hours", "Such as"),
        ({"every": "6h", "during": "08:00-18:00 mon"}, "'08:00-18:00 mon' has no hours", "Such as"),
        ({"every": "6h", "during": "mnd 08:00-18:00"}, "'mnd' is not a day of the week", "Such as"),
        ({"every": "6h", "during": "mon- 08:00-18:00"}, "'mon-' is not a day of the week", "Such as"),
        ({"every": "6h", "during": "24:01-06:00"}, "24:01 is not a time of day", "Such as"),
        ({"every": "6h", "during": "08:60-09:00"}, "08:60 is not a time of day", "Such as"),
        ({"every": "6h", "during": "08:00-08:00"}, "the window from 08:00 to 08:00 is empty", "Such as"),
        ({"every": "6h", "during": "24:00-08:00"}, "the window from 24:00 to 08:00 is empty", "Such as"),
    ],
)
def test_what_is_wrong_with_a_declaration_is_told_by_its_key(keys: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        Schedule.declared(**keys)

    assert message in str(caught.value)
    assert hint in str(caught.value.hint or "")


@pytest.mark.parametrize("text", ["", "often", "6h", "daily", "every", "cron", "every 6h during", "cron 0 3 * * * in"])
def test_a_text_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Schedule.parse(text)


def test_an_interval_is_spread_by_a_tenth_and_by_an_hour_at_most() -> None:
    short, long = Schedule.parse("every 1h"), Schedule.parse("every 4w")
    minutes = [(short.next_after(NOON, salt=salt) - NOON) / timedelta(minutes=1) for salt in range(1000)]
    hours = [(long.next_after(NOON, salt=salt) - NOON) / timedelta(hours=1) for salt in range(1000)]

    assert 54 <= min(minutes) < 54.5
    assert 65.5 < max(minutes) <= 66
    assert 671 <= min(hours) < 671.1
    assert 672.9 < max(hours) <= 673
    assert len(set(minutes)) == 1000
    assert short.next_after(NOON, salt=5) == short.next_after(NOON, salt=5)


def test_missed_times_come_once() -> None:
    nightly = Schedule.parse("cron 0 3 * * *")

    after_ten_days = nightly.next_after(utc(2026, 1, 11, 9), salt=1)

    assert after_ten_days == utc(2026, 1, 12, 3)


def test_a_time_that_the_clock_skips_comes_when_it_skips() -> None:
    assert times("cron 30 2 * * * in Europe/Brussels", utc(2026, 3, 28, 12), 2) == [
        utc(*FORWARD, 1),  # 03:00 of summer time
        utc(2026, 3, 30, 0, 30),
    ]


def test_a_time_that_the_clock_shows_twice_comes_once() -> None:
    assert times("cron 30 2 * * * in Europe/Brussels", utc(2026, 10, 24, 12), 2) == [
        utc(*BACK, 0, 30),
        utc(2026, 10, 26, 1, 30),
    ]
    assert times("cron 0,30 2 * * * in Europe/Brussels", utc(*BACK, 1, 10), 1) == [utc(2026, 10, 26, 1)]


def test_every_quarter_of_an_hour_stays_so_when_the_clock_changes() -> None:
    for day in (FORWARD, BACK):
        start = utc(*day) - timedelta(hours=1)
        found = times("cron */15 * * * * in Europe/Brussels", start, 16)

        assert found == [start + timedelta(minutes=15 * number) for number in range(1, 17)]


def test_three_in_the_morning_is_the_zones_own() -> None:
    found = times("cron 0 3 * * * in Europe/Brussels", utc(2026, 1, 1), 365)

    assert {moment.astimezone(BRUSSELS).hour for moment in found} == {3}
    assert len({moment.astimezone(BRUSSELS).date() for moment in found}) == 365
    assert {moment.hour for moment in found} == {1, 2}


def test_what_would_come_outside_the_windows_waits_for_the_next() -> None:
    hourly = Schedule.parse("every 1h in Europe/Brussels during mon-fri 22:00-06:00")
    friday_evening = datetime(2026, 11, 20, 21, 30, tzinfo=BRUSSELS)
    saturday_at_dawn = datetime(2026, 11, 21, 5, 58, tzinfo=BRUSSELS)
    monday_evening = datetime(2026, 11, 23, 22, tzinfo=BRUSSELS)

    in_the_window = hourly.next_after(friday_evening, salt=1)
    waiting = [hourly.next_after(saturday_at_dawn, salt=salt) for salt in range(100)]

    assert timedelta(minutes=54) <= in_the_window - friday_evening <= timedelta(minutes=66)
    assert all(monday_evening <= moment <= monday_evening + timedelta(minutes=48) for moment in waiting)
    assert len(set(waiting)) == 100


def test_a_cron_time_in_its_window_is_exact() -> None:
    assert times("cron 0 */6 * * * during 05:00-13:00", utc(2026, 1, 1), 2) == [utc(2026, 1, 1, 6), utc(2026, 1, 1, 12)]


def test_auto_has_no_time_of_its_own() -> None:
    schedule = Schedule.parse("every auto")

    assert schedule.is_auto
    with pytest.raises(ValueError, match="no time of its own"):
        schedule.next_after(NOON, salt=1)


# Summer time of an hour, of half an hour, at midnight, twice a year; and a day that was skipped.
ZONES = st.sampled_from(
    ["UTC", "Europe/Brussels", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Pacific/Apia"]
)
MOMENTS = st.integers(0, 100 * 365 * 86_400).map(lambda passed_s: utc(1996, 1, 1) + timedelta(seconds=passed_s))
FIELDS = st.tuples(
    st.sampled_from(["0", "30", "*/7", "0,59", "*", "15-20"]),
    st.sampled_from(["*", "2", "0", "23", "1-3", "*/5"]),
    st.sampled_from(["*", "1", "29", "31", "L"]),
    st.sampled_from(["*", "2-3", "10", "*/4", "feb"]),
    st.sampled_from(["*", "sun", "1-5", "5L", "2#1"]),
)
WHENS = st.one_of(
    st.builds("every {}{}".format, st.integers(1, 400), st.sampled_from(["s", "min", "h", "d", "w"])),
    FIELDS.map(lambda fields: f"cron {' '.join(fields)}"),
)
CLOCKS = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.sampled_from([0, 15, 30]))
WINDOWS = st.builds("{} {}-{}".format, st.sampled_from(["", "mon-fri", "sun", "sat,wed"]), CLOCKS, CLOCKS)


@hypothesis_settings(deadline=None)
@given(when=WHENS, zone=ZONES, windows=st.lists(WINDOWS, max_size=3), start=MOMENTS, salt=st.integers())
def test_in_a_hundred_years_the_next_time_never_lies_behind(
    when: str, zone: str, windows: list[str], start: datetime, salt: int
) -> None:
    try:
        schedule = Schedule.parse(f"{when} in {zone}" + (f" during {', '.join(windows)}" if windows else ""))
    except UsageError:
        return  # a day that never comes, or a window of no length

    assert Schedule.parse(str(schedule)) == schedule
    assert schedule.words()
    for _ in range(10):
        found = schedule.next_after(start, salt=salt)
        assert found > start
        assert found.tzinfo is UTC
        assert schedule.hours is None or schedule.hours.contains(found)
        start = found
