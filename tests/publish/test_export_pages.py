"""What a snapshot has for people and for others: report, change log, checksum of what was declared, joint file."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rowen.errors import UsageError
from rowen.publish import changelog, report
from rowen.publish.row import Identity
from tests.conftest import ScratchDatabase
from tests.portals.datajson import DataJsonSite
from tests.publish.snapshots import exported, harvest


def test_many_different_values_are_counted_together_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_MOST_VALUES", 2)
    spread = report.Distributions()
    row: Any = {"kind": "ckan", "record_kind": None, "languages": [], "language": "de", "resources": []}

    spread.add([row | {"licence": name} for name in ("a", "b", "c", "d", "a")])
    spread.add([row | {"licence": None, "record_kind": "series"}])

    assert spread.by("licence") == [("(others)", 3), ("a", 2), ("b", 1)]
    assert spread.by("kind") == [("ckan", 5), ("series", 1)]


def test_a_long_changelog_names_some_and_counts_the_rest(tmp_path: Path) -> None:
    files = changelog.ChangeFiles(tmp_path)
    files.write(("created", Identity("city", f"{n:02}", "file:///a [b]", "", "", f"[x](y) {n}")) for n in range(52))
    files.close()
    files.write_page("From then to now.")

    page = (tmp_path / "changelog.md").read_text()
    assert page.count("\n- ") == 51
    assert "- and 2 more, in `changes.jsonl`" in page
    assert "- \\[x\\](y) 0: file:///a \\[b\\]\n" in page
    assert len((tmp_path / "changes.jsonl").read_text().splitlines()) == 52


async def test_a_joint_file_holds_the_rows_of_all_sources_beside_their_own(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city, nation=nation)

    await exported(database, out, "parquet", joint=True)

    joint = pq.read_table(out / "items.parquet").to_pylist()
    apart = [row for name in ("city", "nation") for row in pq.read_table(out / f"{name}.parquet").to_pylist()]
    assert (len(joint), joint) == (3, apart)
    with pytest.raises(UsageError, match="csv has no joint file"):
        await exported(database, out / "2", "csv", joint=True)


async def test_the_checksum_of_the_declared_sources_follows_what_they_are_and_not_what_they_hold(
    database: ScratchDatabase, city: DataJsonSite, out: Path
) -> None:
    async def declared(name: str) -> str:
        await exported(database, out / name)
        return str(json.loads((out / name / "manifest.json").read_text())["declared_sha256"])

    await harvest(database, city=city)
    first = await declared("1")
    city.add("new")
    await harvest(database, city=city)
    grown = await declared("2")
    async with database.open() as rowen:
        await rowen.sources.edit("city", options={"language": "de"})
    edited = await declared("3")

    assert (len(first), grown == first, edited == first) == (64, True, False)


async def test_the_report_tells_people_how_items_spread_and_quotes_what_portals_say(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path
) -> None:
    city.add("odd licence", license="a | b [c](d)", language=["de", "fr"])
    await harvest(database, city=city, nation=nation)

    await exported(database, out)

    page = (out / "report.md").read_text()
    spread = json.loads((out / "coverage.json").read_text())["total"]["distributions"]
    assert "4 items of 2 sources, 2024-05-01 12:00:00Z, up to change 4. Copies of others among them: 1." in page
    assert "| city | datajson | 3 | " in page
    assert "## By kind\n\n| kind | items | share |\n|---|--:|--:|\n| dataset | 4 | 100 % |" in page
    assert "| a \\| b \\[c\\](d) | 1 | 25 % |" in page
    assert "| CSV | 3 | 100 % |" in page
    assert (spread["language"]["de"], spread["language"]["fr"], spread["format"]) == (1, 1, {"CSV": 3})


async def test_the_changes_after_a_number_are_what_became_of_each_item(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path
) -> None:
    city.add("amended")
    await harvest(database, city=city, nation=nation)
    before = await exported(database, out / "before")
    city.add("came and went")
    gone = city.records.pop(0)
    city.records[0]["description"] = "Another text."
    city.records[1]["license"] = "CC BY"
    await harvest(database, city=city, nation=nation)
    city.records.pop()
    city.add("new")
    city.records[1]["license"] = "CC0"
    await harvest(database, city=city, nation=nation)

    compared = await exported(database, out / "compared", previous=out / "before")
    counted = await exported(database, out / "counted", since=before.last_change)
    nothing = await exported(database, out / "nothing", since=counted.last_change)

    listed = [(out / name / "changes.jsonl").read_text().splitlines() for name in ("compared", "counted")]
    lines = [[(one["change"], one["title"]) for one in map(json.loads, told)] for told in listed]
    assert compared.changes == counted.changes == {"created": 1, "updated": 1, "amended": 1, "deleted": 1}
    assert lines[0] == lines[1]
    assert ("deleted", gone["title"]) in lines[1]
    assert "From change 4 to change" in (out / "counted/changelog.md").read_text()
    assert nothing.changes == dict.fromkeys(counted.changes, 0)
    assert "Nothing changed." in (out / "nothing/changelog.md").read_text()
    with pytest.raises(UsageError, match="no change 4,711 yet"):
        await exported(database, out / "later", since=4711)
    assert not (out / "later").exists()
