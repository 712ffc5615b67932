"""One page in front of many: a login, an error with status 200, a captive portal, a parked domain."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from aiohttp import web

from rowen import Document, Rowen, Run
from rowen.connectors.base import StoredState
from rowen.connectors.web.interstitial import Interstitials, Member, mark_of
from tests.conftest import ScratchDatabase
from tests.hostile.test_deletions import fresh, star
from tests.logical import contents, index_of, replayed
from tests.portals.site import Page, Site, html, keep

TOKENS = count()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


async def portal(_: web.Request) -> web.StreamResponse:
    """The same words each time, with another token in the body and other validators."""
    token = next(TOKENS)
    body = html(
        "Welcome to our WLAN", "Please accept our terms.", links=("/terms",), head=f"<meta name=t content={token}>"
    )
    return web.Response(body=body, content_type="text/html", headers={"ETag": f'"{token}"'})


def replace_all(site: Site, answer: Page, *, but: tuple[str, ...] = ()) -> dict[str, Page]:
    """Let everything answer alike; returns the pages as they were."""
    before = dict(site.pages)
    site.pages = {path: page for path, page in site.pages.items() if path in but}
    site.default = answer
    return before


def heal(site: Site, before: dict[str, Page]) -> None:
    site.pages = before
    site.default = Page(b"<html><title>Not found</title>Nothing here.</html>", status=404)


async def broken_then_healed(
    r: Rowen, site: Site, database: ScratchDatabase, answer: Page, *, but: tuple[str, ...] = ()
) -> tuple[Run, Run]:
    """A run in front of the broken site, after which the index is as it was, and one in front of the healed site."""
    held = index_of(database)
    before = replace_all(site, answer, but=but)
    broken = await r.sync("site")
    assert index_of(database) == held
    heal(site, before)
    return broken, await r.sync("site")


@pytest.mark.parametrize("pages", [4, 10, 61])
@pytest.mark.parametrize("sitemap", [False, True])
async def test_a_captive_portal_changes_nothing_and_the_run_says_why(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase], pages: int, sitemap: bool
) -> None:
    star(site, pages)
    async with database.open() as r:
        await keep(r, site, sitemap=sitemap, llms=sitemap)
        broken, healed = await broken_then_healed(r, site, database, Page(handler=portal))
        again = await r.sync("site")

    assert (broken.status, broken.stats.updated, broken.stats.deleted, broken.stats.created) == ("failed", 0, 0, 0)
    assert "all answer with one page now" in (broken.error or "")
    assert site.url in (broken.error or "")
    assert (healed.status, healed.stats.updated, healed.stats.deleted) == ("completed", 0, 0)
    assert again.stats.rows_written == 0
    assert replayed(database) == contents(database)
    assert index_of(database) == index_of(await fresh(new_database, site))


async def test_a_captive_portal_is_not_asked_for_every_page(database: ScratchDatabase, site: Site) -> None:
    star(site, 61)
    async with database.open() as r:
        await keep(r, site)
        replace_all(site, Page(handler=portal))
        run = await r.sync("site")

    assert run.stats.requests <= 6


@pytest.mark.parametrize("where", ["/welcome", "/welcome?from={path}", "http://127.0.0.1:9/portal?from={path}"])
async def test_redirects_to_one_page_change_nothing(database: ScratchDatabase, site: Site, where: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/robots.txt":
            return web.Response(status=404)
        if request.path == "/welcome":
            return web.Response(body=html("Welcome", "Tell us who you are."), content_type="text/html")
        return web.Response(status=302, headers={"Location": where.format(path=request.path)})

    star(site, 20)
    async with database.open() as r:
        await keep(r, site)
        broken, healed = await broken_then_healed(r, site, database, Page(handler=answer))

    assert (broken.status, broken.stats.deleted, broken.stats.deletions_held) == ("failed", 0, 0)
    assert broken.error
    assert (healed.status, healed.stats.unchanged) == ("completed", 20)


@pytest.mark.parametrize("where", ["/welcome", "/welcome?from={path}", "http://127.0.0.1:9/portal?from={path}", "/"])
async def test_redirects_of_all_but_the_root_to_one_page_change_nothing(
    database: ScratchDatabase, site: Site, where: str
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/robots.txt":
            return web.Response(status=404)
        if request.path == "/welcome":
            return web.Response(body=html("Welcome", "Tell us who you are."), content_type="text/html")
        return web.Response(status=302, headers={"Location": where.format(path=request.path)})

    star(site, 20)
    async with database.open() as r:
        await keep(r, site)
        broken, healed = await broken_then_healed(r, site, database, Page(handler=answer), but=("/",))

    assert (broken.status, broken.stats.deleted, broken.stats.skipped) == ("partial", 0, 19)
    assert "19 pages that differed before now" in (broken.error or "")
    assert (healed.status, healed.stats.unchanged, healed.stats.created) == ("completed", 20, 0)


async def test_one_error_page_with_status_200_for_all_but_the_root_changes_nothing(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    star(site, 61)
    async with database.open() as r:
        await keep(r, site)
        oops = Page(html("Oops", "Something went wrong. Please come back later."))
        broken, healed = await broken_then_healed(r, site, database, oops, but=("/",))

    assert (broken.status, broken.stats.skipped, broken.stats.updated, broken.stats.deleted) == ("partial", 60, 0, 0)
    assert "60 pages that differed before now answer with one and the same text" in (broken.error or "")
    assert (healed.stats.not_modified, healed.stats.unchanged) == (61, 61)
    assert index_of(database) == index_of(await fresh(new_database, site))


async def test_a_login_form_that_remembers_where_one_wanted_to_go_is_one_page(
    database: ScratchDatabase, site: Site
) -> None:
    async def form(request: web.Request) -> web.StreamResponse:
        if request.path == "/robots.txt":
            return web.Response(status=404)
        body = f"<title>Log in</title><p>Members only. <a href='/join?next={request.path}'>Join us</a> or log in.</p>"
        return web.Response(text=body, content_type="text/html")

    star(site, 20)
    async with database.open() as r:
        await keep(r, site)
        whole, _ = await broken_then_healed(r, site, database, Page(handler=form))
        part, healed = await broken_then_healed(r, site, database, Page(handler=form), but=("/",))

    assert (whole.status, part.status, part.stats.skipped) == ("failed", "partial", 19)
    assert (healed.status, healed.stats.not_modified) == ("completed", 20)


async def test_one_page_in_front_of_a_part_of_the_site_leaves_the_other_pages_fresh(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    star(site, 61)
    async with database.open() as r:
        await keep(r, site)
        before = dict(site.pages)
        for number in range(30, 60):
            site.pages[f"/p{number}"] = Page(handler=portal)
        site.put("/p3", "Page 3", "A new text.")
        broken = await r.sync("site")
        site.pages = {**before, "/p3": site.pages["/p3"]}
        healed = await r.sync("site")

    assert (broken.status, broken.stats.updated, broken.stats.skipped) == ("partial", 1, 30)
    assert (healed.status, healed.stats.updated, healed.stats.deleted) == ("completed", 0, 0)
    assert index_of(database) == index_of(await fresh(new_database, site))


async def test_pages_behind_the_ones_that_something_hides_are_still_found(
    database: ScratchDatabase, site: Site
) -> None:
    site.grow(61)
    async with database.open() as r:
        await keep(r, site)
        for number in range(1, 15):
            site.pages[f"/p{number}"] = Page(handler=portal)
        site.put("/p60", "Page 60", "A new text.")
        broken = await r.sync("site")

    assert (broken.status, broken.stats.skipped, broken.stats.updated, broken.stats.deleted) == ("partial", 14, 1, 0)


async def test_a_few_pages_that_become_one_are_an_edit(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    star(site, 61)
    async with database.open() as r:
        await keep(r, site)
        for number in range(20, 28):
            site.put(f"/p{number}", "Retired", "This product is no longer sold.")
        run = await r.sync("site")

    assert (run.status, run.stats.updated) == ("completed", 8)
    assert index_of(database) == index_of(await fresh(new_database, site))


async def test_pages_that_were_alike_before_may_change_alike(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    star(site, 61)
    for number in range(20, 50):
        site.put(f"/p{number}", "Soon", "This page is under construction.")
    async with database.open() as r:
        await keep(r, site)
        for number in range(20, 50):
            site.put(f"/p{number}", "Soon", "This page will be here in May.")
        run = await r.sync("site")

    assert (run.status, run.stats.updated) == ("completed", 30)
    assert index_of(database) == index_of(await fresh(new_database, site))


async def test_many_pages_that_are_meant_to_be_one_are_taken_when_somebody_says_so(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    star(site, 30)
    async with database.open() as r:
        await keep(r, site)
        for number in range(1, 30):
            site.put(f"/p{number}", "Closed", "This site is closed.")
        refused = await r.sync("site")
        accepted = await r.sync("site", accept_deletions=True)
        again = await r.sync("site")

    assert (refused.status, refused.stats.updated) == ("partial", 0)
    assert (accepted.status, accepted.stats.updated) == ("completed", 29)
    assert (again.status, again.stats.rows_written) == ("completed", 0)
    assert index_of(database) == index_of(await fresh(new_database, site))


async def test_a_first_harvest_through_a_portal_is_mended_by_the_next(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    star(site, 10)
    before = replace_all(site, Page(handler=portal))
    async with database.open() as r:
        await keep(r, site)
        heal(site, before)
        run = await r.sync("site")

    assert run.status == "completed"
    assert index_of(database) == index_of(await fresh(new_database, site))


def test_what_waits_is_bounded_in_number_and_in_size_whatever_comes() -> None:
    front = Interstitials(9)
    released = 0
    for number in range(2000):
        document = Document(f"https://example.org/{number}", f"Page {number}", f"Text {number}. " * 2000)
        ready, refused = front.take(mark_of(document), Member(document.url, 1, (), document))
        released += len(ready)
        assert not refused
        assert number + 1 - released <= 500

    assert released + len(front.rest()) == 2000


def test_pages_with_one_long_text_are_kept_once_and_come_out_as_they_were() -> None:
    front = Interstitials(900)
    pages = [Document(f"https://example.org/{number}", "Alike", "Word. " * 10_000) for number in range(300)]
    for number, page in enumerate(pages):
        held = StoredState(page.url, None, None, None, (), 1, bytes([number // 256, number % 256]))
        assert front.take(mark_of(page), Member(page.url, 1, (held,), page)) == ([], [])

    assert front.rest() == pages
