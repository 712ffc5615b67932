"""Windows of the week: what is in them, when they open and close, also on the days on which clocks are changed."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.errors import UsageError
from rowen.model.schedules import Hours, windows_of, zone_of

BRUSSELS = ZoneInfo("Europe/Brussels")


def local(*parts: int, fold: int = 0) -> datetime:
    return datetime(*parts, tzinfo=BRUSSELS, fold=fold).astimezone(UTC)  # type: ignore[arg-type, misc]


def hours(text: str) -> Hours:
    windows, _, tz = text.partition(" in ")
    return Hours(windows_of(windows), tz or "UTC")


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    nights = hours("mon-fri 22:00-06:00 in Europe/Brussels")

    assert not nights.contains(local(2026, 11, 16, 5, 59))  # a Monday: Sunday's night is none
    assert nights.contains(local(2026, 11, 16, 22))
    assert nights.contains(local(2026, 11, 21, 5, 59))  # a Saturday: Friday's night
    assert not nights.contains(local(2026, 11, 21, 6))
    assert nights.opens(local(2026, 11, 21, 6)) == local(2026, 11, 23, 22)
    assert nights.closes(local(2026, 11, 20, 23)) == local(2026, 11, 21, 6)


def test_windows_that_meet_are_one() -> None:
    found = hours("fri 22:00-24:00, sat-sun 00:00-24:00, mon 00:00-06:00")
    friday, monday = datetime(2026, 11, 20, 22, tzinfo=UTC), datetime(2026, 11, 23, 6, tzinfo=UTC)

    assert found.closes(friday) == monday
    assert found.closes(monday) == monday
    assert found.opens(monday) == friday + timedelta(days=7)


def test_windows_without_an_end_never_close() -> None:
    assert hours("00:00-24:00").closes(local(2026, 1, 1)) is None
    assert hours("12:00-13:00, 13:00-12:00").closes(local(2026, 1, 1)) is None


def test_a_window_is_an_hour_shorter_when_the_clock_goes_forward_and_longer_when_it_goes_back() -> None:
    night = hours("22:00-06:00 in Europe/Brussels")
    forward, back = local(2026, 3, 28, 22), local(2026, 10, 24, 22)

    assert night.opens(forward) == forward
    assert night.closes(forward) == forward + timedelta(hours=7)
    assert night.closes(back) == back + timedelta(hours=9)


def test_a_window_that_the_clock_skips_is_none_that_day() -> None:
    skipped, begins_late = hours("02:15-02:45 in Europe/Brussels"), hours("02:30-04:00 in Europe/Brussels")

    assert skipped.opens(local(2026, 3, 28, 12)) == local(2026, 3, 30, 2, 15)
    assert begins_late.opens(local(2026, 3, 29, 1)) == local(2026, 3, 29, 3)


def test_a_window_that_the_clock_shows_twice_is_open_the_first_time() -> None:
    twice = hours("02:15-02:45 in Europe/Brussels")

    assert twice.contains(local(2026, 10, 25, 2, 30))
    assert not twice.contains(local(2026, 10, 25, 2, 30, fold=1))


@given(
    moment=st.integers(0, 100 * 365 * 86_400).map(lambda passed_s: local(1996, 1, 1) + timedelta(seconds=passed_s)),
    zone=st.sampled_from(["UTC", "Europe/Brussels", "Australia/Lord_Howe", "Pacific/Apia", "America/Santiago"]),
    middle=st.integers(1, 24 * 60 - 1),
)
def test_windows_that_share_an_edge_hold_each_moment_once(moment: datetime, zone: str, middle: int) -> None:
    edge = f"{middle // 60:02}:{middle % 60:02}"
    early, late = hours(f"00:00-{edge} in {zone}"), hours(f"{edge}-24:00 in {zone}")

    assert early.contains(moment) != late.contains(moment)


def test_errors_name_the_option() -> None:
    with pytest.raises(UsageError, match="during = 'nights' cannot be read: 'nights' has no hours"):
        windows_of("nights")
    with pytest.raises(UsageError, match="tz = 'Europe/Brussel' is not a known time zone"):
        zone_of("Europe/Brussel")
