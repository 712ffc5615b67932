"""Answers that no server should give: each costs one page, with a clear outcome, and nothing else."""

import asyncio
import gzip
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from rowen import Rowen, Run
from rowen.model.items import Case
from tests.conftest import ScratchDatabase
from tests.connectors.test_web import names, paths
from tests.net.world import serve
from tests.portals.site import Handler, Page, Site, keep

__all__ = ["names"]

HTML = {"Content-Type": "text/html; charset=utf-8"}


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(13)
    yield site
    site.close()


def says(*pieces: bytes) -> Handler:
    """A handler that writes these bytes to the connection, and closes it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(b"".join(pieces))
        request.transport.close()
        return web.Response()

    return answer


async def bad(r: Rowen, site: Site, page: Page, **options: object) -> tuple[Run, Case]:
    """A first crawl where `/p2`, which leads to others, is bad; then it is good, then bad again."""
    good, site.pages["/p2"] = site.pages["/p2"], page
    first = await keep(r, site, **options)
    assert (first.status, first.stats.created, first.stats.failed) == ("completed", 8, 1)
    site.pages["/p2"] = good
    assert (await r.sync("site")).stats.created == 5
    site.pages["/p2"] = page
    run = await r.sync("site")
    assert (run.status, run.stats.failed, run.stats.unchanged, run.stats.deleted) == ("completed", 1, 12, 0)
    [case] = await r.items.quarantine()
    assert case.url == f"{site.url}/p2"
    return run, case


async def test_endless_redirects_end(database: ScratchDatabase, site: Site) -> None:
    async def on_and_on(request: web.Request) -> web.Response:
        number = int(request.query.get("n", "0")) + 1
        site.pages[f"/p2?n={number}"] = site.pages["/p2"]
        return web.Response(status=302, headers={"Location": f"/p2?n={number}"})

    async with database.open() as r:
        await keep(r, site)
        site.pages["/p2"] = Page(handler=on_and_on)
        run = await r.sync("site")
        cases = {case.url.removeprefix(site.url): case.error for case in await r.items.quarantine()}

    assert (run.status, run.stats.deleted, len(paths(database, site))) == ("completed", 0, 13)
    assert "10 redirects, and redirects again" in cases["/p2?n=10"]
    assert "/p2" in cases


async def test_a_start_that_redirects_without_end_fails_the_run(database: ScratchDatabase, site: Site) -> None:
    async def on_and_on(request: web.Request) -> web.Response:
        number = int(request.query.get("n", "0")) + 1
        site.pages[f"/?n={number}"] = site.pages["/"]
        return web.Response(status=302, headers={"Location": f"/?n={number}"})

    site.pages["/"] = Page(handler=on_and_on)
    async with database.open() as r:
        run = await keep(r, site)

    assert run.status == "failed"
    assert "10 redirects, and redirects again" in (run.error or "")


async def test_a_redirect_to_a_private_address_is_not_followed(database: ScratchDatabase, site: Site) -> None:
    there = ["http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest/meta-data"]
    async with database.open() as r:
        await keep(r, site)
        for number, to in enumerate(there, start=10):
            site.pages[f"/p{number}"] = Page(status=302, headers={"Location": to})
        child = await r.sync("site")
        for to in there:
            site.pages["/"] = Page(status=302, headers={"Location": to})
            root = await r.sync("site")
            assert (root.status, root.stats.deleted, len(paths(database, site))) == ("failed", 0, 10)
            assert "not a public address; no connection was made" in (root.error or "")

    assert (child.status, child.stats.deleted, child.stats.requests) == ("completed", 3, 14)


async def test_a_name_that_leads_to_a_private_address_costs_its_pages(
    database: ScratchDatabase, site: Site, names: dict[str, str]
) -> None:
    port = site.url.rpartition(":")[2]
    names["inner.example.test"] = "10.0.0.1"
    site.put("/", "Home", links=(f"http://inner.example.test:{port}/p1", "/p11"))
    async with database.open() as r:
        await r.sources.add(f"http://example.test:{port}/", name="s", options={"scope": "domain", "sitemap": False})
        run = await r.sync("s")
        [case] = await r.items.quarantine()

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 2, 1)
    assert "inner.example.test" in case.error
    assert "not a public address" in case.error


async def test_an_endless_body_is_cut_off(database: ScratchDatabase, site: Site) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=HTML)
        await response.prepare(request)
        try:
            while True:
                await response.write(b"<p>on and on</p>" * 1000)
        except ConnectionError:
            return response

    async with database.open() as r:
        run, case = await bad(r, site, Page(handler=endless), max_bytes=200_000)

    assert "larger than 200,000 bytes" in case.error
    assert run.stats.bytes < 2_000_000


async def test_a_page_that_unpacks_to_more_than_allowed_is_cut_off(database: ScratchDatabase, site: Site) -> None:
    bomb = Page(gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})
    async with database.open() as r:
        _, case = await bad(r, site, bomb, max_bytes=1_000_000)

    assert "larger than 1,000,000 bytes" in case.error


async def test_a_page_larger_than_allowed_is_not_even_loaded(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        run, case = await bad(r, site, Page(b"<p>much</p>" * 5_000_000))

    assert "larger than 10,000,000 bytes" in case.error
    assert run.stats.bytes < 1_000_000


async def test_an_answer_that_drips_is_given_up(database: ScratchDatabase, site: Site) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=HTML)
        await response.prepare(request)
        try:
            while True:
                await response.write(b"<p>")
                await asyncio.sleep(0.02)
        except ConnectionError:
            return response

    async with database.open(total_limit_s=1.5) as r:
        _, case = await bad(r, site, Page(handler=drip))

    assert "not complete in time" in case.error


BROKEN = [
    (b"200 OK\r\nContent-Type: text/html\r\nContent-Length: 9999\r\n\r\n<p>less", "ended early"),
    (b"200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>more", "not valid HTTP"),
    (b"200 OK\r\nContent-Type: text/html\r\nContent-Length: -5\r\n\r\n<p>", "not valid HTTP"),
    (b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n<p>", "not valid HTTP"),
    (b"200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope", "does not match its Content-Encoding"),
    (b"304 Not Modified\r\nContent-Length: 0\r\n\r\n", "answered 304 to a request without validators"),
    (b"301 Moved\r\nLocation: http://[nonsense\r\nContent-Length: 0\r\n\r\n", "is not a URL"),
    (b"302 Found\r\nContent-Length: 0\r\n\r\n", "status 302"),
    (b"302 Found\r\nLocation: javascript:alert(1)\r\nContent-Length: 0\r\n\r\n", "only http and https"),
]


async def test_answers_that_break_the_rules_are_failures_with_a_reason(database: ScratchDatabase, site: Site) -> None:
    site.put("/p12", "Page 12", links=(*(f"/bad/{n}" for n in range(len(BROKEN))), "/bad/ssh", "/bad/nothing", "/p1"))
    for number, (head, _) in enumerate(BROKEN):
        site.pages[f"/bad/{number}"] = Page(
            handler=says(b"HTTP/1.1 ", head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        )
    site.pages["/bad/ssh"] = Page(handler=says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"))
    site.pages["/bad/nothing"] = Page(handler=says())
    async with database.open() as r:
        first = await keep(r, site)
        errors = {case.url.removeprefix(f"{site.url}/bad/"): case.error for case in await r.items.quarantine()}
        for path in [path for path in site.pages if path.startswith("/bad/")]:
            site.put(path, path, f"{path} is good now.")
        healed = await r.sync("site")

    assert (first.status, first.stats.created, first.stats.failed) == ("completed", 13, 11)
    assert [(n, error) for n, (_, error) in enumerate(BROKEN) if error not in errors[str(n)]] == []
    assert site.url.removeprefix("http://") in errors["ssh"]
    assert "closed the connection without an answer" in errors["nothing"]
    assert (healed.stats.created, healed.stats.unchanged, healed.stats.failed) == (11, 13, 0)


LETTERS = [
    ("text/html; charset=utf-8", "<p>Grüße aus dem Käsehaus.</p>".encode("latin-1"), "aus dem"),
    ("text/html; charset=klingon", "<p>Grüße aus Qo'noS</p>".encode(), "Grüße aus Qo'noS"),
    ("text/html;;; charset", "<p>Grüße</p>".encode(), "Grüße"),
    ("text/html", '<meta charset="utf-16"><p>Grüße</p>'.encode(), "Grüße"),
    ("", b"<!doctype html><p>Gr\xc3\xbc\xc3\x9fe</p>", "Grüße"),
]


async def test_a_wrong_charset_costs_some_letters_at_most(database: ScratchDatabase, site: Site) -> None:
    for number, (declared, body, _) in enumerate(LETTERS, start=7):
        site.pages[f"/p{number}"] = Page(body, headers={"Content-Type": declared})
    async with database.open() as r:
        run = await keep(r, site)
        texts = [(await r.get(f"{site.url}/p{number}")).text for number in range(7, 12)]

    assert (run.stats.created, run.stats.failed) == (13, 0)
    assert [text for text, (_, _, part) in zip(texts, LETTERS, strict=True) if part not in text] == []


MALFORMED = [
    b"",
    b"   \n",
    b"<html>",
    b"\x00" * 5000,
    b"<p>NULs \x00 in \x00 between</p>",
    b"<div>" * 20_000 + b"deep",
    b"<" * 50_000,
    b"<p " + b"a=b " * 50_000,
    b"<table><tr><td><a href='/x'><table></p></div></a>" * 500,
    b"<a href='http://[' >x</a><a href=':::'>y</a><a href='//'>z</a><a href>w</a><a href='%zz'>v</a>",
    b"<!--" * 10_000,
    bytes(range(256)) * 200,
    b"<title>" + "\ud800\udfff\ufffe".encode("utf-8", "surrogatepass") + b"</title>",
]


async def test_malformed_pages_harm_no_other(database: ScratchDatabase, site: Site) -> None:
    site.put("/p12", "Page 12", links=tuple(f"/bad/{number}" for number in range(len(MALFORMED))))
    for number, body in enumerate(MALFORMED):
        site.pages[f"/bad/{number}"] = Page(body)
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("site")

    good = {path for path in paths(database, site) if not path.startswith("/bad/")}
    assert (run.status, again.status, len(good)) == ("completed", "completed", 13)
    assert run.stats.created + run.stats.failed == 13 + len(MALFORMED)
    assert {"/bad/0", "/bad/4", "/bad/8", "/bad/9"} <= paths(database, site)
    assert (again.stats.created, again.stats.updated, again.stats.deleted) == (0, 0, 0)


async def test_a_server_whose_etag_changes_every_time_is_compared_by_its_bodies(
    database: ScratchDatabase, site: Site
) -> None:
    numbers = iter(range(100))

    def restless(page: Page) -> Handler:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(body=page.body, headers={**HTML, "ETag": f'W/"{next(numbers)}"'})

        return answer

    for path in list(site.pages):
        site.alter(path, handler=restless(site.pages[path]))
    async with database.open() as r:
        await keep(r, site)
        run = await r.sync("site")

    assert (run.stats.unchanged, run.stats.not_modified, run.stats.chunks_written) == (13, 0, 0)


async def test_one_etag_for_all_pages_hides_no_page_that_we_do_not_have(database: ScratchDatabase, site: Site) -> None:
    def shared(page: Page) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            if request.headers.get("If-None-Match") == '"same"':
                return web.Response(status=304)
            return web.Response(body=page.body, headers={**HTML, "ETag": '"same"'})

        return answer

    missing = site.pages.pop("/p12")
    for path in list(site.pages):
        site.alter(path, handler=shared(site.pages[path]))
    async with database.open() as r:
        await keep(r, site)
        site.pages["/p12"] = Page(missing.body, handler=shared(missing))
        run = await r.sync("site")
        text = (await r.get(f"{site.url}/p12")).text

    assert (run.stats.created, run.stats.not_modified) == (1, 12)
    assert "willow number 12" in text


async def test_a_server_that_answers_304_to_everything_fails_its_first_crawl(
    database: ScratchDatabase, site: Site
) -> None:
    site.pages["/"] = Page(handler=says(b"HTTP/1.1 304 Not Modified\r\n\r\n"))
    async with database.open() as r:
        run = await keep(r, site)

    assert run.status == "failed"
    assert "answered 304 to a request without validators" in (run.error or "")


async def test_a_server_that_alternates_between_200_and_503_loses_nothing(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        outcomes = []
        for turn in range(4):
            for number in range(1, 13, 2):
                site.alter(f"/p{number}", status=503 if turn % 2 == 0 else 200)
            run = await r.sync("site")
            outcomes.append((run.stats.failed, run.stats.unchanged, run.stats.deleted))

    assert outcomes == [(6, 7, 0), (0, 13, 0), (6, 7, 0), (0, 13, 0)]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program makes the certificate")
async def test_a_certificate_that_cannot_be_trusted_fails_the_run(database: ScratchDatabase, tmp_path: Path) -> None:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost")
    subprocess.run(["openssl", "req", *kind, "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=30)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text="<p>Hello</p>", content_type="text/html")

    async with serve(answer, tls=context) as url, database.open() as r:
        run = await r.sync(f"{url}/")

    assert (run.status, run.stats.created) == ("failed", 0)
    assert "certificate" in (run.error or "")


def large_robots(rule: bytes) -> bytes:
    return b"User-agent: *\n" + rule + b"\n" + b"# nothing to see here, only a very long file\n" * 230_000


@pytest.mark.parametrize(("rule", "count"), [(b"Disallow: /p2", 8), (b"Allow: /", 13)])
async def test_of_a_robots_txt_of_ten_megabytes_the_beginning_counts(
    database: ScratchDatabase, site: Site, rule: bytes, count: int
) -> None:
    site.pages["/robots.txt"] = Page(large_robots(rule), headers={"Content-Type": "text/plain"})
    async with database.open() as r:
        run = await keep(r, site)

    assert run.stats.created == count
    assert run.stats.bytes < 2_000_000
