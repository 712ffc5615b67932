"""What a documentation generator writes for its own search is left out of folders, archives and sites."""

import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rowen.model.files import Built, is_copy, is_index
from rowen.operations.summary import remarks
from tests.conftest import ScratchDatabase
from tests.portals.site import Page, Site, keep

BUILT = {
    "index.html": "<h1>Hay</h1><p>All about hay.</p>",
    "guide.html": "<h1>Guide</h1><p>How to mow.</p>",
    "genindex.html": "<h1>Index</h1><p>hay, mow</p>",
    "searchindex.js": "Search.setIndex({terms: {hay: 0, mow: 1}})",
    "objects.inv": "# Sphinx inventory",
    "_sources/guide.rst.txt": "Guide\n=====\n\nHow to mow.",
    "notes/genindex.html": "<h1>My own page of this name</h1>",
}
PAGES = {"index.html", "guide.html", "notes/genindex.html"}


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in BUILT.items():
        path = tmp_path / "build" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "build"


def as_folder(folder: Path) -> Path:
    return folder


def as_zip(folder: Path) -> Path:
    with zipfile.ZipFile(folder.parent / "build.zip", "w") as packed:
        for name in BUILT:
            packed.write(folder / name, f"docs/{name}")
    return folder.parent / "build.zip"


def as_tar(folder: Path) -> Path:
    with tarfile.open(folder.parent / "build.tar.gz", "w:gz") as packed:
        packed.add(folder, "docs")
    return folder.parent / "build.tar.gz"


@pytest.mark.parametrize("packed", [as_folder, as_zip, as_tar])
async def test_indexes_and_copies_are_left_out_and_the_run_says_so(
    database: ScratchDatabase, folder: Path, packed: Callable[[Path], Path]
) -> None:
    async with database.open() as r:
        source = await r.sources.add(str(packed(folder)), name="docs")
        run = await r.sync("docs")
        names = {
            url.partition("build/")[2] or url.partition("docs/")[2] for (url,) in database.query("select url from item")
        }
        await r.sources.edit(source.name, options={"generated": True})
        with_all = await r.sync("docs")

    assert (names, run.stats.generated) == (PAGES, 3)
    assert "rowen edit docs --option generated=true" in next(remarks(run))
    assert (with_all.stats.created, with_all.stats.generated, list(remarks(with_all))) == (3, 0, [])


async def test_a_site_leaves_out_copies_and_follows_indexes_without_keeping_them(
    database: ScratchDatabase, site: Site
) -> None:
    site.put("/", "Hay", "All about hay.", links=("/guide.html", "/genindex.html", "/_sources/guide.rst.txt"))
    site.put("/guide.html", "Guide", "How to mow.")
    site.put("/genindex.html", "Index", "hay, mow", links=("/hidden.html",))
    site.put("/hidden.html", "Hidden", "Only the index leads here.")
    site.pages["/_sources/guide.rst.txt"] = Page(b"Guide", headers={"Content-Type": "text/plain"})
    async with database.open() as r:
        run = await keep(r, site)
        asked = set(site.asked())

    assert {title for (title,) in database.query("select title from item")} == {"Hay", "Guide", "Hidden"}
    assert (run.stats.generated, "/_sources/guide.rst.txt" in asked) == (1, False)


@pytest.mark.parametrize(
    ("mark", "left", "kept"),
    [
        (
            "objects.inv",
            ["_sources/a/b.txt", "genindex-A.html", "py-modindex.html"],
            ["a/genindex.html", "search/a.md"],
        ),
        ("element-list", ["index-files/index-1.html", "member-search-index.js", "allclasses-index.html"], ["a.html"]),
        ("doxygen.css", ["search/all_0.js", "navtreedata.js"], ["annotated.html", "main.js"]),
        ("search_index.json", ["search_index.json"], ["main.js"]),
        ("sidebar-items.js", ["sidebar-items.js", "all.html"], ["struct.Hay.html", "items.js"]),
    ],
)
def test_each_generator_is_known_by_its_marks_in_the_folder_that_has_them(
    mark: str, left: list[str], kept: list[str]
) -> None:
    built, elsewhere = Built([f"api/{mark}"]), Built([f"other/{mark}"])

    assert [name for name in (*left, *kept) if built.leaves_out(f"api/{name}")] == left
    assert not any(elsewhere.leaves_out(f"api/{name}") for name in left)


@pytest.mark.parametrize(
    ("marks", "left", "kept"),
    [
        (
            ["searchindex-f63457fb.js", "elasticlunr-ef4e11c1.min.js"],
            ["searchindex-f63457fb.js", "searcher-c2a407aa.js", "print.html", "toc-7d3893f2.js"],
            ["index.html", "toc-of-hay.js", "first-chapter.html"],
        ),
        (
            ["crates1.95.0.js", "src-files1.95.0.js"],
            ["crates1.95.0.js", "search.index/0001c2c9ad9b.js", "static.files/main-1a2b3c4d.js", "trait.impl/hay.js"],
            ["settings.html", "std/vec/struct.Vec.html", "src/std/lib.rs.html"],
        ),
    ],
)
def test_a_generator_that_names_its_files_by_digest_or_release_is_known(
    marks: list[str], left: list[str], kept: list[str]
) -> None:
    built = Built(marks)

    assert [name for name in (*left, *kept) if built.leaves_out(name)] == left


@pytest.mark.parametrize("marks", [["search.js"], ["highlight.css"], []])
def test_a_generator_that_needs_two_marks_is_not_known_by_one(marks: list[str]) -> None:
    assert not Built(f"assets/{mark}" for mark in marks)


def test_only_whole_names_are_indexes() -> None:
    indexes = [
        "/genindex.html",
        "/v2/genindex-all.html",
        "/api/index-all.html",
        "/index-files/index-12.html",
        "/genindex/",
    ]
    pages = ["/genindexes.html", "/about/index.html", "/index-files/", "/modindexing", "/_sources/"]

    assert [url for url in (*indexes, *pages) if is_index(f"https://example.org{url}")] == indexes
    assert is_copy("https://example.org/_sources/a/b.rst.txt")
    assert not is_copy("https://example.org/_sources/a/b.html")
