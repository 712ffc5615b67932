"""One walk over a listing: yields each record once, and requests the next page while a page is processed."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rowen.connectors.catalog.listing import ListingPage, Row, Tokens
from rowen.connectors.catalog.records import HashSet, settled
from rowen.connectors.catalog.state import RunState
from rowen.errors import RowenError
from rowen.model.items import Document, Fetched, Unchanged

log = logging.getLogger(__name__)
# A page without a new record may follow an insertion before it; two consecutive ones mean that the listing repeats.
_MOST_STALE = 2
# A working filter returns a few records with wrong dates; a source that ignores the filter returns all old records.
_LIE_SHARE = 0.5
# Protocols whose dates have no time may return the whole day.
_TOLERANCE = timedelta(days=1)


@dataclass(slots=True)
class Walk:
    """One walk over a listing, and the signs that it may be incomplete.

    Position: `place` is the place of the next page. `since` is set for a list of changes.

    Counts: `declared` is the source's last count, `received` the number of received records, `distinct` the number of
    different identifiers. `unshown` counts records that are declared but missing from an answer, `unreceived` counts
    records without a row.

    Order: `newest` is the latest date so far; `ascending` is set as long as dates rise. `beginning` contains the URLs
    of the first page.

    Doubts: `doubt` is the reason, given by the listing, why the walk proves nothing. The listing `repeated` pages, or
    `restarted` because the source ignores the place. `shrank` is set if the declared count decreased, `stumbled` if
    the source failed on a page. `disobeyed` is set if records of a list of changes are older than requested;
    `unfiltered` is the error if the request with a date failed.
    """

    run: RunState
    pages: AsyncGenerator[ListingPage]
    since: datetime | None = None
    place: Any = None
    declared: int | None = None
    received: int = 0
    distinct: int = 0
    unshown: int = 0
    unreceived: int = 0
    newest: datetime | None = None
    ascending: bool = True
    beginning: list[str] = field(default_factory=list)
    doubt: str | None = None
    repeated: bool = False
    restarted: bool = False
    shrank: bool = False
    stumbled: bool = False
    disobeyed: bool = False
    unfiltered: str | None = None
    _own: HashSet | None = None  # None in the first walk, in which `run.seen` contains the same URLs
    _marks: set[int] = field(default_factory=set)  # hashes of the pages and places seen so far
    _contents: HashSet = field(default_factory=HashSet)
    _stale: int = 0
    _before: int = 0

    @classmethod
    def begin(
        cls, run: RunState, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> "Walk":
        """Begin a walk over the listing of a run."""
        pages = run.listing.read_pages(since=since, place=place, tokens=tokens)
        return cls(run, pages, since, _own=HashSet() if len(run.seen) else None)

    async def rows(self) -> AsyncGenerator[tuple[list[Row], list[Row]]]:
        """Yield for each page its new records, and the records that this walk has already shown."""
        full = self.run.cursor.page if self.since else None

        def is_last(page: ListingPage) -> bool:
            """Return whether a declared count may end the listing: only if the page is smaller than a full page."""
            return page.ends_by_count and (full is None or len(page.rows) < full)

        async with aclosing(_prefetch(self.pages, until=is_last)) as pages:
            async for page in pages:
                yield self._take(page, await settled(page.rows, self.run.known))
                if not self.disobeyed and page.place is not None:
                    is_known = self._is_known(json.dumps(page.place, sort_keys=True, default=str))
                    self.repeated = is_known or self._stale >= _MOST_STALE
                if self.disobeyed or (page.place is not None and self.repeated):
                    return

    def join(self, other: "Walk") -> None:
        """Add the doubts of `other`, another part of the same walk."""
        self.doubt = self.doubt or other.doubt
        self.unshown += other.unshown
        self.run.page = max(self.run.page, self._before)
        self.repeated = self.repeated or other.repeated
        # A source that ignores the place shows its beginning in both parts.
        self.restarted = self.restarted or other.restarted or _begins_as(other.beginning, self.beginning)
        self.shrank = self.shrank or other.shrank
        self.stumbled = self.stumbled or other.stumbled

    def _take(self, page: ListingPage, rows: list[Row]) -> tuple[list[Row], list[Row]]:
        run = self.run
        if page.declared is not None:
            self.shrank = self.shrank or page.declared < (self.declared or 0)
            self.declared = page.declared
        run.clock = run.clock or page.clock
        self.doubt = self.doubt or page.doubt
        self.place = page.place
        self.received += len(rows)
        if rows:
            run.page, self._before = max(run.page, self._before), len(rows)
        self.unshown += page.unshown
        self.unreceived += page.unreceived
        self.stumbled = self.stumbled or page.stumbled
        urls = [row.url for row in rows]
        is_new = [run.seen.add(url) for url in urls]
        fresh, again = [row for row, new in zip(rows, is_new, strict=True) if new], list[Row]()
        self.distinct += len(fresh) if self._own is None else sum(map(self._own.add, urls))
        for row, new in zip(rows, is_new, strict=True):
            is_repeat = self._own is None and not new
            # An unchanged record does not contradict an earlier record with the same identifier.
            if is_repeat and not isinstance(row.seen, Unchanged):
                again.append(row)
            run.shown.shared += new and row.shared and isinstance(row.seen, Fetched | Unchanged)
            if isinstance(row.seen, Fetched) and isinstance(row.seen.item, Document):
                is_other = self._contents.add(f"{row.url} {row.seen.item.record_hash.hex()}")
                if is_other and is_repeat:
                    run.shown.dropped += 1
                    log.warning("another record has the identifier of %r: %s", row.seen.item.title, row.url)
        # If a page begins like the first page, the source ignores the place.
        self.restarted = self.restarted or (len(urls) >= len(self.beginning) and _begins_as(urls, self.beginning))
        self.beginning = self.beginning or urls
        is_shown = self._is_known(frozenset(urls))
        # If the last page has the same records as an earlier page, the listing has not shown its end: to repeat them,
        # as many would have to be inserted between two requests. In the middle of a listing, a kind may handle
        # repetitions itself.
        self.repeated = self.repeated or (page.place is None and is_shown and len(rows) > 1)
        # In a second walk no record is new: only a whole repeated page shows a repetition.
        is_stale = not fresh and (self._own is None or is_shown)
        self._stale = self._stale + 1 if is_stale else 0
        dates = [row.modified for row in rows if row.modified is not None]
        ordered = [*([self.newest] if self.newest else []), *dates]
        self.ascending = self.ascending and ordered == sorted(ordered)
        self.newest = max(ordered, default=None)
        self.disobeyed = self.since is not None and (
            bool(dates) and sum(at < self.since - _TOLERANCE for at in dates) >= _LIE_SHARE * len(dates)
        )
        return fresh, again

    def _is_known(self, part: object) -> bool:
        """Return whether a page or place was already seen in this walk, and remember it."""
        mark = hash(part)
        is_known = mark in self._marks
        self._marks.add(mark)
        return is_known


def _begins_as(page: list[str], first: list[str]) -> bool:
    """Return whether a page begins like the first page; False for a page of one record, which may be listed twice."""
    common = min(len(page), len(first))
    return len(page) > 1 and common > 0 and page[:common] == first[:common]


async def _prefetch(
    pages: AsyncGenerator[ListingPage], *, until: Callable[[ListingPage], bool]
) -> AsyncGenerator[ListingPage]:
    """Yield the pages; request the next page while the current one is processed."""
    async with aclosing(pages):
        coming = asyncio.ensure_future(anext(pages, None))
        try:
            while (page := await coming) is not None:
                if until(page):
                    yield page
                    return
                coming = asyncio.ensure_future(anext(pages, None))
                yield page
        finally:
            coming.cancel()
            with suppress(asyncio.CancelledError, RowenError):
                await coming
