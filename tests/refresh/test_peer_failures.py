"""The failures that were measured on the peer (`facts/refresh.md`, section 3), one test each: a site of 13 pages."""

import asyncio
import io
import os
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rowen.content import chunks as chunker
from rowen.model.items import Document
from tests.conftest import ScratchDatabase
from tests.logical import contents, index_of
from tests.portals.site import Page, Site, hang, html, keep, links_of


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(13)
    yield site
    site.close()


def passages(database: ScratchDatabase) -> list[tuple[object, ...]]:
    """Every passage with its id: equal lists mean that none was written anew."""
    return database.query("select id, item_id, position, text_hash from chunk order by id")


def texts(database: ScratchDatabase) -> set[bytes]:
    return {row[0] for row in database.query("select text_hash from chunk")}


async def test_e1_a_page_that_failed_in_the_first_crawl_is_there_after_the_next(
    database: ScratchDatabase, site: Site
) -> None:
    page = site.pages["/p6"]
    site.pages["/p6"] = Page(b"Oops.", status=500)
    async with database.open() as r:
        begun = await keep(r, site)
        site.pages["/p6"] = page
        run = await r.sync("site")

    assert (begun.stats.created, begun.stats.failed) == (12, 1)
    assert (run.stats.created, run.stats.unchanged, run.stats.not_modified) == (1, 12, 12)
    assert site.bodies() == ["/p6"]
    assert len(contents(database)) == 13


