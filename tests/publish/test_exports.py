"""Snapshots: what is in them, what they say of themselves, and that there are no half ones."""

import csv
import errno
import hashlib
import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rowen.errors import ExportError, NotFoundError, RefusedError, UsageError
from rowen.publish import formats
from rowen.publish.formats import FORMATS, Format
from rowen.publish.row import COLUMNS
from tests.conftest import ScratchDatabase
from tests.portals.datajson import DataJsonSite
from tests.publish.snapshots import NOON, ODD, UUID, exported, harvest
from tests.refresh.machine import at_statement


def read_parquet(folder: Path) -> list[dict[str, Any]]:
    return [row for path in rows_in(folder, ".parquet") for row in pq.read_table(path).to_pylist()]


def read_jsonl(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in rows_in(folder, ".jsonl") for line in path.read_text("utf-8").splitlines()]


def read_json(folder: Path) -> list[dict[str, Any]]:
    return [row for path in rows_in(folder, ".json") for row in json.loads(path.read_text("utf-8"))]


def read_csv(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in rows_in(folder, ".csv"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            found += csv.DictReader(file)
    return found


def read_sqlite(folder: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(folder / "items.sqlite")) as pool:
        pool.row_factory = sqlite3.Row
        return [dict(row) for row in pool.execute("select * from item order by id")]


BESIDE = ("identity", "changes", "manifest", "coverage")


def rows_in(folder: Path, ending: str) -> list[Path]:
    return [path for path in sorted(folder.glob(f"*{ending}")) if path.stem not in BESIDE]


READ: dict[Format, Callable[[Path], list[dict[str, Any]]]] = {
    "parquet": read_parquet,
    "jsonl": read_jsonl,
    "json": read_json,
    "csv": read_csv,
    "sqlite": read_sqlite,
}


def plain(value: Any) -> Any:
    """A value as any format may write it: lists and records as JSON, dates as text, nothing as nothing."""
    match value:
        case None | "" | [] | "[]":
            return None
        case datetime():
            return value.isoformat()
        case str() if value[0] in "[{":
            return json.loads(value)
        case list():
            return [one if isinstance(one, str) else dict(one) for one in value]
    return value


@pytest.mark.parametrize("form", FORMATS)
async def test_every_format_holds_the_same_rows(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path, form: Format
) -> None:
    await harvest(database, city=city, nation=nation)

    done = await exported(database, out, form)

    found = {
        (row["source"], row["title"]): {k: plain(v) for k, v in row.items() if k != "id"} for row in READ[form](out)
    }
    wells, odd, copy = found["city", "Wells"], found["city", ODD], found["nation", "Wells of the nation"]
    assert (done.items, done.copies, done.sources, done.to) == (3, 1, 2, out)
    assert all(tuple(row) == COLUMNS for row in found.values())
    assert (wells["kind"], wells["url"], wells["identifier"]) == ("datajson", f"{city.address}#/{UUID}", UUID)
    assert (wells["publisher"], wells["licence"], wells["issued"][:10]) == ("The Farm", "CC0", "2020-01-01")
    assert (wells["spatial"], wells["landing_page"]) == ("Here", "https://city.example/w")
    assert wells["tags"] == ["clover", "hay"]
    assert [one["url"] for one in wells["resources"]] == ["https://files.example/1.csv"]
    assert wells["record"]["identifier"] == UUID
    assert odd["text"] == f"=1+1\nZweite Zeile, {ODD}"
    assert (odd["tags"], odd["resources"]) == (["a;b", "ä"], None)
    assert (copy["temporal"], copy["duplicate_of"]) == ("2001/2002", wells["url"])
    assert copy["group_id"] == wells["group_id"]
    assert (wells["duplicate_of"], odd["group_id"]) == (None, None)


async def test_sqlite_can_be_searched(database: ScratchDatabase, city: DataJsonSite, out: Path) -> None:
    await harvest(database, city=city)
    await exported(database, out, "sqlite")

    with closing(sqlite3.connect(out / "items.sqlite")) as pool:
        found = pool.execute(
            "select title from item where id in (select rowid from item_search where item_search match 'zweite')"
        ).fetchall()

    assert found == [(ODD,)]


async def test_the_manifest_tells_where_it_comes_from_and_its_checksums_are_true(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city, nation=nation)
    await exported(database, out, "parquet")

    manifest = json.loads((out / "manifest.json").read_text())

    assert (manifest["format"], manifest["format_version"], manifest["last_change"]) == ("rowen-export", 1, 3)
    assert (manifest["created_at"], manifest["items"], manifest["copies"]) == (NOON.isoformat(), 3, 1)
    assert [(one["name"], one["url"], one["items"], one["file"]) for one in manifest["sources"]] == [
        ("city", city.address, 2, "city.parquet"),
        ("nation", nation.address, 1, "nation.parquet"),
    ]
    assert all(one["complete"] and one["last_run"]["status"] == "completed" for one in manifest["sources"])
    assert {one["name"] for one in manifest["files"]} | {"manifest.json"} == {path.name for path in out.iterdir()}
    for one in manifest["files"]:
        body = (out / one["name"]).read_bytes()
        assert (one["bytes"], one["sha256"]) == (len(body), hashlib.sha256(body).hexdigest())
    identities = pq.read_table(out / "identity.parquet").to_pylist()
    assert [one["source"] for one in identities] == ["city", "city", "nation"]
    assert {one["url"] for one in identities} == {row["url"] for row in read_parquet(out)}


async def test_the_coverage_report_counts_what_is_known(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city, nation=nation)
    await exported(database, out)

    coverage = json.loads((out / "coverage.json").read_text())

    [first, second] = coverage["sources"]
    assert (first["items"], first["copies"], second["copies"]) == (2, 0, 1)
    assert first["have"]["description"] == {"items": 2, "share": 1.0}
    assert first["have"]["licence"] == {"items": 1, "share": 0.5}
    assert first["have"]["resources"] == {"items": 1, "share": 0.5}
    assert second["have"]["temporal"] == {"items": 1, "share": 1.0}
    assert coverage["total"]["have"]["spatial"]["items"] == 1
    assert (first["deletions_held"], first["quarantined"]) == (0, 0)
    assert first["last_complete_at"]


@pytest.mark.parametrize("form", FORMATS)
async def test_the_same_index_gives_the_same_bytes(
    database: ScratchDatabase, city: DataJsonSite, out: Path, form: Format
) -> None:
    await harvest(database, city=city)

    for name in ("one", "two"):
        await exported(database, out / name, form)

    one, two = (json.loads((out / name / "manifest.json").read_text())["files"] for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize("form", FORMATS)
async def test_an_empty_index_is_a_snapshot_too(
    database: ScratchDatabase, city: DataJsonSite, out: Path, form: Format
) -> None:
    nothing = await exported(database, out / "nothing", form)
    async with database.open() as rowen:
        await rowen.sources.add(city.address, name="city", kind="datajson")
    unread = await exported(database, out / "unread", form, previous=out / "nothing")

    assert (nothing.items, nothing.sources, unread.items, unread.sources) == (0, 0, 0, 1)
    assert READ[form](out / "unread") == []
    assert unread.changes == {"created": 0, "updated": 0, "amended": 0, "deleted": 0}


async def test_what_is_deleted_is_not_exported(database: ScratchDatabase, city: DataJsonSite, out: Path) -> None:
    await harvest(database, city=city)
    city.records.pop(0)
    await harvest(database, city=city)

    await exported(database, out)

    assert [row["title"] for row in read_jsonl(out)] == [ODD]


async def test_what_happens_during_an_export_is_not_in_it(
    database: ScratchDatabase, city: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city)

    with at_statement("twin_holder", before=lambda: database.execute("delete from item")):
        done = await exported(database, out)

    assert done.items == len(read_jsonl(out)) == 2
    assert database.query("select count(*) from item") == [(0,)]


async def test_only_some_sources_can_be_taken(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city, nation=nation)

    await exported(database, out, sources=["nation"])

    [row] = read_jsonl(out)
    assert (row["source"], row["duplicate_of"]) == ("nation", f"{city.address}#/{UUID}")
    with pytest.raises(NotFoundError, match="nowhere"):
        await exported(database, out / "2", sources=["nowhere"])


@pytest.mark.parametrize(("before", "after"), [("parquet", "parquet"), ("csv", "jsonl"), ("sqlite", "csv")])
async def test_the_changes_since_an_earlier_snapshot_are_listed(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path, before: Format, after: Format
) -> None:
    city.add("amended")
    await harvest(database, city=city, nation=nation)
    await exported(database, out / "before", before)
    city.records.pop(0)
    city.records[0]["description"] = "Another text."
    city.records[1]["license"] = "CC BY"
    city.add("new")
    await harvest(database, city=city, nation=nation)

    done = await exported(database, out / "after", after, previous=out / "before")

    assert done.changes == {"created": 1, "updated": 1, "amended": 1, "deleted": 1}
    listed = [json.loads(line) for line in (out / "after/changes.jsonl").read_text().splitlines()]
    assert {(one["change"], one["source"], one["url"].rpartition("/")[2]) for one in listed} == {
        *(("created", "city", "new"), ("updated", "city", "odd")),
        *(("amended", "city", "amended"), ("deleted", "city", UUID)),
    }
    page = (out / "after/changelog.md").read_text()
    assert "| city | 1 | 1 | 1 | 1 |" in page
    assert f"### Deleted\n\n- [Wells](<{city.address}#/{UUID}>)\n" in page
    manifest = json.loads((out / "after/manifest.json").read_text())
    assert manifest["changes"] == {"city": done.changes}
    assert manifest["previous"]["created_at"] == NOON.isoformat()


async def test_a_part_can_be_taken_and_is_no_basis_of_a_comparison(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city, nation=nation)

    part = await exported(database, out / "part", "csv", limit=1)

    assert (part.items, len(read_csv(out / "part"))) == (1, 1)
    assert json.loads((out / "part/manifest.json").read_text())["limit"] == 1
    with pytest.raises(ExportError, match="only a part of the items"):
        await exported(database, out / "2", previous=out / "part")
    for how in ({"previous": out / "part", "limit": 1}, {"since": 0, "limit": 1}, {"since": 0, "previous": out}):
        with pytest.raises(UsageError):
            await exported(database, out / "2", **how)
    assert not (out / "2").exists()


async def test_a_removed_source_is_deleted_and_one_that_was_not_chosen_is_not(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city, nation=nation)
    await exported(database, out / "1")
    chosen = await exported(database, out / "2", sources=["city"], previous=out / "1")
    async with database.open() as rowen:
        await rowen.sources.remove("nation")
    removed = await exported(database, out / "3", previous=out / "1")

    assert chosen.changes == {"created": 0, "updated": 0, "amended": 0, "deleted": 0}
    assert removed.changes == {"created": 0, "updated": 0, "amended": 0, "deleted": 1}


def tampered(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


async def test_an_earlier_snapshot_that_was_changed_is_refused_with_its_checksum(
    database: ScratchDatabase, city: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city)
    await exported(database, out / "1")
    identity = out / "1/identity.jsonl"
    identity.write_text(identity.read_text().replace("odd", "even"))

    with pytest.raises(ExportError, match=r"identity\.jsonl differs from its manifest: SHA-256"):
        await exported(database, out / "2", previous=out / "1")

    assert not (out / "2").exists()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"format_version": 2}, "version 2 of the format; this program knows 1"),
        ({"format": "something else"}, "not a manifest of Rowen"),
        ({"identity": "../1/identity.jsonl"}, "is damaged"),
        ({"identity": "elsewhere.jsonl"}, "is damaged"),
        ({"files": 7}, "is damaged"),
        ({"files": [{"name": "identity.jsonl"}, 7]}, "is damaged"),
        ({"files": {"identity.jsonl": 7}}, "is damaged"),
        ({"files": [7]}, "is damaged"),
        ({"sources": [7]}, "is damaged"),
    ],
)
async def test_an_earlier_snapshot_of_another_kind_is_refused(
    database: ScratchDatabase, out: Path, changes: dict[str, Any], error: str
) -> None:
    await exported(database, out / "1")
    tampered(out / "1", **changes)

    with pytest.raises(ExportError, match=error):
        await exported(database, out / "2", previous=out / "1")

    assert not (out / "2").exists()


