"""Versions per format: a change in one reader costs the items of that format, and no others."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from rowen.connectors import registry
from rowen.content import readers
from rowen.harvest.sieve import recipes
from rowen.model.hashes import canonical_json
from tests.conftest import ScratchDatabase
from tests.portals.site import Page, Site, keep

RTF = rb"{\rtf1 The hay is dry.}"


@pytest.fixture
def bump(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Gives a built-in format its next version."""

    def bumped(name: str) -> None:
        table = tuple(
            replace(reader, version=reader.version + 1) if reader.format == name else reader
            for reader in readers.BUILT_IN
        )
        monkeypatch.setattr(readers, "BUILT_IN", table)
        readers._table.cache_clear()

    yield bumped
    monkeypatch.undo()
    readers._table.cache_clear()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.put("/", "Start", "All about barley.", links=("/a", "/b.rtf"))
    site.put("/a", "A", "All about clover.")
    site.pages["/b.rtf"] = Page(RTF, headers={"Content-Type": "application/rtf"})
    yield site
    site.close()


def fill(folder: Path) -> Path:
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\nAll about barley.\n")
    (folder / "table.csv").write_text("a,b\n1,2\n")
    (folder / "letter.rtf").write_bytes(RTF)
    return folder


def write_as_before_formats(database: ScratchDatabase, source: str, kind: str) -> None:
    """Let all checks of a source look as a release wrote them that knew one version for all formats."""
    reading = registry.check_options(kind, {}).reading()
    old = sha256(canonical_json([kind, 2, reading])).digest()[:16]
    database.query(
        "update item_check set recipe = %s from item, source where item.id = item_id and source_id = source.id"
        " and source.name = %s returning 1",
        old,
        source,
    )


async def test_a_new_version_of_one_format_has_only_its_items_read_again(
    database: ScratchDatabase, tmp_path: Path, bump: Callable[[str], None]
) -> None:
    folder = str(fill(tmp_path / "folder"))
    async with database.open() as r:
        await r.sync(folder)
        bump("rtf")
        after = await r.sync(folder)
        again = await r.sync(folder)

    assert (after.stats.unchanged, after.stats.stopped_at_validator, after.stats.stopped_at_content) == (7, 6, 1)
    assert (after.stats.bytes, after.stats.rows_written) == (len(RTF), 1)
    assert (again.stats.stopped_at_validator, again.stats.rows_written) == (7, 0)


async def test_pages_of_other_formats_are_still_requested_with_their_validators(
    database: ScratchDatabase, site: Site, bump: Callable[[str], None]
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.log.clear()
        bump("rtf")
        run = await r.sync("site")

    asked = {one.path: (one.status, one.conditional) for one in site.log if one.path in site.pages}
    assert asked == {"/": (304, True), "/a": (304, True), "/b.rtf": (200, False)}
    assert (run.stats.unchanged, run.stats.rows_written) == (3, 1)


async def test_a_format_that_is_read_by_way_of_another_is_read_again_with_it(
    database: ScratchDatabase, tmp_path: Path, bump: Callable[[str], None]
) -> None:
    folder = str(fill(tmp_path / "folder"))
    async with database.open() as r:
        await r.sync(folder)
        bump("html")
        run = await r.sync(folder)

    assert (run.stats.stopped_at_validator, run.stats.stopped_at_content) == (6, 1)


async def test_text_changed_by_another_reader_version_is_amended_and_not_updated(
    database: ScratchDatabase, tmp_path: Path, bump: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.csv").write_text("a,b\n1,2\n")
    async with database.open() as r:
        await r.sync(str(folder))
        monkeypatch.setitem(readers._TABLES, "text/csv", lambda text: readers.Part("Read otherwise."))
        bump("tables")
        run = await r.sync(str(folder))

    assert (run.stats.amended, run.stats.updated) == (1, 0)


async def test_items_read_before_formats_had_versions_are_read_again_once(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    folder = str(fill(tmp_path / "folder"))
    async with database.open() as r:
        source = (await r.sync(folder)).source
        write_as_before_formats(database, source, "files")
        run = await r.sync(folder)
        again = await r.sync(folder)

    assert (run.stats.stopped_at_validator, run.stats.stopped_at_content) == (0, 7)
    assert (again.stats.stopped_at_validator, again.stats.rows_written) == (7, 0)


def test_a_record_from_before_formats_had_versions_stays_current_with_any_format_version(
    bump: Callable[[str], None],
) -> None:
    bump("rtf")
    now = recipes("ckan", {"language": None})

    assert now.is_current(now.old, is_body=False)
    assert not now.is_current(now.old, is_body=True)


def test_formats_and_options_have_recipes_of_their_own() -> None:
    one, other = recipes("web", {"select": None}), recipes("web", {"select": "main"})

    assert len({one.records, one.old, *one.bodies.values()}) == len(one.bodies) + 2
    assert not one.current & other.current
