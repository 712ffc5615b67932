"""Static STAC catalogs: each document by its own tokens, and doubt where one of them cannot be read."""

from collections.abc import Iterator
from typing import Any

import pytest

from rowen import Rowen, Run
from tests.conftest import House
from tests.logical import contents
from tests.portals.site import Page
from tests.portals.stac import StaticStac


@pytest.fixture
def site() -> Iterator[StaticStac]:
    site = StaticStac()
    yield site
    site.close()


async def keep(r: Rowen, site: StaticStac, **options: Any) -> Run:
    await r.add(site.address, name="site", options=options)
    run = await r.sync("site")
    site.log.clear()
    return run


def titles(house: House) -> set[str]:
    return {title for (title,) in house.query("select title from item")}


@pytest.mark.parametrize("validator", ["etag", "modified", "both"])
async def test_an_unchanged_catalog_costs_one_request_a_document_and_no_body(
    house: House, site: StaticStac, validator: str
) -> None:
    site.grow(50)
    site.validator = validator
    async with house.open() as r:
        first = await keep(r, site)
        run = await r.sync("site")

    assert (first.status, first.complete, first.tally.created, first.tally.requests) == ("completed", True, 50, 53)
    assert (run.tally.requests, run.tally.not_modified, run.tally.bytes) == (53, 53, 0)
    assert (run.complete, run.tally.unchanged, run.tally.rows_written) == (True, 50, 0)


async def test_a_change_costs_its_own_body_and_leads_on(house: House, site: StaticStac) -> None:
    site.grow(20)
    async with house.open() as r:
        await keep(r, site)
        site.collection("/a/c0/collection.json", "../new.json", title="Another title")
        site.collection("/a/new.json", title="New")
        site.catalog("/b/catalog.json", *site.documents["/b/catalog.json"][1][1:])
        run = await r.sync("site")

    assert (run.tally.updated, run.tally.created, run.tally.deleted) == (1, 1, 1)
    assert site.bodies() == ["/a/c0/collection.json", "/a/new.json", "/b/catalog.json"]


async def test_a_catalog_without_validators_is_compared_and_writes_nothing(house: House, site: StaticStac) -> None:
    site.grow(20)
    site.validator = "none"
    async with house.open() as r:
        await keep(r, site)
        run = await r.sync("site")

    assert (run.status, run.tally.not_modified, run.tally.unchanged, run.tally.rows_written) == ("completed", 0, 20, 0)


async def test_an_address_that_is_none_is_a_document_that_cannot_be_read(house: House, site: StaticStac) -> None:
    site.catalog("/catalog.json", "a.json", "http://[")
    site.collection("/a.json")
    async with house.open() as r:
        run = await keep(r, site)

    assert (run.status, run.tally.created, run.tally.failed) == ("partial", 1, 1)


