"""The catalog of an OpenDataSoft portal, in the order of dates: by number it shows no more than 10,000 records."""

from collections.abc import AsyncGenerator
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from rowen.connectors.base import unread_url
from rowen.connectors.catalog.chronology import DatedAnswer, DatedQuestion, chronology, retried
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.portal_client import MOST_UNREAD, PortalClient, TooMuchError
from rowen.connectors.catalog.rows import one_by_one, row_of
from rowen.connectors.opendatasoft.address import OpenDataSoftAddress, OpenDataSoftOptions
from rowen.connectors.opendatasoft.record import dataset_of, identifier_of, metas_of, steady, unwrapped
from rowen.errors import BodyTooLargeError, FetchTimeoutError, SourceError, SourceGoneError
from rowen.formats.errors import UnreadableError
from rowen.formats.json import read_json
from rowen.model.item import Failed
from rowen.net.response import Response
from rowen.net.target import redact

__all__ = ["OpenDataSoftListing"]

WINDOW = 9_900
"""A portal refuses what lies further on than 10,000 records; a page of a hundred still fits in."""


class OpenDataSoftListing(Listing):
    """The datasets of a portal. Those without a date are in every answer, since no question by date would show them."""

    version = OpenDataSoftOptions.record_version
    dated = True
    rising = True

    def __init__(self, portal: PortalClient, address: OpenDataSoftAddress, options: OpenDataSoftOptions) -> None:
        self._portal = portal
        self._address = address
        self._options = options

    def pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """The datasets, oldest first."""
        return chronology(self._ask, window=WINDOW, undated_kept=True, confirmed=True, since=since, place=place)

    async def count(self, since: datetime | None = None) -> int | None:
        """How many datasets there are."""
        url = self._url(limit=0, where=self._where(_from(since)))
        return _total(self._read(await self._portal.get(url), "a count"))

    async def record(self, url: str, handle: str | None = None) -> Row | None:
        """One dataset by the URL of its item; where a filter was chosen, by a search, which alone obeys it."""
        identifier = self._address.identifier(url)
        if self._address.item(identifier) != url:
            return None
        try:
            record = await (self._filtered(identifier) if self._options.filter else self._shown(identifier))
        except SourceGoneError:
            record = None
        if identifier_of(record) != identifier:
            return Row(Failed(url, "The portal does not show this dataset."), absent=record is None)
        return self._row(record, [])

    async def _shown(self, identifier: str) -> Any:
        response = await self._portal.get(self._address.part(identifier), once=True)
        return unwrapped(self._read(response, "a dataset"))

    async def _filtered(self, identifier: str) -> Any:
        escaped = identifier.replace("\\", "\\\\").replace('"', '\\"')
        response = await self._portal.get(self._url(limit=1, where=self._where(f'dataset_id="{escaped}"')), once=True)
        match self._read(response, "a list of datasets"):
            case {"results": [record, *_]} | {"datasets": [record, *_]}:
                return unwrapped(record)
        return None

    async def _ask(self, question: DatedQuestion) -> DatedAnswer:
        try:
            return await self._portal.page(
                lambda rows: self._page(question, rows), alive=partial(self.count, question.after)
            )
        except (UnreadableError, BodyTooLargeError) as problem:
            return await self._unread(question, problem)
        except TooMuchError as problem:
            if self._portal.unread >= MOST_UNREAD:
                raise
            return await self._unread(question, problem)

    async def _page(self, question: DatedQuestion, rows: int, *, once: bool = False) -> DatedAnswer:
        response = await self._portal.get(self._question(question, rows), could_be_less=rows > 1, once=once)
        answer = await self._answer(response, question, [])
        return answer._replace(full=len(answer.rows) >= rows)

    async def _unread(self, question: DatedQuestion, problem: SourceError) -> DatedAnswer:
        """The place of a record that cannot be received: its identifier alone mostly can.

        If not, though the portal answers, nobody knows which one it is.
        """
        try:
            response = await self._portal.get(self._question(question, 1, select="dataset_id"))
            return await self._answer(response, question, [str(problem)])
        except (UnreadableError, TooMuchError, FetchTimeoutError):
            if self._portal.unread >= MOST_UNREAD or await self.count() is None:
                raise
        second = int(question.after.timestamp()) if question.after else 0
        failed = Failed(unread_url(self._address.site, second, question.skip), str(problem), problem.hint)
        return DatedAnswer([Row(failed, named=False, received=False)], None, None, True)

    async def retry(self, place: Any) -> Any | None:
        """Ask for the dataset at a place by itself."""
        return await retried(place, partial(self._page, once=True))

    async def _answer(self, response: Response, question: DatedQuestion, problems: list[str]) -> DatedAnswer:
        data = self._read(response, "a list of datasets")
        match data:
            case {"results": list(found)} | {"datasets": list(found)}:
                rows = await one_by_one(lambda record: self._row(unwrapped(record), problems), found)
            case _:
                raise UnreadableError(f"{redact(response.url)} answered with JSON that is no list of datasets.")
        total = _total(data)
        more = total is None or question.skip + len(rows) < total
        return DatedAnswer(rows, total, self._portal.clock(response), more)

    def _row(self, record: Any, problems: list[str]) -> Row:
        identifier = identifier_of(record)
        url = self._address.item(identifier) if identifier else None
        if problems and url:
            return Row(Failed(url, problems[0]))
        return row_of(
            record,
            lambda one: dataset_of(one, self._address, language=self._options.language),
            site=self._address.site,
            steady=steady,
            url=url,
            modified=moment(metas_of(record).get("modified")),
            language=self._options.language,
            landing_page=self._options.landing_page,
        )

    def _question(self, question: DatedQuestion, rows: int, **more: str) -> str:
        dated = _from(question.after)
        where = self._where(f"({dated} or modified is null)" if dated else None)
        return self._url(limit=rows, where=where, offset=question.skip, order_by="modified", **more)

    def _where(self, dated: str | None) -> str | None:
        own = f"({self._options.filter})" if self._options.filter else None
        return " and ".join(filter(None, (dated, own))) or None

    def _url(self, **wanted: str | int | None) -> str:
        return f"{self._address.datasets}?{urlencode({name: one for name, one in wanted.items() if one is not None})}"

    def _read(self, response: Response, what: str) -> Any:
        data = read_json(response.body, redact(response.url))
        if isinstance(data, dict) and "error_code" in data:
            said = data.get("message") or data["error_code"]
            raise SourceError(f"{self._address.datasets} reports an error instead of {what}: {said}.")
        return data


def _from(since: datetime | None) -> str | None:
    return f"modified >= date'{since:%Y-%m-%dT%H:%M:%SZ}'" if since else None


def _total(data: Any) -> int | None:
    match data:
        case {"total_count": int(total)} if not isinstance(total, bool):
            return total
    return None
