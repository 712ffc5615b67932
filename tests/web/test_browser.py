"""Three people at their browsers: a newcomer at a desk, a keeper with a phone at night, and a reader of every page."""

import asyncio
import re
from pathlib import Path
from urllib.parse import quote

import aiohttp
from aiohttp import web
from playwright.async_api import expect

from rowen import Rowen
from rowen.model.access import Scope
from tests.conftest import ScratchDatabase
from tests.portals.app import needs_chromium
from tests.portals.ldes import LdesSite, Leaf
from tests.portals.site import Site
from tests.web.browser import DESK, PHONE, Eyes, eyes
from tests.web.world import sell, served, serving, sites

pytestmark = needs_chromium

PLAIN = {"sitemap": False, "llms": False}


async def test_a_newcomer_adds_a_site_watches_it_searches_sees_a_change_and_decides(
    database: ScratchDatabase, pictures: Path
) -> None:
    with sites() as there:
        docs: Site = there["docs"]
        slow = hold_up(docs, "/p23")
        async with (
            database.open(port=0) as rowen,
            serving(rowen) as address,
            eyes(address, pictures, "desk", viewport=DESK, color_scheme="light") as seen,
        ):
            await _add(seen, docs, slow)
            await _search(seen)
            await _follow_a_search(seen)
            docs.put("/p1", "Chapter 1: the hay harvest", "Mow when the dew is quite gone.", links=())
            docs.put("/", "Handbook", "All chapters.", links=("/p0", "/p1"))
            await _see_the_change(seen)
            await _decide(seen)
            await _choose_colours(seen)

    assert "\n".join(seen.troubles) == ""


def hold_up(site: Site, path: str) -> asyncio.Event:
    """Have a page of a site wait for an event, so that a run can be looked at while it goes on."""
    goes_on, loop, page = asyncio.Event(), asyncio.get_running_loop(), site.pages[path]

    async def slow(request: web.Request) -> web.Response:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(goes_on.wait(), loop))
        return web.Response(body=page.body, content_type="text/html", headers={"ETag": page.etag})

    site.alter(path, handler=slow)
    return goes_on


async def _add(seen: Eyes, docs: Site, slow: asyncio.Event) -> None:
    page = seen.page
    await seen.visit("/")
    await seen.examine("welcome")
    await page.get_by_label("Address of a site").fill(docs.url)
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator("#found")).to_contain_text("Handbook of the valley")
    await seen.examine("preview")
    await page.get_by_label("Name").fill("docs")
    await page.get_by_role("button", name="Add and sync").click()
    await expect(page.locator("h1")).to_contain_text("Run 1 of docs")
    await _watch(seen, slow)


async def _watch(seen: Eyes, slow: asyncio.Event) -> None:
    """A run that goes on: its numbers grow, what was opened stays open, nothing moves; and it ends by itself."""
    page = seen.page
    await page.get_by_text("All counts").click()
    await expect(page.locator(".progress + p")).to_contain_text(re.compile(r"[1-9]\d* items seen so far"))
    await seen.picture("run-live")
    await expect(page.locator(".lead")).to_contain_text("running")
    await _poll(seen)
    slow.set()
    await expect(page.locator(".lead")).to_contain_text("completed")
    await expect(page.locator("#counts")).to_have_attribute("open", "")
    await seen.settle("run")
    await seen.examine("run")


async def _poll(seen: Eyes) -> None:
    """Where no stream gets through, the page asks for itself every two seconds, long before it would do so anyway."""
    browser = seen.page.context.browser
    assert browser is not None
    context = await browser.new_context()
    tab, streams, here = await context.new_page(), re.compile(r"/live\?"), seen.page.url
    await tab.route(streams, lambda route: route.fulfill(status=204))
    await tab.clock.install()
    async with tab.expect_response(streams):
        await tab.goto(here)
    # By the clock of the page; its own look after ten seconds is not yet due.
    async with tab.expect_request(here, timeout=7_000):
        await tab.clock.run_for(2_500)
    await context.close()


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
    await seen.picture("item")


async def _follow_a_search(seen: Eyes) -> None:
    page = seen.page
    await seen.visit("/search?q=quite+gone")
    await page.get_by_text("Save this search").click()
    await seen.picture("follow")
    await page.get_by_role("button", name="Save it").click()
    await expect(page.locator("h1")).to_have_text("quite gone")
    await expect(page.locator("main")).to_contain_text("No news yet")


