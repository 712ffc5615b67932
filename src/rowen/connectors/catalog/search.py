"""The listings of JSON search APIs; each kind defines how its records are requested, identified and mapped."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rowen.connectors.base import unread_url
from rowen.connectors.catalog.chronology import DatedAnswer, DatedQuestion, retried
from rowen.connectors.catalog.dataset import Dataset
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import Listing, Row
from rowen.connectors.catalog.options import CatalogOptions
from rowen.connectors.catalog.portal_client import MOST_UNREAD, UNRECEIVED, PortalClient
from rowen.connectors.catalog.records import Json, row_of, unreceived
from rowen.errors import SourceError
from rowen.model.items import Failed


class SearchListing(Listing):
    """The records of a search API, for the portal at `site`."""

    dated = True

    def __init__(
        self, portal: PortalClient, site: str, options: CatalogOptions, *, steady: Callable[[Json], Json]
    ) -> None:
        self._portal = portal
        self._site = site
        self._options = options
        self._steady = steady

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        """Request one record by the URL of its item; return None if the URL does not belong to this search.

        A record that the search does not return is a `Failed` row.
        """
        identifier = self._parse_url(url)
        if self._build_url(identifier) != url:
            return None
        records = await self._find(identifier)
        record = next((record for record in records if self._identify(record) == identifier), None)
        if record is None:
            return Row(Failed(url, "The search does not return this record."), absent=not records)
        return self._row(record)

    def _row(self, record: Any) -> Row:
        identifier = self._identify(record)
        url = self._build_url(identifier) if identifier else None
        return row_of(
            record,
            lambda content: self._map(content, url or ""),
            site=self._site,
            url=url,
            steady=self._steady,
            modified=moment(self._date(record)),
            options=self._options,
        )

    def _build_url(self, identifier: str) -> str:
        """Return the URL of an item."""
        raise NotImplementedError

    def _parse_url(self, url: str) -> str:
        """Return the identifier in the URL of an item."""
        raise NotImplementedError

    def _identify(self, record: Any) -> str:
        """Return the identifier of a record; empty if the record has none."""
        raise NotImplementedError

    def _date(self, record: Any) -> Any:
        """Return the modification date of a record in its original form."""
        raise NotImplementedError

    def _map(self, record: Json, url: str) -> Dataset:
        """Return the dataset of a record."""
        raise NotImplementedError

    async def _find(self, identifier: str) -> list[Any]:
        """Request one record; return all records of the answer, none if the source does not have it."""
        raise NotImplementedError


class DatedSearch(SearchListing):
    """A search that is read in the order of dates by means of `chronology`."""

    rising = True

    async def _request(self, question: DatedQuestion, rows: int, *, once: bool = False) -> DatedAnswer:
        """Request one page of `rows` records."""
        raise NotImplementedError

    async def _check(self, question: DatedQuestion) -> object:
        """Send a cheap request that no single record can cause to fail."""
        return await self.count(question.after)

    async def _read_page(self, question: DatedQuestion) -> DatedAnswer:
        try:
            return await self._portal.request_page(
                partial(self._request, question), alive=partial(self._check, question)
            )
        except UNRECEIVED as problem:
            return await self._pass(question, problem)

    async def _pass(self, question: DatedQuestion, problem: SourceError) -> DatedAnswer:
        """Return a row for a record that could not be received, so that the walk continues after it."""
        if self._portal.unread >= MOST_UNREAD:
            raise problem
        second = int(question.after.timestamp()) if question.after else 0
        url = unread_url(self._site, second, question.skip)
        return DatedAnswer([unreceived(url, problem)], None, None, True)

    async def retry(self, place: Any) -> Any | None:
        """Request the record at a place again, together with the preceding records of its second."""
        return await retried(place, partial(self._request, once=True))
