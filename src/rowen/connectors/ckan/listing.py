"""The listing of a CKAN portal: datasets sorted by identifier, modified datasets, and identifiers alone."""

import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

import msgspec

from rowen.connectors.base import unread_url
from rowen.connectors.catalog.cursor import stamp
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import IdentifierPage, Listing, ListingPage, Row, UnparsedRecord
from rowen.connectors.catalog.portal_client import (
    LEAST_ROWS,
    MOST_UNREAD,
    UNRECEIVED,
    PageRequest,
    PortalClient,
    SourceRefusedError,
    TooMuchError,
)
from rowen.connectors.catalog.records import mark_of_bytes, one_by_one, unidentified, unparsed_json, unreceived
from rowen.connectors.catalog.text import word
from rowen.connectors.ckan.address import CkanAddress, CkanOptions
from rowen.connectors.ckan.lists import PackageLists, Unshown, is_disabled
from rowen.connectors.ckan.paging import PackageRow, PageCursor, id_of, is_missing, mark_of
from rowen.connectors.ckan.record import dataset_of, steady
from rowen.errors import SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.json import payload_of, read_json
from rowen.model.hashes import Hash
from rowen.model.items import Failed, Gone
from rowen.model.url import address, quoted
from rowen.net.response import Response

# If a page is larger, smaller pages are requested, since two or three are in memory at a time. A thousand records of 15
# kB, the usual size in national portals, fit into one page.
MOST_PAGE_BYTES = 20 << 20
# A page is parsed in parts of this size, and each part becomes a group: with twice the size a first harvest takes 50 MB
# more memory, with half the size twice as many transactions.
PART_BYTES = 5 << 18
_AHEAD_BYTES = 16 << 20  # one large page is prefetched, or as many small pages as the host allows


class _Found(msgspec.Struct):
    count: int
    results: list[msgspec.Raw]


class _Answer(msgspec.Struct):
    """A response in CKAN's envelope, with unparsed records."""

    success: Literal[True]
    result: _Found


class _Named(msgspec.Struct):
    id: Any = None
    metadata_modified: Any = None
    state: Any = None
    type: Any = None


_ANSWER, _NAMED = msgspec.json.Decoder(_Answer), msgspec.json.Decoder(_Named)
_BARE = re.compile(r"[12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")


class SearchPage(NamedTuple):
    """One page of `package_search`, beginning with row `start`; `asked` is the number of requested rows."""

    start: int
    asked: int
    rows: list[Any]
    total: int | None
    clock: datetime
    size_bytes: int = 0


