"""The listing of a catalogue service, read window by window."""

import logging
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from rowen.connectors.base import parse_stored, unread_url
from rowen.connectors.catalog import chronology
from rowen.connectors.catalog.cursor import Noted, stamp
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import FAR_PAST, Listing, ListingPage, Row, Tokens, UnparsedRecord
from rowen.connectors.catalog.portal_client import UNRECEIVED, PageRequest, PortalClient, TooMuchError
from rowen.connectors.catalog.records import one_by_one, parsed, unidentified
from rowen.connectors.csw.protocol import (
    Capabilities,
    CswAnswer,
    CswDialect,
    CswOptions,
    CswQuestion,
    CswRefusalError,
    ask,
    by_identifier,
    capabilities_url,
    identifier_in,
    item_url,
    letters_of,
    name_in,
    read,
    read_one,
)
from rowen.connectors.csw.record import dataset_of, identifier_of, stamp_of, url_of
from rowen.errors import SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.xml import CutRecord, Element, XmlElement, written
from rowen.model.hashes import Hash, body_hash
from rowen.model.items import Failed, Fetched, Validators
from rowen.model.text import attempt
from rowen.model.url import address

# Some servers return and count only this many records.
WINDOW = 10_000
_BEYOND = "The catalogue counts {} records, but shows no more than {}."
# Consecutive records that can be neither read nor identified: one or two are broken records, more mean a broken server.
MOST_HOLES = 3
_PAYLOAD_BYTES = 1 << 20  # the part of a response that quarantine stores
_ACCEPT = "application/xml, text/xml;q=0.9, */*;q=0.5"
_SENT = "application/xml"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Window:
    """Consecutive records, the number of matching records, and the number of requested records.

    `unshown` counts records that the service declares but does not return. `doubt` is the reason why more records may
    follow.
    """

    rows: list[Row]
    matched: int | None
    asked: int
    unshown: int = 0
    doubt: str | None = None
    stumbled: bool = False


