"""Readers of other packages: found by their entry point, run in worker processes, and part of every recipe."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rowen.content import readers
from rowen.errors import ConfigurationError
from tests.conftest import ScratchDatabase
from tests.portals.git import Repository
from tests.portals.site import Page, Site, keep

RECIPES = """
import importlib
import os
from rowen.content.base import Body, FormatReader, Part

def read(body: Body) -> Part:
    first, _, rest = body.text.partition("\\n")
    if first == "broken":
        raise KeyError("no name")
    return Part(rest, title=first.removeprefix("Name: "), record={"worker": os.getpid()})

READER = FormatReader("recipes", 1, read, ("text/x-recipe",), endings=("recipe",))
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package with one module and the readers in it."""
    folder = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(str(folder))
    made = set[str]()

    def installed(module: str, code: str, *names: str) -> None:
        metadata = folder / f"{module}-1.dist-info"
        metadata.mkdir(parents=True, exist_ok=True)
        (folder / f"{module}.py").write_text(code)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        lines = "\n".join(f"{name.lower()} = {module}:{name}" for name in names)
        (metadata / "entry_points.txt").write_text(f"[rowen.readers]\n{lines}\n")
        made.add(module)
        sys.modules.pop(module, None)
        importlib.invalidate_caches()
        readers._table.cache_clear()

    yield installed
    monkeypatch.undo()
    for module in made:
        sys.modules.pop(module, None)
    readers._table.cache_clear()
    readers.places()


def cook_book(folder: Path) -> Path:
    folder.mkdir()
    (folder / "soup.recipe").write_text("Name: Nettle soup\nBoil the nettles.\n")
    (folder / "notes.md").write_text("# Notes\n\nNettles sting.\n")
    return folder


async def test_a_reader_of_another_package_is_found_and_runs_in_a_worker_process(
    database: ScratchDatabase, tmp_path: Path, install: Install
) -> None:
    install("cooking", RECIPES, "READER")
    folder = cook_book(tmp_path / "book")

    async with database.open(workers=1) as r:
        run = await r.sync(str(folder))
        item = await r.get((folder / "soup.recipe").as_uri())
        again = await r.sync(str(folder))

    assert (run.status, run.stats.created) == ("completed", 2)
    assert (item.title, item.text, item.media_type) == ("Nettle soup", "Boil the nettles.", "text/x-recipe")
    assert item.record["worker"] != os.getpid()
    assert (again.stats.stopped_at_validator, again.stats.rows_written) == (2, 0)


async def test_what_such_a_reader_stumbles_over_costs_that_item(
    database: ScratchDatabase, tmp_path: Path, install: Install
) -> None:
    install("cooking", RECIPES, "READER")
    folder = cook_book(tmp_path / "book")
    (folder / "burnt.recipe").write_text("broken\n")

    async with database.open() as r:
        run = await r.sync(str(folder))
        [case] = await r.items.quarantine()

    assert (run.stats.created, run.stats.failed) == (2, 1)
    assert "burnt.recipe cannot be read as recipes: KeyError('no name')." in case.error


async def test_installing_a_reader_has_those_files_read_again_that_it_claims_and_no_others(
    database: ScratchDatabase, tmp_path: Path, install: Install
) -> None:
    folder = cook_book(tmp_path / "book")
    (folder / "map.geojson").write_text('{"type": "Point"}')
    claim = 'GEO = FormatReader("geo", 1, lambda body: Part("A map."), ("application/geo+json",), endings=("geojson",))'
    async with database.open() as r:
        before = await r.sync(str(folder))
        install("geo", f"from rowen.content.base import FormatReader, Part\n{claim}\n", "GEO")
        after = await r.sync(str(folder))
        item = await r.get((folder / "map.geojson").as_uri())

    assert before.stats.created == 2
    assert (after.stats.stopped_at_validator, after.stats.created, item.text) == (1, 0, "A map.")
    assert after.stats.bytes == len('{"type": "Point"}')


async def test_a_commit_is_listed_again_when_a_reader_for_some_of_its_files_is_installed(
    database: ScratchDatabase, tmp_path: Path, install: Install
) -> None:
    world = Repository(tmp_path / "book.git")
    world.put("notes.md", "# Notes\n\nNettles sting.")
    world.put("soup.recipe", "Name: Nettle soup\nBoil the nettles.\n")
    world.commit()

    async with database.open() as r:
        await r.sources.add(world.address, name="book", kind="git")
        before = await r.sync("book")
        install("cooking", RECIPES, "READER")
        after = await r.sync("book")
        again = await r.sync("book")
    world.close()

    assert after.stats.created == 1
    assert after.stats.stopped_at_validator == before.stats.created
    assert (again.stats.created, again.stats.rows_written) == (0, 0)


async def test_a_page_that_nobody_could_read_is_asked_for_again_when_a_reader_for_it_is_installed(
    database: ScratchDatabase, tmp_path: Path, install: Install
) -> None:
    site = Site()
    site.put("/", "Start", "All about nettles.", links=("/soup",))
    site.pages["/soup"] = Page(b"Name: Nettle soup\nBoil them.", headers={"Content-Type": "application/x-recipe"})
    code = RECIPES.replace("text/x-recipe", "application/x-recipe")

    async with database.open() as r:
        first = await keep(r, site)
        await r.sync("site")
        install("cooking", code, "READER")
        after = await r.sync("site")
        again = await r.sync("site")
    site.close()

    assert (first.stats.created, after.stats.created, again.stats.unchanged) == (1, 1, 2)


async def test_a_reader_that_cannot_be_loaded_fails_the_run_and_deletes_nothing(
    database: ScratchDatabase, tmp_path: Path, install: Install
) -> None:
    install("cooking", RECIPES, "READER")
    folder = cook_book(tmp_path / "book")
    async with database.open() as r:
        await r.sync(str(folder))
        install("cooking", "raise ImportError('gone')", "READER")
        with pytest.raises(ConfigurationError, match="cooking:READER cannot be loaded"):
            await r.sync(str(folder))

        assert (await r.get((folder / "soup.recipe").as_uri())).title == "Nettle soup"


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ('FormatReader("recipes", 1, read, ("text/x-other",))', "which another reader has"),
        ('FormatReader("html", 1, read, ("text/x-other",))', "which another reader has"),
        ('FormatReader("more", 1, read, ("text/x-recipe",))', "both claim text/x-recipe"),
        ('FormatReader("more", 1, read, ("text/x-other",), endings=("recipe",))', r"both claim \.recipe"),
        ('FormatReader("more", 1, read, ())', "not a reader with at least one media type"),
        ("42", "not a reader with at least one media type"),
    ],
)
def test_two_readers_of_one_thing_are_refused(second: str, why: str, install: Install) -> None:
    install("cooking", f"{RECIPES}\nSECOND = {second}\n", "READER", "SECOND")

    with pytest.raises(ConfigurationError, match=why):
        readers.formats()
