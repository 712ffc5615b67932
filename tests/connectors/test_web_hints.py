"""What a site says about itself: sitemaps whose dates are checked before they are trusted, llms.txt, soft 404s."""

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from rowen import UsageError
from rowen.connectors.web.hints import latest_moment, read_entries
from tests.conftest import ScratchDatabase
from tests.logical import contents
from tests.portals.site import Page, Site, html

OLD = "2020-01-01"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.put("/", "Home", "Welcome.", links=())
    yield site
    site.close()


def sitemap(site: Site, paths: list[str], lastmod: str = OLD) -> None:
    entries = "".join(f"<url><loc>{site.url}{path}</loc><lastmod>{lastmod}</lastmod></url>" for path in paths)
    body = f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
    site.pages["/sitemap.xml"] = Page(body.encode(), headers={"Content-Type": "application/xml"})


def forty(site: Site) -> list[str]:
    paths = [f"/p{number}" for number in range(40)]
    for path in paths:
        site.put(path, f"Page {path}", f"About {path}.")
    sitemap(site, paths)
    return paths


async def test_pages_that_only_a_sitemap_names_are_found(database: ScratchDatabase, site: Site) -> None:
    site.put("/hidden", "Hidden", "Linked by nothing.")
    sitemap(site, ["/hidden"])
    async with database.open() as r:
        await r.sync(f"{site.url}/")

        assert f"{site.url}/hidden" in contents(database)


async def test_dates_that_proved_true_spare_most_requests(database: ScratchDatabase, site: Site) -> None:
    forty(site)
    async with database.open() as r:
        await r.sync(f"{site.url}/")
        checked = await r.sync(f"{site.url}/")
        site.log.clear()
        spared = await r.sync(f"{site.url}/")

        assert checked.stats.not_modified == 41
        assert (spared.status, spared.stats.unchanged, spared.stats.rows_written) == ("completed", 41, 0)
        assert len(site.asked()) < 10


async def test_a_page_with_a_new_date_is_requested_although_the_dates_are_trusted(
    database: ScratchDatabase, site: Site
) -> None:
    paths = forty(site)
    async with database.open() as r:
        await r.sync(f"{site.url}/")
        await r.sync(f"{site.url}/")
        site.put("/p7", "Page 7", "Other words.")
        sitemap(site, paths)
        entry = f"<url><loc>{site.url}/p7</loc><lastmod>2999-01-01</lastmod></url></urlset>"
        body = site.pages["/sitemap.xml"].body.replace(
            f"<loc>{site.url}/p7</loc><lastmod>{OLD}".encode(), b"<loc>x<lastmod>"
        )
        site.alter("/sitemap.xml", body=body.replace(b"</urlset>", entry.encode()))
        run = await r.sync(f"{site.url}/")

        assert run.stats.updated == 1


async def test_pages_that_failed_are_requested_again_although_their_dates_are_old_by_then(
    database: ScratchDatabase, site: Site
) -> None:
    paths = forty(site)
    edited = paths[10:30]
    three_days_ago, yesterday = (datetime.now(UTC) - timedelta(days=days) for days in (3, 1))
    async with database.open() as r:
        await r.sync(f"{site.url}/")
        await r.sync(f"{site.url}/")
        database.execute(
            f'update source set cursor = cursor || \'{{"as_of": "{format_datetime(three_days_ago, True)}"}}\''
        )
        sitemap(site, paths, f"{yesterday:%Y-%m-%dT%H:%M:%SZ}")
        for path in edited:
            site.pages[path] = Page(b"broken", status=500)
        broken = await r.sync(f"{site.url}/")
        for path in edited:
            site.put(path, "Edited", f"Edited yesterday: {path}.")
        healed = await r.sync(f"{site.url}/")

        assert (broken.stats.failed, healed.stats.updated, healed.stats.failed) == (20, 20, 0)


async def test_a_sitemap_with_false_dates_is_detected_and_distrusted(database: ScratchDatabase, site: Site) -> None:
    paths = forty(site)
    async with database.open() as r:
        await r.sync(f"{site.url}/")
        for path in paths:
            site.put(path, "Changed", f"Changed {path}, but the date says otherwise.")
        found_out = await r.sync(f"{site.url}/")
        for path in paths:
            site.put(path, "Changed", f"Changed {path} once more.")
        again = await r.sync(f"{site.url}/")

        assert found_out.stats.updated == 40
        assert again.stats.updated == 40


async def test_a_lie_found_under_trust_makes_the_run_partial_and_the_next_one_whole(
    database: ScratchDatabase, site: Site
) -> None:
    paths = forty(site)
    async with database.open() as r:
        await r.sync(f"{site.url}/")
        await r.sync(f"{site.url}/")
        for path in paths:
            site.put(path, "Changed", f"Changed {path}.")
        partial = await r.sync(f"{site.url}/")
        whole = await r.sync(f"{site.url}/")

        assert partial.status == "partial"
        assert "sitemap" in (partial.error or "")
        assert partial.stats.updated + whole.stats.updated == 40


async def test_a_full_sync_trusts_no_date(database: ScratchDatabase, site: Site) -> None:
    forty(site)
    async with database.open() as r:
        await r.sync(f"{site.url}/")
        await r.sync(f"{site.url}/")
        site.log.clear()
        await r.sync(f"{site.url}/", full=True)

        assert len(site.asked(status=200)) == 41


