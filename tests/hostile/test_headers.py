"""Headers that no server should send cost at most what they are about, and never the site."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import ScratchDatabase
from tests.hostile.raw import RawSite, answer
from tests.logical import index_of
from tests.portals.site import Page, Site

ODD = [
    pytest.param(b'ETag: "caf\xe9"', id="a byte that is not UTF-8"),
    pytest.param('ETag: "café"'.encode(), id="UTF-8"),
    pytest.param(b'ETag: "\xed\xa0\x80"', id="a surrogate"),
    pytest.param(b'ETag: "a\tb"', id="a tab"),
    pytest.param(b"ETag: " + b"a" * 7000, id="7,000 letters"),
    pytest.param(b"ETag:", id="nothing"),
    pytest.param(b"Last-Modified: Mon, 01 J\xe4n 2024 00:00:00 GMT", id="a date that is not UTF-8"),
    pytest.param(b"Last-Modified: Mon, 31 Dec 9999 23:59:59 -2300", id="a date beyond all dates"),
    pytest.param(b"Last-Modified: yesterday", id="no date"),
    pytest.param(b"Content-Type: text/html; charset=\xff\xfe", id="a charset that is not UTF-8"),
    pytest.param(b'Link: <http://[::1>; rel="next\xe9"', id="a link that is not UTF-8"),
    pytest.param(b"X-Robots-Tag: \xe9", id="robots that are not UTF-8"),
]


@pytest.fixture
def site() -> Iterator[RawSite]:
    with closing(RawSite()) as site:
        site.page("/", "Home", links=("/odd", "/even"))
        site.page("/odd", "Odd")
        site.page("/even", "Even")
        yield site


@pytest.mark.parametrize("header", ODD)
async def test_a_page_with_an_odd_header_is_stored_beside_the_others(
    database: ScratchDatabase, site: RawSite, header: bytes
) -> None:
    site.page("/odd", "Odd", header)
    async with database.open() as r:
        await r.sources.add(site.url, name="site", options={"robots": False})
        first = await r.sync("site")
        second = await r.sync("site")

    assert (first.status, first.stats.created, first.stats.failed) == ("completed", 3, 0), first.error
    assert (second.status, second.stats.unchanged, second.stats.failed) == ("completed", 3, 0), second.error


async def test_an_etag_in_utf_8_is_sent_back_byte_by_byte(database: ScratchDatabase, site: RawSite) -> None:
    etag = '"café"'.encode()

    def odd(request: bytes) -> bytes:
        known = b"If-None-Match: " + etag in request
        return (
            answer(b"", status=b"304 Not Modified") if known else answer(b"<title>O</title><p>Odd.", b"ETag: " + etag)
        )

    site.answers["/odd"] = odd
    async with database.open() as r:
        await r.sources.add(site.url, name="site", options={"robots": False})
        await r.sync("site")
        again = await r.sync("site")

    assert (again.stats.not_modified, again.stats.unchanged) == (1, 3)


async def test_an_odd_redirect_costs_its_page(database: ScratchDatabase, site: RawSite) -> None:
    site.answers["/odd"] = answer(b"", b"Location: /caf\xe9\x01", status=b"302 Found")
    async with database.open() as r:
        await r.sources.add(site.url, name="site", options={"robots": False})
        run = await r.sync("site")

    assert (run.status, run.stats.created) == ("completed", 2), run.error


DATES = [
    "Mon, 01 Jan 2024 00:00:00 -0000",
    "Mon, 01 Jan 2024 00:00:00 +99999999999999999",
    "Mon, 31 Dec 9999 23:59:59 -2300",
    "Mon, 01 Jan 0000 00:00:00 GMT",
    "yesterday",
    "",
]


@pytest.mark.parametrize("date", DATES)
async def test_a_site_with_an_odd_clock_is_refreshed_time_and_again(
    database: ScratchDatabase, site: RawSite, date: str
) -> None:
    listed = "".join(
        f"<url><loc>{site.url}/{page}</loc><lastmod>2020-01-01</lastmod></url>" for page in ("odd", "even")
    )
    site.answers["/sitemap.xml"] = answer(f"<urlset>{listed}</urlset>".encode(), b"Content-Type: application/xml")
    for path, title, links in (("/", "Home", ("/odd", "/even")), ("/odd", "Odd", ()), ("/even", "Even", ())):
        site.page(path, title, f"Date: {date}".encode(), links=links)
    async with database.open() as r:
        await r.sources.add(site.url, name="site", options={"robots": False})
        runs = [await r.sync("site") for _ in range(3)]

    assert [(run.status, run.stats.seen) for run in runs] == [("completed", 3)] * 3, [run.error for run in runs]


@pytest.mark.parametrize("date", DATES)
async def test_a_cursor_that_holds_an_odd_date_does_not_stop_a_site_for_ever(
    database: ScratchDatabase, site: RawSite, date: str
) -> None:
    listed = "".join(
        f"<url><loc>{site.url}/{page}</loc><lastmod>2020-01-01</lastmod></url>" for page in ("odd", "even")
    )
    site.answers["/sitemap.xml"] = answer(f"<urlset>{listed}</urlset>".encode(), b"Content-Type: application/xml")
    async with database.open() as r:
        await r.sources.add(site.url, name="site", options={"robots": False})
        await r.sync("site")
        database.execute(f"update source set cursor = jsonb_set(cursor, '{{as_of}}', '\"{date}\"')")
        run = await r.sync("site")

    assert (run.status, run.stats.unchanged) == ("completed", 3), run.error


@pytest.mark.parametrize(
    "lastmod",
    [
        "9999-12-31",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+14:00",
        "0000-00-00",
        "10000-01-01",
        "-0001-01-01",
        "\ufeff2024-01-01",
        "٢٠٢٤-٠١-٠١",
    ],
)
async def test_an_odd_date_in_a_sitemap_spares_no_request_and_stops_nothing(
    database: ScratchDatabase, site: RawSite, lastmod: str
) -> None:
    listed = f"<url><loc>{site.url}/odd</loc><lastmod>{lastmod}</lastmod></url><url><loc>{site.url}/even</loc></url>"
    site.answers["/sitemap.xml"] = answer(f"<urlset>{listed}</urlset>".encode(), b"Content-Type: application/xml")
    async with database.open() as r:
        await r.sources.add(site.url, name="site", options={"robots": False})
        runs = [await r.sync("site") for _ in range(3)]

    assert [(run.status, run.stats.seen) for run in runs] == [("completed", 3)] * 3, [run.error for run in runs]


async def test_what_a_refresh_leaves_behind_odd_headers_equals_a_rebuild(
    database: ScratchDatabase, new_database: type[ScratchDatabase], site: RawSite
) -> None:
    site.page("/odd", "Odd", b'ETag: "caf\xe9"', b"Date: Mon, 01 Jan 2024 00:00:00 -0000")
    async with database.open() as r:
        await r.sources.add(site.url, name="site", options={"robots": False})
        await r.sync("site")
        site.page("/odd", "Other", b'ETag: "caf\xe8"')
        await r.sync("site")
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await r.sources.add(site.url, name="site", options={"robots": False})
        await r.sync("site")

    assert index_of(database) == index_of(rebuilt)


async def test_a_retry_after_that_is_no_date_is_an_error_of_that_page_alone(
    database: ScratchDatabase, site: RawSite
) -> None:
    site.answers["/odd"] = answer(
        b"", b"Retry-After: Mon, 31 Dec 9999 23:59:59 -2300", b"Date: \xff", status=b"503 Busy"
    )
    async with database.open(retry_after_limit_s=1) as r:
        await r.sources.add(site.url, name="site", options={"robots": False})
        run = await r.sync("site")

    assert (run.stats.created, run.stats.failed) == (2, 1), run.error


async def test_the_clock_of_a_portal_may_be_any_text(database: ScratchDatabase) -> None:
    with closing(Site()) as site:
        site.pages["/"] = Page(b"<title>A</title><p>A page.", headers={"Date": "Mon, 01 Jan 2024 00:00:00 -0000"})
        async with database.open() as r:
            await r.sources.add(site.url, name="site", options={"robots": False})
            runs = [await r.sync("site") for _ in range(2)]

    assert [run.status for run in runs] == ["completed"] * 2
