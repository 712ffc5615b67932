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
        ("99 99 99 99 99", "'99' is no minute, which is 0 to 59."),
        ("60 * * * *", "'60' is no minute"),
        ("0 24 * * *", "'24' is no hour, which is 0 to 23."),
        ("0 0 0 * *", "'0' is no day of the month, which is 1 to 31."),
        ("0 0 * 13 *", "'13' is no month, which is 1 to 12, or a name such as feb."),
        ("0 0 * * 8", "'8' is no day of the week, which is 0 to 7, or a name such as mon."),
        ("0 0 * * mnd", "'mnd' is no day of the week"),
        ("jan 0 * * *", "'jan' is no minute"),
        ("0 18-8 * * *", "'18-8' ends before it begins."),
        ("*/0 * * * *", "'*/0' has no good step"),
        ("5/15 * * * *", "'5/15' has no good step"),
        ("*/99 * * * *", "'*/99' has no good step"),
        ("1,,2 * * * *", "'' is no minute"),
        ("-5 * * * *", "'-5' is no minute"),
        ("² * * * *", "'²' is no minute"),
        ("0 3 * *", "is no schedule of five fields."),
        ("0 3 * * * *", "is no schedule of five fields."),
        ("@daily", "is no schedule of five fields."),
        ("", "is no schedule of five fields."),
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

    assert "entry 1 (hay): cron = '99 99 99 99 99' is no schedule: '99' is no minute" in str(caught.value)
    assert "entry 2 (oats): every = 'often' is no length of time." in str(caught.value)
