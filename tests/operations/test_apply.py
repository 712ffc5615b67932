"""A file of portals: checked whole, written in one transaction, and written once."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rowen.errors import NotFoundError, RefusedError, UsageError
from rowen.model.sources import AppliedSource
from tests.conftest import ScratchDatabase
from tests.portals.ckan import CkanPortal
from tests.portals.site import Page, Site
from tests.refresh.machine import at_statement

TWO = """
[[source]]
name = "city"
url = "https://city.example/data.json"
kind = "datajson"
language = "de"
every = "6 h"

[[portals]]                       # the peers' words
name = "Farm Office"
url = "https://farm.example/data.json"
type = "DataJson"
enabled = false
description = "said to people only"
options = { delay_s = 2, headers = { Authorization = "Bearer env:FARM_TOKEN" } }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "portals.toml"
    path.write_text(TWO)
    return path


async def applied(database: ScratchDatabase, path: Path, *, probe: bool = False, **how: Any) -> list[AppliedSource]:
    async with database.open(probe=probe) as rowen:
        return await rowen.sources.apply(path, trust=True, **how)


def rows(database: ScratchDatabase) -> list[tuple[Any, ...]]:
    return database.query(
        "select xmin::text, name, kind, url, options, schedule, state, cursor from source order by id"
    )


def told(deeds: list[AppliedSource]) -> dict[str, str]:
    return {deed.source: deed.action for deed in deeds}


async def test_a_file_declares_sources_and_the_second_time_nothing_is_written(
    database: ScratchDatabase, file: Path
) -> None:
    first = await applied(database, file)
    written = rows(database)
    second = await applied(database, file)

    assert told(first) == {"city": "added", "Farm Office": "added"}
    assert first[1].changes == {"state": (None, "paused")}
    assert [row[1:7] for row in written] == [
        ("city", "datajson", "https://city.example/data.json", {"language": "de"}, "every 6h", "active"),
        (
            *("Farm Office", "datajson", "https://farm.example/data.json"),
            *({"delay_s": 2.0, "headers": {"Authorization": "Bearer env:FARM_TOKEN"}}, None, "paused"),
        ),
    ]
    assert told(second) == {"city": "unchanged", "Farm Office": "unchanged"}
    assert rows(database) == written


async def test_a_dry_run_tells_the_same_and_writes_nothing(database: ScratchDatabase, file: Path) -> None:
    dry = await applied(database, file, dry_run=True)

    assert rows(database) == []
    assert await applied(database, file) == dry


async def test_each_option_that_differs_is_told_and_only_its_source_is_written(
    database: ScratchDatabase, file: Path
) -> None:
    await applied(database, file)
    before = rows(database)
    file.write_text(TWO.replace("delay_s = 2", "max_bytes = 5000").replace("enabled = false", "enabled = true"))

    deeds = await applied(database, file)

    [_, farm] = deeds
    assert told(deeds) == {"city": "unchanged", "Farm Office": "changed"}
    assert farm.changes == {
        "delay_s": (2.0, None),
        "max_bytes": (None, 5000),
        "state": ("paused", "active"),
    }
    assert rows(database)[0] == before[0]
    assert rows(database)[1] != before[1]


async def test_a_source_is_paused_and_resumed_and_left_as_it_is_when_the_file_says_nothing(
    database: ScratchDatabase, file: Path
) -> None:
    await applied(database, file)
    file.write_text(TWO.replace("enabled = false", "enabled = true"))
    resumed = await applied(database, file)
    file.write_text(TWO.replace("enabled = false", ""))
    async with database.open() as rowen:
        await rowen.sources.pause("Farm Office")
    left = await applied(database, file)

    assert told(resumed)["Farm Office"] == "resumed"
    assert told(left)["Farm Office"] == "unchanged"
    assert [row[6] for row in rows(database)] == ["active", "paused"]


