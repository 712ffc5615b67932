"""A narrow look: just some items are looked at again, for one request each, and nothing else is concluded from it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rowen
from rowen import Fetched, NotFoundError, Unchanged, UsageError
from rowen.model.items import Checkpoint, Complete, Observation
from rowen.operations.summary import remarks
from tests.conftest import ScratchDatabase
from tests.logical import contents, index_of, titles
from tests.portals.arcgis import GeoPortal, HubSite
from tests.portals.catalogs import Portal
from tests.portals.catalogs import keep as keep_portal
from tests.portals.ckan import CkanPortal
from tests.portals.csw import CswService
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.scripted import Scripted, page, shows
from tests.portals.site import Page, Site, html, keep
from tests.portals.socrata import SocrataPortal


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(13)
    yield site
    site.close()


def cursor_of(database: ScratchDatabase) -> Any:
    return database.query("select cursor from source")[0][0]


async def test_pages_that_did_not_change_cost_one_conditional_request_each_and_no_row(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        before, due = cursor_of(database), database.query("select * from source_due")
        run = await r.sync("site", only=[f"{site.url}/p3", f"{site.url}/p7#part", f"{site.url}/p7"])

    assert sorted(site.asked()) == ["/p3", "/p7"]
    assert all(one.conditional for one in site.log if one.path != "/robots.txt")
    assert (run.status, run.mode, run.complete) == ("completed", "incremental", False)
    assert (run.stats.only, run.stats.unchanged, run.stats.rows_written, run.stats.requests) == (3, 2, 0, 3)
    assert (cursor_of(database), database.query("select * from source_due")) == (before, due)


async def test_a_page_that_changed_is_stored_and_leads_the_next_walk_on(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.put("/p3", "Page 3", "Something else entirely.", links=("/fresh",))
        site.put("/p5", "Page 5", "Also other words, which nobody asked for.")
        site.put("/fresh", "Fresh", "Only /p3 leads here.")
        narrow = await r.sync("site", only=[f"{site.url}/p3"])
        found = titles(database)
        await r.sync("site")
    rebuilt = new_database()
    async with rebuilt.open() as other:
        await keep(other, site)

    assert (narrow.stats.updated, narrow.stats.deleted, narrow.stats.created) == (1, 0, 0)
    assert f"{site.url}/fresh" not in found
    assert index_of(database) == index_of(rebuilt)
    assert f"{site.url}/fresh" in contents(database)


async def test_boilerplate_of_a_checked_page_is_learned_by_the_next_walk(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    for path in list(site.pages):
        site.alter(
            path, body=html(f"Page {path}", f"All about {path}.", "Release 1", links=("/p1", "/p2", "/p3", "/p4"))
        )
    async with database.open() as r:
        await keep(r, site)
        for path in list(site.pages):
            body = html(f"Page {path}", f"All about {path}.", "Release 2", links=("/p1", "/p2", "/p3", "/p4"))
            site.alter(path, body=body)
        await r.sync("site", only=[f"{site.url}/p1", f"{site.url}/p2"])
        await r.sync("site")
    rebuilt = new_database()
    async with rebuilt.open() as other:
        await keep(other, site)

    assert index_of(database) == index_of(rebuilt)


async def test_an_unknown_item_is_skipped_with_a_reason_and_never_requested(
    database: ScratchDatabase, site: Site
) -> None:
    site.put("/island", "Island", "Nothing leads here.")
    async with database.open() as r:
        await keep(r, site)
        run = await r.sync("site", only=[f"{site.url}/island", "not an address"])

    assert site.asked() == []
    assert (run.status, run.stats.skipped, run.stats.created) == ("completed", 2, 0)
    assert any("2 URLs left alone" in remark for remark in remarks(run))


async def test_a_missing_page_is_deleted_and_a_missing_root_deletes_nothing_else(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        del site.pages["/p9"]
        run = await r.sync("site", only=[f"{site.url}/p9"])
        del site.pages["/"]
        failed = await r.sync("site", only=[f"{site.url}/", f"{site.url}/p3"])

    assert (run.stats.deleted, len(contents(database))) == (1, 12)
    assert (failed.status, failed.stats.deleted) == ("failed", 0)


async def test_checks_of_single_pages_of_a_lost_site_delete_no_more_than_one_run(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages = {"/": site.pages["/"]}
        for number in range(1, 13):
            last = await r.sync("site", only=[f"{site.url}/p{number}"])

    assert len(contents(database)) == 13 - 6  # half of a small site
    assert last.stats.deletions_held == 6


async def test_three_pages_that_turn_into_one_are_left_alone(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        for number in (3, 4, 5):
            site.alter(f"/p{number}", body=html("Sign in", "Please sign in to go on."))
        before = index_of(database)
        run = await r.sync("site", only=[f"{site.url}/p{number}" for number in (3, 4, 5)])

    assert (run.stats.skipped, run.stats.updated) == (3, 0)
    assert index_of(database) == before


async def test_a_page_that_redirects_or_hides_is_left_to_the_next_walk(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages["/p9"] = Page(b"", status=301, headers={"Location": "/p10"})
        site.alter("/p11", body=html("Page 11", "Hidden.", head='<meta name="robots" content="noindex">'))
        site.alter("/p12", status=500)
        run = await r.sync("site", only=[f"{site.url}/p{number}" for number in (9, 11, 12)])
        held = len(contents(database))
        await r.sync("site")

    assert (run.stats.skipped, run.stats.failed, held) == (2, 1, 13)
    assert {f"{site.url}/p9", f"{site.url}/p11"}.isdisjoint(contents(database))


PORTALS: list[type[Portal]] = [CkanPortal, CswService, GeoPortal, HubSite, OpenDataSoftPortal, SocrataPortal]


@pytest.fixture(params=PORTALS)
def portal(request: pytest.FixtureRequest) -> Iterator[Portal]:
    portal: Portal = request.param()
    portal.fill(30)
    yield portal
    portal.close()


async def test_records_of_a_catalog_are_requested_individually(database: ScratchDatabase, portal: Portal) -> None:
    async with database.open() as r:
        await keep_portal(r, portal)
        quiet = await r.sync("portal")
        urls = sorted(contents(database))
        before = cursor_of(database)
        same = await r.sync("portal", only=urls[:3])
        portal.make("d00007", "Written anew")
        other = await r.sync("portal", only=urls)
        assert cursor_of(database) == before
        after = await r.sync("portal")

    assert (same.stats.requests, same.stats.unchanged, same.stats.rows_written) == (3, 3, 0)
    assert (other.stats.updated, other.stats.unchanged, other.stats.requests) == (1, len(urls) - 1, len(urls))
    assert (after.status, after.stats.updated, after.stats.rows_written) == ("completed", 0, 0)
    assert after.stats.requests <= quiet.stats.requests + 2


async def test_a_record_that_the_catalog_does_not_have_goes_without_a_walk(
    database: ScratchDatabase, portal: Portal
) -> None:
    async with database.open() as r:
        await keep_portal(r, portal)
        quiet = await r.sync("portal")
        held = set(contents(database))
        portal.remove("d00007")
        run = await r.sync("portal", only=sorted(held))
        after = await r.sync("portal")

    assert (run.stats.deleted, run.complete) == (1, False)
    assert (after.stats.requests, after.stats.deleted) == (quiet.stats.requests, 0)


async def test_an_interrupted_walk_is_resumed_after_a_narrow_look(database: ScratchDatabase) -> None:
    portal = CkanPortal()
    portal.fill(120)
    portal.page_max = 10
    portal.after(7, lambda: setattr(portal, "down", True))
    try:
        async with database.open() as r:
            await r.sources.add(portal.address, name="portal", options={})
            broken = await r.sync("portal")
            portal.down = False
            place = cursor_of(database)
            url = next(iter(contents(database)))
            narrow = await r.sync("portal", only=[url])
            kept = cursor_of(database)
            portal.log.clear()
            rest = await r.sync("portal")
    finally:
        portal.close()

    assert (broken.status, narrow.status, kept) == ("partial", "completed", place)
    assert place["place"] is not None
    assert portal.went_on(70)
    assert (rest.status, len(contents(database))) == ("completed", len(portal.names()))


async def test_files_are_checked_by_path_and_links_are_not_followed(database: ScratchDatabase, tmp_path: Path) -> None:
    root = tmp_path / "docs"
    (root / "sub").mkdir(parents=True)
    for name in ("a.md", "b.md", "sub/c.md", "sub/d.md"):
        (root / name).write_text(f"# {name}\n\nAbout {name}.\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c.md").write_text("# Not ours\n")
    async with database.open() as r:
        await r.sources.add(str(root), name="docs")
        await r.sync("docs")
        (root / "a.md").write_text("# a.md\n\nOther words.\n")
        (root / "b.md").write_text("# b.md\n\nNobody asked.\n")
        (root / "sub/d.md").unlink()
        run = await r.sync("docs", only=[str(root / "a.md"), (root / "sub/d.md").as_uri(), str(root / "no.md")])
        (root / "sub/c.md").unlink()
        (root / "sub").rmdir()
        (root / "sub").symlink_to(outside)
        linked = await r.sync("docs", only=[str(root / "sub/c.md")])

    assert (run.stats.updated, run.stats.deleted, run.stats.skipped, run.stats.bytes) == (1, 1, 1, 21)
    assert (linked.stats.deleted, linked.stats.updated) == (1, 0)


async def test_kinds_without_it_say_so(database: ScratchDatabase, kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)
    shows(Fetched(page(1)), Complete())
    async with database.open() as r:
        await r.sync("scripted:one")
        with pytest.raises(UsageError, match="kind 'scripted' can only be synced as a whole"):
            await r.sync("scripted:one", only=[page(1).url])
        with pytest.raises(NotFoundError, match="is no source yet"):
            await r.sync("scripted:two", only=[page(1).url])


class Narrow(Scripted):
    """A scripted source that tells of single items, and of more than it was asked for."""

    async def look(self, known: Any, urls: Any) -> Any:
        for observation in TOLD:
            if isinstance(observation, Exception):
                raise observation
            yield observation


TOLD: list[Observation | Exception] = []


async def test_a_connector_cannot_report_items_that_were_not_selected(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Narrow)
    shows(Fetched(page(1)), Fetched(page(2)), Checkpoint({"at": 1}), Complete())
    async with database.open() as r:
        await r.sync("scripted:one")
        TOLD[:] = [Fetched(page(3)), Unchanged(page(2).url), Checkpoint({"at": 2}), Unchanged(page(1).url), Complete()]
        run = await r.sync("scripted:one", only=[page(1).url])
        TOLD[:] = [ValueError("a bug")]
        broken = await r.sync("scripted:one", only=[page(1).url])

    assert (run.stats.unchanged, run.stats.created, run.complete) == (1, 0, False)
    assert (broken.status, cursor_of(database)) == ("failed", {"at": 1})
    assert len(contents(database)) == 2


def test_an_order_for_selected_items_is_never_a_full_run() -> None:
    from rowen.harvest.run import Order

    source = rowen.Source(1, "s", "web", "https://example.com/")

    assert Order.of(source, full=True).mode == "full"
    assert Order.of(source, full=True, only=["https://example.com/a"]).mode == "incremental"