async def _see_the_change(seen: Eyes) -> None:
    page = seen.page
    await _sync(seen, "docs", 2)
    await seen.visit("/changes?kind=updated")
    await page.get_by_role("link", name="diff").first.click()
    await expect(page.locator(".diff ins").first).to_be_visible()
    await seen.examine("diff")
    await seen.visit("/saved")
    await page.get_by_role("link", name="quite gone").first.click()
    await expect(page.locator(".lines .kind")).to_have_text("matches")
    await seen.examine("saved")


async def _sync(seen: Eyes, name: str, run: int) -> None:
    """Have a source read now, and see its run through."""
    page = seen.page
    await seen.visit(f"/sources/{name}")
    await page.get_by_role("button", name="Sync now").first.click()
    await expect(page.locator("h1")).to_contain_text(f"Run {run} of {name}")
    await expect(page.locator(".lead")).to_contain_text("completed")


async def _decide(seen: Eyes) -> None:
    page = seen.page
    await seen.visit("/")
    await expect(page.locator(".status")).to_contain_text("1 needs you")
    await seen.examine("overview")
    await seen.visit("/held")
    await page.get_by_label("all on this page").check()
    await seen.examine("held")
    await page.get_by_role("button", name="Delete chosen").click()
    await expect(page.locator("main")).to_contain_text("No deletions are pending")


async def _choose_colours(seen: Eyes) -> None:
    page = seen.page
    await page.locator("details.menu summary").click()
    await page.get_by_role("button", name="Dark").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.locator("body").press("?")
    await expect(page.locator("h1")).to_have_text("Help and keys")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await seen.picture("help-dark")


async def test_a_keeper_follows_an_event_stream_extracts_facts_and_revokes_a_token(
    database: ScratchDatabase, pictures: Path
) -> None:
    with sites() as there:
        shop: Site = there["shop"]
        async with database.open(port=0) as rowen, serving(rowen) as address:
            await rowen.sources.add(shop.url + "/1", name="shop", options={**PLAIN, "max_pages": 1})
            async with eyes(address, pictures, "phone", viewport=PHONE, color_scheme="dark", has_touch=True) as seen:
                await _follow_a_stream(seen, there["notices"])
                await _extract(seen, shop)
                await _revoke(seen, rowen)

    assert "\n".join(seen.troubles) == ""


async def _follow_a_stream(seen: Eyes, notices: LdesSite) -> None:
    page = seen.page
    await seen.visit("/following")
    await page.get_by_role("link", name="Add a feed").click()
    # What is pasted is looked at without a click.
    paste = "(at, text) => { at.value = text; at.dispatchEvent(new ClipboardEvent('paste', {bubbles: true})); }"
    await page.get_by_label("Address of a site").evaluate(paste, notices.address)
    await expect(page.locator("#found")).to_contain_text("Council meets")
    await page.get_by_label("Name").fill("notices")
    await page.get_by_role("button", name="Add and sync").click()
    await expect(page.locator("h1")).to_contain_text("Run 1 of notices")
    await expect(page.locator(".lead")).to_contain_text("completed")
    await seen.visit("/following")
    await expect(page.locator("td[data-label=Members]")).to_have_text("3")
    notices.leaves["/next"] = Leaf([*notices.leaves["/next"].events, notices.event("d", "Bridge repaired")])
    await page.get_by_role("button", name="Sync now").click()
    await expect(page.locator("main")).to_contain_text("Bridge repaired")
    await expect(page.locator(".lead")).to_contain_text("completed")
    await seen.visit("/following")
    await expect(page.locator("td[data-label=Members]")).to_have_text("4")
    await expect(page.locator("td[data-label=State]")).to_have_text("following")
    await seen.examine("following")


async def _extract(seen: Eyes, shop: Site) -> None:
    page = seen.page
    await seen.visit("/extractions")
    await page.get_by_label("Source", exact=True).select_option("shop")
    await page.get_by_label("Schema").select_option("product@1.0.0")
    await page.get_by_label("Log a change when").fill("price<4")
    await seen.examine("extract")
    await page.get_by_role("button", name="Add and extract").click()
    await expect(page.locator("h1")).to_contain_text("of shop")
    await expect(page.locator(".lead")).to_contain_text("completed")
    # Facts are taken after the run, by a job of its own.
    await seen.await_on("/extractions", "td[data-label=price]", "4.5")
    sell(shop, 1, 3.9)
    await _sync(seen, "shop", 4)
    await seen.await_on("/changes?field=price", ".fields", "4.5 3.9")
    await seen.visit("/extractions")
    await expect(page.get_by_role("img", name="from 4.5 to 3.9 in 2 versions")).to_be_visible()
    await seen.examine("facts")


