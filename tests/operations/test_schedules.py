"""Schedules in a file of portals: what is wrong with one is told by its portal and key."""

from pathlib import Path

import pytest

from rowen.errors import UsageError
from rowen.model.access import Reach
from rowen.operations.declarations import Declaration

ENTRY = '[[source]]\nname = "{}"\nurl = "https://x.example/data.json"\nkind = "datajson"\n{}\n'


def test_a_wrong_schedule_names_the_portal_and_the_key(tmp_path: Path) -> None:
    file = tmp_path / "portals.toml"
    file.write_text(
        ENTRY.format("hay", 'cron = "99 99 99 99 99"')
        + ENTRY.format("oats", 'every = "often"')
        + ENTRY.format("rye", 'cron = "@daily"\ntz = "Europe/Brussel"')
        + ENTRY.format("rice", 'every = "6h"\nduring = "nights"')
        + ENTRY.format("flax", 'during = "22:00-06:00"')
    )

    with pytest.raises(UsageError) as caught:
        Declaration.of_file(file).read(Reach.ALL)

    assert "entry 1 (hay): cron = '99 99 99 99 99' is not a schedule: bad minute" in str(caught.value)
    assert "entry 2 (oats): every = 'often' is not a length of time." in str(caught.value)
    assert "entry 3 (rye): tz = 'Europe/Brussel' is not a known time zone. Did you mean" in str(caught.value)
    assert "entry 4 (rice): during = 'nights' cannot be read: 'nights' has no hours." in str(caught.value)
    assert "entry 5 (flax): during needs a schedule." in str(caught.value)


def test_a_schedule_may_have_a_time_zone_and_windows(tmp_path: Path) -> None:
    file = tmp_path / "portals.toml"
    file.write_text(ENTRY.format("hay", 'every = "6h"\ntz = "Europe/Brussels"\nduring = "mon-fri 22:00-6:00"'))

    [hay] = Declaration.of_file(file).read(Reach.ALL)

    assert str(hay.schedule) == "every 6h in Europe/Brussels during mon-fri 22:00-06:00"
