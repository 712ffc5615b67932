"""Watching one page: only the parts that matter."""

from collections.abc import Callable, Iterator

import pytest

from rowen import UsageError
from tests.conftest import ScratchDatabase
from tests.logical import index_of
from tests.portals.site import Page, Site

SHOP = """<html><title>Scythe</title><body><div class=ad>{ad}</div><main><h1>Scythe</h1>
<p class=price>{price} €</p><p class=visitors>{visitors} people look at this</p></main></body></html>"""


def shop(price: int, visitors: int = 3, ad: str = "Buy!") -> Page:
    return Page(SHOP.format(price=price, visitors=visitors, ad=ad).encode())


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


async def test_only_the_selected_part_is_watched(database: ScratchDatabase, site: Site) -> None:
    site.pages["/scythe"] = shop(40)
    async with database.open() as r:
        await r.sources.add(f"{site.url}/scythe", name="scythe", options={"max_pages": 1, "select": ".price"})
        await r.sync("scythe")
        site.pages["/scythe"] = shop(40, visitors=99, ad="Sale!")
        same = await r.sync("scythe")
        site.pages["/scythe"] = shop(35)
        changed = await r.sync("scythe")

        assert (await r.get(f"{site.url}/scythe")).text == "35 €"
        assert (same.stats.unchanged, same.stats.chunks_written, changed.stats.updated) == (1, 0, 1)
        assert "-40 €\n+35 €" in await r.items.diff(f"{site.url}/scythe")


async def test_ignored_parts_make_no_change(database: ScratchDatabase, site: Site) -> None:
    site.pages["/scythe"] = shop(40)
    async with database.open() as r:
        await r.sources.add(f"{site.url}/scythe", name="s", options={"max_pages": 1, "ignore": ".visitors, .ad"})
        await r.sync("s")
        site.pages["/scythe"] = shop(40, visitors=4711, ad="Now!")
        run = await r.sync("s")

        assert run.stats.unchanged == 1


async def test_one_page_costs_one_request_and_robots(database: ScratchDatabase, site: Site) -> None:
    site.pages["/scythe"] = shop(40)
    async with database.open() as r:
        await r.sources.add(f"{site.url}/scythe", name="s", options={"max_pages": 1})
        await r.sync("s")
        site.log.clear()
        await r.sync("s")

        assert [request.path for request in site.log] == ["/robots.txt", "/scythe"]


async def test_other_selectors_have_the_page_read_anew(database: ScratchDatabase, site: Site) -> None:
    site.pages["/scythe"] = shop(40)
    async with database.open() as r:
        await r.sources.add(f"{site.url}/scythe", name="s", options={"max_pages": 1})
        await r.sync("s")
        await r.sources.edit("s", options={"select": ".price"})
        await r.sync("s")

        assert (await r.get(f"{site.url}/scythe")).text == "40 €"


async def test_a_selector_that_matches_nothing_is_an_error_and_stores_nothing(
    database: ScratchDatabase, site: Site
) -> None:
    site.pages["/scythe"] = shop(40)
    async with database.open() as r:
        await r.sources.add(f"{site.url}/scythe", name="s", options={"max_pages": 1, "select": ".doesnotexist"})
        run = await r.sync("s")

        assert (run.status, run.stats.created) == ("failed", 0)
        assert "'.doesnotexist' matches nothing" in str(run.error)
        assert "option select" in str(run.error)


async def test_a_selector_that_matches_no_more_keeps_the_last_copy_and_says_so(
    database: ScratchDatabase, site: Site
) -> None:
    site.pages["/scythe"] = shop(40)
    async with database.open() as r:
        await r.sources.add(f"{site.url}/scythe", name="s", options={"max_pages": 1, "select": ".price"})
        await r.sync("s")
        site.pages["/scythe"] = Page(shop(35).body.replace(b"class=price", b"class=amount"))
        run = await r.sync("s")
        text = (await r.get(f"{site.url}/scythe")).text
        [case] = await r.items.quarantine("s")
        site.pages["/scythe"] = shop(35)
        healed = await r.sync("s")

        assert (run.stats.failed, run.stats.deleted, text) == (1, 0, "40 €")
        assert "matches nothing" in case.error
        assert (healed.stats.updated, list(await r.items.quarantine("s"))) == (1, [])


async def test_pages_without_the_selected_part_lead_on_and_are_no_items(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    site.put("/", "Shop", links=("/scythe", "/rake"))
    site.pages["/scythe"], site.pages["/rake"] = shop(40), shop(12)
    async with database.open() as r:
        await r.sources.add(site.url, name="s", options={"select": ".price"})
        first = await r.sync("s")
        site.log.clear()
        again, bodies = await r.sync("s"), site.bodies()
        await r.sources.edit("s", options={"select": "h1"})
        other = await r.sync("s")
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await r.sources.add(site.url, name="s", options={"select": "h1"})
        await r.sync("s")

    assert (first.stats.created, again.stats.unchanged, bodies) == (2, 2, [])
    assert (other.stats.created, index_of(database)) == (1, index_of(rebuilt))


async def test_a_selector_that_is_none_is_refused_when_the_source_is_added(database: ScratchDatabase) -> None:
    async with database.open() as r:
        with pytest.raises(UsageError, match="select"):
            await r.sources.add("https://example.org/", options={"select": "div["})


async def test_a_server_that_offers_markdown_is_read_and_followed_as_markdown(
    database: ScratchDatabase, site: Site
) -> None:
    plain = {"Content-Type": "text/markdown; charset=utf-8"}
    site.pages["/"] = Page(b"# Docs\n\nSee the [guide](guide.md#start).\n\n```\n[no](code.md)\n```\n", headers=plain)
    site.pages["/guide.md"] = Page(b"# Guide\n\nStart here.\n", headers=plain)
    async with database.open() as r:
        await r.sources.add(f"{site.url}/", name="docs", options={"markdown": True})
        run = await r.sync("docs")
        again = await r.sync("docs")

        assert (run.stats.created, again.stats.unchanged) == (2, 2)
        assert (await r.get(f"{site.url}/guide.md")).title == "Guide"
        assert "/code.md" not in site.asked()
