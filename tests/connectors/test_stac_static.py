"""Static STAC catalogs: each document by its own tokens, and doubt where one of them cannot be read."""

from collections.abc import Iterator
from typing import Any

import pytest

from rowen import Rowen, Run
from tests.conftest import ScratchDatabase
from tests.logical import contents
from tests.portals.site import Page
from tests.portals.stac import StaticStac


@pytest.fixture
def site() -> Iterator[StaticStac]:
    site = StaticStac()
    yield site
    site.close()


async def keep(r: Rowen, site: StaticStac, **options: Any) -> Run:
    await r.sources.add(site.address, name="site", options=options)
    run = await r.sync("site")
    site.log.clear()
    return run


def titles(database: ScratchDatabase) -> set[str]:
    return {title for (title,) in database.query("select title from item")}


@pytest.mark.parametrize("validator", ["etag", "modified", "both"])
async def test_an_unchanged_catalog_costs_one_request_a_document_and_no_body(
    database: ScratchDatabase, site: StaticStac, validator: str
) -> None:
    site.grow(50)
    site.validator = validator
    async with database.open() as r:
        first = await keep(r, site)
        run = await r.sync("site")

    assert (first.status, first.complete, first.stats.created, first.stats.requests) == ("completed", True, 50, 53)
    assert (run.stats.requests, run.stats.not_modified, run.stats.bytes) == (53, 53, 0)
    assert (run.complete, run.stats.unchanged, run.stats.rows_written) == (True, 50, 0)


async def test_a_change_costs_its_own_body_and_leads_on(database: ScratchDatabase, site: StaticStac) -> None:
    site.grow(20)
    async with database.open() as r:
        await keep(r, site)
        site.collection("/a/c0/collection.json", "../new.json", title="Another title")
        site.collection("/a/new.json", title="New")
        site.catalog("/b/catalog.json", *site.documents["/b/catalog.json"][1][1:])
        run = await r.sync("site")

    assert (run.stats.updated, run.stats.created, run.stats.deleted) == (1, 1, 1)
    assert site.bodies() == ["/a/c0/collection.json", "/a/new.json", "/b/catalog.json"]


async def test_a_catalog_without_validators_is_compared_and_writes_nothing(
    database: ScratchDatabase, site: StaticStac
) -> None:
    site.grow(20)
    site.validator = "none"
    async with database.open() as r:
        await keep(r, site)
        run = await r.sync("site")

    assert (run.status, run.stats.not_modified, run.stats.unchanged, run.stats.rows_written) == ("completed", 0, 20, 0)


async def test_an_address_that_is_none_is_a_document_that_cannot_be_read(
    database: ScratchDatabase, site: StaticStac
) -> None:
    site.catalog("/catalog.json", "a.json", "http://[")
    site.collection("/a.json")
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.status, run.stats.created, run.stats.failed) == ("partial", 1, 1)