class Catalogue(Listing):
    """The listing of a catalogue service."""

    version = CswOptions.record_version
    dated = True
    resolution = timedelta(days=1)

    def __init__(self, portal: PortalClient, url: str, options: CswOptions) -> None:
        self._portal = portal
        self._url = url
        self._options = options
        self._dialect: CswDialect | None = None
        self._dates: tuple[str, ...] = ()
        self._clock: datetime | None = None
        self._answer = b""
        self._counted: int | None = None
        self._begin()

    def _begin(self) -> None:
        """Reset the state of the previous walk.

        `_last` is the URL of the last item received. `_holes` counts consecutive records that could be neither read
        nor identified, and `_unnamed` counts all such records. `_is_unexplained` is set if a page failed and no record
        was found to cause it.
        """
        self._last = ""
        self._holes = self._unnamed = 0
        self._is_unexplained = False

    def open(self, known: Noted) -> None:
        """Use the dialect of the previous run if it is stored."""
        self._dialect = parse_stored(known.notes, CswDialect) if known.notes else None
        if known.notes and self._dialect is None:
            known.forget()

    def notes(self) -> Mapping[str, Any]:
        """Return the dialect of the service, which is stored for the next run."""
        return asdict(self._dialect) if self._dialect else {}

    @property
    def _is_sorted(self) -> bool:
        return self._dialect is not None and bool(self._dialect.sort)

    async def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield the pages sorted by identifier or, if the service limits the number of results, by date."""
        by_date, at = place.get("by_date") if place else None, place.get("at", 1) if place else 1
        doubt = None
        if place is None and since is None:
            matched = await self._detect_dialect()
            # The service returns only its window if the count equals the window, or if requests beyond the window fail.
            is_narrow = matched == WINDOW
            if matched is not None and matched > WINDOW:
                try:
                    is_narrow = not (await self._ask(CswQuestion(at=WINDOW + 1, size=1))).records
                except UnreadableError:
                    is_narrow = True
            by_date = {} if is_narrow and await self._find_date() else None
            doubt = _BEYOND.format(matched, WINDOW) if is_narrow else None
        elif since is not None and not await self._find_date():
            yield ListingPage([], doubt="The catalogue cannot be queried by date.")
            return
        # Dates of metadata often have no time, so a whole day is requested.
        day = since.replace(hour=0, minute=0, second=0, microsecond=0) if since else None
        async for page in self._read_numbered(at, day, doubt) if by_date is None else self._read_dated(by_date):
            yield page

    async def count(self, since: datetime | None = None) -> int | None:
        """Return the number of records; None if it equals the number at which some services stop counting."""
        if since is None:
            matched, self._counted = self._counted, None
            matched = (await self._ask(CswQuestion())).matched if matched is None else matched
            return None if matched == WINDOW else matched
        if not await self._find_date():
            return 0
        try:
            # Some services count records that they do not return, so request one record.
            answer = await self._ask(CswQuestion(size=1, since=since, brief=True))
        except UnreadableError:
            return 0
        return answer.matched if answer.records else 0

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        """Request one record by the URL of its item, in the same schema as the listing."""
        dialect, identifier = self._dialect, identifier_in(url)
        if dialect is None or item_url(self._url, identifier) != url:
            return None
        request = ask(self._url if dialect.post else dialect.url, by_identifier(identifier, dialect))
        records = await read_one(await self._portal.request(request, accept=_ACCEPT, once=True), self._url)
        rows = [row for record in records if (row := self._row(record)).url == url]
        return rows[0] if rows else Row(Failed(url, "The service does not show this record."), absent=True)

    async def _detect_dialect(self) -> int | None:
        """Find a dialect that the service supports; return the declared number of records."""
        stored = self._dialect
        capabilities = await self._capabilities()
        self._dates = capabilities.dates
        first: SourceError | None = None
        dead: set[tuple[str, bool]] = set()
        for dialect in capabilities.dialects(self._url, self._options.profile):
            if (dialect.url, dialect.post) in dead:
                continue
            self._dialect = replace(dialect, modified=stored.modified if stored else None)
            try:
                try:
                    return (await self._ask(CswQuestion())).matched
                except CswRefusalError as problem:
                    # An error that does not concern the request may be temporary, so the request is repeated once.
                    if problem.is_question:
                        raise
                    return (await self._ask(CswQuestion())).matched
            except CswRefusalError as problem:
                first = first or problem
            except (SourceGoneError, UnreadableError) as problem:
                first = first or problem
                dead.add((dialect.url, dialect.post))
        self._dialect = stored
        raise first or SourceError(f"{self._url} answers no request for records.")

    async def _capabilities(self) -> Capabilities:
        """Return the capabilities of the service; try two requests, since not all services negotiate versions."""
        why = "that is no CSW"
        for version in ("2.0.2", None):
            response = await self._portal.request(capabilities_url(self._url, version), accept=_ACCEPT)
            try:
                if capabilities := Capabilities.read(response):
                    return capabilities
            except SourceError as problem:
                why = str(problem)
            why = why if response.ok else f"status {response.status}"
        raise SourceError(f"{self._url} did not answer GetCapabilities: {why}")

    async def _find_date(self) -> bool:
        """Return whether records can be filtered by date; choose the first date property that works."""
        if self._dialect is None or self._dialect.modified:
            return self._dialect is not None
        if not self._dates:
            self._dates = (await self._capabilities()).dates
        plain = self._dialect
        for name in self._dates:
            self._dialect = replace(plain, modified=name)
            try:
                if (await self._ask(CswQuestion(since=FAR_PAST))).matched:
                    return True
            except UnreadableError as problem:
                log.info("records cannot be filtered by %s: %s", name, problem)
        self._dialect, self._dates = plain, ()
        return False

    def _request_for(self, question: CswQuestion, dialect: CswDialect) -> PageRequest:
        if dialect.post:
            return PageRequest(dialect.url, question.body(dialect))
        return PageRequest(ask(dialect.url, question.arguments(dialect)))

    async def _read_numbered(self, at: int, since: datetime | None, doubt: str | None) -> AsyncGenerator[ListingPage]:
        """Yield the pages by position, which only received records advance."""
        largest, matched = 0, None
        begin = stamp(since) if since else None
        self._begin()
        async with self._portal.ahead(accept=_ACCEPT, media_type=_SENT) as ahead:
            while True:
                question = CswQuestion(at, since=since)
                try:
                    window = await (self._window(question) if matched is None or at <= matched else self._end(question))
                except CswRefusalError as problem:
                    if since is None or at > 1:
                        raise
                    yield ListingPage([], doubt=str(problem))
                    return
                rows = [
                    row if row.named else row._replace(place={"at": number, "since": begin})
                    for number, row in enumerate(window.rows, at)
                ]
                at, matched = at + len(window.rows), window.matched
                is_full = len(window.rows) >= min(window.asked, largest or window.asked)
                largest = max(largest, len(window.rows))
                ends_by_count = matched is not None and at > matched and not is_full
                is_over = not window.rows or (ends_by_count and since is None)
                page = ListingPage(
                    rows,
                    place=None if is_over or ends_by_count else {"at": at},
                    declared=None if doubt else matched,
                    clock=self._clock,
                    doubt=doubt or window.doubt,
                    unshown=window.unshown,
                    stumbled=window.stumbled,
                    ends_by_count=ends_by_count,
                )
                if page.place is not None:
                    # Only full pages of a service that sorts its records are prefetched: without an order there are no
                    # stable positions, and if a service returns fewer records than requested, the next position is
                    # unknown. Changes fit on a page or two. If a record is added or deleted between pages, they shift;
                    # the count that each page declares reveals this.
                    size, dialect = self._portal.size.rows, self._dialect
                    places = range(0)
                    if dialect and dialect.sort and not since and len(rows) >= size and page.declared:
                        places = range(at, page.declared + 1, size)[: ahead.most]
                    questions = (CswQuestion(place, size=size) for place in places)
                    ahead.want([self._request_for(next_, dialect) for next_ in questions] if dialect else [])
                yield page
                if is_over:
                    return

    async def _end(self, question: CswQuestion) -> _Window:
        """Return the window after the last declared record: empty, or with records if the count was too low.

        If the request fails, the service may report the end by an error, or fail on a further record.
        """
        size = self._portal.size.rows
        try:
            answer = await self._ask(replace(question, size=size))
        except (UnreadableError, TooMuchError) as problem:
            if self._is_end_unproved(question) or await self._is_end(question):
                return self._ended(question, question.at - 1, problem)
            return await self._window(question)
        rows = await one_by_one(self._row, answer.records)
        self._last = rows[-1].url if rows else self._last
        return _Window(rows, answer.matched, size)

    def _is_end_unproved(self, question: CswQuestion) -> bool:
        """Return whether only the declared count shows that a position is after the last record.

        After an unidentified record the end cannot be checked; a later walk checks it once that record can be read.
        """
        return question.at == 1 or question.by_date or not self._is_sorted or self._holes > 0

    def _ended(self, question: CswQuestion, matched: int | None, problem: SourceError) -> _Window:
        """Return the end of a list that only the declared count shows, with a doubt if the count may be too low."""
        is_empty = question.at == 1 and question.since is not None and not question.by_date
        doubted = is_empty or (self._is_unexplained and self._is_end_unproved(question) and not self._holes)
        why = f"The service fails behind the {question.at - 1} records that it counts: {problem}"
        return _Window([], matched, 1, doubt=why if doubted else None)

    async def _read_dated(self, place: Any) -> AsyncGenerator[ListingPage]:
        """Yield the pages by date, so that no result limit ends them; records without a date are missing."""

        async def answer(question: chronology.DatedQuestion) -> chronology.DatedAnswer:
            window = await self._window(CswQuestion(question.skip + 1, since=question.after or FAR_PAST, by_date=True))
            more = window.matched is None or question.skip + len(window.rows) < window.matched
            full = len(window.rows) >= window.asked
            return chronology.DatedAnswer(window.rows, None, self._clock or FAR_PAST, more, window.doubt, full)

        doubt = None
        self._begin()
        pages = chronology.chronology(answer, window=WINDOW, undated_kept=False, place=place or None)
        async for page in pages:
            if any(row.modified is None for row in page.rows):
                doubt = _BEYOND.format(WINDOW, WINDOW)
            following = None if page.place is None else {"by_date": page.place}
            yield replace(page, place=following, doubt=page.doubt or doubt)

    async def _window(self, question: CswQuestion) -> _Window:
        """Return the next records; if a request fails, request fewer until the failing record is isolated."""
        sizes: list[int] = []

        async def once(size: int) -> CswAnswer:
            sizes.append(size)
            answer = await self._ask(replace(question, size=size))
            if not answer.records and answer.matched is not None and question.at <= answer.matched:
                raise UnreadableError(f"{self._url} declares {answer.matched} records, but shows none.")
            return answer

        try:
            answer = await self._portal.request_page(once, alive=lambda: self._ask(CswQuestion()))
        except UNRECEIVED as problem:
            return await self._hole(question, problem)
        self._holes = 0
        self._is_unexplained = self._is_unexplained or sizes[-1] < sizes[0]
        rows = await one_by_one(self._row, answer.records)
        self._last = rows[-1].url if rows else self._last
        # If the records are not sorted, a wrong number of returned records proves nothing.
        unshown = max(0, min(answer.returned or 0, sizes[-1]) - len(answer.records)) if self._is_sorted else 0
        return _Window(rows, answer.matched, sizes[-1], unshown=unshown, stumbled=len(sizes) > 1)

    async def _hole(self, question: CswQuestion, problem: SourceError) -> _Window:
        """Return a window with one unreadable record; try to receive its identifier in the brief form."""
        payload = self._answer
        try:
            answer = await self._ask(replace(question, size=1, brief=True), once=True)
        except (UnreadableError, TooMuchError):
            # The service returns the count even if the record is broken.
            answer = await self._ask(replace(question, at=1, size=0))
        matched = answer.matched
        # The position of a resumed walk may be far after the end, if records were deleted meanwhile.
        is_far = not self._last and question.at - 1 > (matched or 0)
        if matched is not None and question.at > matched and (is_far or self._is_end_unproved(question)):
            return self._ended(question, matched, problem)
        if matched is not None and await self._is_end(question):
            return _Window([], matched, 1, unshown=max(0, matched - question.at + 1))
        identifier = identifier_of(_tree(answer.records[0])) if answer.records else ""
        self._is_unexplained = False
        self._holes += not identifier
        self._unnamed += not identifier
        if not identifier and (self._holes >= MOST_HOLES or await self._shows_nothing(question, matched)):
            raise problem
        # An unidentified record is named by its position or, in a list of changes, whose positions move, by its number.
        name: tuple[str | int, ...] = (question.at,)
        if question.since is not None:
            name = (stamp(question.since), question.at) if question.by_date else ("modified", self._unnamed)
        url = item_url(self._url, identifier) if identifier else unread_url(self._url, *name)
        self._last = address(url) if identifier else self._last
        failed = Failed(url, f"The record cannot be read: {problem}", payload=payload or None)
        return _Window(
            [Row(failed, named=bool(identifier), received=bool(identifier))], answer.matched, 1, stumbled=True
        )

    async def _shows_nothing(self, question: CswQuestion, matched: int | None) -> bool:
        """Return whether the service, not its records, is broken: no requested record could be received.

        A list of changes often has a single record. Its failure does not count if other records can be requested by
        date.
        """
        if self._holes < question.at or question.at < (matched or 0):
            return False
        if question.since is None or question.by_date:
            return True
        try:
            return not (await self._ask(CswQuestion(size=1, since=FAR_PAST), once=True)).records
        except (UnreadableError, TooMuchError):
            return True

    async def retry(self, place: Any) -> Any | None:
        """Request the record at a place individually, by position or by date.

        A service may also fail after its end, so a place that no longer exists does not count as failing.
        """
        if self._dialect is None:
            return None

        async def ask(dated: chronology.DatedQuestion, rows: int) -> chronology.DatedAnswer:
            since = dated.after or FAR_PAST
            answer = await self._ask(CswQuestion(dated.skip + 1, size=rows, since=since, by_date=True), once=True)
            return chronology.DatedAnswer([*map(self._row, answer.records)], None, None, more=False)

        by_date = "skip" in place
        try:
            if by_date:
                return await chronology.retried(place, ask)
            answer = await self._ask(CswQuestion(place["at"], size=1, since=moment(place.get("since"))), once=True)
            return place if any(not self._row(record).named for record in answer.records) else None
        except (UnreadableError, TooMuchError):
            at = place["skip"] + 1 if by_date else place["at"]
            since = (chronology.question_at(place).after or FAR_PAST) if by_date else moment(place.get("since"))
            if at > 1 and await self._is_behind(CswQuestion(at, since=since, by_date=by_date)):
                return None
            raise

    async def _is_behind(self, question: CswQuestion) -> bool:
        """Return whether a position is after the last record."""
        matched = (await self._ask(replace(question, at=1, size=0), once=True)).matched
        # Keep the count, so that the next count in the same run needs no request.
        self._counted = matched if question.since is None else self._counted
        if matched is None or question.at <= matched:
            return False
        self._begin()
        return question.at - 1 > matched or self._is_end_unproved(question) or await self._is_end(question)

    async def _is_end(self, question: CswQuestion) -> bool:
        """Return whether the record before this position is the last one, whatever count the service declares.

        It is the last one if it comes first in the reverse order. If the service only failed on the following records,
        another record would come first.
        """
        if question.at == 1 or question.by_date or not self._is_sorted:
            return False
        try:
            answer = await self._ask(CswQuestion(size=1, since=question.since, brief=True, last_first=True))
            # A walk that was resumed at this position has not received a record yet.
            place = replace(question, at=question.at - 1, size=1, brief=True)
            before = [] if self._last else (await self._ask(place)).records
        except (UnreadableError, TooMuchError):
            return False
        last = self._named_url(before[0]) if before else self._last
        first = self._named_url(answer.records[0]) if answer.records else ""
        # Records without an identifier cannot be distinguished.
        is_named = address(item_url(self._url, identifier_in(last))) == last
        return bool(last) and (first == last if first else not is_named)

    def _named_url(self, element: CutRecord | XmlElement) -> str:
        """Return the URL of a record's item; empty if the record has no identifier."""
        identifier = identifier_of(_tree(element))
        return address(item_url(self._url, identifier)) if identifier else ""

    async def _ask(self, question: CswQuestion, *, once: bool = False) -> CswAnswer:
        dialect = self._dialect
        if dialect is None:
            raise SourceError(f"The capabilities of {self._url} were not requested yet.")
        self._answer = b""
        url, body = self._request_for(question, dialect)
        response = await self._portal.request(
            url, body=body, media_type=_SENT, accept=_ACCEPT, could_be_less=question.size > 1, once=once
        )
        self._clock = self._portal.clock(response)
        self._answer = response.body[:_PAYLOAD_BYTES]
        return await read(response, self._url)

    def _row(self, element: CutRecord | XmlElement) -> Row:
        def read() -> Row:
            return self._unparsed(element) if isinstance(element, CutRecord) else self._named(element)

        def fail(why: str) -> Row:
            whole = element.found() if isinstance(element, CutRecord) else element
            return unidentified(self._url, f"The record cannot be read: {why}.", written(whole.tree))

        return attempt(read, fail)

    def _unparsed(self, cut: CutRecord) -> Row:
        """Return the row of a record that is parsed only if its text changed."""
        if raw := name_in(cut.text):
            identifier, modified = raw.identifier, moment(raw.stamp)
        else:
            tree = cut.look()
            identifier, modified = identifier_of(tree), stamp_of(tree)
        if not identifier:
            # The URL is made from a hash of the content.
            return self._named(cut.found())
        url, digest = item_url(self._url, identifier), body_hash(letters_of(cut))
        return Row(UnparsedRecord(address(url), digest, lambda: self._read(cut.found(), url, digest)), modified)

    def _named(self, element: XmlElement) -> Row:
        modified = stamp_of(element.tree)
        return Row(self._read(element, url_of(element.tree, self._url)), modified)

    def _read(self, element: XmlElement, url: str, digest: Hash | None = None) -> Fetched | Failed:
        if element.why:
            return Failed(url, element.why, payload=written(element.tree))
        options = self._options
        return parsed(
            url,
            lambda: dataset_of(element.tree, self._url, language=options.language),
            Validators(body_hash=digest),
            payload=lambda: written(element.tree),
            options=options,
        )


def _tree(element: CutRecord | XmlElement) -> Element:
    return element.look() if isinstance(element, CutRecord) else element.tree
