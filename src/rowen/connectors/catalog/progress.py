"""The state of one run over a catalog, and the limit on how many records it accepts.

A portal that is broken or malicious invents records and tokens without end, and its declared count may be invented as
well. The limit is the least of several bounds; an option raises it for the few catalogs that are really larger.

Any unidentified record may be an item that did not come. A walk that meets the same unidentified records as the walk
before assumes that they are no items: some catalogs list such records for ever, and deletions must not wait for ever.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from rowen.connectors.base import Held, Known
from rowen.connectors.catalog.cursor import CatalogCursor, stamp
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import Listing, Row, Tokens
from rowen.connectors.catalog.options import CatalogOptions, DocumentOptions
from rowen.connectors.catalog.records import UrlSet
from rowen.connectors.catalog.walk import Walk
from rowen.errors import SourceError
from rowen.model.items import Failed, Fetched, Gone, Namesakes, Unchanged
from rowen.model.url import key

__all__ = ["Progress", "mark_of"]

MOST_RECORDS = 10_000_000
"""A judgement, not a measurement: 30 GB at 3 kB a record. Aggregators may list more, and need the option."""

MOST_UNDECLARED = 1_000_000
"""Without a declared count. A judgement as well: 3 GB at 3 kB a record, 10,000 pages of a hundred."""

LEAST_GROWN = 100_000
"""So much a catalog may always have, also beyond twice what it declares: counts are wrong, catalogs are merged."""

MOST_GROWTH = 10
"""So many times what the last whole walk found: room for a merger or a large import, chosen and not measured."""


class EndlessError(SourceError):
    """A listing that brings more than can be believed."""


class Bounds:
    """The bound of one run. `before` is how many items the last whole walk left, None if there was none."""

    def __init__(self, options: DocumentOptions, before: int | None) -> None:
        self._told = options.max_records
        self._before = before

    def most(self, declared: int | None) -> int:
        """The most records that are believed."""
        if self._told is not None:
            return self._told
        grown = MOST_RECORDS if self._before is None else max(LEAST_GROWN, MOST_GROWTH * self._before)
        told = MOST_UNDECLARED if declared is None else 2 * max(declared, 0) + LEAST_GROWN
        return min(MOST_RECORDS, told, grown)

    def exceeded(self, received: int, declared: int | None) -> str | None:
        """Why a listing that has brought so many records is left; None as long as it is not."""
        most = self.most(declared)
        if received <= most:
            return None
        told = "" if declared is None else f", {declared:,} are declared"
        return (
            f"The listing does not end: {received:,} records came{told}, and {most:,} are the most that are believed. "
            "What was read is kept. "
            f"If the catalog is really that large, set the option max_records to more than {most:,}."
        )


# At 16 letters each, 2 kB of cursor. Of more, some always count as new, and deletions wait for a walk without them.
_MOST_KEPT = 100


class Unidentified:
    """The unidentified records of one walk, each by a URL that is made of its content."""

    def __init__(self) -> None:
        self._looks: Counter[str] = Counter()

    def add(self, url: str) -> None:
        """Count one; two that look the same are two."""
        self._looks[blake2b(url.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()] += 1

    def __len__(self) -> int:
        return self._looks.total()

    def kept(self, before: Iterable[str] = ()) -> list[str] | None:
        """What a cursor remembers of them, and of those before."""
        return sorted((self._looks | Counter(before)).elements())[:_MOST_KEPT] or None

    def are_known(self, kept: Any) -> bool:
        """Whether all of them are among those that a cursor remembers."""
        return not self._looks - Counter(kept if isinstance(kept, list) else ())


# 100 failures of 600 letters are 60 kB of cursor. A document with more is read again in each run.
_MOST_FAILED = 100
_SOME_MINUTES = 1000  # between two times of forgetting: 100 kB, and a thousandth of the work of a look at each record
_MOST_HANDLES = 200  # of some 100 letters are 20 kB of cursor; records without one are seen by whole walks only
_MOST_HOLES = 100  # of some 100 letters are 10 kB of cursor; a whole walk looks for the others
_MOST_PASSED = (
    2000  # hashes of 16 letters are 40 kB of cursor; where more is no item, a walk is no large part of the cost
)
_LONGEST_ERROR = 500  # a message that says more repeats the record, which stands in quarantine anyway


class RecentDates:
    """How many records have dates near the newest one: counts by minute, of which old ones are forgotten."""

    def __init__(self, length: timedelta) -> None:
        self._length_min = int(length.total_seconds() // 60) + 1
        self._minutes: Counter[int] = Counter()

    def add(self, at: datetime) -> None:
        """Count a record."""
        self._minutes[int(at.timestamp() // 60)] += 1
        if len(self._minutes) > 2 * self._length_min + _SOME_MINUTES:
            newest = max(self._minutes)
            self._minutes = Counter({at: n for at, n in self._minutes.items() if at >= newest - self._length_min})

    def since(self, begin: datetime) -> int:
        """About how many are dated since."""
        return sum(count for at, count in self._minutes.items() if at >= begin.timestamp() // 60)


@dataclass(slots=True)
class Progress:
    """One run over a catalog: what it works with, and how far it has come.

    `seen` are the items that came, `held` is how many there will be once these are stored. Of the records of the
    present walk, `kept` have an item, `failed` could not be read, `lost` of these have no item either, `dated` have a
    date, and `passing` are listed without being items, by their hashes; `passed` has those of before as well. `newest`
    is the latest date of all, `clock` the source's time when the run began, `first` the latest date of the walk's first
    page. `endless` tells why a listing was left, `replaced` that so much is new that it may be what is held under other
    names. `stored` is the cursor as it was last written, `recent` counts the latest dates, `walks` are all passes.

    Of single records that were asked for, `failed_again` could not be read, `unanswered` is how many in a row the
    source gave no answer for. `handles` are what those in quarantine can be asked for by, where their URLs do not tell.

    `holes` are the places of records that could not be identified, in this run or before. Of those that the present
    walk met, `unreceived` could not be received, each with its error; the others are `unidentified`. `absent` are held
    items that the source, asked for each, does not have. `unread` are the URLs of all that this run met in any listing.
    """

    listing: Listing
    known: Known
    options: CatalogOptions
    now: Callable[[], datetime]
    cursor: CatalogCursor
    bounds: Bounds
    held: int
    passed: set[str]
    stored: Any
    recent: RecentDates
    passing: set[str] = field(default_factory=set)
    seen: UrlSet = field(default_factory=UrlSet)
    unidentified: Unidentified = field(default_factory=Unidentified)
    failed: list[Failed] = field(default_factory=list)
    kept: int = 0
    lost: int = 0
    dated: int = 0
    newest: datetime | None = None
    clock: datetime | None = None
    first: datetime | None = None
    endless: str | None = None
    replaced: bool = False
    walks: list[Walk] = field(default_factory=list)
    failed_again: list[Failed] = field(default_factory=list)
    unanswered: int = 0
    handles: dict[str, str] = field(default_factory=dict)
    holes: dict[str, Any] = field(default_factory=dict)
    unreceived: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    quarantined: frozenset[str] = frozenset()

    @classmethod
    def begin(
        cls, listing: Listing, known: Known, options: CatalogOptions, *, now: Callable[[], datetime]
    ) -> "Progress":
        """The beginning of a run, from what the last one left."""
        cursor = CatalogCursor.of(known.cursor, listing.version)
        bounds = Bounds(options, cursor.items)
        recent = RecentDates(timedelta(hours=options.overlap_h))
        passed = set(cursor.passed or ())
        run = cls(listing, known, options, now, cursor, bounds, known.count, passed, known.cursor, recent)
        run.handles = dict(cursor.handles or {})
        run.holes = dict(cursor.holes or {})
        run.quarantined = frozenset(one.url for one in known.failed)
        return run

    @property
    def expected(self) -> int:
        """How many records the source declares if nothing happened unnoticed.

        One that told no count before lists our items, and what was passed beside them.
        """
        return self.held + (len(self.passed) if self.cursor.surplus is None else self.cursor.surplus)

    def walk(self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None) -> Walk:
        """One pass over the listing."""
        full = self.cursor.page if since else None
        pages = self.listing.pages(since=since, place=place, tokens=tokens)
        walk = Walk(pages, self.seen, self.known, since=since, full=full)
        self.walks.append(walk)
        return walk

    def namesakes(self) -> Namesakes:
        """How many records of this run share their identifiers."""
        return Namesakes(sum(walk.shared for walk in self.walks), sum(walk.dropped for walk in self.walks))

    def are_failures_explained(self) -> bool:
        """Whether all that is in quarantine failed in the document that the tokens are of, and was tried again since.

        What failed in the flow behind us may have had other reasons than the document.
        """
        explained = {url for url, _, _ in self.cursor.failed or ()}
        return all(one.tries > 1 and one.url in explained for one in self.known.failed)

    def begin_anew(self) -> None:
        """Take what came for not seen: it will come again."""
        self.seen, self.unidentified, self.failed, self.passed = UrlSet(), Unidentified(), [], set()
        self.passing, self.handles, self.failed_again = set(), {}, []
        self.unreceived, self.absent = {}, set()
        self.kept = self.lost = self.dated = 0
        self.replaced = False

    async def take(self, rows: list[Row], *, counting: bool) -> int:
        """Count the records of a page; returns how many of them will be new items, if that is asked for."""
        odd = [row.url for row in rows if not isinstance(row.seen, Fetched | Unchanged)]
        asked = [row.url for row in rows] if counting else odd
        held = await self.known.look_up(asked) if asked and self.known.count else {}
        passed = len(self.passed)
        for row in rows:
            self._count(row, held)
        if counting and self.cursor.surplus is not None:
            # The source declares what it lists, also where that is no item.
            self.cursor = replace(self.cursor, surplus=self.cursor.surplus + len(self.passed) - passed)
        return sum(isinstance(row.seen, Fetched) and row.url not in held for row in rows) if counting else 0

    def note_unidentified(self, row: Row) -> None:
        """Remember a record that could not be identified, and where to ask for it again."""
        self.unread.add(row.url)
        if row.received or not isinstance(row.seen, Failed):
            self.unidentified.add(row.url)
        else:
            self.unreceived[row.url] = row.seen.error
        if row.place is not None and (row.url in self.holes or len(self.holes) < _MOST_HOLES):
            self.holes[row.url] = row.place

    def _count(self, row: Row, held: Mapping[str, Held]) -> None:
        self._note_handle(row)
        if row.modified is not None:
            self.dated += 1
            self.recent.add(row.modified)
        is_held = row.url in held
        match row.seen:
            case Fetched():
                self.kept += 1
                self.held += not is_held
                self._pass(row.url, passed=False)
            case Unchanged():
                self.kept += 1
                self._pass(row.url, passed=False)
            case Gone():
                self.held -= is_held
                self._pass(row.url, passed=row.named)
            case Failed() as failed:
                if len(self.failed) <= _MOST_FAILED:
                    self.failed.append(replace(failed, payload=None))
                self.kept += is_held
                self.lost += not is_held
                self._pass(row.url, passed=row.named and not is_held)

    def _pass(self, url: str, *, passed: bool) -> None:
        """Note that a record is listed without being an item, or no longer so; a roll call names it all the same."""
        if self.listing.tells_deletions or not (passed or self.passed):
            return
        if self.listing.roll is None and len(self.passed) >= _MOST_PASSED:
            # The count will not be what is expected, and the catalog is walked.
            return
        mark = mark_of(url)
        for marks in (self.passed, self.passing):
            (marks.add if passed else marks.discard)(mark)

    def _note_handle(self, row: Row) -> None:
        """Keep what a record can be asked for by, if it failed here or in the flow behind us."""
        if isinstance(row.seen, Failed) or row.url in self.quarantined:
            if row.handle is not None and (row.url in self.handles or len(self.handles) < _MOST_HANDLES):
                self.handles[row.url] = row.handle
        elif self.handles:
            self.handles.pop(row.url, None)

    def all_passed(self) -> list[str] | None:
        """What a cursor keeps of the records that were passed, by this run or before."""
        return sorted(self.passed) or None

    def note_dates(self, walk: Walk) -> None:
        """Take over what a page says about time."""
        self.clock = self.clock or walk.clock or self.now()
        self.first = self.first or walk.newest
        self.newest = max(filter(None, (self.newest, walk.newest)), default=None)

    def interrupted(self, walk: Walk) -> CatalogCursor:
        """The cursor in the middle of a walk: the next run goes on at its place.

        What was held when a walk without a newest date began may be of any age: such a walk has no `begun`.
        """
        begun = moment(self.cursor.begun) if self.cursor.place is not None else self._begun()
        return replace(
            self.cursor,
            place=walk.place,
            since=stamp(walk.since) if walk.since else None,
            begun=stamp(begun) if begun else None,
            passed=self.all_passed(),
            handles=self.handles or None,
            holes=self.holes or None,
            stumbled=None,
        )

    def _begun(self) -> datetime | None:
        """By the source's dates, which may run behind its clock: what it stamps later is not dated earlier than the
        newest record of the run before or, in a first walk, of the first page.
        """
        modified = moment(self.cursor.modified)
        if modified is None and self.known.count:
            return None
        return min(filter(None, (modified or self.first, self.clock)), default=None)

    def settled(self, declared: int | None, *, kept: int, proved: bool) -> CatalogCursor:
        """The cursor after the catalog was seen whole; what that left open makes the next run another whole walk."""
        failed = [(one.url, one.error[:_LONGEST_ERROR], one.hint) for one in self.failed]
        is_remembered = len(failed) <= _MOST_FAILED
        return replace(
            self.left(),
            modified=self.newest_stored(),
            walked=stamp(self.now()) if self.listing.dated and proved else None,
            surplus=None if declared is None else declared - kept,
            unidentified=self.unidentified.kept(),
            passed=sorted(self.passing) or None,
            handles=self.handles or None,
            holes={url: place for url, place in self.holes.items() if url in self.seen} or None,
            page=max((walk.followed for walk in self.walks), default=0) or self.cursor.page,
            items=kept,
            tokens=self.listing.tokens if is_remembered else None,
            failed=failed if self.listing.tokens and is_remembered and failed else None,
        )

    def called(self, declared: int | None, *, kept: int, whole: bool, proved: bool) -> CatalogCursor:
        """The cursor after a roll call, which does not show what unidentified records look like."""
        cursor = self.settled(declared, kept=kept, proved=proved) if whole else self.moved()
        return replace(
            cursor,
            walked=cursor.walked if proved else None,
            passed=self.all_passed(),
            surplus=None if declared is None else declared - kept,
            unidentified=self.unidentified.kept(self.cursor.unidentified or ()),
        )

    def moved(self) -> CatalogCursor:
        """The cursor after reading what changed."""
        modified = max(filter(None, (self.newest_stored(), self.cursor.modified)), default=None)
        handles, holes = self.handles or None, self.holes or None
        return replace(self.left(), modified=modified, passed=self.all_passed(), handles=handles, holes=holes)

    def left(self) -> CatalogCursor:
        """The cursor without a place to go on at."""
        return replace(self.cursor, place=None, since=None, begun=None, stumbled=None)

    def newest_stored(self) -> str | None:
        """Never beyond the beginning of this run: what was edited later may have been passed already.

        That also keeps a record dated in the future from hiding all that comes until then.
        """
        if self.newest is None:
            return None
        return stamp(min(self.newest, self.clock) if self.clock else self.newest)


def mark_of(url: str) -> str:
    """What a cursor keeps of a URL."""
    return key(url).hex()[:16]