BROKEN = [
    Page(status=404),
    Page(status=500),
    Page(b"<html>Maintenance</html>"),
    Page(b'{"type": "Catalog", "links": ['),
    Page(b'{"type": "Feature"}'),
    Page(b"[]"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=str)
async def test_d2_behind_a_broken_document_nothing_is_deleted(
    database: ScratchDatabase, site: StaticStac, broken: Page
) -> None:
    site.grow(30)
    async with database.open() as r:
        await keep(r, site)
        site.catalog("/b/catalog.json", *site.documents["/b/catalog.json"][1][3:])
        site.collection("/a/c0/collection.json", title="Another title")
        site.raw["/a/catalog.json"] = broken
        run = await r.sync("site", accept_deletions=True)
        status = database.query("select count(*) from quarantine")
        site.raw.clear()
        healed = await r.sync("site")

    assert (run.status, run.stats.deleted, run.stats.updated, run.stats.failed) == ("partial", 0, 1, 0)
    assert f"{site.url}/a/catalog.json" in (run.error or "")
    assert status == [(0,)]
    assert (healed.status, healed.stats.deleted, len(contents(database))) == ("completed", 3, 27)


async def test_d2_a_broken_collection_keeps_its_last_good_copy(database: ScratchDatabase, site: StaticStac) -> None:
    site.grow(12)
    async with database.open() as r:
        await keep(r, site)
        site.raw["/a/c0/collection.json"] = site.raw["/b/c1/collection.json"] = Page(status=404)
        run = await r.sync("site", accept_deletions=True)
        site.raw.clear()
        healed = await r.sync("site")

    assert (run.status, run.stats.failed, run.stats.deleted) == ("partial", 2, 0)
    assert "The same goes for 1 more." in (run.error or "")
    assert (healed.status, healed.stats.unchanged, healed.stats.failed) == ("completed", 12, 0)


async def test_d2_a_catalog_that_lists_nothing_deletes_nothing(database: ScratchDatabase, site: StaticStac) -> None:
    site.grow(12)
    async with database.open() as r:
        await keep(r, site)
        site.catalog("/catalog.json")
        run = await r.sync("site", accept_deletions=True)
        site.raw["/catalog.json"] = Page(status=404)
        gone = await r.sync("site", accept_deletions=True)

    assert (run.status, gone.status, len(contents(database))) == ("failed", "failed", 12)
    assert "lists nothing, although 12 items are stored" in (run.error or "")
    assert "404" in (gone.error or "")


async def test_a_killed_run_goes_on_with_what_it_has(database: ScratchDatabase, site: StaticStac) -> None:
    site.grow(20)
    async with database.open() as r:
        await r.sources.add(site.address, name="site")
        site.raw["/b/catalog.json"] = Page(status=500)
        await r.sync("site")
        site.raw.clear()
        site.log.clear()
        run = await r.sync("site")

    assert (run.status, run.stats.created, run.stats.unchanged) == ("completed", 10, 10)
    assert len(site.bodies()) == 11


async def test_circles_second_ways_and_foreign_schemes_are_no_trouble(
    database: ScratchDatabase, site: StaticStac
) -> None:
    site.catalog("/catalog.json", "a.json", f"{site.url}/a.json#x", "catalog.json", "mailto:x@y.example", "")
    site.collection("/a.json", "catalog.json", "b.json")
    site.collection("/b.json", "a.json")
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("site")

    assert (run.status, run.stats.created, run.stats.requests) == ("completed", 2, 3)
    assert (again.stats.not_modified, again.stats.rows_written) == (3, 0)


async def test_depth_and_number_of_documents_are_bounded(database: ScratchDatabase, site: StaticStac) -> None:
    site.catalog("/catalog.json", "1.json")
    for number in range(1, 9):
        site.collection(f"/{number}.json", f"{number + 1}.json")
    site.collection("/9.json")
    async with database.open() as r:
        shallow = await keep(r, site, depth=2)
        await r.sources.edit("site", options={"depth": None})
        usual = await r.sync("site")
        await r.sources.edit("site", options={"depth": 20, "max_documents": 4})
        few = await r.sync("site", accept_deletions=True)

    assert (shallow.status, shallow.stats.created) == ("completed", 2)
    assert (usual.status, usual.stats.created) == ("completed", 4)
    assert (few.status, few.stats.deleted) == ("partial", 0)
    assert "The catalog has more than 4 documents." in (few.error or "")


async def test_the_root_may_be_a_collection_and_older_than_types(database: ScratchDatabase, site: StaticStac) -> None:
    site.collection("/catalog.json", "old.json", title="Root")
    site.documents["/old.json"] = {"stac_version": "0.9.0", "id": "old", "title": "Old", "extent": {}}, ["odd.json"]
    site.documents["/odd.json"] = {"stac_version": "0.9.0", "id": "catalog"}, []
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("site")

    assert (run.status, titles(database)) == ("completed", {"Root", "Old"})
    assert (again.stats.requests, again.stats.not_modified) == (3, 3)


async def test_a_static_catalog_may_become_an_api_and_the_other_way_round(
    database: ScratchDatabase, site: StaticStac
) -> None:
    site.grow(4)
    async with database.open() as r:
        await keep(r, site)
        listing = b'{"collections": [{"id": "only", "title": "Only"}], "links": []}'
        site.catalog("/catalog.json", conformsTo=["https://api.stacspec.org/v1.0.0/collections"])
        site.raw["/catalog.json/collections"] = Page(listing)
        api = await r.sync("site", accept_deletions=True)
        site.grow(4)
        back = await r.sync("site", accept_deletions=True)

    assert (api.status, api.stats.created, api.stats.deleted) == ("completed", 1, 4)
    assert (back.status, back.stats.created, back.stats.deleted) == ("completed", 4, 1)