async def test_a_folder_that_is_no_snapshot_is_refused(database: ScratchDatabase, tmp_path: Path, out: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no manifest\.json"):
        await exported(database, out, previous=tmp_path)


async def test_a_folder_that_is_there_is_left_alone_and_an_empty_one_is_taken(
    database: ScratchDatabase, out: Path
) -> None:
    out.mkdir()
    await exported(database, out)
    before = sorted(path.name for path in out.iterdir())

    with pytest.raises(RefusedError, match="exists already"):
        await exported(database, out)

    assert sorted(path.name for path in out.iterdir()) == before


async def test_a_full_disk_is_named_and_nothing_is_left(
    database: ScratchDatabase, city: DataJsonSite, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harvest(database, city=city)

    def full(self: object, rows: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(formats.TextWriter, "write", full)
    with pytest.raises(ExportError, match=r"No space left for .*exports\. Nothing of it was kept"):
        await exported(database, out)

    assert list(out.parent.glob(".exports*")) == []
    assert not out.exists()


async def test_a_place_that_cannot_be_written_is_named(database: ScratchDatabase, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ExportError, match="could not be written"):
        await exported(database, tmp_path / "file/exports")


async def test_a_place_that_may_not_be_written_is_named(
    database: ScratchDatabase, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(**_: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "mkdtemp", forbidden)
    with pytest.raises(ExportError, match="may not be written: Permission denied"):
        await exported(database, out)


async def test_a_source_that_could_not_be_read_to_its_end_is_not_called_complete(
    database: ScratchDatabase, city: DataJsonSite, nation: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city, nation=nation)
    city.down = True
    async with database.open() as rowen:
        await rowen.sync("city")
    database.execute(
        "insert into item_held (item_id, source_id, run_id) select item.id, source_id, 1 from item"
        " join source on source.id = source_id where source.name = 'nation' limit 1"
    )

    await exported(database, out)

    first, second = json.loads((out / "manifest.json").read_text())["sources"]
    assert (first["complete"], first["last_run"]["status"], first["items"]) == (False, "failed", 2)
    assert (second["complete"], second["deletions_held"]) == (False, 1)
    assert first["last_complete_at"]


async def test_an_export_that_is_broken_off_leaves_nothing(
    database: ScratchDatabase, city: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city)

    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), at_statement("twin_holder", before=fail):
        await exported(database, out)

    assert list(out.parent.glob("*exports*")) == []


async def test_csv_for_spreadsheets_holds_no_formula(database: ScratchDatabase, city: DataJsonSite, out: Path) -> None:
    city.records[1]["title"] = "@SUM(1)"
    await harvest(database, city=city)

    await exported(database, out / "exact", "csv")
    await exported(database, out / "excel", "csv", excel=True)

    exact, safe = ({row["identifier"]: row for row in read_csv(out / name)} for name in ("exact", "excel"))
    assert (exact["odd"]["title"], safe["odd"]["title"]) == ("@SUM(1)", "'@SUM(1)")
    assert safe["odd"]["text"].startswith("'=1+1")
    assert (out / "excel/city.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for row in safe.values() for cell in row.values())
    with pytest.raises(UsageError, match="no care for spreadsheets"):
        await exported(database, out / "x", "jsonl", excel=True)


async def test_names_of_sources_never_lead_out_of_the_folder(
    database: ScratchDatabase, city: DataJsonSite, out: Path
) -> None:
    await harvest(database, city=city)
    async with database.open() as rowen:
        for name in ("etc", "Identity", "a b", "a-b", "…"):
            await rowen.sources.add(city.address, name=name, kind="datajson")
    # Sources that had such a name before it was refused keep it.
    database.execute("update source set name = '../../etc' where name = 'etc'")

    await exported(database, out)

    files = [one["file"] for one in json.loads((out / "manifest.json").read_text())["sources"]]
    assert sorted(files) == sorted(
        ["etc.jsonl", "Identity-2.jsonl", "a-b.jsonl", "a-b-2.jsonl", "city.jsonl", "source.jsonl"]
    )
    assert all((out / file).is_file() for file in files)


async def test_without_pyarrow_the_extra_is_named(
    database: ScratchDatabase, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "rowen.publish.parquet", raising=False)

    with pytest.raises(UsageError, match="pyarrow") as caught:
        await exported(database, out, "parquet")

    assert "'pyarrow>=" in (caught.value.hint or "")
    assert not out.exists()


async def test_items_that_are_no_datasets_are_exported_as_well(
    database: ScratchDatabase, tmp_path: Path, out: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/hay.md").write_text("# Hay\n\nTurn it twice.\n")
    async with database.open() as rowen:
        await rowen.sync(str(tmp_path / "docs"))

    await exported(database, out)

    [row] = read_jsonl(out)
    assert (row["source"], row["kind"], row["title"], row["publisher"]) == ("docs", "files", "Hay", None)
    assert (row["media_type"], row["group_id"]) == ("text/markdown", None)


async def test_exports_and_get_agree_on_who_belongs_together(database: ScratchDatabase, out: Path) -> None:
    sites = [DataJsonSite() for _ in range(4)]
    try:
        for number, site in enumerate(sites):
            for chain in range(3):
                ids = [f"urn:x:{chain}:{number}", f"urn:x:{chain}:{number + 1}"]
                site.add(f"{chain}", f"Link {chain}", **{"dct:identifier": ids})
            for copy in range(number):
                words = f"What portal {number} says of number {copy}, in words of its own."
                site.add(f"page{copy}", description=words, landingPage="https://shared.example/page")
        await harvest(database, **{f"s{number}": site for number, site in enumerate(sites)})
        await exported(database, out)
        rows = {row["url"]: row for row in read_jsonl(out)}

        async with database.open() as rowen:
            groups = {url: await rowen.items.duplicates(url) for url in rows}
    finally:
        for site in sites:
            site.close()

    assert {url: row["group_id"] for url, row in rows.items()} == {
        url: group.name if group else None for url, group in groups.items()
    }
    assert len({row["group_id"] for row in rows.values()} - {None}) == 3