async def _revoke(seen: Eyes, rowen: Rowen) -> None:
    page = seen.page
    await page.locator("details.menu summary").click()
    await page.get_by_role("link", name="Tokens").click()
    await page.get_by_label("Name").fill("dashboard")
    await page.get_by_label("Scope").select_option("write")
    await page.get_by_role("button", name="Create").click()
    secret = await page.get_by_label("The token").input_value()
    await seen.examine("new-token")
    before = await _asked_with(seen, secret)
    await page.get_by_role("link", name="To all tokens").click()
    await seen.examine("tokens")
    await _log_in_and_out(seen, secret)
    await page.get_by_role("link", name="Revoke dashboard").click()
    await expect(page.locator("main")).to_contain_text("it was last used")
    await seen.picture("revoke")
    await page.get_by_role("button", name="Revoke").click()
    await expect(page.locator("main")).to_contain_text("There are no tokens yet")
    after = await _asked_with(seen, secret)

    assert (before, after) == (200, 401)
    assert secret not in await page.content()


async def _log_in_and_out(seen: Eyes, secret: str) -> None:
    page = seen.page
    await seen.visit("/login?next=/runs")
    await page.get_by_label("Token").fill(secret)
    await page.get_by_role("button", name="Log in").click()
    await page.locator("details.menu summary").click()
    await page.get_by_role("button", name="Log out").click()
    await expect(page).to_have_url(f"{seen.base}/login")
    await seen.visit("/tokens")
    await expect(page.get_by_role("button", name="Log out")).to_have_count(0)
    assert [cookie for cookie in await page.context.cookies() if "session" in cookie["name"]] == []


async def _asked_with(seen: Eyes, secret: str) -> int:
    headers = {"Authorization": f"Bearer {secret}"}
    async with aiohttp.ClientSession() as session, session.get(f"{seen.base}/api/v1/me", headers=headers) as answer:
        return answer.status


async def test_a_reader_can_read_every_page_on_a_phone_at_night_and_at_a_desk_by_day(
    lived_in: ScratchDatabase, pictures: Path
) -> None:
    async with lived_in.open() as rowen, served(rowen, Scope.READ) as interface:
        paths = await _paths(rowen)
        async with eyes(interface.url, pictures, "phone", viewport=PHONE, color_scheme="dark", has_touch=True) as seen:
            for name, path in paths.items():
                seen.look = "phone"
                await seen.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
                await seen.page.emulate_media(color_scheme="dark")
                await seen.visit(path)
                await seen.examine(name)
                seen.look = "desk"
                await seen.page.set_viewport_size(DESK)  # type: ignore[arg-type]
                await seen.page.emulate_media(color_scheme="light")
                await seen.picture(name)
            taken = await seen.page.title()

    assert "\n".join(seen.troubles) == ""
    assert taken.endswith("Rowen")


async def _paths(rowen: Rowen) -> dict[str, str]:
    """A page of each sort, with what is hostile, foreign, long and changed among them."""
    hostile = next(item.url for item in await rowen.items.browse("docs", limit=100) if "script" in item.title)
    [footpaths] = [
        item.url for item in await rowen.items.browse("valley", limit=100) if item.title.startswith("Footpaths")
    ]
    eggs = next(item.url for item in await rowen.items.browse("shop") if item.title == "Six eggs")
    return {
        **{name: f"/{name}" for name in ("sources", "runs", "extractions", "held", "quarantine", "jobs", "saved")},
        **{name: f"/{name}" for name in ("webhooks", "costs", "health", "following", "changes", "add")},
        "overview": "/",
        "source": "/sources/valley",
        "failed-run": "/runs/10",
        "saved-search": "/saved/1",
        "search": f"/search?q={quote('牧场 soil')}",
        "hostile": f"/item?url={quote(hostile)}",
        "diff": f"/item?url={quote(footpaths)}&tab=diff",
        "fields": f"/item?url={quote(eggs)}&tab=fields",
        "record": f"/item?url={quote(footpaths)}&tab=record",
    }
