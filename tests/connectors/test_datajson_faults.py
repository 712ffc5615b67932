"""Documents with broken records: each costs itself, none is lost without a word, and nothing is deleted on a guess."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rowen import Rowen, Run
from rowen.connectors.datajson import DataJson
from rowen.connectors.datajson.record import is_record, name_of
from tests.conftest import ScratchDatabase
from tests.logical import contents
from tests.portals.ckan import nested
from tests.portals.datajson import DataJsonSite


@pytest.fixture(autouse=True)
def _kind(kinds: Any) -> None:
    kinds(DataJson)


@pytest.fixture
def site() -> Iterator[DataJsonSite]:
    site = DataJsonSite()
    yield site
    site.close()


async def keep(r: Rowen, site: DataJsonSite) -> Run:
    await r.sources.add(site.address, name="site", kind="datajson")
    return await r.sync("site")


def quarantined(database: ScratchDatabase) -> list[Any]:
    return database.query("select url, error, payload from quarantine order by error")


def title(number: int) -> bytes:
    return b'"title": "Dataset http://portal.example/datasets/%d"' % number


def spoiled(site: DataJsonSite, number: int, said: bytes = b'"title": "Stray"x"') -> bytes:
    """The document with something else in the place of a title."""
    body = site.document()
    assert title(number) in body
    return body.replace(title(number) + b",", said + b",")


DEEP = b"[" * 100_000 + b"]" * 100_000
LARGE = b'"' + b"x" * 3_000_000 + b'"'
FAULTS = [b"tru", b'"Stray"x"', b'"Open', DEEP, LARGE]


@pytest.mark.parametrize("fault", FAULTS, ids=["word", "quote", "open", "deep", "large"])
async def test_a_held_record_that_cannot_be_read_any_more_stays(
    database: ScratchDatabase, site: DataJsonSite, monkeypatch: pytest.MonkeyPatch, fault: bytes
) -> None:
    monkeypatch.setattr("rowen.connectors.datajson.MOST_RECORD_BYTES", 1 << 20)
    site.fill(30)
    async with database.open() as r:
        await keep(r, site)
        gone = site.records.pop(20)
        site.body = spoiled(site, 5, b'"title": ' + fault)
        run = await r.sync("site")
        again = await r.sync("site")

    assert (run.status, run.stats.failed, run.stats.unchanged, run.stats.deleted) == ("completed", 1, 28, 1)
    assert (again.status, again.stats.failed, again.stats.deleted) == ("completed", 1, 0)
    [(url, error, _)] = quarantined(database)
    begins = site.body.index(b'{"identifier": "http://portal.example/datasets/5"')
    assert (url, f"Record 6, at byte {begins}," in error) == ("https://portal.example/datasets/5", True)
    urls = {url for (url,) in database.query("select url from item")}
    assert url in urls
    assert gone["identifier"].replace("http:", "https:") not in urls


async def test_records_after_a_stray_quote_are_read(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(30)
    site.body = spoiled(site, 5)
    async with database.open() as r:
        run = await keep(r, site)
        site.body = None
        healed = await r.sync("site")

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 29, 1)
    assert (healed.stats.created, healed.stats.unchanged, quarantined(database)) == (1, 29, [])


async def test_a_broken_piece_is_kept_with_its_number_its_place_and_its_bytes(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(30)
    site.body = spoiled(site, 29)
    async with database.open() as r:
        run = await keep(r, site)

    [(_, error, payload)] = quarantined(database)
    at = site.body.index(payload)
    wrong = site.body.index(b'x", "description"')
    assert error == f"Record 30, at byte {at}, cannot be read: Expecting ',' delimiter (byte {wrong})."
    assert payload.startswith(b'{"identifier": "http://portal.example/datasets/29"')
    assert (run.status, run.stats.created) == ("completed", 29)


async def test_a_document_that_is_cut_off_after_a_broken_record_deletes_nothing(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(30)
    async with database.open() as r:
        await keep(r, site)
        whole = spoiled(site, 5)
        for kept in (len(whole) - 1, len(whole) - 3, whole.index(b'{"identifier": "http://portal.example/datasets/6"')):
            site.body = whole[:kept]
            run = await r.sync("site", accept_deletions=True)

            assert (run.status, run.stats.deleted, len(contents(database))) == ("partial", 0, 30)
            assert "byte" in (run.error or "")
        site.body = site.document()[:5000]
        run = await r.sync("site", accept_deletions=True)

    assert "is cut off: the document ends too early, at byte 5000." in (run.error or "")


async def test_two_broken_records_in_a_row_are_two_items_that_stay(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(30)
    async with database.open() as r:
        await keep(r, site)
        site.body = spoiled(site, 5).replace(title(6) + b",", b'"title": "Stray"x",')
        runs = [await r.sync("site") for _ in range(3)]

    assert [(run.status, run.stats.unchanged, run.stats.deleted) for run in runs] == [("completed", 28, 0)] * 3
    assert [run.stats.not_modified for run in runs] == [0, 0, 1]
    assert {url[-2:] for url, _, _ in quarantined(database)} == {"/5", "/6"}
    assert len(contents(database)) == 30


async def test_more_nameless_records_put_deletions_off_once(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(30)
    async with database.open() as r:
        await keep(r, site)
        site.records[5] = None  # type: ignore[call-overload]
        doubted = await r.sync("site")
        held = len(contents(database))
        again = await r.sync("site")
        site.records.pop()
        later = await r.sync("site")

    assert (doubted.status, doubted.stats.deleted, doubted.stats.failed, held) == ("partial", 0, 1, 30)
    assert "1 records cannot be identified, not all of which were there before" in (doubted.error or "")
    assert (again.status, again.stats.deleted) == ("completed", 1)
    assert (later.status, later.stats.deleted) == ("completed", 1)


async def test_nameless_records_do_not_matter_where_nothing_is_missing(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(30)
    async with database.open() as r:
        await keep(r, site)
        site.records.insert(5, None)  # type: ignore[arg-type]
        run = await r.sync("site")
        full = await r.sync("site", full=True)

    assert (run.status, run.stats.unchanged, run.stats.failed) == ("completed", 30, 1)
    assert (full.status, full.stats.unchanged, full.stats.failed) == ("completed", 30, 1)


async def test_what_is_no_object_is_counted_and_kept(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(5)
    site.records[2:2] = [None, "text", 5, ["x"], None]  # type: ignore[list-item]
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.status, run.stats.created, run.stats.failed, run.stats.duplicates) == ("completed", 5, 4, 1)
    assert {payload for _, _, payload in quarantined(database)} == {b"null", b'"text"', b"5", b'["x"]'}


async def test_a_broken_record_with_the_identifier_of_others_takes_none_of_them(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(5)
    site.add("same", "The first one")
    site.add("same", "Quite another one")
    site.add("same", "A third one, which is broken", spatial=nested(900))
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("site")
        quiet = await r.sync("site")

    assert (run.status, run.stats.created, run.stats.duplicates, run.stats.failed) == ("completed", 7, 0, 1)
    assert (again.stats.shared, again.stats.failed, again.stats.rows_written) == (2, 1, 0)
    assert (quiet.stats.not_modified, quiet.stats.unchanged, quiet.stats.failed) == (1, 7, 1)
    assert ("The first one",) in database.query("select title from item")


async def test_a_broken_record_is_no_reason_to_read_an_unchanged_document_for_ever(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(30)
    site.add("deep", spatial=nested(900))
    async with database.open() as r:
        runs = [await keep(r, site), *[await r.sync("site") for _ in range(3)]]
        before = quarantined(database)
        site.records[30]["spatial"] = None
        healed = await r.sync("site")

    assert [run.stats.not_modified for run in runs] == [0, 0, 1, 1]
    assert [(run.stats.requests, run.stats.bytes) for run in runs[2:]] == [(1, 0), (1, 0)]
    for run in runs[1:]:
        assert (run.status, run.complete) == ("completed", True)
        assert (run.stats.unchanged, run.stats.failed, run.stats.rows_written) == (30, 1, 0)
    assert [url for url, _, _ in before] == [f"{site.address}#/deep"]
    assert (healed.stats.created, quarantined(database)) == (1, [])


async def test_a_held_record_that_is_broken_stays_in_quarantine_while_nothing_changes(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(30)
    async with database.open() as r:
        await keep(r, site)
        site.body = spoiled(site, 5)
        runs = [await r.sync("site") for _ in range(4)]

    assert [run.stats.not_modified for run in runs] == [0, 0, 1, 1]
    assert [(run.status, run.stats.unchanged, run.stats.failed) for run in runs] == [("completed", 29, 1)] * 4
    assert (len(contents(database)), len(quarantined(database))) == (30, 1)


async def test_a_document_with_too_many_broken_records_is_read_each_time(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(3)
    site.records += [f"text {number}" for number in range(101)]  # type: ignore[misc]
    async with database.open() as r:
        await keep(r, site)
        runs = [await r.sync("site") for _ in range(2)]

    assert [(run.stats.not_modified, run.stats.unchanged, run.stats.failed) for run in runs] == [(0, 3, 101)] * 2


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"identifier": "a", "x": tru}', "#/a"),
        (b'{"x": tru, "identifier": 7}', "#/7"),
        (b'{"publisher": {"identifier": "no"}, "identifier": "a", "x": tru}', "#/a"),
        (b'{"x": tru, "publisher": {"identifier": "no"}, "identifier": "a"}', None),
        (b'{"identifier": "a"b", "x": 1}', None),
        (b'{"identifier": {"a": 1}, "x": tru}', None),
        (b'{"@id": "b", "x": tru}', "#/b"),
        (b'{"identifier": "\\ud800", "x": tru}', "#/%ED%A0%80"),
        (b'["identifier"]', None),
    ],
)
def test_a_broken_record_is_named_only_by_an_identifier_that_is_surely_its_own(body: bytes, name: str | None) -> None:
    found = name_of(body, None, "https://portal.example/data.json")

    assert found == (name and f"https://portal.example/data.json{name}")


def test_records_are_told_from_their_parts() -> None:
    parts: list[Any] = [
        {"title": "Table", "downloadURL": "https://files.example/1.csv"},
        {"@type": "vcard:Contact", "title": "Keeper"},
        {"name": "The Farm"},
        ["x"],
    ]

    assert not any(map(is_record, parts))
    assert is_record(json.loads('{"title": "Hay"}'))
    assert is_record({"identifier": 7})
