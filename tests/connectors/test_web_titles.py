"""What all titles of a site share says nothing about a page, whatever sets it apart."""

from collections.abc import Callable, Iterator

import pytest

from rowen.connectors.web.boilerplate import LONGEST_TITLE, learn_affixes
from tests.conftest import ScratchDatabase
from tests.logical import index_of
from tests.portals.site import Page, Site, html, keep

NAMES = ["Overview", "Barley", "Clover (red)", "Hay and straw", "C++ meadows", "Orchard", "Quince", "Rowan", "Vetch"]


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def build(site: Site, titled: str) -> None:
    """One release: each page names the product and its version in its title, and in nothing else."""
    links = "".join(f'<a href="/{n}">{n}</a> ' for n in range(1, len(NAMES)))
    for number, name in enumerate(NAMES):
        title = titled.format(name)
        body = f"<html><head><title>{title}</title></head><body><main><h1>Class no. {number}</h1><p>All about {name}."
        site.pages[f"/{number or ''}"] = Page(f"{body}</p></main>{links}</body></html>".encode())


@pytest.mark.parametrize(
    "shape",
    [
        *(
            "{} (Sickle %s API)",
            "{} - Sickle %s",
            "{} | Sickle %s",
            "{}|Sickle %s",
            "{} :: Sickle %s",
            "{} · Sickle %s",
        ),
        *("{} — Sickle %s documentation", "{}: Sickle %s", "{} [Sickle %s]", "{}, Sickle %s", "{} Sickle Manual %s"),
        *("Sickle %s: {}", "Sickle %s » {}", "[Sickle %s] {}", "Sickle %s - {}", "Sickle %s {}", "The {} - Sickle %s"),
    ],
)
def test_what_most_titles_share_is_learned_whatever_sets_it_apart(shape: str) -> None:
    titles = [(shape % "3.17.0").format(name) for name in NAMES[:8]]

    affixes = learn_affixes(titles, needed=5)

    assert [affixes.strip(title).removeprefix("The ") for title in titles] == NAMES[:8]


@pytest.mark.parametrize(
    "titles",
    [
        ["Installing", "Running", "Writing", "Reading", "Asking", "Telling", "Hearing", "Seeing"],
        ["get-item", "set-item", "list-item", "drop-item", "new-item", "old-item", "an-item", "no-item"],
        ["open function", "close function", "read function", "write function", "seek function", "tell function"],
        ["Sickle — the manual"] * 8,
        ["Hay", "Mowing | Hay", "Baling", "Storing"],
        [*["Mowing — the manual"] * 4, *["Baling — the manual"] * 4],
        ["1.1 Seeds", "1.2 Soil", "1.3 Sun", "1.4 Rain", "2.1 Mowing", "2.2 Drying", "2.3 Baling", "2.4 Storing"],
        ["Hay (old)", "Straw (old)", "Corn (new)", "Oats (new)", "Rye (dry)", "Wheat (wet)", "Flax (raw)", "Hemp"],
        [f"{name} - {'x' * LONGEST_TITLE}" for name in NAMES],
    ],
)
def test_titles_that_share_no_name_stay_as_they_are(titles: list[str]) -> None:
    affixes = learn_affixes(titles, needed=5)

    assert [affixes.strip(title) for title in titles] == titles


def test_pages_that_are_called_alike_count_each() -> None:
    titles = ["Sickle 2 API", "Hay", *(f"{name} (Sickle 2 API)" for name in ("mow", "Tree", "Help", "Old", "mow"))]

    affixes = learn_affixes(titles, needed=4.2)

    assert [affixes.strip(title) for title in titles[1:]] == ["Hay", "mow", "Tree", "Help", "Old", "mow"]


@pytest.mark.parametrize("shape", ["{} | Sickle - v2.1", "{} (Sickle - v2.1)", "Sickle - v2.1: {}"])
def test_what_the_front_page_is_called_is_the_name_of_the_site(shape: str) -> None:
    titles = ["Sickle - v2.1", "LICENSE.txt", "How to mow", shape.format("Hay")]

    affixes = learn_affixes(titles, needed=4)

    assert [affixes.strip(title) for title in titles] == ["Sickle - v2.1", "LICENSE.txt", "How to mow", "Hay"]


def test_a_title_that_is_nothing_but_the_name_of_the_site_stays() -> None:
    affixes = learn_affixes(["Sickle 2", *(f"{name} - Sickle 2" for name in NAMES)], needed=5)

    assert affixes.strip("Sickle 2") == "Sickle 2"


