"""What may be concluded from a walk over a catalog, and what may not."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from rowen.connectors.catalog.listing import ListingPage, Row, Tokens
from rowen.connectors.catalog.options import CatalogOptions
from rowen.connectors.catalog.portal_client import MOST_UNREAD
from rowen.connectors.catalog.refresh import Refresh
from rowen.connectors.catalog.retries import MOST_ASKED
from rowen.errors import FetchTimeoutError, SourceError
from rowen.model.items import Complete, Failed, Fetched, Incomplete
from tests.conftest import ScratchDatabase
from tests.portals.oai import OaiRepository
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.shelf import Catalog, Index, KnownIndex, NamedCatalog, NamedShelf, Shelf, expected, url_of


class Forgetful(Shelf):
    """Does not show some records, though it counts them."""

    def __init__(self, catalog: Catalog, *hidden: str) -> None:
        super().__init__(catalog)
        self.hidden = hidden

    async def read_pages(self, **wanted: Any) -> AsyncGenerator[ListingPage]:
        async for page in super().read_pages(**wanted):
            yield replace(page, rows=[row for row in page.rows if row.url not in map(url_of, self.hidden)])


class Withholding(Forgetful):
    """The same, but says of each page how many of its records it could not show."""

    async def read_pages(self, **wanted: Any) -> AsyncGenerator[ListingPage]:
        async for page in super().read_pages(**wanted):
            yield replace(page, unshown=page.place is None and len(self.hidden))


class Disordered(Shelf):
    """Has another order for each page: what it shows is one of its records, whatever came before."""

    def __init__(self, catalog: Catalog, *shown: str) -> None:
        super().__init__(catalog)
        self.shown = iter(shown)

    async def read_pages(self, **wanted: Any) -> AsyncGenerator[ListingPage]:
        async for page in super().read_pages(**wanted):
            yield replace(page, rows=[self._row(next(self.shown))])


class Garbled(Shelf):
    """Shows some records in a way that does not tell which they are."""

    def __init__(self, catalog: Catalog, *garbled: str) -> None:
        super().__init__(catalog)
        self.garbled = garbled

    def _row(self, name: str) -> Row:
        if name in self.garbled:
            return Row(Failed(f"https://catalog.example/#/unread/{name}", "no object"), named=False)
        return super()._row(name)


class Unreceivable(Garbled):
    """Fails over some records in its listing; of single records it tells whether there is one."""

    def _row(self, name: str) -> Row:
        row = super()._row(name)
        return row if row.named else row._replace(received=False)

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        name = url.rpartition("/")[2]
        self._catalog.asked.append("record")
        return (
            Shelf._row(self, name) if name in self._catalog.dates else Row(Failed(url, "no such record"), absent=True)
        )


class Busy(Shelf):
    """Cannot go on at a place for now."""

    is_busy = True

    async def read_pages(
        self, *, place: Any = None, tokens: Tokens | None = None, **wanted: Any
    ) -> AsyncGenerator[ListingPage]:
        if place is not None and self.is_busy:
            raise FetchTimeoutError("It took too long.")
        async for page in super().read_pages(place=place, tokens=tokens, **wanted):
            yield page


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    catalog.fill(250)
    return catalog


@pytest.fixture
def index() -> Index:
    return Index()


async def test_items_that_are_counted_but_not_shown_are_not_deleted(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    for _ in range(3):
        await index.sync(Forgetful(catalog, "n007"), full=True)

        assert isinstance(index.ending, Incomplete)
        assert "declares 250 records, but it lists 249" in index.ending.why
    assert index.items == expected(catalog)


async def test_records_that_are_never_shown_do_not_make_a_walk_incomplete(catalog: Catalog, index: Index) -> None:
    hidden = [f"n{number:03}" for number in range(0, 250, 12)]
    await index.sync(Withholding(catalog, *hidden))
    assert isinstance(index.ending, Complete)
    del catalog.dates["n100"]
    await index.sync(Withholding(catalog, *hidden))

    assert isinstance(index.ending, Complete)
    assert index.deleted == {url_of("n100")}


class Understated(Shelf):
    """Declares one record less on each page than it counts."""

    async def read_pages(self, **wanted: Any) -> AsyncGenerator[ListingPage]:
        async for page in super().read_pages(**wanted):
            yield replace(page, declared=page.declared and page.declared - 1)


async def test_a_separate_count_overrides_the_count_of_pages(catalog: Catalog, index: Index) -> None:
    await index.sync(Understated(catalog))
    assert isinstance(index.ending, Complete)
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert catalog.asked == ["since", "count"]


async def test_a_listing_with_a_doubt_of_its_own_gets_no_second_walk(catalog: Catalog, index: Index) -> None:
    catalog.doubt_at = 245
    await index.sync(Forgetful(catalog, "n007"))

    assert isinstance(index.ending, Incomplete)
    assert (index.ending.why, catalog.asked) == ("The window is full.", ["page"] * 25)


async def test_a_repeating_listing_gets_no_second_walk_although_the_count_fell(catalog: Catalog, index: Index) -> None:
    catalog.repeats = True
    catalog.after_page = lambda following: catalog.dates.pop("n200", None)
    await index.sync(Shelf(catalog))

    assert isinstance(index.ending, Incomplete)
    assert len(catalog.asked) <= 4


async def test_identifiers_reveal_all_records_that_a_walk_did_not_show(index: Index) -> None:
    class ForgetfulNames(NamedShelf):
        """Names all records, and shows two of three."""

        async def read_pages(self, **wanted: Any) -> AsyncGenerator[ListingPage]:
            async for page in super().read_pages(**wanted):
                yield replace(page, rows=[row for number, row in enumerate(page.rows) if number % 3])

    named = NamedCatalog()
    named.fill(30)
    await index.sync(ForgetfulNames(named))

    assert isinstance(index.ending, Complete)
    assert index.items == expected(named)
    assert (named.asked.count("names"), named.asked.count("record")) == (1, 12)


async def test_identifiers_are_not_listed_if_duplicates_explain_the_count(index: Index) -> None:
    named = NamedCatalog(twice=[f"n{number:03}" for number in range(15)])
    named.fill(30)
    await index.sync(NamedShelf(named))

    assert isinstance(index.ending, Complete)
    assert "names" not in named.asked


@pytest.mark.parametrize(("goes", "miscount"), [("n005", 0), ("n200", 1)])
async def test_a_second_walk_that_is_whole_by_itself_is_proof_although_a_record_vanished(
    catalog: Catalog, index: Index, goes: str, miscount: int
) -> None:
    catalog.miscount = miscount
    catalog.after_page = lambda following: catalog.dates.pop(goes, None) if following == 20 else None
    await index.sync(Shelf(catalog))

    assert isinstance(index.ending, Complete)
    assert catalog.asked.count("page") == 50


async def test_two_walks_that_each_miss_a_different_record_prove_nothing(catalog: Catalog, index: Index) -> None:
    class Flickering(Forgetful):
        """Hides one record in its first walk, and another one in its second."""

        async def read_pages(self, **wanted: Any) -> AsyncGenerator[ListingPage]:
            self.hidden = ("n012",) if self.hidden else ("n007",)
            async for page in super().read_pages(**wanted):
                yield page

    await index.sync(Flickering(catalog))

    assert isinstance(index.ending, Incomplete)
    assert "two walks show 249 and 249" in index.ending.why
    assert (index.items, catalog.asked.count("page")) == (expected(catalog), 50)


async def test_a_listing_without_a_count_whose_last_page_came_before_proves_nothing(
    catalog: Catalog, index: Index
) -> None:
    class Looping(Shelf):
        """Shows two pages, and the second one once more."""

        async def read_pages(self, **wanted: Any) -> AsyncGenerator[ListingPage]:
            shown = [page async for page in super().read_pages(**wanted)][:2]
            for page in (*shown, replace(shown[1], place=None)):
                yield page

    await index.sync(Shelf(catalog))
    catalog.counts = False
    await index.sync(Looping(catalog), full=True)

    assert isinstance(index.ending, Incomplete)
    assert index.items == expected(catalog)


async def test_pages_that_failed_and_show_records_twice_prove_nothing_however_few_are_lacking(
    catalog: Catalog, index: Index
) -> None:
    class Stumbling(Shelf):
        """Shows one record in the place of another one, beside a page that failed."""

        async def read_pages(self, **wanted: Any) -> AsyncGenerator[ListingPage]:
            async for page in super().read_pages(**wanted):
                rows = [self._row("n001"), *page.rows[1:], self._row("n001")]
                yield replace(page, rows=rows, stumbled=True)

    catalog.size = 300
    await index.sync(Stumbling(catalog))

    assert isinstance(index.ending, Incomplete)
    assert "some of them again, and pages failed" in index.ending.why


async def test_a_repeated_last_page_does_no_harm_if_all_records_came(catalog: Catalog, index: Index) -> None:
    class LastAgain(Shelf):
        """Shows its last page once more."""

        async def read_pages(self, **wanted: Any) -> AsyncGenerator[ListingPage]:
            async for page in super().read_pages(**wanted):
                yield replace(page, place=page.place or 250)
            yield page

    await index.sync(LastAgain(catalog))

    assert isinstance(index.ending, Complete)


@pytest.mark.parametrize(("hidden", "ending"), [(1, Complete), (2, Complete), (3, Incomplete), (20, Incomplete)])
async def test_a_new_catalog_may_show_a_hundredth_less_than_it_declares(
    catalog: Catalog, index: Index, hidden: int, ending: type[Complete] | type[Incomplete]
) -> None:
    await index.sync(Forgetful(catalog, *(f"n{number:03}" for number in range(0, 12 * hidden, 12))))

    assert isinstance(index.ending, ending)


async def test_duplicates_do_not_replace_a_record_that_is_never_shown(catalog: Catalog, index: Index) -> None:
    class Doubling(Withholding):
        """Shows two records twice as well."""

        async def read_pages(self, **wanted: Any) -> AsyncGenerator[ListingPage]:
            async for page in super().read_pages(**wanted):
                yield replace(page, rows=[*page.rows, self._row("n001"), self._row("n002")])

    await index.sync(Shelf(catalog))
    catalog.size = 300
    await index.sync(Doubling(catalog, "n007"), full=True)

    assert isinstance(index.ending, Incomplete)
    assert index.items == expected(catalog)


async def test_an_unreceived_record_makes_only_the_first_walk_incomplete(catalog: Catalog, index: Index) -> None:
    endings = []
    for _ in range(2):
        await index.sync(Unreceivable(catalog, "n007"), full=True)
        endings.append(type(index.ending))

    assert endings == [Incomplete, Complete]


async def test_an_unreceived_place_causes_no_later_whole_walk(catalog: Catalog, index: Index) -> None:
    class Placed(Unreceivable):
        """The same, and can be asked again for the place of a record."""

        def _row(self, name: str) -> Row:
            row = super()._row(name)
            return row if row.named else row._replace(place=name)

        async def retry(self, place: Any) -> Any | None:
            return place

    await index.sync(Shelf(catalog))
    await index.sync(Placed(catalog, "n007"), full=True)
    assert isinstance(index.ending, Incomplete)
    catalog.asked.clear()
    await index.sync(Placed(catalog, "n007"))

    assert catalog.asked == ["since", "count"]


async def test_records_that_are_held_and_no_longer_shown_are_not_deleted(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    await index.sync(Withholding(catalog, *(f"n{number:03}" for number in range(0, 250, 12))), full=True)

    assert isinstance(index.ending, Incomplete)
    assert index.items == expected(catalog)


@pytest.mark.parametrize(
    ("goes_after", "first_look"),
    [(2, ["n0", "n1", "n2"]), (4, ["n0", "n1", "n0", "n2"])],
    ids=["on the way", "at the end"],
)
async def test_a_deletion_between_two_walks_does_not_hide_a_record_that_neither_showed(
    index: Index, goes_after: int, first_look: list[str]
) -> None:
    catalog = Catalog(size=1)
    for name in ("n0", "n1", "n2", "n3"):
        catalog.put(name)
    await index.sync(Shelf(catalog))
    catalog.after_page = lambda following: catalog.dates.pop("n1", None) if following == goes_after else None
    await index.sync(Disordered(catalog, *first_look, "n0", "n2", "n0"), full=True)

    assert isinstance(index.ending, Incomplete)
    assert url_of("n3") in index.items
    await index.sync(Shelf(catalog))
    assert index.items == expected(catalog)


async def test_a_count_that_was_always_one_too_high_lets_deletions_pass(catalog: Catalog, index: Index) -> None:
    catalog.miscount = 1
    await index.sync(Shelf(catalog))
    assert isinstance(index.ending, Complete)
    del catalog.dates["n007"]
    await index.sync(Shelf(catalog))

    assert isinstance(index.ending, Complete)
    assert index.deleted == {url_of("n007")}


async def test_a_count_that_is_as_wrong_as_before_costs_no_request(catalog: Catalog, index: Index) -> None:
    catalog.miscount = 1
    counts = []
    for _ in range(3):
        catalog.asked.clear()
        await index.sync(Shelf(catalog))
        counts.append(catalog.asked.count("count"))
        assert "page" in catalog.asked
        index.now += timedelta(days=30)

    assert isinstance(index.ending, Complete)
    # Two of each try the filter. Only the first walk looks into its shortfall.
    assert counts == [4, 2, 2]


async def test_a_count_that_becomes_wrong_is_accepted_if_no_item_is_missing(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.miscount = 1
    await index.sync(Shelf(catalog))
    assert isinstance(index.ending, Complete)
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert catalog.asked == ["since", "count"]


async def test_a_count_that_is_wrong_by_a_different_number_each_time_hides_no_deletion(
    catalog: Catalog, index: Index
) -> None:
    await index.sync(Shelf(catalog))
    catalog.miscount, catalog.size = -1, 1000
    await index.sync(Shelf(catalog))
    del catalog.dates["n003"]
    await index.sync(Shelf(catalog), die_after=1)
    catalog.miscount = 1
    await index.sync(Shelf(catalog))
    assert isinstance(index.ending, Incomplete)
    catalog.miscount = 0
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


async def test_a_list_of_changes_that_restarts_is_incomplete(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    for number in range(3):
        catalog.put(f"n00{number}", "Edited.", hours=30)
    catalog.rewinds, catalog.size = True, 1
    catalog.dates["n000"] = catalog.dates["n001"] = catalog.clock
    await index.sync(Shelf(catalog))

    assert index.fell_back
    catalog.rewinds = False
    await index.sync(Shelf(catalog))
    assert index.items == expected(catalog)


@pytest.mark.parametrize("counts", [True, False])
async def test_a_listing_that_restarts_deletes_nothing_even_if_little_is_missing(index: Index, counts: bool) -> None:
    catalog = Catalog(size=1)
    catalog.fill(3)
    await index.sync(Shelf(catalog))
    catalog.rewinds, catalog.counts = True, counts
    await index.sync(Shelf(catalog), full=True)

    assert isinstance(index.ending, Incomplete)
    assert len(index.items) == 3


async def test_a_resumed_walk_of_a_source_that_ignores_the_place_deletes_nothing(index: Index) -> None:
    catalog = Catalog(twice=["n000"])
    catalog.fill(4)
    catalog.put("n004", hours=30)
    await index.sync(Shelf(catalog))
    catalog.twice, catalog.size = [], 1
    await index.sync(Shelf(catalog), die_after=3)
    catalog.rewinds, catalog.size = True, 3
    await index.sync(Shelf(catalog))

    assert isinstance(index.ending, Incomplete)
    assert len(index.items) == 5


async def test_a_duplicate_on_a_page_explains_the_count(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.size, catalog.twice = 300, ["n001"]
    del catalog.dates["n007"]
    await index.sync(Shelf(catalog), full=True)

    assert isinstance(index.ending, Complete)
    assert index.deleted == {url_of("n007")}


async def test_a_new_unidentified_record_delays_deletions_by_one_run(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    await index.sync(Garbled(catalog, "n007"), full=True)

    assert isinstance(index.ending, Incomplete)
    assert "1 records cannot be identified" in index.ending.why
    assert index.items == expected(catalog)
    await index.sync(Garbled(catalog, "n007"))
    assert isinstance(index.ending, Complete)


async def test_a_different_unidentified_record_delays_deletions_again(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    await index.sync(Garbled(catalog, "n007"), full=True)
    await index.sync(Garbled(catalog, "n008"))

    assert isinstance(index.ending, Incomplete)
    assert index.items == expected(catalog)


async def test_missing_items_are_requested_if_records_cannot_be_received_permanently(
    catalog: Catalog, index: Index
) -> None:
    await index.sync(Shelf(catalog))
    del catalog.dates["n005"], catalog.dates["n006"]
    await index.sync(Unreceivable(catalog, "n007"), full=True)
    assert isinstance(index.ending, Incomplete)
    assert "record" not in catalog.asked
    await index.sync(Unreceivable(catalog, "n007"), full=True)

    assert isinstance(index.ending, Complete)
    assert index.deleted == {url_of("n005"), url_of("n006")}
    assert catalog.asked.count("record") == 3
    assert index.items == expected(catalog)


@pytest.mark.parametrize(("missing", "asked"), [(MOST_ASKED, MOST_ASKED), (MOST_ASKED + 1, 0)])
async def test_at_most_a_hundred_missing_items_are_requested(
    catalog: Catalog, index: Index, missing: int, asked: int
) -> None:
    await index.sync(Shelf(catalog))
    unreceivable = Unreceivable(catalog, *(f"n{number:03}" for number in range(missing)))
    for _ in range(2):
        await index.sync(unreceivable, full=True)

    assert catalog.asked.count("record") == asked
    assert isinstance(index.ending, Complete if asked else Incomplete)
    assert index.items == expected(catalog)


async def test_missing_items_are_not_requested_from_a_catalog_that_answers_for_no_record(
    catalog: Catalog, index: Index
) -> None:
    class Silent(Unreceivable):
        """The same, and does not answer for single records."""

        async def read_record(self, url: str, handle: str | None = None) -> Row | None:
            await super().read_record(url, handle)
            raise FetchTimeoutError("No answer.")

    await index.sync(Shelf(catalog))
    silent = Silent(catalog, *(f"n{number:03}" for number in range(4 * MOST_UNREAD)))
    for _ in range(2):
        await index.sync(silent, full=True)

    assert catalog.asked.count("record") == MOST_UNREAD
    assert isinstance(index.ending, Incomplete)
    assert index.items == expected(catalog)


async def test_an_unidentified_record_is_no_item_if_every_item_came(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.put("nobody")
    await index.sync(Garbled(catalog, "nobody"), full=True)

    assert isinstance(index.ending, Complete)


async def test_records_that_never_were_items_block_nothing(catalog: Catalog, index: Index) -> None:
    catalog.put("nobody")
    await index.sync(Garbled(catalog, "nobody"))
    del catalog.dates["n007"]
    await index.sync(Garbled(catalog, "nobody"))

    assert isinstance(index.ending, Complete)
    assert index.deleted == {url_of("n007")}


async def test_a_walk_resumes_after_the_catalog_was_busy(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog), die_after=20)
    place = index.cursor["place"]
    with pytest.raises(SourceError):
        await index.sync(Busy(catalog))
    assert index.cursor["place"] == place
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)
    assert isinstance(index.ending, Complete)


async def test_a_place_is_dropped_if_the_catalog_is_busy_there_twice(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog), die_after=20)
    with pytest.raises(SourceError):
        await index.sync(Busy(catalog))
    catalog.size = 300
    await index.sync(Busy(catalog))

    assert index.items == expected(catalog)


async def test_records_that_come_twice_are_observed_twice(catalog: Catalog, index: Index) -> None:
    catalog.twice = ["n001", "n002"]
    refresh = Refresh(Shelf(catalog), KnownIndex(index, None), CatalogOptions(), now=lambda: index.now)
    seen = [one.item.url async for one in refresh.pull() if isinstance(one, Fetched)]

    assert len(seen) == 252
    assert len(set(seen)) == 250


@pytest.mark.parametrize("make", [OpenDataSoftPortal, OaiRepository])
async def test_new_records_with_the_titles_of_items_are_new_items(
    database: ScratchDatabase, make: Callable[[], Any]
) -> None:
    portal = make()
    portal.fill(30)
    try:
        async with database.open() as r:
            await r.sources.add(portal.address, name="portal")
            held = (await r.sync("portal")).stats.created
            titles = [title for (title,) in database.query("select title from item order by title limit 5")]
            portal.tick(200)
            for number, title in enumerate(titles):
                _put(portal, f"new{number}", title)
            run = await r.sync("portal")

            assert (run.stats.created, run.stats.moved) == (5, 0)
            assert database.query("select count(*) from item") == [(held + 5,)]
    finally:
        portal.close()


async def test_records_that_come_back_under_new_identifiers_keep_their_history(
    database: ScratchDatabase,
) -> None:
    portal = OaiRepository()
    portal.fill(20)
    try:
        async with database.open() as r:
            await r.sources.add(portal.address, name="portal")
            await r.sync("portal")
            ids = database.query("select id from item order by id")
            portal.tick(50)
            for name, entry in list(portal.records.items()):
                portal.make(f"new-{name}", tick_h=0.001, **dict(entry.fields))
                portal.remove(name, tick_h=0.001)
            run = await r.sync("portal")

            assert (run.stats.created, run.stats.deleted) == (0, 0)
            assert run.stats.moved == len(ids)
            assert database.query("select id from item order by id") == ids
    finally:
        portal.close()


def _put(portal: Any, name: str, title: str) -> None:
    if isinstance(portal, OaiRepository):
        portal.make(name, title, description=["Quite another text."], identifier=[f"https://farm.example/{name}"])
    else:
        portal.make(name, title, description="Quite another text.")
