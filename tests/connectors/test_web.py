"""Which pages of a site are visited, how far, in which order, and what the site may ask of us."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rowen import UsageError
from rowen.connectors import registry
from rowen.net.politeness import Throttle
from rowen.operations.summary import counts, remarks
from tests.conftest import ScratchDatabase
from tests.logical import contents, index_of
from tests.net.world import FakeTime
from tests.portals.site import Page, Site, html, keep


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(13)
    yield site
    site.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Every name under example.test leads to loopback, unless it is said to lead elsewhere."""
    real, addresses = socket.getaddrinfo, dict[str, str]()

    def look_up(host: Any, *args: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        loopback = "127.0.0.1" if name and name.endswith("example.test") else host
        return real(addresses.get(name, loopback), *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return addresses


def paths(database: ScratchDatabase, site: Site) -> set[str]:
    return {url.removeprefix(site.url) for url in contents(database)}


async def test_by_default_only_pages_below_the_start_are_visited(database: ScratchDatabase, site: Site) -> None:
    out = ("/", "/other", "/docs-old/x", "http://elsewhere.example/docs/", f"{site.url.replace('127', '128')}/docs/x")
    site.put("/docs/", "Docs", links=("a", "sub/b", *out))
    site.put("/docs/a", "A", links=("../docs/sub/../a", "../p1"))
    site.put("/docs/sub/b", "B")
    async with database.open() as r:
        run = await keep(r, site, "/docs/")

    assert paths(database, site) == {"/docs/", "/docs/a", "/docs/sub/b"}
    assert (run.stats.requests, run.stats.known) == (4, 3)


async def test_scope_host_goes_above_the_start_but_not_beyond_the_host(database: ScratchDatabase, site: Site) -> None:
    site.put("/docs/", "Docs", links=("/p11", "http://elsewhere.example/"))
    async with database.open() as r:
        await keep(r, site, "/docs/", scope="host")

    assert paths(database, site) == {"/docs/", "/p11"}


async def test_scope_domain_takes_the_names_below(database: ScratchDatabase, site: Site, names: dict[str, str]) -> None:
    port = site.url.rpartition(":")[2]
    docs, other = f"http://docs.example.test:{port}", f"http://notexample.test:{port}"
    site.put("/", "Home", links=(f"{docs}/p11", f"{other}/p12", "http://example.test.evil.example/"))
    async with database.open() as r:
        await r.sources.add(f"http://www.example.test:{port}/", name="s", options={"scope": "domain", "sitemap": False})
        await r.sync("s")

    assert set(contents(database)) == {f"http://www.example.test:{port}/", f"{docs}/p11"}
    assert site.asked() == ["/", "/p11"]


async def test_a_start_in_any_spelling_is_the_same_site(database: ScratchDatabase, site: Site) -> None:
    site.put("/Ünï cöde/", "Start", links=("%C3%BC", "/p12"))
    site.pages["/%C3%9Cn%C3%AF%20c%C3%B6de/"] = site.pages.pop("/Ünï cöde/")
    site.put("/%C3%9Cn%C3%AF%20c%C3%B6de/%C3%BC", "Below")
    async with database.open() as r:
        await keep(r, site, "/Ünï cöde/#top")
        bare = await r.sync(site.url)

    assert paths(database, site) >= {"/%C3%9Cn%C3%AF%20c%C3%B6de/", "/%C3%9Cn%C3%AF%20c%C3%B6de/%C3%BC"}
    assert (bare.stats.created, f"{site.url}/" in contents(database)) == (13, True)


async def test_patterns_choose_among_the_pages(database: ScratchDatabase, site: Site) -> None:
    site.put("/", "Page 0", links=tuple(f"/p{number}" for number in range(1, 13)))
    chosen = {}
    async with database.open() as r:
        await keep(r, site)
        for include, exclude in [
            ("*/p1*", None),
            (["*/p1", "*/p4"], None),
            (r"/\/p[1-4]$/", None),
            (None, "/p1"),
            ("*/p1*", r"/p1\d/"),
        ]:
            await r.sources.edit("site", options={"include": include, "exclude": exclude})
            await r.sync("site", accept_deletions=True)
            chosen[f"{include} {exclude}"] = sorted(int(path[2:]) for path in paths(database, site) if path != "/")

    assert list(chosen.values()) == [[1, 10, 11, 12], [1, 4], [1, 2, 3, 4], [2, 3, 4, 5, 6, 7, 8, 9], [1]]


@pytest.mark.parametrize("wrong", [{"include": "/(/"}, {"max_pages": 0}, {"scope": "planet"}, {"max_depht": 1}])
def test_a_wrong_option_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        registry.check_options("web", wrong)


async def test_depth_is_counted_in_links_from_the_start(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site, max_depth=0)
        counts = [len(contents(database))]
        for depth in (1, 2, 3):
            await r.sources.edit("site", options={"max_depth": depth})
            run = await r.sync("site")
            counts.append(len(contents(database)))
            assert (run.stats.not_modified, run.stats.created) == (counts[-2], counts[-1] - counts[-2])

    assert counts == [1, 3, 7, 13]


async def test_the_most_pages_are_the_first_ones_whatever_comes_back_first(
    database: ScratchDatabase, site: Site
) -> None:
    later_asked = asyncio.Event()

    def answers_after(path: str, *, waits: bool) -> Callable[[web.Request], Any]:
        page = site.pages[path]

        async def answer(request: web.Request) -> web.Response:
            if waits:
                await later_asked.wait()
            else:
                later_asked.set()
            return site._plain(request, page)

        return answer

    site.alter("/p1", handler=answers_after("/p1", waits=True))
    site.alter("/p2", handler=answers_after("/p2", waits=False))
    async with database.open(total_limit_s=10) as r:
        run = await keep(r, site, max_pages=4)
        again = await r.sync("site")

    assert paths(database, site) == {"/", "/p1", "/p2", "/p3"}
    assert (run.stats.requests, again.stats.requests, again.stats.not_modified) == (5, 5, 4)


async def test_a_walk_that_reached_its_limit_is_not_complete_and_counts_the_pages_beyond(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        cut = await keep(r, site, max_pages=4)
        [overview] = await r.sources.overview()
        source = await r.sources.get("site")
        [remark] = remarks(cut)
        rehearsed = await r.sync("site", dry_run=True)
        site.pages["/p1"] = Page(status=404)
        moved_up = await r.sync("site")
        await r.sources.edit("site", options={"max_pages": 50})
        whole = await r.sync("site")
        [after] = await r.sources.overview()

    assert (cut.status, cut.complete, cut.stats.truncated) == ("completed", False, 5)
    assert (cut.to_json()["truncated"], overview.truncated, source.truncated) == (5, 5, 5)
    assert (overview.last_complete_at, source.last_complete_at) == (None, None)
    assert (rehearsed.complete, rehearsed.stats.truncated) == (False, 5)
    assert "5 pages or more were left out" in remark
    assert "rowen edit site --option max_pages=N" in remark
    assert [text for text, _ in counts(cut.stats)] == ["4 created", "5 or more beyond the limit"]
    # What is no longer among the first pages goes, as in a new crawl.
    assert (moved_up.stats.created, moved_up.stats.deleted, moved_up.complete) == (2, 2, False)
    assert (whole.complete, whole.stats.truncated, after.truncated) == (True, 0, 0)
    assert after.last_complete_at == whole.started_at


async def test_a_snapshot_of_a_site_that_was_cut_at_its_limit_is_not_complete(
    database: ScratchDatabase, site: Site, tmp_path: Path
) -> None:
    async with database.open() as r:
        await keep(r, site, max_pages=4)
        await r.export("jsonl", tmp_path / "out")

    [entry] = json.loads((tmp_path / "out" / "manifest.json").read_text())["sources"]
    [coverage] = json.loads((tmp_path / "out" / "coverage.json").read_text())["sources"]
    assert (entry["complete"], entry["last_run"]["complete"], entry["last_complete_at"]) == (False, False, None)
    assert (entry["truncated"], coverage["truncated"], coverage["last_complete_at"]) == (5, 5, None)


async def test_one_page_that_is_watched_is_complete_whatever_it_links_to(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        run = await keep(r, site, max_pages=1)

    assert (run.complete, run.stats.truncated) == (True, 0)


async def test_a_single_page_is_watched_with_one_request(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site, max_pages=1)
        site.put("/", "Page 0", "Something new.", links=("/p1",))
        run = await r.sync("site")

    assert (run.stats.updated, paths(database, site), site.asked()) == (1, {"/"}, ["/"])


async def test_more_pages_than_before_push_out_none(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site, max_pages=4)
        await r.sources.edit("site", options={"max_pages": 3})
        fewer = await r.sync("site")

    assert (fewer.stats.deleted, paths(database, site)) == (1, {"/", "/p1", "/p2"})


async def test_pages_that_robots_txt_forbids_are_not_requested_and_deleted_if_stored(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /p5\n\nUser-agent: other\nDisallow: /")
        run = await r.sync("site")

    assert "/p5" not in site.asked()
    assert run.stats.deleted == 3
    assert paths(database, site).isdisjoint({"/p5", "/p11", "/p12"})


async def test_rules_for_rowen_go_before_those_for_all_and_can_be_switched_off(
    database: ScratchDatabase, site: Site
) -> None:
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /\n\nUser-agent: rowen\nDisallow: /p2")
    async with database.open() as r:
        obeying = await keep(r, site)
        await r.sources.edit("site", options={"robots": False})
        ignoring = await r.sync("site")

    assert (obeying.stats.created, ignoring.stats.created) == (8, 5)
    assert "/robots.txt" not in [line.path for line in site.log]


async def test_without_a_robots_txt_everything_is_allowed(database: ScratchDatabase, site: Site) -> None:
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /", status=404)
    async with database.open() as r:
        await keep(r, site)
        for status in (400, 401, 403, 410):
            site.alter("/robots.txt", status=status)
            run = await r.sync("site")
            assert (run.status, run.stats.unchanged) == ("completed", 13)


async def test_a_robots_txt_that_cannot_be_read_fails_the_run_and_deletes_nothing(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        before = index_of(database)
        site.pages["/robots.txt"] = Page(status=503)
        run = await r.sync("site")

    assert (run.status, site.asked(), run.stats.deleted) == ("failed", [], 0)
    assert "/robots.txt answered with status 503." in (run.error or "")
    assert index_of(database) == before


async def test_a_start_that_robots_txt_forbids_is_a_clear_error(database: ScratchDatabase, site: Site) -> None:
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /")
    async with database.open() as r:
        run = await keep(r, site)

    assert run.status == "failed"
    assert "robots.txt disallows it" in (run.error or "")


async def test_requests_keep_their_distance(database: ScratchDatabase, site: Site) -> None:
    time = FakeTime()
    async with database.open() as r:
        r._engine._assembly.pace = Throttle(delay_s=0, clock=time.clock, sleep=time.sleep)
        # This clock moves for each that waits: only one may at a time.
        run = await keep(r, site, delay_s=2, concurrency=1)

    assert run.stats.requests == 14
    assert 13 * 2 <= time.at - 1000 <= 13 * 3


async def test_a_crawl_delay_is_honoured(database: ScratchDatabase, site: Site) -> None:
    site.pages["/robots.txt"] = Page(b"User-agent: *\nCrawl-delay: 7")
    time = FakeTime()
    async with database.open() as r:
        r._engine._assembly.pace = Throttle(delay_s=0, clock=time.clock, sleep=time.sleep)
        run = await keep(r, site, concurrency=1)

    assert run.stats.requests == 14
    # Nobody knows of the delay yet when robots.txt itself is asked for.
    assert 12 * 7 <= time.at - 1000 <= 13 * 7


async def test_requests_overlap_up_to_the_number_that_is_allowed(database: ScratchDatabase, site: Site) -> None:
    site.put("/", "Page 0", links=tuple(f"/p{number}" for number in range(1, 13)))
    overlapped = asyncio.Event()

    def overlapping(page: Page) -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.Response:
            if site.at_once == 4:
                overlapped.set()
            await overlapped.wait()
            return site._plain(request, page)

        return answer

    for number in range(1, 13):
        site.alter(f"/p{number}", handler=overlapping(site.pages[f"/p{number}"]))
    async with database.open(total_limit_s=10) as r:
        run = await keep(r, site, concurrency=4)

    assert (run.stats.created, run.stats.failed, site.most_at_once) == (13, 0, 4)


def asking(site: Site, path: str, words: str, *, header: str | None = None) -> None:
    """Have a page ask something of crawlers, by its head or a header."""
    page = site.pages[path]
    if header is not None:
        site.alter(path, headers={"X-Robots-Tag": header.format(words)})
    else:
        meta = f'<meta name="robots" content="{words}"></head>'
        site.alter(path, body=page.body.replace(b"</head>", meta.encode()))


async def test_pages_that_ask_not_to_be_indexed_are_left_out_but_lead_on(database: ScratchDatabase, site: Site) -> None:
    asking(site, "/p2", "NoIndex, noarchive")
    asking(site, "/p3", "noindex", header="{}")
    asking(site, "/p4", "noindex, max-snippet: 5", header="Rowen: {}")
    async with database.open() as r:
        first = await keep(r, site)
        again = await r.sync("site")

    assert (first.stats.created, paths(database, site) & {"/p2", "/p3", "/p4"}) == (10, set())
    assert (again.stats.not_modified, again.stats.unchanged, again.stats.rows_written) == (13, 10, 0)


async def test_links_that_are_not_to_be_followed_are_not_also_when_the_page_did_not_change(
    database: ScratchDatabase, site: Site
) -> None:
    asking(site, "/p3", "nofollow")
    asking(site, "/p4", "noarchive, NoFollow", header="{}")
    asking(site, "/p5", "nofollow", header="rowen: {}")
    async with database.open() as r:
        await keep(r, site)
        again = await r.sync("site")

    assert paths(database, site) == {"/", "/p1", "/p2", "/p3", "/p4", "/p5", "/p6"}
    assert (again.stats.not_modified, again.stats.rows_written) == (7, 0)


async def test_none_means_both_and_rules_for_other_crawlers_are_ignored(database: ScratchDatabase, site: Site) -> None:
    site.alter("/p1", headers={"X-Robots-Tag": "none"})
    site.alter("/p2", headers={"X-Robots-Tag": "otherbot: noindex, nofollow"})
    async with database.open() as r:
        await keep(r, site)

    assert paths(database, site) == {"/", "/p2", "/p5", "/p6", "/p11", "/p12"}


async def test_a_wish_in_a_header_is_heard_although_the_page_is_the_same(database: ScratchDatabase, site: Site) -> None:
    site.alter("/p12", validator="none")
    async with database.open() as r:
        await keep(r, site)
        site.alter("/p12", headers={"X-Robots-Tag": "noindex"})
        hidden = await r.sync("site")
        site.alter("/p12", headers={})
        restored = await r.sync("site")

    assert (hidden.stats.deleted, restored.stats.created) == (1, 1)


async def test_a_link_marked_nofollow_is_not_followed(database: ScratchDatabase, site: Site) -> None:
    site.pages["/p2"] = Page(b'<main>Two <a rel="nofollow ugc" href="/p5">five</a> <a href="/p6">six</a></main>')
    async with database.open() as r:
        await keep(r, site)

    assert "/p6" in paths(database, site)
    assert "/p5" not in site.asked()


async def test_links_are_relative_to_the_base_that_a_page_names(database: ScratchDatabase, site: Site) -> None:
    site.pages["/p2"] = Page(html("Two", links=("x", "../p12"), head='<base href="/deep/er/">'))
    site.put("/deep/er/x", "X")
    site.put("/deep/p12", "Another twelve")
    async with database.open() as r:
        await keep(r, site)

    assert {"/deep/er/x", "/deep/p12"} <= paths(database, site)


async def test_what_is_no_page_costs_a_304_the_next_time(database: ScratchDatabase, site: Site) -> None:
    site.pages["/p11"] = Page(b"GIF89a" + bytes(1000), headers={"Content-Type": "image/gif"})
    async with database.open() as r:
        first = await keep(r, site)
        again = await r.sync("site")

    assert (first.stats.created, first.stats.failed) == (12, 0)
    assert (again.stats.not_modified, again.stats.rows_written, site.bodies()) == (13, 0, [])


async def test_a_page_is_read_by_its_content_type_also_when_that_is_all_that_changed(
    database: ScratchDatabase, site: Site
) -> None:
    site.alter("/p12", validator="none")
    async with database.open() as r:
        await keep(r, site)
        site.alter("/p12", headers={"Content-Type": "text/markdown"})
        plain = await r.sync("site")
        text = (await r.get(f"{site.url}/p12")).text
        site.pages["/p12"] = Page(b"GIF89a", headers={"Content-Type": "image/gif"})
        picture = await r.sync("site")

    assert (plain.stats.updated, "<h1>" in text) == (1, True)
    assert (picture.stats.deleted, "/p12" in paths(database, site)) == (1, False)


async def test_another_charset_in_the_header_is_another_text(database: ScratchDatabase, site: Site) -> None:
    body = "<title>Käse</title><main><p>Käse und Brot und Äpfel.</p></main>".encode()
    site.pages["/p12"] = Page(body, validator="none", headers={"Content-Type": "text/html; charset=iso-8859-1"})
    async with database.open() as r:
        await keep(r, site)
        before = (await r.get(f"{site.url}/p12")).text
        site.alter("/p12", headers={"Content-Type": "text/html; charset=utf-8"})
        run = await r.sync("site")

        assert (run.stats.updated, before) == (1, "KÃ¤se und Brot und Ã„pfel.")
        assert (await r.get(f"{site.url}/p12")).text == "Käse und Brot und Äpfel."


async def test_a_page_whose_boilerplate_alone_changed_is_unchanged_and_its_new_validator_kept(
    database: ScratchDatabase, site: Site
) -> None:
    def built(stamp: str) -> Page:
        head = f'<meta name=csrf content="{stamp}"><script nonce="{stamp}">go()</script>'
        body = html("Page 12", "All about willow.", head=head).replace(b"Footer", f"Built at {stamp}".encode())
        return Page(body)

    site.pages["/p12"] = built("one")
    async with database.open() as r:
        await keep(r, site)
        site.pages["/p12"] = built("two")
        rebuilt = await r.sync("site")
        site.log.clear()
        again = await r.sync("site")

    assert (rebuilt.stats.unchanged, rebuilt.stats.stopped_at_content, rebuilt.stats.chunks_written) == (13, 1, 0)
    assert rebuilt.stats.rows_written == 1
    assert (again.stats.not_modified, again.stats.rows_written, site.bodies()) == (13, 0, [])


async def test_a_page_that_came_nearer_or_farther_has_its_new_depth(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.put("/", "Page 0", "All about barley number 0.", links=("/p12", "/p1", "/p2"))
        run = await r.sync("site")
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await keep(r, site)

    assert (run.stats.updated, run.stats.unchanged, run.stats.chunks_written) == (1, 12, 1)
    assert index_of(database) == index_of(rebuilt)


async def test_a_cursor_with_the_old_name_of_boilerplate_is_understood(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        database.execute(
            "update source set cursor = cursor - 'boilerplate' || jsonb_build_object('shell', cursor->'boilerplate')"
        )
        site.log.clear()
        run = await r.sync("site")
        [(cursor,)] = database.query("select cursor from source")

    assert (site.bodies(), run.stats.unchanged, run.stats.rows_written) == ([], 13, 0)
    assert "boilerplate" in cursor
