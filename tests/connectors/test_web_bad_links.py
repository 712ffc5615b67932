"""Links that lead nowhere, round in circles, on without end, or to the same place under a thousand names."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from aiohttp import web

from rowen.connectors.web import crawl
from tests.conftest import ScratchDatabase
from tests.connectors.test_web import names, paths
from tests.logical import contents
from tests.portals.site import Handler, Page, Site, html, keep

__all__ = ["names"]


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(13)
    yield site
    site.close()


def made_up(page: Callable[[web.Request], bytes]) -> Handler:
    """Answers for every path that is no page."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=page(request), content_type="text/html")

    return answer


async def test_a_hundred_thousand_links_on_one_page_are_bounded_by_the_most_pages(
    database: ScratchDatabase, site: Site
) -> None:
    menu = "".join(f"<a href=/many/{number}>{number}</a>" for number in range(100_000))
    site.pages["/p12"] = Page(f"<title>Many</title><nav>{menu}</nav><main><p>Many links.</p></main>".encode())
    site.default = Page(handler=made_up(lambda request: html(request.path, f"About {request.path}.")))
    async with database.open() as r:
        run = await keep(r, site, max_pages=30)
        again = await r.sync("site")

    assert (run.stats.created, again.stats.rows_written) == (30, 0)
    assert paths(database, site) >= {"/many/0", "/many/16"}


async def test_a_calendar_without_end_is_bounded_by_depth_and_the_most_pages(
    database: ScratchDatabase, site: Site
) -> None:
    def month(request: web.Request) -> bytes:
        number = int(request.query.get("month", 0))
        return html(f"Month {number}", links=(f"/calendar?month={number + 1}", f"/calendar?month={number - 1}"))

    site.put("/p12", "Page 12", links=("/calendar?month=0",))
    site.default = Page(handler=made_up(month))
    async with database.open() as r:
        few = await keep(r, site, max_pages=20)
        await r.sources.edit("site", options={"max_pages": 1000, "max_depth": 8})
        deep = await r.sync("site")

    assert (few.status, few.stats.created) == ("completed", 20)
    assert (deep.status, len(paths(database, site))) == ("completed", 13 + 1 + 2 * 4)


async def test_a_calendar_of_pages_that_are_not_to_be_indexed_ends_as_well(
    database: ScratchDatabase, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawl, "LEAST_REQUESTS", 10)

    def day(_: web.Request) -> bytes:
        links = tuple(f"/day/{uuid4()}" for _ in range(20))
        return html("Day", links=links, head="<meta name=robots content=noindex>")

    site.put("/p2", "Page 2", links=("/day/0",))
    site.default = Page(handler=made_up(day))
    async with database.open() as r:
        run = await keep(r, site, max_pages=10)

    assert (run.status, run.stats.created, run.stats.deleted) == ("partial", 9, 0)
    assert run.stats.requests < 300
    assert "URLs were requested for only 9 pages" in (run.error or "")


async def test_relative_links_that_grow_without_end_are_seen_through(database: ScratchDatabase, site: Site) -> None:
    site.put("/p12", "Page 12", links=("/wiki/help/",))
    site.default = Page(handler=made_up(lambda request: html(request.path, links=("help/", "wiki/help/", "../"))))
    async with database.open() as r:
        run = await keep(r, site, max_depth=30)

    assert run.status == "completed"
    assert run.stats.created < 100


async def test_a_long_path_is_looked_at_in_no_time(database: ScratchDatabase, site: Site) -> None:
    """Each part begins like the others: patterns that go back and forth would never end."""
    path = "".join(f"/a{chr(98 + number % 24)}{number}" for number in range(200))
    site.put("/p12", "Page 12", links=(path, path + "/", path * 3))
    site.put(path, "Far away")
    async with database.open() as r:
        run = await keep(r, site)

    assert run.stats.created == 14


