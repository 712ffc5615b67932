"""One pass over a listing: each record once, the next page on its way while this one is dealt with."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from rowen.connectors.base import Known
from rowen.connectors.catalog.listing import ListingPage, Row
from rowen.connectors.catalog.records import HashSet, UrlSet, settled
from rowen.errors import RowenError
from rowen.model.items import Document, Fetched, Unchanged

__all__ = ["Walk"]

log = logging.getLogger(__name__)

# One page without a new record happens where records were inserted further up; two in a row are the listing again.
_MOST_STALE = 2
# Half: a few records with wrong dates slip through an honest filter, an ignored one lets all old records through.
_LIE_SHARE = 0.5
# Protocols that know days only may answer with the whole day.
_TOLERANCE = timedelta(days=1)


@dataclass(slots=True)
class Walk:
    """The pages of a listing, and what is known of them so far.

    `received` counts records, `distinct` those of them that are not the same, `unshown` those that are counted and were
    not shown when asked for, `unreceived` those that have no row since they could not be received, `fresh` those that
    this run had not seen, `shared` those that share their identifiers, `dropped` those that came again and say
    something else than the first. `repeated` tells that pages came again, `restarted` that a page began with all of the
    first one, `disobeyed` that records are older than what was asked for; `newest` is the latest date among them.
    `ascending` tells that the oldest came first, `shrank` that the source declared fewer records on the way than
    before, `stumbled` that the source failed over pages, `refused` that not even a first page came. `reached` is the
    last place to go on at, `again` are the records of the last page that this walk has shown before, `beginning` are
    the URLs of the first page.

    `most` is the largest number that the source declared on the way. `unfiltered` tells why a list of changes could not
    be had, although the source answers other questions.

    `followed` is how many records the largest page had that others came after, `full` the same of the last walk over
    the whole catalog: a page that is as full may have another one behind it, whatever the count says.
    """

    pages: AsyncGenerator[ListingPage]
    seen: UrlSet
    known: Known
    since: datetime | None = None
    full: int | None = None
    declared: int | None = None
    most: int = 0
    clock: datetime | None = None
    newest: datetime | None = None
    place: Any = None
    reached: Any = None
    doubt: str | None = None
    received: int = 0
    followed: int = 0
    unshown: int = 0
    unreceived: int = 0
    fresh: int = 0
    shared: int = 0
    dropped: int = 0
    again: list[Row] = field(default_factory=list)
    beginning: list[str] = field(default_factory=list)
    repeated: bool = False
    restarted: bool = False
    disobeyed: bool = False
    shrank: bool = False
    stumbled: bool = False
    refused: bool = False
    unfiltered: str | None = None
    ascending: bool = True
    _is_first: bool = field(init=False)
    _places: set[int] = field(default_factory=set)
    _shown: set[int] = field(default_factory=set)
    _said: HashSet = field(default_factory=HashSet)
    _own: HashSet | None = None
    _stale: int = 0
    _before: int = 0

    def __post_init__(self) -> None:
        self._is_first = not len(self.seen)
        self._own = None if self._is_first else HashSet()

    @property
    def distinct(self) -> int:
        """How many records came, each counted once."""
        return self.fresh if self._own is None else len(self._own)

    async def rows(self) -> AsyncGenerator[list[Row]]:
        """The records of each page that were not seen before."""
        async with aclosing(_ahead(self.pages, until=self._is_last)) as pages:
            async for received in pages:
                page = replace(received, rows=await settled(received.rows, self.known))
                fresh = self._take(page)
                yield fresh
                if self.disobeyed or self._is_endless(page):
                    return

    def _is_last(self, page: ListingPage) -> bool:
        """Whether the count is to be believed that says so: a page that could have held more would have shown more."""
        return page.ends_by_count and (self.full is None or len(page.rows) < self.full)

    def join(self, other: "Walk") -> None:
        """Take over what another part of the same walk leaves in doubt."""
        self.doubt = self.doubt or other.doubt
        self.unshown += other.unshown
        self.followed = max(self.followed, self._before, other.followed)
        self.repeated = self.repeated or other.repeated
        # A source that ignores the place shows its beginning in both parts.
        self.restarted = self.restarted or other.restarted or _begins_as(other.beginning, self.beginning)
        self.shrank = self.shrank or other.shrank
        self.stumbled = self.stumbled or other.stumbled

    def _take(self, page: ListingPage) -> list[Row]:
        if page.declared is not None:
            self.shrank = self.shrank or page.declared < (self.declared or 0)
            self.declared = page.declared
            self.most = max(self.most, page.declared)
        self.clock = self.clock or page.clock
        self.doubt = self.doubt or page.doubt
        self.place = page.place
        self.reached = self.reached if page.place is None else page.place
        self.received += len(page.rows)
        if page.rows:
            self.followed, self._before = max(self.followed, self._before), len(page.rows)
        self.unshown += page.unshown
        self.unreceived += page.unreceived
        self.stumbled = self.stumbled or page.stumbled
        is_new = [self.seen.add(row.url) for row in page.rows]
        fresh = [row for row, new in zip(page.rows, is_new, strict=True) if new]
        self.again = [row for row, new in zip(page.rows, is_new, strict=True) if self._is_again(row, new=new)]
        self._count_namesakes(page.rows, is_new)
        self._compare_urls([row.url for row in page.rows])
        is_shown = self._is_shown(page)
        # A listing that ends with several records of one page before has not shown its end: to show them once more, as
        # many would have to be inserted between two requests. Further up, a kind may know a way round.
        self.repeated = self.repeated or (page.place is None and is_shown and len(page.rows) > 1)
        # On a second look no record is new: there only a page as a whole tells.
        is_stale = not fresh and (self._is_first or is_shown)
        self._stale = self._stale + 1 if is_stale else 0
        self.fresh += len(fresh)
        dates = [row.modified for row in page.rows if row.modified is not None]
        ordered = [*([self.newest] if self.newest else []), *dates]
        self.ascending = self.ascending and ordered == sorted(ordered)
        self.newest = max(ordered, default=None)
        self.disobeyed = self.since is not None and _is_older(dates, self.since)
        return fresh

    def _is_again(self, row: Row, *, new: bool) -> bool:
        """Whether a record is shown once more; the one that is held says nothing against another one before it."""
        return self._is_first and not new and not isinstance(row.seen, Unchanged)

    def _count_namesakes(self, rows: Sequence[Row], is_new: list[bool]) -> None:
        """Count what shares its identifier, and what another record of this walk hides, which is in no way the same."""
        for row, new in zip(rows, is_new, strict=True):
            self.shared += new and row.shared and isinstance(row.seen, Fetched | Unchanged)
            if isinstance(row.seen, Fetched) and isinstance(row.seen.item, Document):
                is_other = self._said.add(f"{row.url} {row.seen.item.record_hash.hex()}")
                if is_other and not new and self._is_first:
                    self.dropped += 1
                    log.warning("another record has the identifier of %r: %s", row.seen.item.title, row.url)

    def _compare_urls(self, urls: list[str]) -> None:
        """Count what is new in this walk, and see whether the listing begins anew: its source ignores the place."""
        if self._own is not None:
            for url in urls:
                self._own.add(url)
        self.restarted = self.restarted or (len(urls) >= len(self.beginning) and _begins_as(urls, self.beginning))
        self.beginning = self.beginning or urls

    def _is_shown(self, page: ListingPage) -> bool:
        """Whether this walk has shown the same records as one page before."""
        shown = hash(frozenset(row.url for row in page.rows))
        is_shown = shown in self._shown
        self._shown.add(shown)
        return is_shown

    def _is_endless(self, page: ListingPage) -> bool:
        if page.place is None:
            return False
        mark = hash(json.dumps(page.place, sort_keys=True, default=str))
        self.repeated = mark in self._places or self._stale >= _MOST_STALE
        self._places.add(mark)
        return self.repeated


def _begins_as(page: list[str], first: list[str]) -> bool:
    """Whether a page begins as the first one does; a page of a single record may be one that is listed twice."""
    common = min(len(page), len(first))
    return len(page) > 1 and common > 0 and page[:common] == first[:common]


async def _ahead(
    pages: AsyncGenerator[ListingPage], *, until: Callable[[ListingPage], bool]
) -> AsyncGenerator[ListingPage]:
    """The same pages, the next one asked for while this one is looked at."""
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


def _is_older(dates: list[datetime], since: datetime) -> bool:
    """Whether so many records are older than what was asked for that the filter was ignored."""
    return bool(dates) and sum(at < since - _TOLERANCE for at in dates) >= _LIE_SHARE * len(dates)
