"""The worked example of a connector is complete: taken from the page as it stands, it passes its own test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import ScratchDatabase
from tests.docs.markdown import ROOT, blocks

CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def example() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "bookmarks"}
    for block in blocks(CONTRIBUTING, "python"):
        exec(compile(block, CONTRIBUTING.name, "exec"), names)
    return names


async def test_the_worked_example_passes_its_own_test(
    database: ScratchDatabase, kinds: Callable[[Any], None], tmp_path: Path
) -> None:
    await example()["test_a_list_of_bookmarks_is_kept"](database, kinds, tmp_path)


async def test_the_worked_example_keeps_what_it_holds_when_its_list_is_damaged(
    database: ScratchDatabase, kinds: Callable[[Any], None], tmp_path: Path
) -> None:
    kinds(example()["Bookmarks"])
    path = tmp_path / "my.bookmarks.json"
    path.write_text('{"bookmarks": [{"url": "https://example.org/hay", "title": "Hay"}]}')

    async with database.open() as r:
        await r.sync(str(path))
        path.write_text('{"bookmarks": [')
        run = await r.sync(str(path))

        assert (run.status, run.stats.deleted) == ("failed", 0)
        assert "no list of bookmarks" in (run.error or "")
        assert (await r.get("https://example.org/hay")).title == "Hay"


async def test_the_worked_example_has_an_option_that_only_chooses(
    database: ScratchDatabase, kinds: Callable[[Any], None], tmp_path: Path
) -> None:
    kinds(example()["Bookmarks"])
    path = tmp_path / "my.bookmarks.json"
    path.write_text(
        '{"bookmarks": [{"url": "https://example.org/a", "title": "A", "tags": ["x"], "edited": "1"},'
        ' {"url": "https://example.org/b", "title": "B", "edited": "1"}]}'
    )

    async with database.open() as r:
        source = await r.sources.add(str(path), name="mine")
        await r.sync("mine")
        await r.sources.edit("mine", options={"tag": "x"})
        run = await r.sync("mine")

    assert source.kind == "bookmarks"
    assert (run.stats.unchanged, run.stats.stopped_at_validator, run.stats.deleted) == (1, 1, 1)


async def test_the_example_of_an_operation_passes_its_own_test(database: ScratchDatabase, tmp_path: Path) -> None:
    await example()["test_the_longest_titles_come_first"](database, tmp_path)


def test_the_example_of_a_migration_applies(database: ScratchDatabase) -> None:
    [migration] = blocks(CONTRIBUTING, "sql")
    database.execute(migration)

    assert database.query("select count(*) from webhook where note <> ''") == [(0,)]
