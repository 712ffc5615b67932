"""Numbers, sizes and times as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from rowen.model.wording import age, brief, count, moment, percent, seconds, size

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(("number", "words"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1200, "1,200 files")])
def test_a_number_has_its_noun(number: int, words: str) -> None:
    assert count(number, "file") == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0 %"),
        (0.0001, "under 1 %"),
        (0.01, "1 %"),
        (0.29, "29 %"),
        (0.57, "57 %"),
        (0.9999, "99 %"),
        (1.0, "100 %"),
    ],
)
def test_a_share_is_never_rounded_up_to_a_whole(share: float, words: str) -> None:
    assert percent(share) == words


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (0, "0 B"),
        (7, "7 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_940, "9.9 kB"),
        (9_960, "10 kB"),
        (999_400, "999 kB"),
        (999_600, "1.0 MB"),
        (2_500_000_000, "2.5 GB"),
        (999_600_000_000, "1.0 TB"),
        (12_345_600_000_000_000, "12,345.6 TB"),
    ],
)
def test_a_size_has_the_unit_that_fits(size_bytes: float, words: str) -> None:
    assert size(size_bytes) == words


@pytest.mark.parametrize(
    ("time_s", "words"),
    [
        (0.0, "0.00 s"),
        (0.094, "0.09 s"),
        (0.1, "0.1 s"),
        (59.9, "59.9 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (90_000, "25 h 0 min"),
    ],
)
def test_a_length_of_time_has_two_units_at_most(time_s: float, words: str) -> None:
    assert seconds(time_s) == words


def test_a_point_in_time_is_written_to_the_second() -> None:
    assert moment(NOW + timedelta(microseconds=999_999)) == "2026-11-18 12:00:00Z"
    assert moment(None) == "never"


@pytest.mark.parametrize(
    ("passed", "words"),
    [
        (timedelta(seconds=-5), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 min ago"),
        (timedelta(minutes=119), "1 h ago"),
        (timedelta(hours=47), "1 d ago"),
        (timedelta(days=400), "400 d ago"),
    ],
)
def test_an_age_is_never_rounded_up(passed: timedelta, words: str) -> None:
    assert age(NOW - passed, NOW) == words


def test_what_never_was_has_no_age() -> None:
    assert age(None, NOW) == "never"


def test_a_short_form_cuts_long_parts_and_leaves_out_empty_ones() -> None:
    exact, long = "x" * 60, "y" * 61

    assert brief(NOW, exact, "", long) == f"<datetime {exact} · {'y' * 59}…>"
