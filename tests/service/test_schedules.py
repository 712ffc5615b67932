"""Schedules in a file of portals: kept if they make sense, and what is wrong with one is told by its portal and key."""

from pathlib import Path

import pytest

from rowen.errors import ConfigurationError, UsageError
from rowen.service.declarations import read
from rowen.service.schedule import schedule_of


@pytest.mark.parametrize(
    "cron",
    [
        "0 3 * * *",
        "*/15 8-18/2 1,15 jan,JUL-sep mon-fri",
        "0,30 0 31 12 7",
        "59 23 1 1 0",
        "5-5 * * * sun",
    ],
)
def test_a_cron_expression_that_makes_sense_is_kept(cron: str) -> None:
    assert schedule_of({"cron": f" {cron.replace(' ', '   ')} "}) == f"cron {cron}"


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
        ("@daily", "five fields"),
        ("", "five fields"),
    ],
)
def test_what_is_wrong_with_a_cron_expression_is_told(cron: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        schedule_of({"cron": cron})

    assert str(caught.value).startswith(f"cron = {cron!r} is no schedule")
    assert why in str(caught.value)


def test_a_wrong_schedule_names_the_portal_and_the_key(tmp_path: Path) -> None:
    file = tmp_path / "portals.toml"
    entry = '[[source]]\nname = "{}"\nurl = "https://x.example/data.json"\nkind = "datajson"\n{}\n'
    file.write_text(entry.format("hay", 'cron = "99 99 99 99 99"') + entry.format("oats", 'every = "often"'))

    with pytest.raises(ConfigurationError) as caught:
        read(file)

    assert "entry 1 (hay): cron = '99 99 99 99 99' is no schedule: bad minute" in str(caught.value)
    assert "entry 2 (oats): every = 'often' is no length of time." in str(caught.value)