async def test_a_release_that_changes_the_version_in_every_title_updates_nothing(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    build(site, "{} (Sickle 3.16.0 API)")
    async with database.open() as r:
        await keep(r, site)
        build(site, "{} (Sickle 3.17.0 API)")
        site.alter("/3", body=site.pages["/3"].body.replace(b"All about", b"Nothing about"))
        run = await r.sync("site")
        titles = {title for (title,) in database.query("select title from item")}
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await keep(r, site)

    assert (run.stats.updated, run.stats.unchanged, titles) == (1, 8, set(NAMES))
    assert index_of(database) == index_of(rebuilt)


async def test_a_cursor_that_knew_no_titles_is_understood_and_learns_them(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    build(site, "{} (Sickle 3.16.0 API)")
    async with database.open() as r:
        await keep(r, site)
        database.execute(
            "update source set cursor = jsonb_set(jsonb_set(cursor, '{boilerplate}',"
            " jsonb_build_array(cursor->'boilerplate'->0, cursor->'boilerplate'->1)), '{edges}',"
            " (select jsonb_object_agg(key, value - 3) from jsonb_each(cursor->'edges')))"
        )
        database.execute(
            "update item set title = title || ' (Sickle 3.16.0 API)', content_hash = '\\x00', record_hash = '\\x00'"
        )
        await r.sync("site")
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await keep(r, site)

    assert index_of(database) == index_of(rebuilt)


async def test_a_front_that_leads_to_a_single_page_hides_no_boilerplate(database: ScratchDatabase, site: Site) -> None:
    build(site, "{} (Sickle 3.16.0 API)")
    site.pages["/start"] = Page(
        b'<html><title>Sickle 3.16.0 API</title><main>Go to the <a href="/">overview</a>.</main>'
    )
    async with database.open() as r:
        first = await keep(r, site, "/start")
        titles = {title for (title,) in database.query("select title from item")}

    assert titles == {"Sickle 3.16.0 API", *NAMES}
    assert first.stats.requests <= len(NAMES) + 4


async def test_a_page_outside_the_scope_does_not_count_for_the_boilerplate(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    """It comes whole in a first walk, and as a bridge that did not change in the next."""
    site.put("/", "Home", "Welcome.", links=("/hidden", "/index", "/p1", "/p2", "/p3", "/p4"))
    site.pages["/hidden"] = Page(html("Hidden", "For nobody.", head='<meta name=robots content="noindex">'))
    site.put("/index", "Index", "Another page without the stamp.")
    for number in range(1, 5):
        site.put(f"/p{number}", f"Page {number}", f"All about hay, part {number}.", "Built in May.")
    async with database.open() as r:
        await keep(r, site)
        site.put("/p4", "Page 4", "All about straw.", "Built in May.")
        run = await r.sync("site")
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await keep(r, site)

    assert (run.stats.updated, run.stats.unchanged) == (1, 5)
    assert index_of(database) == index_of(rebuilt)
    assert "Built in May." not in str(index_of(database))


async def test_boilerplate_is_learned_again_behind_an_unchanged_front_that_is_not_indexed(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    links = tuple(f"/p{number}" for number in range(1, 6))
    site.pages["/"] = Page(html("List", "For nobody.", links=links, head='<meta name=robots content="noindex">'))
    for number in range(1, 6):
        site.put(f"/p{number}", f"Page {number}", f"All about hay, part {number}.", "Built in May.")
    async with database.open() as r:
        await keep(r, site)
        for number in (1, 2):
            site.put(f"/p{number}", f"Page {number}", f"All about hay, part {number}.", "Built in June.")
        await r.sync("site")
        site.log.clear()
        again = await r.sync("site")
    assert (again.stats.rows_written, site.bodies()) == (0, [])
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await keep(r, site)

    assert index_of(database) == index_of(rebuilt)


async def test_links_that_may_not_be_followed_lead_to_no_page_that_boilerplate_is_learned_from(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    """The first walk reads them in the page; the next has only what it stored, which is none."""
    site.put("/", "Home", "Welcome.", links=("/list", "/p1", "/p2", "/p3", "/p4"))
    listed = tuple(f"/q{number}" for number in range(4))
    site.pages["/list"] = Page(html("List", "A list.", links=listed), headers={"X-Robots-Tag": "nofollow"})
    for number in range(4):
        site.put(f"/q{number}", f"Page {number}", f"Unlike the others {number}.")
    for number in range(1, 5):
        site.put(f"/p{number}", f"Page {number}", f"All about hay, part {number}.", "Built in May.")
    async with database.open() as r:
        await keep(r, site)
        site.put("/p4", "Page 4", "All about straw.", "Built in May.")
        await r.sync("site")
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await keep(r, site)

    assert index_of(database) == index_of(rebuilt)
