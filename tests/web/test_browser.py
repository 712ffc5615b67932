"""Two people at their browsers: a newcomer at a desk, who adds a site, and a reader on a phone at night."""

import asyncio
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from playwright.async_api import expect

from rowen.model.access import Scope
from tests.conftest import House
from tests.portals.app import needs_chromium
from tests.web.browser import Eyes, eyes
from tests.web.world import served, sites

pytestmark = needs_chromium

DESK = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True}


async def test_a_newcomer_adds_a_site_watches_it_searches_sees_a_change_and_decides(
    house: House, pictures: Path
) -> None:
    with sites() as there:
        docs = there["docs"]
        async with house.open() as rowen, served(rowen) as door:
            working = asyncio.create_task(rowen.work())
            try:
                async with eyes(door.url, pictures, "desk", **DESK) as seen:
                    await _add(seen, docs.url)
                    await _search(seen)
                    docs.put("/p1", "Chapter 1: the hay harvest", "Mow when the dew is quite gone.", links=())
                    docs.put("/", "Handbook", "All chapters.", links=("/p0", "/p1"))
                    await _see_the_change(seen)
                    await _decide(seen)
                    await _choose_colours(seen)
            finally:
                rowen.stop()
                with suppress(asyncio.CancelledError):
                    await working

    assert "\n".join(seen.troubles) == ""


async def _add(seen: Eyes, address: str) -> None:
    page = seen.page
    await seen.visit("/")
    await seen.examine("welcome")
    await page.get_by_label("Address of a site").fill(address)
    await page.get_by_role("button", name="Look at it").click()
    await expect(page.locator("#found")).to_contain_text("Handbook of the valley")
    await seen.examine("preview")
    await page.get_by_label("Name").fill("docs")
    await page.get_by_role("button", name="Keep and read it").click()
    await expect(page.locator("h1")).to_contain_text("Run 1 of docs")
    await expect(page.locator(".lead")).to_contain_text("completed")
    await seen.examine("run")


async def _search(seen: Eyes) -> None:
    page = seen.page
    await page.locator("body").press("/")
    await page.keyboard.type("hay")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{seen.base}/search?q=hay")
    await page.locator("#find").fill("")
    await page.keyboard.type("chapter 17 hay", delay=5)
    await expect(page.locator("[data-result]").first).to_have_text("Chapter 17")
    await expect(page).to_have_url(f"{seen.base}/search?q=chapter%2017%20hay")
    await seen.examine("search")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("Chapter 17")
    await seen.examine("item")


async def _see_the_change(seen: Eyes) -> None:
    page = seen.page
    await seen.visit("/sources/docs")
    await page.get_by_role("button", name="Sync now").click()
    await expect(page.locator("h1")).to_contain_text("Run 2 of docs")
    await expect(page.locator(".lead")).to_contain_text("completed")
    await seen.visit("/changes?kind=updated")
    await page.get_by_role("link", name="diff").first.click()
    await expect(page.locator(".diff ins").first).to_be_visible()
    await seen.examine("diff")


async def _decide(seen: Eyes) -> None:
    page = seen.page
    await seen.visit("/")
    await expect(page.locator(".status")).to_contain_text("1 needs you")
    await seen.examine("overview")
    await seen.visit("/held")
    await page.get_by_label("all on this page").check()
    await seen.examine("held")
    await page.get_by_role("button", name="Delete those chosen").click()
    await expect(page.locator("main")).to_contain_text("No deletion is held back")


async def _choose_colours(seen: Eyes) -> None:
    page = seen.page
    await page.locator("details.menu summary").click()
    await page.get_by_role("button", name="Dark").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.locator("body").press("?")
    await expect(page.locator("h1")).to_have_text("Help and keys")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await seen.examine("help-dark")


async def test_a_reader_on_a_phone_at_night_can_read_every_page(lived_in: House, pictures: Path) -> None:
    async with lived_in.open() as rowen, served(rowen, Scope.READ) as door:
        hostile = next(one.url for one in await rowen.browse("docs", limit=100) if "script" in one.title)
        [footpaths] = [one.url for one in await rowen.browse("valley", limit=100) if one.title.startswith("Footpaths")]
        eggs = next(one.url for one in await rowen.browse("shop") if one.title == "Six eggs")
        paths = {
            **{name: f"/{name}" for name in ("sources", "runs", "extractions", "held", "quarantine", "jobs")},
            **{name: f"/{name}" for name in ("webhooks", "costs", "health", "following", "changes", "add")},
            "overview": "/",
            "source": "/sources/valley",
            "search": f"/search?q={quote('牧场 soil')}",
            "hostile": f"/item?url={quote(hostile)}",
            "diff": f"/item?url={quote(footpaths)}&tab=diff",
            "fields": f"/item?url={quote(eggs)}&tab=fields",
            "record": f"/item?url={quote(footpaths)}&tab=record",
        }
        async with eyes(door.url, pictures, "phone", **PHONE) as seen:
            for name, path in paths.items():
                await seen.visit(path)
                await seen.examine(name)
            taken = await seen.page.title()

    assert "\n".join(seen.troubles) == ""
    assert taken.endswith("Rowen")
