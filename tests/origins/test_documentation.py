"""Documentation that is refreshed: mixed answers, deletions that are reported, kills between two writes, and kinds."""

import asyncio
import hmac
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rowen import RunStats, Source
from rowen.connectors.github import GitHub
from rowen.connectors.packages import PyPI
from tests.conftest import ScratchDatabase
from tests.connectors.test_packages import sync as sync_package
from tests.logical import index_of
from tests.portals.github import Portal
from tests.portals.packages import PythonIndex
from tests.portals.site import Page, Site, html, keep, links_of
from tests.refresh import killed
from tests.web.world import serving

PAGE_TABLES = ("item", "item_check", "item_title", "chunk", "revision", "change", "superseded_record")
VALIDATORS = "select url, etag, last_modified from item join item_check on item.id = item_id order by url"
LONG = [f"Paragraph {number} says something of its own. " * 12 for number in range(12)]


@pytest.fixture
def site() -> Iterator[Site]:
    with closing(Site()) as site:
        site.grow(13)
        yield site


@pytest.fixture(autouse=True)
def _kinds(kinds: Callable[[Any], None]) -> None:
    for kind in (GitHub, PyPI):
        kinds(kind)


def writes_of_a_page(statements: list[str]) -> list[str]:
    """The statements that write what is kept of a page, each once."""
    writes = re.compile(rf"\b(insert into|update|delete from) ({'|'.join(PAGE_TABLES)})\b")
    return [one for one in dict.fromkeys(statements) if writes.search(one)]


async def test_a_page_is_replaced_whole_or_not_at_all_wherever_its_writing_is_killed(
    database: ScratchDatabase, new_database: Callable[[], ScratchDatabase], site: Site, statements: list[str]
) -> None:
    site.put("/p12", "Page 12", *LONG)
    watched = new_database()
    for kept in (database, watched):
        async with kept.open() as r:
            await keep(r, site)
    before = index_of(database), database.query(VALIDATORS)
    site.put("/p12", "Page twelve", *LONG[:5], "Something else. " * 40, *LONG[7:9])
    async with watched.open() as r:
        statements.clear()
        await r.sync("site")
        writes = writes_of_a_page(statements)
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await keep(r, site)

    assert len(writes) >= 8
    told = " ".join(writes)
    assert all(
        word in told for word in ("update item set", "delete from chunk", "insert into chunk", "insert into change")
    )
    for words in writes:
        for after in (False, True):
            assert killed.run(database.conninfo, "site", statement=words, after=after), words
            database.execute("update run set lease_until = now() - interval '1 second'")
            assert (index_of(database), database.query(VALIDATORS)) == before, (words, after)
    async with database.open() as r:
        run = await r.sync("site")

    assert (run.status, run.stats.updated, run.stats.unchanged) == ("completed", 1, 12)
    assert index_of(database) == index_of(rebuilt)
    assert {url: etag for url, etag, _ in database.query(VALIDATORS)}[f"{site.url}/p12"] == site.pages["/p12"].etag


async def test_a_changed_page_has_new_validators_and_its_new_title_also_where_its_text_stayed(
    database: ScratchDatabase, site: Site
) -> None:
    def stored() -> dict[str, tuple[str, str, str]]:
        rows = database.query("select url, title, etag, last_modified from item join item_check on item.id = item_id")
        return {url.removeprefix(site.url): tuple(rest) for url, *rest in rows}

    for path in ("/p11", "/p12"):
        site.put(path, "Old", "Some words.", validator="both")
    async with database.open() as r:
        await keep(r, site)
        before = stored()
        site.put("/p11", "New", "Some words.", validator="both")
        site.alter("/p12", etag_salt="rebuilt")
        await r.sync("site")
        after = stored()

    assert (before["/p11"][0], after["/p11"][0], after["/p12"][0]) == ("Old", "New", "Old")
    for path in ("/p11", "/p12"):
        assert after[path][1] == site.pages[path].etag != before[path][1]
        assert after[path][2].endswith("GMT")