BROKEN = [
    Page(status=404),
    Page(status=500),
    Page(b"<html>Maintenance</html>"),
    Page(b'{"type": "Catalog", "links": ['),
    Page(b'{"type": "Feature"}'),
    Page(b"[]"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=str)
async def test_d2_behind_a_broken_document_nothing_is_deleted(house: House, site: StaticStac, broken: Page) -> None:
    site.grow(30)
    async with house.open() as r:
        await keep(r, site)
        site.catalog("/b/catalog.json", *site.documents["/b/catalog.json"][1][3:])
        site.collection("/a/c0/collection.json", title="Another title")
        site.raw["/a/catalog.json"] = broken
        run = await r.sync("site", accept_deletions=True)
        status = house.query("select count(*) from quarantine")
        site.raw.clear()
        healed = await r.sync("site")

    assert (run.status, run.tally.deleted, run.tally.updated, run.tally.failed) == ("partial", 0, 1, 0)
    assert f"{site.url}/a/catalog.json" in (run.error or "")
    assert status == [(0,)]
    assert (healed.status, healed.tally.deleted, len(contents(house))) == ("completed", 3, 27)


async def test_d2_a_broken_collection_keeps_its_last_good_copy(house: House, site: StaticStac) -> None:
    site.grow(12)
    async with house.open() as r:
        await keep(r, site)
        site.raw["/a/c0/collection.json"] = site.raw["/b/c1/collection.json"] = Page(status=404)
        run = await r.sync("site", accept_deletions=True)
        site.raw.clear()
        healed = await r.sync("site")

    assert (run.status, run.tally.failed, run.tally.deleted) == ("partial", 2, 0)
    assert "The same goes for 1 more." in (run.error or "")
    assert (healed.status, healed.tally.unchanged, healed.tally.failed) == ("completed", 12, 0)


async def test_d2_a_catalog_that_lists_nothing_deletes_nothing(house: House, site: StaticStac) -> None:
    site.grow(12)
    async with house.open() as r:
        await keep(r, site)
        site.catalog("/catalog.json")
        run = await r.sync("site", accept_deletions=True)
        site.raw["/catalog.json"] = Page(status=404)
        gone = await r.sync("site", accept_deletions=True)

    assert (run.status, gone.status, len(contents(house))) == ("failed", "failed", 12)
    assert "lists nothing, although 12 are held" in (run.error or "")
    assert "404" in (gone.error or "")


async def test_a_killed_run_goes_on_with_what_it_has(house: House, site: StaticStac) -> None:
    site.grow(20)
    async with house.open() as r:
        await r.add(site.address, name="site")
        site.raw["/b/catalog.json"] = Page(status=500)
        await r.sync("site")
        site.raw.clear()
        site.log.clear()
        run = await r.sync("site")

    assert (run.status, run.tally.created, run.tally.unchanged) == ("completed", 10, 10)
    assert len(site.bodies()) == 11


async def test_circles_second_ways_and_foreign_schemes_are_no_trouble(house: House, site: StaticStac) -> None:
    site.catalog("/catalog.json", "a.json", f"{site.url}/a.json#x", "catalog.json", "mailto:x@y.example", "")
    site.collection("/a.json", "catalog.json", "b.json")
    site.collection("/b.json", "a.json")
    async with house.open() as r:
        run = await keep(r, site)
        again = await r.sync("site")

    assert (run.status, run.tally.created, run.tally.requests) == ("completed", 2, 3)
    assert (again.tally.not_modified, again.tally.rows_written) == (3, 0)


async def test_depth_and_number_of_documents_are_bounded(house: House, site: StaticStac) -> None:
    site.catalog("/catalog.json", "1.json")
    for number in range(1, 9):
        site.collection(f"/{number}.json", f"{number + 1}.json")
    site.collection("/9.json")
    async with house.open() as r:
        shallow = await keep(r, site, depth=2)
        await r.edit("site", options={"depth": None})
        usual = await r.sync("site")
        await r.edit("site", options={"depth": 20, "max_documents": 4})
        few = await r.sync("site", accept_deletions=True)

    assert (shallow.status, shallow.tally.created) == ("completed", 2)
    assert (usual.status, usual.tally.created) == ("completed", 4)
    assert (few.status, few.tally.deleted) == ("partial", 0)
    assert "The catalog has more than 4 documents." in (few.error or "")


async def test_the_root_may_be_a_collection_and_older_than_types(house: House, site: StaticStac) -> None:
    site.collection("/catalog.json", "old.json", title="Root")
    site.documents["/old.json"] = {"stac_version": "0.9.0", "id": "old", "title": "Old", "extent": {}}, ["odd.json"]
    site.documents["/odd.json"] = {"stac_version": "0.9.0", "id": "catalog"}, []
    async with house.open() as r:
        run = await keep(r, site)
        again = await r.sync("site")

    assert (run.status, titles(house)) == ("completed", {"Root", "Old"})
    assert (again.tally.requests, again.tally.not_modified) == (3, 3)


async def test_a_static_catalog_may_become_an_api_and_the_other_way_round(house: House, site: StaticStac) -> None:
    site.grow(4)
    async with house.open() as r:
        await keep(r, site)
        listing = b'{"collections": [{"id": "only", "title": "Only"}], "links": []}'
        site.catalog("/catalog.json", conformsTo=["https://api.stacspec.org/v1.0.0/collections"])
        site.raw["/catalog.json/collections"] = Page(listing)
        api = await r.sync("site", accept_deletions=True)
        site.grow(4)
        back = await r.sync("site", accept_deletions=True)

    assert (api.status, api.tally.created, api.tally.deleted) == ("completed", 1, 4)
    assert (back.status, back.tally.created, back.tally.deleted) == ("completed", 4, 1)