async def test_what_the_file_does_not_name_stays_unless_it_is_pruned(
    database: ScratchDatabase, file: Path, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# A\n")
    async with database.open() as rowen:
        await rowen.sync(str(tmp_path / "docs"))

    kept = await applied(database, file)
    dry = await applied(database, file, prune=True, dry_run=True)
    held = [row[1] for row in rows(database)]
    pruned = await applied(database, file, prune=True)

    assert "docs" not in told(kept)
    assert told(dry)["docs"] == told(pruned)["docs"] == "removed"
    assert "docs" in held
    assert [row[1] for row in rows(database)] == ["city", "Farm Office"]
    assert database.query("select kind, source from change order by number") == [
        ("created", "docs"),
        ("deleted", "docs"),
    ]


async def test_an_empty_file_never_removes_anything(database: ScratchDatabase, file: Path) -> None:
    await applied(database, file)
    file.write_text("# nothing here\n")

    with pytest.raises(RefusedError, match="declares no source at all"):
        await applied(database, file, prune=True)

    assert await applied(database, file) == []
    assert len(rows(database)) == 2


async def test_another_name_for_the_same_address_is_a_new_name_and_the_items_stay(
    database: ScratchDatabase, file: Path
) -> None:
    await applied(database, file)
    ids = database.query("select id from source order by id")
    file.write_text(TWO.replace('"city"', '"town"'))

    deeds = await applied(database, file, prune=True)

    assert deeds[0].changes == {"name": ("city", "town")}
    assert database.query("select id from source order by id") == ids


async def test_another_address_under_the_same_name_is_refused(database: ScratchDatabase, file: Path) -> None:
    await applied(database, file)
    before = rows(database)
    file.write_text(TWO.replace("city.example", "elsewhere.example").replace("delay_s = 2", "delay_s = 3"))

    with pytest.raises(UsageError, match=r"city is kept as datajson https://city\.example"):
        await applied(database, file)

    assert rows(database) == before


async def test_everything_that_is_wrong_is_told_at_once_and_nothing_is_written(
    database: ScratchDatabase, file: Path
) -> None:
    file.write_text(
        TWO
        + """
[[source]]
url = "https://x.example/data.json"

[[source]]
name = "a"
url = "https://x.example/data.json"
kind = "datajson"
colour = "green"
enabled = "yes"

[[source]]
name = "b"
url = "https://x.example/data.json"
kind = "dtajson"

[[source]]
name = "city"
url = "https://x.example/data.json"
kind = "datajson"
cron = "whenever"

[[source]]
name = "c"
url = "https://x.example/data.json"
kind = "datajson"
profile = "udata"

[[source]]
name = "city"
url = "https://x.example/data.json"
kind = "datajson"
options = { delay = 3 }

[[source]]
name = "city"
url = "https://x.example/data.json"
kind = "datajson"
"""
    )

    with pytest.raises(UsageError) as caught:
        await applied(database, file)

    lines = str(caught.value).splitlines()
    assert "8 things are wrong" in lines[0]
    assert "Nothing was changed" in lines[0]
    for wanted in (
        "line 17, entry 3: name is missing.",
        "line 20, entry 4 (a): there is no key 'colour'. The keys are: name, url, ",
        "line 20, entry 4 (a): enabled must be true or false.",
        "line 27, entry 5 (b): There is no kind 'dtajson'. The kinds are: ",
        "line 32, entry 6 (city): cron = 'whenever' is not a schedule: it does not have five fields.",
        "line 38, entry 7 (c): Kind 'datajson' has no profile.",
        "line 44, entry 8 (city): Kind 'datajson' has no option 'delay'. Its options: ",
        "line 50, entry 9 (city): an entry before it has the same name.",
    ):
        assert any(line.strip().startswith(wanted) for line in lines), wanted
    assert rows(database) == []


@pytest.mark.parametrize(
    "secret",
    [
        'options = { headers = { Authorization = "Bearer hunter2" } }',
        'options = { headers = { "X-Api-Key" = "hunter2" } }',
        'options = { headers = { Cookie = "session=hunter2" } }',
        'url = "https://user:hunter2@x.example/data.json"',
        'url = "https://x.example/data.json?api_key=hunter2"',
    ],
)
async def test_a_credential_in_clear_is_refused_and_not_repeated(
    database: ScratchDatabase, file: Path, secret: str
) -> None:
    url = "" if secret.startswith("url") else 'url = "https://x.example/data.json"\n'
    file.write_text(f'[[source]]\nname = "x"\nkind = "datajson"\n{url}{secret}\n')

    with pytest.raises(UsageError, match="in clear") as caught:
        await applied(database, file)

    assert "hunter2" not in str(caught.value)
    assert rows(database) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"[[source]\n", "no TOML"),
        (b"\xff\xfe", "not UTF-8"),
        (b'[defaults]\nkind = "ckan"\n', "'defaults' at its top"),
        (b'[source]\nname = "x"\n', "two brackets"),
        (b"source = [1]\n", "is no table"),
    ],
)
async def test_a_file_that_is_something_else_is_refused(
    database: ScratchDatabase, file: Path, text: bytes, error: str
) -> None:
    file.write_bytes(text)

    with pytest.raises(UsageError, match=error):
        await applied(database, file)


async def test_a_missing_file_is_named(database: ScratchDatabase, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"nowhere\.toml"):
        await applied(database, tmp_path / "nowhere.toml")


async def test_a_break_in_the_middle_leaves_nothing(database: ScratchDatabase, file: Path) -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), at_statement("update source set state", before=fail):
        await applied(database, file)

    assert rows(database) == []


async def test_an_entry_without_a_kind_is_asked_what_it_is_and_only_once(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    file = tmp_path / "portals.toml"
    with closing(CkanPortal()) as portal:
        file.write_text(f'[[source]]\nname = "farm"\nurl = "{portal.url}"\nlanguage = "de"\n')
        first = await applied(database, file, probe=True)
        asked = len(portal.log)
        again = await applied(database, file, probe=True)

        assert (first[0].action, first[0].kind, first[0].url) == ("added", "ckan", portal.url)
        assert (told(again), len(portal.log) - asked) == ({"farm": "unchanged"}, 0)


async def test_what_cannot_be_found_out_is_told_with_its_line_and_nothing_is_written(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    file = tmp_path / "portals.toml"
    with closing(Site()) as site:
        site.pages["/"] = Page(b"<html><title>Hay</title>Cut it dry.</html>")
        file.write_text(TWO + f'[[source]]\nname = "plain"\nurl = "{site.url}"\n')

        with pytest.raises(UsageError, match=r"line 16, entry 3 \(plain\): .*no catalog was found there"):
            await applied(database, file, probe=True)

    assert rows(database) == []