async def test_e2_a_page_that_turned_410_is_deleted_with_a_tombstone(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages["/p12"] = Page(status=410)
        run = await r.sync("site")
        [change] = await r.changes(since=13)

        assert (run.stats.deleted, run.stats.unchanged, run.stats.chunks_written) == (1, 12, 0)
        assert (change.kind, change.url) == ("deleted", f"{site.url}/p12")
        assert (await r.get(f"{site.url}/p12")).withdrawn_at is not None


async def test_e3_a_page_that_moved_is_kept_under_its_new_url_and_no_foreign_validator_is_sent(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        before = texts(database)
        site.pages["/new"] = site.pages["/p12"]
        site.pages["/p12"] = Page(status=301, headers={"Location": "/new"})
        run = await r.sync("site")

    [asked] = [line for line in site.log if line.path == "/new"]
    assert not asked.conditional
    assert (run.stats.moved, run.stats.created, run.stats.deleted, run.stats.unchanged) == (1, 0, 0, 12)
    assert f"{site.url}/new" in contents(database)
    assert f"{site.url}/p12" not in contents(database)
    assert texts(database) == before


async def test_e4_a_page_that_became_empty_loses_its_passages_and_costs_a_304_next_time(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages["/p12"] = Page(b"<html><body></body></html>")
        emptied = await r.sync("site")
        site.log.clear()
        again = await r.sync("site")

    assert (emptied.stats.updated, emptied.stats.unchanged) == (1, 12)
    assert database.query("select count(*) from chunk join item on item.id = item_id where url like '%/p12'") == [(0,)]
    assert (again.stats.not_modified, again.stats.rows_written, site.bodies()) == (13, 0, [])


async def test_e5_a_server_with_last_modified_only_is_refreshed_without_bodies(
    database: ScratchDatabase, site: Site
) -> None:
    for path in site.pages:
        site.alter(path, validator="modified")
    async with database.open() as r:
        await keep(r, site)
        run = await r.sync("site")

    assert (run.stats.not_modified, run.stats.unchanged, run.stats.chunks_written) == (13, 13, 0)
    assert site.bodies() == []


async def test_e6_one_changed_page_is_stored_and_costs_only_its_new_passage(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        before = texts(database)
        site.put("/p12", "Page 12", "All about something else.")
        run = await r.sync("site")
        again = await r.sync("site")

        assert (run.stats.updated, run.stats.unchanged, run.stats.chunks_written) == (1, 12, 1)
        assert (again.stats.unchanged, again.stats.rows_written) == (13, 0)
        assert len(texts(database) - before) == 1
        assert (await r.search("something else"))[0].url == f"{site.url}/p12"


async def test_e7_a_page_that_nothing_links_any_more_is_deleted_although_it_answers(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.put("/p5", "Page 5", "All about pollen number 5.", links=("/p11",))
        run = await r.sync("site")

    assert (run.stats.deleted, run.stats.updated, run.stats.unchanged) == (1, 1, 11)
    assert f"{site.url}/p12" not in contents(database)
    assert "/p12" not in site.asked()


async def test_e8_an_archive_by_http_is_a_clear_error_and_no_empty_success(
    database: ScratchDatabase, site: Site
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("readme.md", "# Read me")
    site.pages["/docs.zip"] = Page(packed.getvalue(), headers={"Content-Type": "application/zip"})
    async with database.open() as r:
        run = await r.sync(f"{site.url}/docs.zip")

    assert run.status == "failed"
    assert "docs.zip cannot be read as a page" in (run.error or "")


async def test_e9_a_page_that_hangs_costs_a_bounded_wait_and_itself(database: ScratchDatabase, site: Site) -> None:
    async with database.open(total_limit_s=0.5) as r:
        await keep(r, site)
        site.alter("/p2", handler=hang)
        run = await r.sync("site")
        [case] = await r.items.quarantine()

    assert (run.stats.failed, run.stats.unchanged, run.stats.deleted) == (1, 12, 0)
    assert "not complete in time" in case.error
    assert len(contents(database)) == 13


async def test_e10_a_new_page_behind_a_changed_index_costs_two_bodies(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.put("/fresh", "Fresh", "A new page.")
        site.put("/", "Page 0", "All about barley number 0.", links=("/p1", "/p2", "/fresh"))
        run = await r.sync("site")

    assert (run.stats.created, run.stats.updated, run.stats.unchanged) == (1, 1, 12)
    assert (run.stats.not_modified, site.bodies()) == (12, ["/", "/fresh"])


@pytest.mark.parametrize(
    "limit", [{"max_depth": 1}, {"max_pages": 7}, {"exclude": ["*/p5", "*/p4"]}], ids=["depth", "pages", "pattern"]
)
async def test_e11_pages_that_a_limit_kept_out_are_found_behind_unchanged_pages(
    database: ScratchDatabase, site: Site, limit: dict[str, object]
) -> None:
    async with database.open() as r:
        await keep(r, site, **limit)
        held = len(contents(database))
        await r.sources.edit("site", options=dict.fromkeys(limit))
        run = await r.sync("site")

    assert (run.stats.created, run.stats.not_modified) == (13 - held, held)
    assert len(contents(database)) == 13


async def test_e12_a_local_archive_that_did_not_change_costs_nothing(database: ScratchDatabase, tmp_path: Path) -> None:
    path = tmp_path / "docs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(13):
            archive.writestr(f"{number}.md", f"# Page {number}\n\nText.")
    async with database.open() as r:
        await r.sync(str(path))
        run = await r.sync(str(path))

    assert (run.stats.unchanged, run.stats.rows_written, run.stats.chunks_written) == (13, 0, 0)


async def test_e13_names_that_differ_in_case_are_two_items(database: ScratchDatabase, site: Site) -> None:
    site.put("/p12", "Page 12", links=("/Alpha.html", "/alpha.html"))
    site.put("/Alpha.html", "Alpha", "The letter.")
    site.put("/alpha.html", "alpha", "The particle.")
    async with database.open() as r:
        await keep(r, site)
        run = await r.sync("site")

    assert {f"{site.url}/Alpha.html", f"{site.url}/alpha.html"} <= set(contents(database))
    assert (run.stats.unchanged, run.stats.rows_written) == (15, 0)


async def test_e14_a_fragment_is_no_part_of_a_page_s_identity(database: ScratchDatabase, site: Site) -> None:
    site.put("/p12", "Page 12", links=("/long#part-two", "/long", "/long#part-one"))
    site.pages["/long"] = Page(b"<title>Long</title><main><h1>Long</h1><h2 id=b>Part two</h2><p>Zucchini.</p></main>")
    async with database.open() as r:
        await keep(r, site)
        [hit] = await r.search("zucchini", limit=1)

    assert not any("#" in url for url in contents(database))
    assert hit.link == f"{site.url}/long#b"


async def test_e15_many_failing_pages_are_each_recorded_the_rest_is_stored_and_the_run_partial(
    database: ScratchDatabase, site: Site
) -> None:
    for number in range(5, 13):
        site.alter(f"/p{number}", status=500)
    site.put("/p1", "Page 1", "All about clover number 1.", links=("/p3", "/p4", "/p7", "/p8", "/p9", "/p10", "/p11"))
    site.put("/p2", "Page 2", "All about hay number 2.", links=("/p5", "/p6", "/p12"))
    async with database.open() as r:
        run = await keep(r, site)
        cases = await r.items.quarantine()

    assert (run.status, run.stats.created, run.stats.failed) == ("partial", 5, 8)
    assert {case.url for case in cases} == {f"{site.url}/p{number}" for number in range(5, 13)}


async def test_e16_an_outage_of_two_runs_loses_nothing_and_costs_nothing_afterwards(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        before, stored = passages(database), index_of(database)
        site.down = True
        down = [await r.sync("site"), await r.sync("site")]
        site.down = False
        site.log.clear()
        up = await r.sync("site")

    assert [run.status for run in down] == ["failed", "failed"]
    assert (passages(database), index_of(database)) == (before, stored)
    assert (up.status, up.stats.not_modified, up.stats.rows_written, site.bodies()) == ("completed", 13, 0, [])


async def test_e17_a_refresh_killed_in_the_middle_resumes_with_what_was_in_flight(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
    for number in range(3, 13):
        site.put(f"/p{number}", f"Page {number}", f"Other words {number}.", links=links_of(number))
    whole = site.pages["/p12"]
    asked: list[str] = []

    async def hang_after_asking(request: Any) -> Any:
        asked.append(request.path)
        return await hang(request)

    site.alter("/p12", handler=hang_after_asking)
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.refresh.killed", database.conninfo, "site", "never sent", "0")
    )
    try:
        await until(lambda: asked == ["/p12"])
    finally:
        os.kill(run.pid, signal.SIGKILL)
        await run.wait()
    site.pages["/p12"] = whole
    site.log.clear()
    database.execute("update run set lease_until = now() - interval '1 second'")
    async with database.open() as r:
        resumed = await r.sync("site")

    # Pages that changed wait for each other, to see whether one stands in front of all: these were in flight.
    assert (resumed.status, resumed.stats.updated, resumed.stats.unchanged) == ("completed", 10, 3)
    assert (resumed.stats.not_modified, resumed.stats.chunks_written) == (3, 10)
    assert sorted(site.bodies()) == sorted(f"/p{number}" for number in range(3, 13))


async def until(is_so: Callable[[], bool], limit_s: float = 60) -> None:
    async with asyncio.timeout(limit_s):
        while not is_so():
            await asyncio.sleep(0.05)


async def test_e18_the_same_bytes_under_new_etags_are_unchanged_and_the_new_etags_kept(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        before = passages(database)
        for path in site.pages:
            site.alter(path, etag_salt="rebuilt")
        touched = await r.sync("site")
        site.log.clear()
        again = await r.sync("site")

    assert (touched.stats.unchanged, touched.stats.updated, touched.stats.chunks_written) == (13, 0, 0)
    assert touched.stats.rows_written == 13
    assert passages(database) == before
    assert (again.stats.not_modified, again.stats.rows_written, site.bodies()) == (13, 0, [])


async def test_e19_a_new_title_or_url_pays_for_no_passage_again(database: ScratchDatabase, site: Site) -> None:
    body = b"<title>%s</title><main><p>The same text under another name.</p></main>"
    site.pages["/p11"] = Page(body % b"Old")
    async with database.open() as r:
        await keep(r, site)
        before = texts(database)
        site.pages["/p11"] = Page(body % b"New")
        retitled = await r.sync("site")
        site.pages["/moved"] = site.pages["/p11"]
        site.pages["/p11"] = Page(status=308, headers={"Location": "/moved"})
        await r.sync("site")

        assert (retitled.stats.updated, retitled.stats.chunks_written) == (1, 0)
        assert texts(database) == before
        assert (await r.get(f"{site.url}/moved")).title == "New"


async def test_e20_two_versions_of_one_site_share_their_passages(database: ScratchDatabase, site: Site) -> None:
    for version in ("/v1/", "/v2/"):
        site.pages[version] = Page(html("Version", f"This is {version}.", links=("a", "b")))
        for name in ("a", "b"):
            site.pages[version + name] = Page(html(name, f"All about {name}, in every version."))
    async with database.open() as r:
        await r.sync(f"{site.url}/v1/")
        one = texts(database)
        await r.sync(f"{site.url}/v2/")

    assert len(contents(database)) == 6
    assert len(texts(database) - one) == 1


async def test_e21_passages_are_cut_from_the_stored_text_without_any_request(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)

    stored = [Document(url, title, text) for url, title, text in database.query("select url, title, text from item")]
    assert {chunk.text_hash for document in stored for chunk in chunker.split(document.text)} == texts(database)
    assert site.log == []
