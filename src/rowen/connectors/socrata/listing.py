"""The catalog of a Socrata portal: all assets in the order of their identifiers, or the latest ones.

The API has no question by date. It sorts by date, though, so that what was modified since a moment is its beginning.
"""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import urlencode

from rowen.connectors.catalog.answers import UnreadableError, read_json
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import FAR_FUTURE, FAR_PAST, Page, Row, Tokens
from rowen.connectors.catalog.rows import row_of
from rowen.connectors.catalog.talk import Talk
from rowen.connectors.socrata.address import domain_of, item
from rowen.connectors.socrata.options import SocrataOptions
from rowen.connectors.socrata.record import dataset_of, identifier_of, modified_of
from rowen.errors import SourceError

__all__ = ["SocrataListing"]

WINDOW = 10_000
FIRST_ROWS = 10
"""So few of the latest assets are asked for at first: mostly, nothing has changed."""


class _Answer(NamedTuple):
    names: list[str]
    rows: list[Row]
    total: int | None
    clock: datetime


class SocrataListing:
    """The assets of a portal."""

    version = 2
    dated = True
    rising = False
    tells_deletions = False
    tokens: Tokens | None = None
    not_modified = False

    def __init__(self, talk: Talk, site: str, options: SocrataOptions) -> None:
        self._talk = talk
        self._site = site
        self._options = options
        self._url = f"{site}/api/catalog/v1"
        self._total: int | None = None

    def pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[Page]:
        """The assets: all, or those modified since."""
        if since is not None:
            return self._latest(since)
        return self._scroll(**place) if place else self._scroll()

    async def count(self, since: datetime | None = None) -> int | None:
        """How many assets there are; by date that cannot be asked, but what sorting by date amounts to is known."""
        if since is not None and since >= FAR_FUTURE:
            return 0
        if since is not None and since > FAR_PAST:
            return None
        total, self._total = self._total, None
        return total if total is not None else (await self._page(0)).total

    async def _scroll(self, *, after: str = "", seen: int = 0, by_number: bool = False) -> AsyncGenerator[Page]:
        """All assets, each page from the last identifier on: nothing that goes or comes shifts the others."""
        while True:
            if by_number:
                answer = await self._ask(offset=seen, order="createdAt ASC")
            else:
                answer = await self._ask(scroll_id=after)
            if not by_number and not _is_rising([after, *answer.names]):
                # The portal does not mind from which identifier on it was asked.
                seen, by_number = 0, True
                continue
            seen += len(answer.rows)
            after = answer.names[-1] if answer.names else after
            closed = by_number and seen >= WINDOW
            place = {"after": after, "seen": seen, "by_number": by_number}
            yield Page(
                answer.rows,
                place=place if answer.rows and not closed else None,
                declared=answer.total if by_number or seen == len(answer.rows) else None,
                clock=answer.clock,
                doubt=f"The catalog shows no more than {WINDOW} records. Nothing was deleted." if closed else None,
            )
            if closed or not answer.rows:
                return

    async def _latest(self, since: datetime) -> AsyncGenerator[Page]:
        """The assets in the order of dates, until they are older than asked for."""
        offset, most = 0, FIRST_ROWS
        while True:
            answer = await self._ask(most=most, offset=offset, order="updatedAt DESC")
            self._total = answer.total
            dates = [row.modified for row in answer.rows if row.modified is not None]
            older = any(at < since for at in dates)
            offset += len(answer.rows)
            doubt = self._doubt(dates, offset=offset, ended=older)
            ended = older or not answer.rows or doubt is not None
            yield Page(
                [row for row in answer.rows if row.modified is None or row.modified >= since],
                place=None if ended else {"offset": offset},
                clock=answer.clock,
                doubt=doubt,
            )
            if ended:
                return
            most *= 4

    def _doubt(self, dates: Sequence[datetime], *, offset: int, ended: bool) -> str | None:
        if not offset:
            return "The catalog lists nothing in the order of dates: it was walked whole instead."
        if not _is_falling(dates):
            return "The catalog does not mind the order of dates: it was walked whole instead."
        if offset >= WINDOW and not ended:
            return "More was modified than the catalog shows at once: it was walked whole instead."
        return None

    async def _ask(self, *, most: int = WINDOW, offset: int = 0, **wanted: str) -> _Answer:
        room = WINDOW - offset
        more = {**wanted, "offset": offset} if offset else wanted
        return await self._talk.page(lambda rows: self._page(min(rows, most, room), **more))

    async def _page(self, limit: int, **wanted: str | int) -> _Answer:
        only = {"only": ",".join(self._options.only)} if self._options.only else {}
        query = urlencode({"domains": domain_of(self._site), **only, "limit": limit, **wanted})
        response = await self._talk.get(f"{self._url}?{query}", could_be_less=limit > 1)
        match read_json(response.body, self._url):
            case {"error": said, **rest} if "results" not in rest:
                raise SourceError(f"{self._url} reports an error: {said}.", hint="Nothing was deleted.")
            case {"results": list(found), "resultSetSize": int(total)}:
                rows = [self._row(record) for record in found]
                return _Answer([*map(identifier_of, found)], rows, total, self._talk.clock(response))
        raise UnreadableError(f"{self._url} answered with JSON that is no list of assets.", hint="Nothing was deleted.")

    def _row(self, record: Any) -> Row:
        identifier = identifier_of(record)
        return row_of(
            record,
            lambda one: dataset_of(one, self._site, language=self._options.language),
            site=self._site,
            url=item(self._site, identifier) if identifier else None,
            modified=moment(modified_of(record)),
            language=self._options.language,
        )


def _is_rising(names: Sequence[str]) -> bool:
    told = [name for name in names if name]
    return all(one <= two for one, two in pairwise(told)) and (len(told) < 2 or not names[0] or told[0] < told[1])


def _is_falling(dates: Sequence[datetime]) -> bool:
    return all(one >= two for one, two in pairwise(dates))