async def test_pages_that_llms_txt_recommends_are_found(database: ScratchDatabase, site: Site) -> None:
    site.put("/guide", "Guide", "For machines.")
    site.pages["/llms.txt"] = Page(b"# Site\n\n- [Guide](/guide): read it\n", headers={"Content-Type": "text/plain"})
    async with database.open() as r:
        await r.sync(f"{site.url}/")

        assert f"{site.url}/guide" in contents(database)


async def test_a_page_that_turns_into_the_site_s_error_page_is_deleted(database: ScratchDatabase, site: Site) -> None:
    sorry = html("Page not found", "Sorry, there is nothing at this address.", "Try the search.")
    site.put("/", "Home", links=("/a", "/b"))
    site.put("/a", "Alpha", "Text of alpha.")
    site.put("/b", "Errors", "What to do when a file is not found: look elsewhere, or ask the librarian about it.")
    async with database.open() as r:
        await r.sync(f"{site.url}/")
        site.default = Page(sorry)
        site.pages["/a"] = Page(sorry)
        run = await r.sync(f"{site.url}/")

        assert run.stats.deleted == 1
        assert set(contents(database)) == {f"{site.url}/", f"{site.url}/b"}


async def test_a_page_about_errors_on_a_site_with_honest_errors_stays(database: ScratchDatabase, site: Site) -> None:
    site.put("/", "Home", links=("/404-explained",))
    site.put("/404-explained", "404 Not Found explained", "What the status means.")
    async with database.open() as r:
        run = await r.sync(f"{site.url}/")

        assert run.stats.created == 2


def test_sitemaps_are_read_however_they_are_written() -> None:
    plain = b"<urlset><url><loc>https://e.org/a?x=1&amp;y=2</loc></url></urlset>"
    nested = (
        b"<sitemapindex><sitemap><loc>https://e.org/s.xml</loc><lastmod>2024-05-01</lastmod></sitemap></sitemapindex>"
    )

    assert [entry.url for entry in read_entries(plain)] == ["https://e.org/a?x=1&y=2"]
    assert read_entries(gzip.compress(plain)) == read_entries(plain)
    assert [entry.nested for entry in read_entries(nested)] == [True]
    assert [entry.url for entry in read_entries(b"https://e.org/1\nhttps://e.org/2\n")] == [
        "https://e.org/1",
        "https://e.org/2",
    ]
    assert [entry.url for entry in read_entries(b"<url><loc>&#10; https://e.org/d&#32;</loc></url>")] == [
        "https://e.org/d"
    ]
    assert [entry.url for entry in read_entries(b"<url><loc><![CDATA[https://e.org/c]]></loc></url>")] == [
        "https://e.org/c"
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x1f\x8bnot gzip",
        b"<urlset><url><loc>",
        b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>',
        b"<html><body>Not a sitemap</body></html>",
        bytes(range(256)) * 100,
    ],
)
def test_a_broken_sitemap_is_no_trouble(body: bytes) -> None:
    assert {entry.url for entry in read_entries(body)} <= {"&b;"}


def test_a_sitemap_of_fifty_thousand_entries_is_read_at_once() -> None:
    body = (
        b"<urlset>" + b"<url><loc>https://e.org/page</loc><lastmod>2024-01-01</lastmod></url>" * 50_000 + b"</urlset>"
    )

    assert len(read_entries(body)) == 50_000


def test_a_date_means_the_latest_moment_it_can_mean() -> None:
    assert latest_moment("2024-01-31") == datetime(2024, 2, 1, 14, tzinfo=UTC)
    assert latest_moment("2024-01-31T10:00:00+01:00") == datetime(2024, 1, 31, 9, tzinfo=UTC)
    assert latest_moment("https://example.org/") is None
    assert latest_moment("") is None


@pytest.mark.parametrize("path", ["/sitemap.xml", "/llms.txt"])
async def test_what_only_a_sitemap_names_outlives_its_outage(database: ScratchDatabase, site: Site, path: str) -> None:
    site.put("/hidden", "Hidden", "Linked by nothing.")
    sitemap(site, ["/hidden"])
    site.pages["/llms.txt"] = Page(b"[Hidden](/hidden)", headers={"Content-Type": "text/plain"})
    if path == "/llms.txt":
        del site.pages["/sitemap.xml"]
    else:
        del site.pages["/llms.txt"]
    async with database.open() as r:
        await r.sync(f"{site.url}/")
        site.pages[path] = Page(b"Down.", status=503)
        run = await r.sync(f"{site.url}/")

        assert (run.status, run.stats.deleted) == ("partial", 0)
        assert f"{site.url}/hidden" in contents(database)


async def test_a_site_that_now_asks_for_a_login_keeps_its_pages(database: ScratchDatabase, site: Site) -> None:
    site.put("/", "Home", links=("/a",))
    site.put("/a", "Alpha", "Text.")
    async with database.open() as r:
        await r.sync(f"{site.url}/")
        site.put("/login", "Log in", "Name and password, please.")
        for path in ("/", "/a"):
            site.pages[path] = Page(status=302, headers={"Location": "/login?next=" + path})
        run = await r.sync(f"{site.url}/")

        assert (run.status, run.stats.deleted) == ("failed", 0)
        assert "requires a login" in (run.error or "")
        assert len(contents(database)) == 2


async def test_an_address_with_a_password_is_refused_before_it_is_stored(database: ScratchDatabase) -> None:
    async with database.open() as r:
        with pytest.raises(UsageError, match="a login") as caught:
            await r.sources.add("https://someone:hunter2@example.org/")

        assert "hunter2" not in str(caught.value) + str(caught.value.hint)
        assert await r.sources.list() == []