async def test_session_ids_make_no_new_pages(database: ScratchDatabase, site: Site) -> None:
    def shop(request: web.Request) -> bytes:
        session = uuid4().hex
        links = (f"/shop/a?PHPSESSID={session}", f"/shop/b;jsessionid={session}", f"/shop/c?x=1&jsessionid={session}")
        return html(request.path, f"About {request.path}.", links=links)

    site.put("/p12", "Page 12", links=("/shop/",))
    site.default = Page(handler=made_up(shop))
    async with database.open() as r:
        await keep(r, site)
        again = await r.sync("site")

    assert paths(database, site) - {"/", *(f"/p{n}" for n in range(1, 13))} == {
        "/shop/",
        "/shop/a",
        "/shop/b",
        "/shop/c?x=1",
    }
    assert (again.stats.created, again.stats.deleted) == (0, 0)


async def test_what_a_campaign_adds_to_a_url_is_no_other_page(database: ScratchDatabase, site: Site) -> None:
    site.put("/p12", "Page 12", links=("/sale?utm_source=a", "/sale?utm_source=b&gclid=1", "/sale", "/sale?fbclid=2"))
    site.default = Page(handler=made_up(lambda _: html("Sale")))
    async with database.open() as r:
        await keep(r, site)

    assert len([path for path in paths(database, site) if "sale" in path]) == 1
    assert len([path for path in site.asked() if "sale" in path]) == 0


async def test_links_that_are_no_pages_are_never_requested(database: ScratchDatabase, site: Site) -> None:
    links = (
        "javascript:alert(1)",
        "JavaScript:void(0)",
        "data:text/html,<p>x</p>",
        "mailto:someone@example.org",
        "tel:+4912345",
        "ftp://127.0.0.1/x",
        "file:///etc/passwd",
        "http://",
        "http://[",
        "//",
        "/" + "x" * 3000,
        "#only-a-fragment",
        "",
        "/picture.png",
        "/archive.tar.gz",
    )
    site.put("/p12", "Page 12", links=links)
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.status, run.stats.created, run.stats.failed, run.stats.requests) == ("completed", 13, 0, 14)


async def test_hosts_and_paths_may_be_written_in_any_script(
    database: ScratchDatabase, site: Site, names: dict[str, str]
) -> None:
    port = site.url.rpartition(":")[2]
    start = f"http://bücher.example.test:{port}/"
    links = (
        "/käse",
        "/k%C3%A4se",
        f"http://BÜCHER.example.test:{port}/%E6%96%87",
        f"http://xn--bcher-kva.example.test:{port}/文",
    )
    site.pages["/"] = Page(html("Bücher", links=links))
    site.pages["/k%C3%A4se"] = Page(html("Käse"))
    site.pages["/%E6%96%87"] = Page(html("文"))
    async with database.open() as r:
        await r.sources.add(start, name="s", options={"sitemap": False, "llms": False})
        await r.sync("s")
        again = await r.sync("s")
        item = await r.get(f"http://bücher.example.test:{port}/käse")

    ascii_start = f"http://xn--bcher-kva.example.test:{port}/"
    assert set(contents(database)) == {ascii_start, f"{ascii_start}k%C3%A4se", f"{ascii_start}%E6%96%87"}
    assert (item.title, again.stats.not_modified, again.stats.rows_written) == ("Käse", 3, 0)


@pytest.mark.parametrize("written", [" /c.html ", "\n/c.html", "\t /c.\nhtml\r\n", "&#32;/c.html&#10;"])
async def test_links_with_white_space_around_them_are_followed(database: ScratchDatabase, written: str) -> None:
    site = Site()
    try:
        site.pages["/"] = Page(f'<title>Start</title><main><p>Begin.</p><a href="{written}">on</a></main>'.encode())
        site.put("/c.html", "Third", "The third page.")
        async with database.open() as r:
            run = await keep(r, site)
            text = (await r.get(site.url)).text
    finally:
        site.close()

    assert (run.status, run.stats.created) == ("completed", 2)
    assert paths(database, site) == {"/", "/c.html"}
    assert "[on](http" in text
    assert "/c.html)" in text
