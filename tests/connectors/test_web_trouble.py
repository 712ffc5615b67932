"""Sites that are down, pages that fail, secrets that stay at home: nothing is lost, and nothing is told."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowen.connectors.web.visit import SoftMissing
from tests.conftest import ScratchDatabase
from tests.connectors.test_web import names, paths
from tests.logical import contents, index_of
from tests.portals.scripted import page
from tests.portals.site import Page, Site, hang, html, keep

__all__ = ["names"]

SECRET = "swordfish-4711"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(13)
    yield site
    site.close()


async def until(is_so: Callable[[], bool], limit_s: float = 60) -> None:
    async with asyncio.timeout(limit_s):
        while not is_so():
            await asyncio.sleep(0.05)


async def test_a_start_that_fails_or_is_gone_fails_the_run_and_deletes_nothing(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        before = index_of(database)
        for status in (500, 403, 404, 410):
            site.alter("/", status=status)
            run = await r.sync("site")
            assert (run.status, run.complete, index_of(database)) == ("failed", False, before)
            assert f"{site.url}/ answered with status {status}." in (run.error or "")


async def test_a_server_that_is_gone_fails_the_run_and_is_named(database: ScratchDatabase, site: Site) -> None:
    other = Site()
    other.grow(3)
    async with database.open() as r:
        await keep(r, other)
        other.close()
        run = await r.sync("site")

    assert (run.status, len(contents(database))) == ("failed", 3)
    assert other.url.removeprefix("http://") in (run.error or "")


async def test_pages_in_trouble_are_failed_and_kept_and_their_links_followed(
    database: ScratchDatabase, site: Site
) -> None:
    troubles = {1: Page(status=500), 2: Page(status=503), 3: Page(status=403), 4: Page(status=429), 5: Page(status=401)}
    async with database.open(total_limit_s=3) as r:
        await keep(r, site)
        before = index_of(database)
        for number, page in {**troubles, 7: Page(handler=hang)}.items():
            site.pages[f"/p{number}"] = page
        site.put("/p12", "Page 12", "New words behind the trouble.")
        failing = await r.sync("site")
        cases = {case.url.removeprefix(site.url): case.error for case in await r.items.quarantine()}
        site.grow(13)
        healed = await r.sync("site")

        assert (failing.status, failing.stats.failed, failing.stats.deleted) == ("completed", 6, 0)
        assert (failing.stats.updated, failing.stats.unchanged) == (1, 6)
        assert cases["/p4"] == f"{site.url}/p4 answered with status 429."
        assert set(cases) == {"/p1", "/p2", "/p3", "/p4", "/p5", "/p7"}
        assert (healed.stats.unchanged, healed.stats.not_modified, await r.items.quarantine()) == (12, 12, [])
    assert index_of(database) == before


@pytest.mark.parametrize(("size", "status"), [(10, "completed"), (13, "partial")])
async def test_a_walk_on_which_most_pages_fail_is_partial_unless_the_site_is_small(
    database: ScratchDatabase, size: int, status: str
) -> None:
    site = Site()
    site.grow(size)
    async with database.open() as r:
        await keep(r, site)
        for number in range(1, size):
            site.alter(f"/p{number}", status=500)
        run = await r.sync("site")
    site.close()

    assert (run.status, run.stats.failed, run.stats.deleted) == (status, size - 1, 0)


async def test_a_page_that_is_gone_takes_along_the_pages_that_only_it_linked_to(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        del site.pages["/p5"]
        run = await r.sync("site")
        changes = await r.changes(since=13)

    assert run.stats.deleted == 3
    assert {(change.kind, change.url) for change in changes} == {
        ("deleted", f"{site.url}/{path}") for path in ("p5", "p11", "p12")
    }
    assert site.asked().count("/p11") == 0


async def test_a_page_that_comes_back_is_created_again(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        page = site.pages.pop("/p12")
        await r.sync("site")
        site.pages["/p12"] = page
        run = await r.sync("site")

    assert (run.stats.created, len(contents(database))) == (1, 13)


async def test_deletions_of_too_many_orphans_are_pending(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.put("/", "Page 0", "We have moved.")
        held_back = await r.sync("site")
        accepted = await r.sync("site", accept_deletions=True)

    assert (held_back.stats.deleted, held_back.stats.deletions_held) == (0, 12)
    assert (accepted.stats.deleted, paths(database, site)) == (12, {"/"})


async def test_what_an_open_circuit_keeps_from_us_is_skipped_and_not_lost(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site, concurrency=1)
        before = index_of(database)
    for number in (1, 2):
        site.alter(f"/p{number}", status=500)
    async with database.open(cb_failure_threshold=2) as r:
        run = await r.sync("site")
    site.grow(13)
    async with database.open() as r:
        healed = await r.sync("site")

    assert (run.stats.failed, run.stats.skipped, run.stats.deleted) == (2, 10, 0)
    assert (run.status, sorted(site.asked()[:3])) == ("partial", ["/", "/p1", "/p2"])
    assert (healed.status, healed.stats.not_modified, index_of(database)) == ("completed", 13, before)


async def test_a_part_of_the_site_whose_robots_txt_cannot_be_read_keeps_its_pages(
    database: ScratchDatabase, site: Site, names: dict[str, str]
) -> None:
    port = site.url.rpartition(":")[2]
    below = Site()
    below.grow(3)
    there = below.url.replace("127.0.0.1", "docs.example.test")
    site.put("/", "Page 0", links=("/p11", f"{there}/"))
    async with database.open() as r:
        await r.sources.add(f"http://example.test:{port}/", name="s", options={"scope": "domain", "sitemap": False})
        await r.sync("s")
        stored = contents(database)
        below.pages["/robots.txt"] = Page(status=500)
        refusing = await r.sync("s")
        below.close()
        gone = await r.sync("s")

    assert len(stored) == 5
    assert (refusing.stats.deleted, refusing.stats.failed, gone.stats.deleted) == (0, 3, 0)
    assert contents(database) == stored


async def test_a_killed_first_crawl_repeats_only_requests_in_progress(database: ScratchDatabase, site: Site) -> None:
    whole = site.pages["/p12"]
    site.alter("/p12", handler=hang)
    killed = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.refresh.killed", database.conninfo, f"{site.url}/", "never sent", "0")
    )
    try:
        await until(lambda: len(contents(database)) == 12)
    finally:
        os.kill(killed.pid, signal.SIGKILL)
        await killed.wait()
    site.pages["/p12"] = whole
    database.execute("update run set lease_until = now() - interval '1 second'")
    async with database.open() as r:
        run = await r.sync(f"{site.url}/")

    assert (run.status, run.stats.created, run.stats.unchanged) == ("completed", 1, 12)
    assert run.stats.chunks_written == 1


async def test_a_stopped_run_keeps_its_pages_and_the_next_one_reads_the_rest(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await r.sources.add(f"{site.url}/", name="site")
        site.alter("/p12", handler=hang)
        running = asyncio.create_task(r.sync("site"))
        await until(lambda: len(contents(database)) == 12)
        r.stop()
        stopped = await running
    site.grow(13)
    async with database.open() as r:
        run = await r.sync("site")

    assert (stopped.status, stopped.stats.deleted) == ("cancelled", 0)
    assert (run.status, run.stats.created, run.stats.unchanged) == ("completed", 1, 12)


async def test_headers_are_sent_to_the_origin_alone_and_a_secret_is_nowhere_else(
    database: ScratchDatabase, site: Site, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SITE_TOKEN", SECRET)
    other = Site()
    other.grow(1)
    there = other.url.replace("127.0.0.1", "docs.example.test")
    start = site.url.replace("127.0.0.1", "example.test")
    site.pages["/"] = Page(html("Start", links=(f"{there}/", "/moved", "/p11", "/p12")))
    site.pages["/moved"] = Page(status=302, headers={"Location": f"{there}/landed"})
    site.pages["/p12"] = Page(status=500)
    other.put("/landed", "Landed")
    headers = {"Authorization": "Bearer env:SITE_TOKEN", "X-Team": "meadow"}
    async with database.open() as r:
        options = {"scope": "domain", "headers": headers, "sitemap": False, "llms": False}
        await r.sources.add(f"{start}/", name="s", options=options)
        run = await r.sync("s")
        cases = await r.items.quarantine()
        listing = str(await r.sources.list())
    other.close()

    sent = [line.headers for line in site.log if line.path != "/robots.txt"]
    assert all(h["Authorization"] == f"Bearer {SECRET}" and h["X-Team"] == "meadow" for h in sent)
    assert len(sent) == 4
    assert {line.path for line in other.log} == {"/robots.txt", "/", "/landed"}
    assert not any("Authorization" in line.headers or "X-Team" in line.headers for line in other.log)
    assert SECRET not in f"{run} {cases} {listing}"
    assert SECRET not in str(database.query("select to_jsonb(s)::text from source s"))


async def test_a_missing_secret_fails_the_run_before_any_request_and_names_its_reference(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        run = await keep(r, site, headers={"Authorization": "env:NOWHERE_TO_BE_FOUND"})

    assert (run.status, site.asked()) == ("failed", [])
    assert "NOWHERE_TO_BE_FOUND" in (run.error or "")


async def test_keys_in_an_address_are_not_repeated_in_errors(database: ScratchDatabase, site: Site) -> None:
    site.put("/p12", "Page 12", links=(f"/broken?api_key={SECRET}",))
    site.pages[f"/broken?api_key={SECRET}"] = Page(status=500)
    async with database.open() as r:
        await keep(r, site)
        [case] = await r.items.quarantine()

    assert SECRET not in case.error


async def test_the_question_whether_a_page_is_an_error_page_ends_with_the_walk() -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    async def read(_: str) -> None:
        tasks.append(asyncio.current_task())
        await asyncio.Event().wait()

    soft = SoftMissing(read)
    visit = asyncio.create_task(soft.is_missing(page(1, "Sorry, not found.")))
    while not tasks:
        await asyncio.sleep(0)
    visit.cancel()
    await asyncio.gather(visit, return_exceptions=True)
    [asking] = tasks
    assert asking is not None
    assert not asking.done()

    await soft.close()

    assert asking.cancelled()