async def test_a_refresh_reports_each_deletion_while_it_runs_and_by_address(
    database: ScratchDatabase, site: Site
) -> None:
    reported: list[tuple[str, int]] = []

    def observe(source: Source, stats: RunStats) -> None:
        reported.append((source.name, stats.deleted))

    async with database.open() as r:
        await keep(r, site)
        mark = await r.changes.last_number()
        site.pages["/p12"] = Page(status=404)
        site.pages["/p11"] = Page(status=404)
        run = await r.sync("site", observe=observe)
        changes = await r.changes(since=mark)
        found = await r.search("barley number 12")

    assert run.stats.deleted == 2
    assert reported[-1] == ("site", 2)
    assert {(change.kind, change.url) for change in changes} == {
        ("deleted", f"{site.url}/p11"),
        ("deleted", f"{site.url}/p12"),
    }
    assert f"{site.url}/p12" not in [hit.url for hit in found]
    orphans = "select count(*) from {} where not exists (select from item where item.id = item_id)"
    assert [database.query(orphans.format(table)) for table in ("chunk", "item_check")] == [[(0,)]] * 2


async def test_one_refresh_meets_unchanged_changed_missing_and_new_pages(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        spellings = ("/fresh", "/fresh#top", "/./fresh", "/fresh?utm_source=mail", f"{site.url.upper()}/fresh")
        site.put("/p3", "Page 3", "Other words.", links=(*links_of(3), *spellings))
        site.put("/fresh", "Fresh", "A new page.")
        site.pages["/p12"] = Page(status=404)
        run = await r.sync("site")

    counted = (run.stats.unchanged, run.stats.updated, run.stats.deleted, run.stats.created)
    assert counted == (11, 1, 1, 1)
    assert (run.stats.not_modified, site.bodies()) == (11, ["/fresh", "/p3"])
    asked = site.asked()
    assert sorted(asked) == sorted(set(asked)), "each page is asked for once"


async def test_a_refresh_of_an_unchanged_site_costs_a_small_part_of_a_crawl(
    database: ScratchDatabase, site: Site
) -> None:
    for number in range(13):
        path = f"/p{number}" if number else "/"
        site.put(path, f"Page {number}", *(f"{number}: {text}" for text in LONG), links=links_of(number))
    async with database.open() as r:
        first = await keep(r, site)
        site.alter("/p12", body=html("Page 12", "Other words."))
        run = await r.sync("site")

    assert run.stats.bytes < 0.1 * first.stats.bytes
    assert (run.stats.requests, run.stats.chunks_written) == (first.stats.requests, 1)


async def test_a_page_that_is_found_behind_another_one_is_one_link_deeper(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        deep = dict(database.query("select url, depth from item_check join item on item.id = item_id"))
        site.put("/fresh", "Fresh", "A new page.")
        site.put("/p12", "Page 12", "All about rowan number 12.", links=("/fresh",))
        await r.sync("site")
        later = dict(database.query("select url, depth from item_check join item on item.id = item_id"))

    assert later[f"{site.url}/fresh"] == later[f"{site.url}/p12"] + 1
    assert {url: later[url] for url in deep} == deep


async def test_a_page_keeps_its_validators_type_and_depth_beside_its_passages_in_their_order(
    database: ScratchDatabase, site: Site
) -> None:
    site.put("/p12", "Page 12", *LONG, validator="both")
    async with database.open() as r:
        await keep(r, site)
        [item] = database.query(
            "select item.id, title, media_type, etag, last_modified, depth, created_at, updated_at"
            " from item join item_check on item.id = item_id where url like '%/p12'"
        )
        passages = database.query(
            "select position, heading, text from chunk where item_id = %s order by position", item[0]
        )
        [source] = database.query("select source_id, key from item where url like '%/p12'")
        doubles = database.query("select count(*) from item where source_id = %s and key = %s", *source)

    assert (item[1], item[2], item[3], item[5]) == ("Page 12", "text/html", site.pages["/p12"].etag, 3)
    assert item[4].endswith("GMT")
    assert item[6] <= item[7]
    assert len(passages) > 1
    assert all(heading == ["Page 12"] for _, heading, _ in passages)
    assert doubles == [(1,)]


async def test_a_site_a_repository_and_a_package_stand_side_by_side_in_one_database(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    with closing(Site()) as docs, closing(Portal()) as hosted, closing(PythonIndex()) as index:
        docs.put("/", "Haytools", "How to turn hay with a website.")
        hosted.repository.put("README.md", "# Haytools\n\nHow to turn hay with a repository.")
        index.publish("haytools", "1.0", description="# Haytools\n\nHow to turn hay with a package.")
        (tmp_path / "notes.md").write_text("# Notes\n\nHow to turn hay with a folder.\n")
        async with database.open() as r:
            await r.sync(str(tmp_path))
            await keep(r, docs)
            await r.sources.add(hosted.address, name="hosted", options={"api_url": f"{hosted.web}/api/v3"})
            await sync_package(r, index, "pypi:haytools")
            results = await r.runs.sync_all(["site", "hosted"])
            found = await r.search('"how to turn hay"', limit=10)
            docs.put("/", "Haytools", "How to turn hay with a better website.")
            changed = await r.sync("site")
            kinds = {source.kind for source in await r.sources.list()}
            only = await r.search('"how to turn hay"', sources=["hosted"])

    assert [getattr(result, "status", result) for result in results] == ["completed"] * 2
    assert kinds == {"web", "github", "pypi", "files"}
    assert len({hit.source for hit in found}) == 4
    assert [hit.source for hit in only] == ["hosted"]
    assert (changed.stats.updated, changed.stats.created) == (1, 0)


async def test_a_signed_push_of_a_github_has_a_worker_read_what_changed_and_an_unsigned_one_nothing(
    database: ScratchDatabase,
) -> None:
    with closing(Portal()) as hosted:
        hosted.repository.put("README.md", "# Haytools\n\nTurn the hay once.")
        told = {"html_url": f"{hosted.web}/me/it", "default_branch": "main"}
        body = json.dumps({"ref": "refs/heads/main", "repository": told}).encode()
        settings = {"port": 0, "push_key": "k" * 24, "public_url": "http://127.0.0.1:8400", "cb_failure_threshold": 5}
        async with database.open(**settings) as r, serving(r) as address, aiohttp.ClientSession() as session:
            await r.sources.add(hosted.address, name="hosted", options={"delay_s": 0})
            await r.sync("hosted")
            secret = str((await r.push.access("hosted"))[0].secret)
            hosted.repository.put("README.md", "# Haytools\n\nTurn the hay twice.")
            hosted.take()

            async def push(secret: str, delivery: str) -> int:
                signature = hmac.new(secret.encode(), body, "sha256").hexdigest()
                headers = {
                    "X-GitHub-Event": "push",
                    "X-GitHub-Delivery": delivery,
                    "X-Hub-Signature-256": f"sha256={signature}",
                    "Content-Type": "application/json",
                }
                async with session.post(f"{address}/push/github", data=body, headers=headers) as answer:
                    return answer.status

            forged = await push("a guess", "d-1")
            unasked = hosted.take()
            taken = await push(secret, "d-2")
            async with asyncio.timeout(60):
                while [run.stats.updated for run in await r.runs.list("hosted", limit=1)] != [1]:
                    await asyncio.sleep(0.01)
            [entry] = await r.search("hay")

    assert (forged, unasked, taken) == (401, [], 202)
    assert "twice" in entry.text


async def test_a_folder_is_scanned_whole_and_new_changed_touched_and_missing_files_are_told_apart(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    for name in ("same", "edited", "touched", "missing"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\nAll about {name}.\n")
    async with database.open() as r:
        await r.sources.add(str(tmp_path), name="notes")
        await r.sync("notes")
        (tmp_path / "below").mkdir()
        (tmp_path / "below" / "new.md").write_text("# new\n")
        (tmp_path / "edited.md").write_text("# edited\n\nOther words.\n")
        os.utime(tmp_path / "touched.md", ns=(1, 1))
        (tmp_path / "missing.md").unlink()
        run = await r.sync("notes")
        quiet = await r.sync("notes")

    counted = (run.stats.created, run.stats.updated, run.stats.unchanged, run.stats.deleted)
    assert counted == (1, 1, 2, 1)
    # A file that was written a moment ago may be compared by its content as well.
    assert (run.stats.requests, run.stats.stopped_at_body in (1, 2)) == (0, True)
    assert (quiet.stats.unchanged, quiet.stats.updated, quiet.stats.chunks_written) == (4, 0, 0)
