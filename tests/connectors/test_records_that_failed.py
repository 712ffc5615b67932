"""Records that failed before: asked for one by one until they can be read, for a price that does not grow."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from rowen.connectors.catalog import retries
from rowen.connectors.catalog.listing import Row
from rowen.connectors.catalog.portal_client import MOST_UNREAD, SourceBusyError
from rowen.errors import CircuitOpenError, ConnectError, FetchTimeoutError, SourceError, TlsError
from rowen.model.items import Complete, Failed
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import titles
from tests.portals.arcgis import GeoPortal, HubSite
from tests.portals.catalogs import POISON, Portal, keep, nested
from tests.portals.ckan import CkanPortal
from tests.portals.csw import CswService
from tests.portals.dcat import PagedDcat
from tests.portals.oai import OaiRepository
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.shelf import Catalog, Index, NamedCatalog, NamedShelf, Shelf, expected, url_of
from tests.portals.socrata import SocrataPortal
from tests.portals.sparql import SparqlEndpoint

KINDS: list[type[Portal]] = [
    CkanPortal,
    CswService,
    GeoPortal,
    HubSite,
    OaiRepository,
    OpenDataSoftPortal,
    PagedDcat,
    SocrataPortal,
    SparqlEndpoint,
]


def ail(portal: Portal, name: str) -> Callable[[], None]:
    """Let a record fail; returns how it recovers, without a word of its date."""
    whole = portal.records[name]
    match portal:
        case SparqlEndpoint():
            portal.broken_for = name
            return lambda: setattr(portal, "broken_for", None)
        case PagedDcat():
            inner: dict[str, Any] = {"dct:title": "The innermost"}
            for _ in range(200):
                inner = {"dct:relation": inner}
            portal.records[name] = {**whole, "dct:relation": inner}
        case CswService():
            portal.records[name] = replace(whole, extra="<gmd:broken>")
        case OaiRepository():
            portal.records[name] = replace(whole, xml="<dc><title>No & entity</title></dc>")
        case _:
            portal.records[name] = {**whole, "odd": nested(900)}
    return lambda: portal.records.update({name: whole})


@pytest.fixture(params=KINDS)
def portal(request: pytest.FixtureRequest, opened: Opened) -> Portal:
    made: type[Portal] = request.param
    return opened(made)


@pytest.mark.parametrize("is_new", [True, False])
async def test_one_clean_run_reads_what_failed_before_and_no_run_walks_for_it(
    database: ScratchDatabase, portal: Portal, is_new: bool
) -> None:
    portal.fill(120)
    async with database.open() as r:
        await keep(r, portal)
        quiet = await r.sync("portal")
        name = "new" if is_new else "d00050"
        portal.make(name, "Written while it failed")
        recover = ail(portal, name)
        broke = await r.sync("portal")
        portal.make("zz-last", "Much later", tick_h=portal.pause_h)
        failing = [await r.sync("portal") for _ in range(3)]
        recover()
        healed = await r.sync("portal")
        after = await r.sync("portal")

    assert broke.stats.failed == 1
    assert [(run.status, run.stats.failed) for run in failing] == [("completed", 1)] * 3
    # The first of them is shown the record by the list of changes, and looks for it page by page.
    assert all(run.stats.requests == quiet.stats.requests + 1 for run in (*failing[1:], healed)), (quiet, failing)
    outcome = healed.stats.created if is_new else healed.stats.updated
    assert (healed.status, healed.stats.failed, outcome) == ("completed", 0, 1)
    assert "Written while it failed" in titles(database).values()
    assert (after.stats.requests, after.stats.rows_written) == (quiet.stats.requests, 0)
    assert database.query("select count(*) from quarantine") == [(0,)]


async def test_a_record_that_is_deleted_while_it_fails_is_let_go(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00007", "Edited")
        recover = ail(portal, "d00007")
        await r.sync("portal")
        portal.make("zz-last", "Much later", tick_h=portal.pause_h)
        await r.sync("portal")
        recover()
        portal.remove("d00007")
        run = await r.sync("portal")

    assert (run.status, run.stats.deleted) == ("completed", 1)
    assert database.query("select count(*) from quarantine") == [(0,)]


@pytest.mark.parametrize("portal", [CkanPortal], indirect=True)
async def test_a_portal_that_fails_over_single_records_is_not_worn_out_by_them(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(30)
    names = [f"d{number:05}" for number in range(0, 30, 3)]
    async with database.open() as r:
        await keep(r, portal)
        for name in names:
            portal.make(name, "Edited")
            ail(portal, name)
        broke = await r.sync("portal")
        portal.make("zz-last", "Much later", tick_h=portal.pause_h)
        await r.sync("portal")
        for name in names:
            portal.records[name]["odd"] = POISON
        portal.log.clear()
        run = await r.sync("portal")

    assert (broke.stats.failed, run.status, run.stats.failed) == (10, "completed", 3)
    assert sum("package_show" in asked.path for asked in portal.log) == 3
    assert len(titles(database)) == len(portal.records)


@pytest.mark.parametrize("portal", [CkanPortal], indirect=True)
async def test_a_portal_that_is_too_busy_for_what_failed_is_asked_by_the_next_run(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00007", "Edited")
        recover = ail(portal, "d00007")
        await r.sync("portal")
        portal.make("zz-last", "Much later", tick_h=portal.pause_h)
        await r.sync("portal")
        recover()

        def busy(_: int) -> None:
            portal.failures = [web.Response(status=503)]
            portal.after_page = None

        portal.after_page = busy
        run = await r.sync("portal")
        portal.after_page = None
        healed = await r.sync("portal")

    assert (run.status, healed.status) == ("completed", "completed")
    assert "Edited" in titles(database).values()


@pytest.mark.parametrize("portal", [CkanPortal, OpenDataSoftPortal], indirect=True)
async def test_a_record_that_left_the_chosen_ones_while_it_failed_is_not_taken_for_one(
    database: ScratchDatabase, portal: Any
) -> None:
    fits, left = (
        ({"organization": {"name": "farm"}}, {"organization": {"name": "mill"}})
        if isinstance(portal, CkanPortal)
        else ({"metas": {"theme": "farm"}}, {"metas": {"theme": "mill"}})
    )
    chosen = "organization:farm" if isinstance(portal, CkanPortal) else "theme = 'farm'"
    for number in range(8):
        portal.make(f"d{number}", **fits)
    async with database.open() as r:
        await keep(r, portal, filter=chosen)
        portal.make("d3", "Edited", **fits)
        ail(portal, "d3")
        await r.sync("portal")
        portal.make("d3", "Elsewhere", **left)
        await r.sync("portal")

    assert "Elsewhere" not in titles(database).values()
    assert len(titles(database)) == 7


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog(size=100)
    catalog.fill(300)
    return catalog


async def failing_index(catalog: Catalog) -> Index:
    """An index in which all but the last records failed, and were edited after the copy was made."""
    index = Index()
    await index.sync(Shelf(catalog))
    for number in range(250):
        catalog.words[f"n{number:03}"] = "Edited."
    catalog.broken = frozenset(f"n{number:03}" for number in range(250))
    await index.sync(Shelf(catalog), full=True)
    catalog.asked.clear()
    return index


async def test_no_more_than_a_hundred_are_asked_for_and_those_first_that_were_tried_longest_ago(
    catalog: Catalog,
) -> None:
    failing = await failing_index(catalog)
    for _ in range(3):
        failing.now += timedelta(hours=1)
        await failing.sync(Shelf(catalog))

    assert catalog.asked.count("record") == 3 * retries.MOST_ASKED
    assert "page" not in catalog.asked
    assert min(one.tries for one in failing.failed.values()) == 2


async def test_one_clean_run_reads_all_that_failed_however_many_they_are(catalog: Catalog) -> None:
    failing = await failing_index(catalog)
    catalog.broken = frozenset()
    await failing.sync(Shelf(catalog))

    assert failing.items == expected(catalog)
    assert catalog.asked.count("record") == retries.MOST_ASKED
    assert isinstance(failing.ending, Complete)


async def test_what_has_failed_for_long_is_asked_for_ever_more_rarely(catalog: Catalog) -> None:
    index = Index()
    catalog.broken = frozenset({"n003"})
    asked = []
    for _ in range(365):
        await index.sync(Shelf(catalog), reconcile_days=1000)
        index.now += timedelta(days=1)
        asked.append(catalog.asked.count("record"))
        catalog.asked.clear()

    assert sum(asked[:20]) == 19  # and the first walk
    assert sum(asked[20:]) <= 365 / 5
    assert all(sum(asked[day : day + 20]) for day in range(0, 345, 20))


async def test_a_held_record_whose_edit_has_failed_for_long_is_asked_for_ever_more_rarely(catalog: Catalog) -> None:
    index = Index()
    await index.sync(Shelf(catalog))
    catalog.put("n003", "Edited.")
    catalog.broken = frozenset({"n003"})
    await index.sync(Shelf(catalog), reconcile_days=1000)
    catalog.put("n004", "Much later.", hours=1000)
    asked = []
    for _ in range(100):
        index.now += timedelta(days=1)
        catalog.asked.clear()
        await index.sync(Shelf(catalog), reconcile_days=1000)
        asked.append(catalog.asked.count("record"))

    assert 15 <= sum(asked[:20]) <= 20
    assert 80 / 20 <= sum(asked[20:]) <= 80 / 2


async def test_one_that_recovers_has_the_others_asked_for_that_would_have_to_wait(catalog: Catalog) -> None:
    index = Index()
    catalog.broken = frozenset({"n003", "n004"})
    await index.sync(Shelf(catalog))
    for url, one in index.failed.items():
        is_old = url == url_of("n003")
        index.failed[url] = one._replace(first_at=index.now - timedelta(days=300 if is_old else 0.1))
    catalog.asked.clear()
    await index.sync(Shelf(catalog))
    assert catalog.asked.count("record") == 1

    catalog.broken = frozenset()
    await index.sync(Shelf(catalog))
    assert index.items == expected(catalog)


async def test_an_identifier_does_not_prove_that_a_quarantined_copy_is_current(catalog: Catalog) -> None:
    named, index = NamedCatalog(size=100), Index()
    named.fill(30)
    await index.sync(NamedShelf(named))
    named.put("n003", "Edited.")
    named.broken = frozenset({"n003"})
    await index.sync(NamedShelf(named))
    index.failed = {url: one._replace(first_at=index.now - timedelta(days=300)) for url, one in index.failed.items()}
    named.put("n029", hours=100)
    await index.sync(NamedShelf(named))
    named.broken = frozenset()
    del named.dates["n005"]
    await index.sync(NamedShelf(named))

    assert index.items == expected(named)


async def test_a_document_that_stays_the_same_is_read_again_for_what_failed_behind_the_connector(
    catalog: Catalog,
) -> None:
    index = Index()
    catalog.size, catalog.etag = 1000, "a"
    await index.sync(Shelf(catalog, dated=False))
    index.items[url_of("n003")] = "What was held before."
    index._quarantine(url_of("n003"))
    index._quarantine(url_of("n003"))
    await index.sync(Shelf(catalog, dated=False))

    assert index.items == expected(catalog)


class Answering(Shelf):
    """Raises an error for some of the records that are fetched individually."""

    def __init__(self, catalog: Catalog, problem: SourceError, *, every: int = 1) -> None:
        super().__init__(catalog)
        self.problem, self.every, self.fetched = problem, every, 0

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        self.fetched += 1
        if self.fetched % self.every == 0:
            raise self.problem
        return await super().read_record(url, handle)


@pytest.mark.parametrize("problem", [SourceBusyError, CircuitOpenError, ConnectError, TlsError])
async def test_a_source_that_is_absent_makes_no_record_fail_and_is_asked_once(
    catalog: Catalog, problem: type[SourceError]
) -> None:
    index = Index()
    catalog.broken = frozenset({"n003", "n004", "n005"})
    await index.sync(Shelf(catalog))
    await index.sync(Shelf(catalog))
    before = dict(index.failed)
    absent = Answering(catalog, problem("The source is not there."))
    await index.sync(absent)

    assert (absent.fetched, len(before)) == (1, 3)
    assert index.failed == before


@pytest.mark.parametrize(("every", "asked"), [(1, MOST_UNREAD), (2, 12)])
async def test_a_source_that_answers_for_no_record_is_left_alone_but_one_that_answers_for_some_is_not(
    catalog: Catalog, every: int, asked: int
) -> None:
    index = Index()
    catalog.broken = frozenset(f"n{number:03}" for number in range(12))
    await index.sync(Shelf(catalog))
    await index.sync(Shelf(catalog))
    silent = Answering(catalog, FetchTimeoutError("No answer."), every=every)
    await index.sync(silent)

    assert silent.fetched == asked
    assert index.items == {url: text for url, text in expected(catalog).items() if url not in index.failed}


def garbled_url(name: str) -> str:
    return f"https://catalog.example/#/unread/{name}"


class Placed(Shelf):
    """Cannot say which record stands at some places, until they are repaired."""

    def __init__(self, catalog: Catalog, *garbled: str) -> None:
        super().__init__(catalog)
        self.garbled, self.asked_for, self.retried = set(garbled), list[str](), list[str]()
        self.problem: Exception | None = None

    def _row(self, name: str) -> Row:
        if name in self.garbled:
            return Row(Failed(garbled_url(name), "no object"), named=False, place=name)
        return super()._row(name)

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        self.asked_for.append(url)
        return await super().read_record(url, handle)

    async def retry(self, place: Any) -> Any | None:
        self.retried.append(place)
        if self.problem:
            raise self.problem
        return place if place in self.garbled else None


class PlacedAndNamed(Placed, NamedShelf):
    """The same with a roll call."""


async def two_runs(catalog: Catalog, index: Index, listing: Shelf, **options: Any) -> None:
    """The first of them reads the catalog, the second one makes whole what the first one left open."""
    for _ in range(2):
        await index.sync(listing, **options)
    catalog.asked.clear()


async def test_a_place_is_asked_for_by_itself_and_never_as_a_record(catalog: Catalog) -> None:
    index, placed = Index(), Placed(catalog, "n003")
    await two_runs(catalog, index, placed)
    placed.retried.clear()
    for _ in range(3):
        index.now += timedelta(hours=1)
        await index.sync(placed)

    assert (placed.retried, placed.asked_for) == (["n003"] * 3, [])
    assert "page" not in catalog.asked
    assert index.failed.keys() == {garbled_url("n003")}


async def test_a_failing_place_is_requested_once_in_a_run_that_also_lists_identifiers() -> None:
    catalog = NamedCatalog(nameless={"n003"})
    catalog.fill(80)
    index, placed = Index(), PlacedAndNamed(catalog, "n003")
    await two_runs(catalog, index, placed)
    placed.retried.clear()
    del catalog.dates["n010"]
    index.now += timedelta(hours=1)
    await index.sync(placed)

    assert "names" in catalog.asked
    assert placed.retried == ["n003"]


async def test_a_place_fails_again_if_the_source_is_too_busy_while_identifiers_are_listed() -> None:
    catalog = NamedCatalog(nameless={"n003"})
    catalog.fill(80)
    index, placed = Index(), PlacedAndNamed(catalog, "n003")
    await two_runs(catalog, index, placed)
    placed.problem = SourceBusyError("The source is busy.")
    del catalog.dates["n010"]
    index.now += timedelta(hours=1)
    await index.sync(placed)

    assert "names" in catalog.asked
    assert index.failed.keys() == {garbled_url("n003")}
    assert url_of("n010") not in index.items


async def test_a_place_that_has_failed_for_long_is_asked_for_ever_more_rarely(catalog: Catalog) -> None:
    index, placed = Index(), Placed(catalog, "n003")
    await two_runs(catalog, index, placed)
    placed.retried.clear()
    for _ in range(100):
        index.now += timedelta(days=1)
        await index.sync(placed, reconcile_days=1000)

    assert 15 < len(placed.retried) < 60
    assert placed.asked_for == []


async def test_a_place_that_recovers_has_the_catalog_walked_and_no_record_asked_for(catalog: Catalog) -> None:
    index, placed = Index(), Placed(catalog, "n003")
    catalog.broken = frozenset({"n100", "n101"})
    await two_runs(catalog, index, placed)
    placed.garbled.clear()
    catalog.broken = frozenset()
    placed.asked_for.clear()
    await index.sync(placed)

    assert (len(index.fell_back), placed.asked_for) == (1, [])
    assert index.items == expected(catalog)
    assert index.failed == {}


@pytest.mark.parametrize("problem", [SourceBusyError, ConnectError])
async def test_a_source_that_is_absent_is_not_walked_for_a_place(catalog: Catalog, problem: type[SourceError]) -> None:
    index, placed = Index(), Placed(catalog, "n003", "n004")
    catalog.broken = frozenset({"n100"})
    await two_runs(catalog, index, placed)
    placed.retried.clear()
    placed.asked_for.clear()
    placed.problem = problem("The source is not there.")
    before = dict(index.failed)
    await index.sync(placed)

    assert (placed.retried, index.fell_back, index.failed) == (["n003"], [], before)
    assert "page" not in catalog.asked


async def test_a_place_that_cannot_be_read_is_dropped_and_the_catalog_walked(catalog: Catalog) -> None:
    index, placed = Index(), Placed(catalog, "n003")
    await two_runs(catalog, index, placed)
    placed.problem = KeyError("offset")
    await index.sync(placed)

    assert (len(index.fell_back), isinstance(index.ending, Complete)) == (1, True)


async def test_a_record_that_the_list_of_changes_has_shown_is_not_asked_for_as_well(catalog: Catalog) -> None:
    index, placed = Index(), Placed(catalog)
    catalog.broken = frozenset({"n003"})
    await two_runs(catalog, index, placed)
    for _ in range(2):
        placed.asked_for.clear()
        catalog.put("n003", "Edited once more.")
        await index.sync(placed)
        assert placed.asked_for == []


async def test_a_record_that_cannot_be_asked_for_by_itself_has_the_catalog_walked(catalog: Catalog) -> None:
    class Mute(Shelf):
        async def read_record(self, url: str, handle: str | None = None) -> Row | None:
            return None

    index = Index()
    catalog.broken = frozenset({"n003"})
    await two_runs(catalog, index, Mute(catalog))
    catalog.broken = frozenset()
    await index.sync(Mute(catalog))

    assert "cannot be requested alone" in index.fell_back[0]
    assert index.items == expected(catalog)


async def test_without_a_place_only_a_walk_tells_and_the_longer_it_has_failed_the_rarer_it_is(
    catalog: Catalog,
) -> None:
    class Unplaced(Placed):
        def _row(self, name: str) -> Row:
            return super()._row(name)._replace(place=None)

    index, unplaced = Index(), Unplaced(catalog, "n003")
    await two_runs(catalog, index, unplaced)
    walks = []
    for _ in range(40):
        catalog.asked.clear()
        index.now += timedelta(minutes=30)
        await index.sync(unplaced)
        walks.append("page" in catalog.asked)

    # All of the first hour, and then whenever it has waited as long as it had failed.
    assert walks[:2] == [True, True]
    assert 4 <= sum(walks[2:]) <= 6
    assert unplaced.retried == []


async def test_the_place_of_a_record_that_moved_meanwhile_is_kept_as_it_is_now(catalog: Catalog) -> None:
    class Moving(Placed):
        async def retry(self, place: Any) -> Any | None:
            self.retried.append(place)
            return f"{place}+"

    index, moving = Index(), Moving(catalog, "n003")
    await two_runs(catalog, index, moving)
    moving.retried.clear()
    catalog.put("n100", "Edited.")
    await index.sync(moving)
    catalog.put("n100", "Edited again.")
    await index.sync(moving)

    first, second = moving.retried
    assert second == f"{first}+"