class CkanListing(Listing):
    """The listing of a portal's datasets, which is also its identifier listing."""

    version = CkanOptions.record_version
    dated = True

    def __init__(self, portal: PortalClient, address: CkanAddress, options: CkanOptions) -> None:
        self.identifiers = self
        self._portal = portal
        self._address = address
        self._options = options
        self._lists = PackageLists(portal, address.action)

    async def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Any = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield the datasets sorted by identifier; if the portal has no search, read its package lists instead."""
        listed = place if place and "listed" in place else None
        if listed is None:
            is_first = since is None and place is None
            try:
                async with aclosing(self._search_all(since, place)) as pages:
                    async for page in pages:
                        is_first = False
                        yield page
                return
            except SourceError as problem:
                if not (is_first and self._is_without_search(problem)):
                    raise
                refused = problem

        def row_of(record: msgspec.Raw | Unshown) -> Row:
            if not isinstance(record, Unshown):
                return self._row(self._unread(record))
            url = unread_url(self._address.site, "named", record.name)
            return unreceived(url, record.error, {"name": record.name})

        # Each run reads all package lists, because they have neither dates nor an identifier listing.
        self.dated, self.identifiers = False, None
        try:
            async with aclosing(self._lists.read_pages(listed["listed"] if listed else None)) as lists:
                async for part in lists:
                    listed = {}
                    yield ListingPage(
                        await one_by_one(row_of, part.records),
                        place=None if part.place is None else {"listed": part.place},
                        declared=part.declared,
                        clock=part.clock,
                        unshown=part.missing,
                    )
        except SourceError as problem:
            if listed is None and is_disabled(problem):
                raise refused from problem
            raise

    def _is_without_search(self, problem: SourceError) -> bool:
        """Return whether the package lists can replace a refused search; they cannot apply the option `filter`."""
        return is_disabled(problem) and not self._options.filter

    async def _search_all(self, since: datetime | None, place: Any) -> AsyncGenerator[ListingPage]:
        cursor = PageCursor(since=stamp(since) if since else None, **(place or {}))
        behind, further = ("" if cursor.after is None or cursor.after.startswith("?") else cursor.after), 0
        async with aclosing(self._follow(cursor)) as parts:
            async for rows, page in parts:
                # The places of rows without identifiers: the last identifier, and the number of such rows after it.
                places: dict[int, dict[str, Any]] = {}
                for position, row in enumerate(page.rows, page.start):
                    if name := id_of(row):
                        behind, further = name, 0
                    else:
                        places[id(row)] = {
                            "position": position,
                            "behind": behind,
                            "further": further,
                            "since": cursor.since,
                        }
                        further += 1
                doubt = None
                if page.total is None:
                    doubt = "The portal does not declare how many datasets it has."
                elif cursor.repeated:
                    doubt = f"The portal declares {page.total} datasets, but pages came again."
                row_of = partial(self._placed, places)
                *earlier, last = _parted(rows, page)
                for part in earlier:
                    place = {"position": part.end, "after": part.after}
                    yield ListingPage(
                        await one_by_one(row_of, part.rows), place=place, declared=page.total, clock=page.clock
                    )
                yield ListingPage(
                    await one_by_one(row_of, last.rows),
                    place=None if cursor.at_end else {"position": cursor.position, "after": cursor.after},
                    declared=page.total,
                    clock=page.clock,
                    doubt=doubt,
                    ends_by_count=cursor.ends_by_count and not earlier and len(page.rows) < page.asked,
                )

    async def count(self, since: datetime | None = None) -> int | None:
        """Return the number of datasets; with `since`, count only modified datasets."""
        try:
            page = await self._search(0, 0, since=stamp(since) if since else None)
        except SourceError as problem:
            if since is not None or not self._is_without_search(problem):
                raise
            try:
                return len(await self._lists.names())
            except SourceError:
                raise problem from None
        if page.total is None:
            raise SourceError(f"{self._address.action} does not declare how many datasets it has.")
        return page.total

    async def read_identifiers(self) -> AsyncGenerator[IdentifierPage]:
        """Yield the identifiers of all datasets, page by page."""
        # The page size may have been reduced for large records; identifiers are small.
        self._portal.size.learn(self._options.page_size)
        cursor = PageCursor(ids=True)
        async with aclosing(self._follow(cursor)) as parts:
            async for rows, page in parts:
                yield IdentifierPage(
                    [self._address.item(name) if (name := id_of(row)) else None for row in rows], page.total
                )

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        """Request one dataset by the URL of its item; if the option `filter` is set, search for it with that filter."""
        name = self._address.identifier(url)
        if self._address.item(name) != url:
            return None
        record: Any = None
        refused = False
        try:
            if not self._options.filter:
                shown = await self._portal.request(f"{self._address.action}/package_show?id={quoted(name)}", once=True)
                record = self._result(shown)
            else:
                escaped = name.replace("\\", "\\\\").replace('"', '\\"')
                arguments = {"rows": 1, "start": 0, "fq": f'+id:"{escaped}" +({self._options.filter})'}
                private = {"include_private": "true"} if self._options.include_private else {}
                query = urlencode({**arguments, **private}, errors="surrogatepass")
                response = await self._portal.request(f"{self._address.action}/package_search?{query}", once=True)
                record = self._read(next(iter(self._found(response, 0, 1).rows), None))
        except SourceGoneError:
            pass
        except SourceRefusedError:
            refused = True
        if id_of(record) == name:
            # A search returns no drafts, and private datasets only if they are requested.
            is_private = record.get("private") is True and not self._options.include_private
            if not is_private and record.get("state") != "draft":
                return self._row(record)
        absent = not refused and (record is None or id_of(record) == name)
        return Row(Failed(url, "The portal lists this dataset, but does not show it."), absent=absent)

    async def retry(self, place: Any) -> Any | None:
        """Request the row at a position and the preceding row, which shows whether rows have moved.

        If rows have moved, search for the row that follows the same identifier.
        """
        if "name" in place:
            return None if await self._lists.is_shown(str(place["name"])) else place
        position, behind, since = int(place["position"]), str(place["behind"]), place["since"]
        start = max(position - 1, 0)
        page = await self._search(start, position - start + 1, since=since, once=True)
        names = [*map(id_of, page.rows)]
        if len(names) == position - start + 1 and names[:-1] == ([behind] if position else []):
            return None if names[-1] else place
        moved = await self._position_behind(behind, position, since)
        return None if moved is None else {**place, "position": moved}

    async def _position_behind(self, name: str, position: int, since: str | None) -> int | None:
        """Return the position of the unreadable row after an identifier; None if the row after it can be read."""

        async def is_behind(at: int) -> bool | None:
            """Return whether the row at a position comes after `name`; None if it is the unreadable row."""
            try:
                page = await self._search(at, 1, since=since, ids=True, once=True)
            except UNRECEIVED:
                return None
            names = [*map(id_of, page.rows)]
            return True if not names else (names[0] > name) if names[0] else None

        low, high, at, step = -1, None, position, 1
        while high is None or high - low > 1:
            behind = await is_behind(at)
            if behind is None:
                return at
            low, high = (low, at) if behind else (at, high)
            if high is not None and low >= 0:
                at = (low + high) // 2
            else:
                at = low + step if high is None else max(high - step, 0)
            step *= 2
        return None

    async def _follow(self, cursor: PageCursor) -> AsyncGenerator[tuple[list[Any], SearchPage]]:
        """Yield the new rows of each page, together with the page."""
        async with self._portal.ahead() as ahead:
            while True:
                page = await self._page(cursor)
                if not cursor.joins(page.start, page.rows, page.total, step=self._portal.size.rows):
                    continue
                rows = cursor.take(page.start, page.rows)
                cursor.move(page.start, page.rows, page.total, is_new=bool(rows))
                size = self._portal.size.rows
                if not cursor.ended:
                    # Prefetch only if the positions of the next pages are known. A list of changes is not prefetched,
                    # because the walk ends after one page if the portal ignores the filter.
                    starts: Iterable[int] = ()
                    if page.total is not None and size > 1 and cursor.overlaps and not cursor.since:
                        most = min(ahead.most, max(1, _AHEAD_BYTES // max(page.size_bytes, 1)))
                        starts = islice(cursor.starts(size, page.total), most)
                    urls = [self._search_url(start, size, since=cursor.since, ids=cursor.ids) for start in starts]
                    ahead.want([*map(PageRequest, urls)])
                if rows or cursor.ended:
                    yield rows, page
                if cursor.ended:
                    return

    async def _page(self, cursor: PageCursor) -> SearchPage:
        """Return the next page; if one of its records cannot be received, only this record fails."""
        start, since = cursor.position, cursor.since

        async def ask(rows: int) -> SearchPage:
            begin = start - 1 if cursor.overlaps and rows > 1 else start
            page = await self._search(begin, rows, since=since, ids=cursor.ids, could_be_less=rows > 1)
            # Limit the page size to the portal's own limit and to the memory for a page.
            received = len(page.rows)
            if 0 < received <= page.asked // 2 and page.start + received < (page.total or 0):
                self._portal.size.learn(received)
            if page.size_bytes > MOST_PAGE_BYTES:
                fitting = received * MOST_PAGE_BYTES // page.size_bytes
                self._portal.size.learn(min(page.asked, max(LEAST_ROWS, fitting)))
            return page

        try:
            # A portal that fails on the filter fails each time, so its count is not retried.
            alive = partial(self._search, 0, 0, since=since, once=since is not None)
            return await self._portal.request_page(ask, alive=alive)
        except UNRECEIVED as problem:
            if isinstance(problem, TooMuchError) and self._portal.unread > MOST_UNREAD:
                raise
            error = str(problem)
        # Try to receive only the identifier of a record that cannot be received.
        try:
            page = await self._search(start, 1, since=since, ids=True)
            names = [*map(id_of, page.rows)]
        except SourceError:
            page = await self._search(0, 0, since=since)
            is_end = start >= (page.total or 0) and await self._is_end(cursor)
            names = [] if is_end else [""]
        return page._replace(start=start, rows=[PackageRow(name, error=error) for name in names])

    async def _is_end(self, cursor: PageCursor) -> bool:
        """Return whether the listing ends before a row that fails and that is not included in the count.

        The listing ends there if the previous row comes first in the reverse order. If the previous row failed as
        well, this cannot be checked: return True, because a later walk checks again once that row can be read.
        """
        if cursor.after is not None and cursor.after.startswith("?"):
            return True
        try:
            page = await self._search(0, 1, since=cursor.since, ids=True, last_first=True)
        except SourceError:
            return False
        return not page.rows or id_of(page.rows[0]) == cursor.after

    async def _search(
        self,
        start: int,
        rows: int,
        *,
        since: str | None = None,
        ids: bool = False,
        last_first: bool = False,
        could_be_less: bool = False,
        once: bool = False,
    ) -> SearchPage:
        """Request one page, sorted by identifier; with `ids`, it contains only identifiers."""
        url = self._search_url(start, rows, since=since, ids=ids, last_first=last_first)
        try:
            return self._found(await self._portal.request(url, could_be_less=could_be_less, once=once), start, rows)
        except SourceError as problem:
            problem.args = (f"{problem} The page was start={start}, rows={rows}.",)
            raise

    def _search_url(self, start: int, rows: int, *, since: str | None, ids: bool, last_first: bool = False) -> str:
        query: dict[str, str | int] = {"rows": rows, "start": start, "sort": "id desc" if last_first else "id asc"}
        dated = f"metadata_modified:[{since} TO *]" if since else None
        own = self._options.filter
        if fq := f"+{dated} +({own})" if dated and own else dated or own:
            query["fq"] = fq
        if ids:
            query["fl"] = "id"
        if self._options.include_private:
            query["include_private"] = "true"
        return f"{self._address.action}/package_search?{urlencode(query)}"

    def _result(self, response: Response) -> Any:
        """Return the result without its envelope, which some portals omit."""
        data = read_json(response.body, self._address.action)
        if isinstance(data, dict) and data.get("success") is False:
            error = data.get("error")
            message = error.get("message") or error.get("__type") if isinstance(error, dict) else error
            raise SourceError(f"{self._address.action} reports an error: {message or 'it does not say which'}.")
        return data.get("result", data) if isinstance(data, dict) else data

    def _found(self, response: Response, start: int, asked: int) -> SearchPage:
        clock, size = self._portal.clock(response), len(response.body)
        try:
            answer = _ANSWER.decode(response.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # a different answer: a reported error, a page without an envelope, or broken JSON
        else:
            return SearchPage(
                start, asked, [*map(self._unread, answer.result.results)], answer.result.count, clock, size
            )
        match self._result(response):
            case {"count": int(count), "results": list(rows)} if not isinstance(count, bool):
                return SearchPage(start, asked, rows, count, clock, size)
            case {"results": list(rows)}:
                return SearchPage(start, asked, rows, None, clock, size)
            case {"count": int(), "results": None}:
                return SearchPage(start, asked, [], 0, clock)
        raise UnreadableError(f"{self._address.action} answered with JSON that is no list of datasets.")

    def _unread(self, raw: msgspec.Raw) -> Any:
        """Return a row with only its identifier parsed; parse the whole row if it has no identifier."""
        try:
            named = _NAMED.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            named = _Named()
        name = word(named.id)
        if not name:
            return read_json(bytes(raw), self._address.action)
        is_listed = named.state != "deleted" and named.type != "harvest"
        return PackageRow(name, raw, named.metadata_modified, is_listed)

    def _read(self, row: Any) -> Any:
        raw = row.raw if isinstance(row, PackageRow) else None
        return row if raw is None else read_json(bytes(raw), self._address.action)

    def _placed(self, places: Mapping[int, Mapping[str, Any]], row: Any) -> Row:
        """Return a row with its place; the URL of an unreceived row contains the identifier before it."""
        made = self._row(row)
        place = places.get(id(row))
        if place is None:
            return made
        if made.received:
            return made._replace(place=place)
        since = (place["since"],) if place["since"] else ()
        url = unread_url(self._address.site, *since, "behind", place["behind"], place["further"])
        return Row(Failed(url, row.error), named=False, received=False, place=place)

    def _row(self, row: Any) -> Row:
        if not isinstance(row, PackageRow) or row.raw is None or not row.is_listed:
            return self._opened(row)
        mark = mark_of_bytes(bytes(row.raw))
        url = address(self._address.item(row.id))
        record = UnparsedRecord(url, mark, lambda: self._opened(row, mark).seen)
        return Row(record, _modified(row.modified))

    def _opened(self, row: Any, mark: Hash = b"") -> Row:
        name, row = id_of(row), self._read(row)
        url = self._address.item(name) if name else unread_url(self._address.site, mark_of(row)[1:])
        if is_missing(row):
            return Row(Failed(url, row.error), named=bool(name), received=bool(name))
        if not name:
            return unidentified(self._address.site, "The record has no identifier.", payload_of(row))
        modified = _modified(row.get("metadata_modified"))
        if row.get("state") == "deleted":
            return Row(Gone(url, "The portal says that it is deleted."), modified)
        if row.get("type") == "harvest":
            return Row(Gone(url, "It describes a harvest, not a dataset."), modified)
        options = self._options
        seen = unparsed_json(
            row,
            lambda content: dataset_of(content, self._address, language=options.language),
            url=url,
            steady=steady,
            options=options,
            mark=mark,
        )
        return Row(seen, modified)


class PagePart(NamedTuple):
    """Rows of a page that are parsed together; the next part begins at `end`, after the identifier `after`."""

    rows: list[Any]
    end: int = 0
    after: str = ""


def _parted(taken: list[Any], page: SearchPage) -> Iterator[PagePart]:
    """Yield the rows taken from a page in parts that are small enough to parse; the last part may be empty."""
    wanted, rows, size = {*map(id, taken)}, [], 0
    for number, row in enumerate(page.rows, 1):
        if id(row) in wanted:
            rows.append(row)
            size += memoryview(row.raw).nbytes if isinstance(row, PackageRow) and row.raw is not None else 0
        if size >= PART_BYTES and number < len(page.rows):
            yield PagePart(rows, page.start + number, mark_of(row))
            rows, size = [], 0
    yield PagePart(rows)


def _modified(date: Any) -> datetime | None:
    """Parse a date; CKAN's usual format is parsed by a faster method."""
    if isinstance(date, str) and _BARE.fullmatch(date):
        try:
            return datetime.fromisoformat(date).replace(tzinfo=UTC)
        except ValueError:
            return None
    return moment(date)
