"""The items of ArcGIS in the order of dates: by number it shows no more than 10,000 of them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import Any

from rowen.connectors.arcgis.address import ArcGisOptions
from rowen.connectors.arcgis.dialects import Found, SearchDialect, read
from rowen.connectors.arcgis.record import dataset_of, facts_of, identifier_of, steady
from rowen.connectors.base import unread_url
from rowen.connectors.catalog.chronology import DatedAnswer, DatedQuestion, chronology, retried
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import FAR_FUTURE, Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.portal_client import MOST_UNREAD, PortalClient, TooMuchError
from rowen.connectors.catalog.rows import one_by_one, row_of
from rowen.errors import BodyTooLargeError, SourceError, SourceGoneError
from rowen.formats.errors import UnreadableError
from rowen.model.item import Failed
from rowen.net.response import Response
from rowen.net.target import redact

__all__ = ["ArcGisListing"]

WINDOW = 9_900
"""ArcGIS refuses what lies further on than 10,000 items; a page of a hundred still fits in."""


class ArcGisListing(Listing):
    """The items of a site or a search."""

    version = ArcGisOptions.record_version
    dated = True
    rising = True

    def __init__(self, portal: PortalClient, dialect: SearchDialect, options: ArcGisOptions) -> None:
        self._portal = portal
        self._dialect = dialect
        self._options = options

    async def pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """The items, oldest first. Whose they are is looked at before all of them, or many changes, are believed."""
        checked = since is None
        if checked:
            await self._dialect.check(self._portal)
        found = chronology(self._ask, window=WINDOW, undated_kept=False, since=since, place=place)
        async with aclosing(found) as pages:
            async for page in pages:
                if not checked and page.place is not None:
                    await self._dialect.check(self._portal)
                    checked = True
                yield page

    async def count(self, since: datetime | None = None) -> int | None:
        """How many items there are; None if there are more than ArcGIS counts."""
        response = await self._portal.get(self._dialect.ask(since, skip=0, rows=1))
        return self._found(response).total

    async def record(self, url: str, handle: str | None = None) -> Row | None:
        """One item by its URL, as this search shows it."""
        identifier = self._dialect.identifier(url)
        if self._dialect.item(identifier) != url:
            return None
        try:
            response = await self._portal.get(self._dialect.ask_for(identifier), once=True)
            found = self._dialect.understand_one(read(response.body, redact(response.url)))
        except SourceGoneError:
            found = []
        record = next((one for one in found if identifier_of(one) == identifier), None)
        if record is None:
            return Row(Failed(url, "ArcGIS does not show this item."), absent=not found)
        return self._row(record)

    async def _ask(self, question: DatedQuestion) -> DatedAnswer:
        try:
            return await self._portal.page(
                lambda rows: self._page(question, rows), alive=partial(self._be_there, question)
            )
        except (UnreadableError, BodyTooLargeError, TooMuchError) as problem:
            if self._portal.unread >= MOST_UNREAD:
                raise
            return self._unread_answer(question, problem)

    async def _be_there(self, question: DatedQuestion) -> None:
        """Request what no item can obstruct: a date filter, or where dates are not used, the first item."""
        try:
            await self._portal.get(self._dialect.ask(FAR_FUTURE, skip=0, rows=1))
        except SourceError:
            if question.after is not None:
                raise
            await self.count()

    def _unread_answer(self, question: DatedQuestion, problem: SourceError) -> DatedAnswer:
        """The place of an item that cannot be received. Nobody knows which one it is."""
        second = int(question.after.timestamp()) if question.after else 0
        failed = Failed(unread_url(self._dialect.url, second, question.skip), str(problem), problem.hint)
        return DatedAnswer([Row(failed, named=False, received=False)], None, None, True)

    async def retry(self, place: Any) -> Any | None:
        """Request the item at one position by itself."""
        return await retried(place, partial(self._page, once=True))

    async def _page(self, question: DatedQuestion, rows: int, *, once: bool = False) -> DatedAnswer:
        url = self._dialect.ask(question.after, skip=question.skip, rows=rows)
        response = await self._portal.get(url, could_be_less=rows > 1, once=once)
        found = self._found(response)
        found_rows = await one_by_one(self._row, found.records)
        full = len(found_rows) >= rows
        return DatedAnswer(found_rows, found.total, self._portal.clock(response), found.more, full=full)

    def _found(self, response: Response) -> Found:
        return self._dialect.understand(read(response.body, redact(response.url)))

    def _row(self, record: Any) -> Row:
        identifier = identifier_of(record)
        url = self._dialect.item(identifier) if identifier else None
        return row_of(
            record,
            lambda one: dataset_of(one, url or "", language=self._options.language),
            site=self._dialect.url,
            steady=steady,
            url=url,
            modified=moment(facts_of(record).get("modified")),
            language=self._options.language,
            landing_page=self._options.landing_page,
        )
