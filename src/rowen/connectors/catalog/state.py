"""The state of one run over a catalog, and the limit on the number of its records.

A broken or malicious portal may invent records and tokens without end, and its declared count may be invented as well.
The limit is the lowest of several bounds; an option raises it for the few catalogs that are really larger.

A missing item may be any of the unidentified records. If a walk meets the same unidentified records as the previous
walk, it assumes that they are no items: some catalogs list such records permanently, and deletions must not wait
forever.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from rowen.connectors.base import Known
from rowen.connectors.catalog.cursor import CatalogCursor, stamp
from rowen.connectors.catalog.listing import Listing, Row
from rowen.connectors.catalog.options import CatalogOptions
from rowen.connectors.catalog.records import UrlSet
from rowen.model.items import Failed, Fetched, Gone, Unchanged
from rowen.model.url import key

# A judgement, not a measurement: 30 GB at 3 kB a record. Aggregators may list more, and need the option.
MOST_RECORDS = 10_000_000
# Without a declared count. A judgement as well: 3 GB at 3 kB a record, 10,000 pages of a hundred.
MOST_UNDECLARED = 1_000_000
# Always allowed, even beyond twice the declared count, since counts may be wrong and catalogs may be merged.
LEAST_GROWN = 100_000
# Times the items of the last whole walk: room for a merger or a large import, chosen and not measured.
MOST_GROWTH = 10
# At 16 characters each, 2 kB of cursor. If a walk meets more, some always count as new, and deletions wait.
_MOST_UNIDENTIFIED = 100
# 100 failures of 600 letters are 60 kB of cursor. A document with more is read again in each run.
_MOST_FAILED = 100
_SOME_MINUTES = 1000  # between two cleanups of the counts: 100 kB, and a thousandth of the work of one per record
_MOST_HANDLES = 200  # of about 100 characters: 20 kB of cursor; only whole walks see records without a handle
_MOST_HOLES = 100  # of about 100 characters each: 10 kB of cursor; a whole walk looks for the others
# At 16 characters each, 40 kB of cursor; if more records are no items, walks add little to the cost.
_MOST_PASSED = 2000
_LONGEST_ERROR = 500  # characters: a longer message repeats the record, which is in quarantine anyway


class Unidentified:
    """The unidentified records of one walk, identified by hashes of their URLs, which contain a content hash."""

    def __init__(self) -> None:
        self._marks: Counter[str] = Counter()

    def add(self, url: str) -> None:
        """Count a record; two records with the same URL count twice."""
        self._marks[blake2b(url.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()] += 1

    def __len__(self) -> int:
        return self._marks.total()

    def stored(self, before: Iterable[str] = ()) -> list[str] | None:
        """Return the hashes of these records and of the records in `before` for a cursor; None if there are none."""
        return sorted((self._marks | Counter(before)).elements())[:_MOST_UNIDENTIFIED] or None

    def are_known(self, stored: Any) -> bool:
        """Return whether all of these records are stored in a cursor."""
        return not self._marks - Counter(stored if isinstance(stored, list) else ())


class RecentDates:
    """The number of records by minute, for dates that are not much older than the newest one."""

    def __init__(self, length: timedelta) -> None:
        self.length = length
        self._length_min = int(length.total_seconds() // 60) + 1
        self._minutes: Counter[int] = Counter()

    def add(self, at: datetime) -> None:
        """Count a record with the date `at`."""
        self._minutes[int(at.timestamp() // 60)] += 1
        if len(self._minutes) > 2 * self._length_min + _SOME_MINUTES:
            newest = max(self._minutes)
            self._minutes = Counter({at: n for at, n in self._minutes.items() if at >= newest - self._length_min})

    def since(self, begin: datetime) -> int:
        """Return the approximate number of records dated at or after `begin`."""
        return sum(count for at, count in self._minutes.items() if at >= begin.timestamp() // 60)


@dataclass(slots=True)
class Shown:
    """The records that the current walk has shown so far; falling back to a whole walk begins a new instance.

    `urls` contains all records. `kept` counts records that have an item. `failed` contains records that could not be
    read, and `lost` counts failed records without a stored item. `dated` counts records with a date. `shared` counts
    items whose identifier belongs to several records; `dropped` counts records hidden by a different record with the
    same identifier. `passing` contains the hashes of records that are no items. `unidentified` contains received
    records without an identity; `unreceived` contains the errors of records that were not received, by URL. `absent`
    contains items that were requested individually and that the source does not have.
    """

    urls: UrlSet = field(default_factory=UrlSet)
    kept: int = 0
    lost: int = 0
    dated: int = 0
    shared: int = 0
    dropped: int = 0
    failed: list[Failed] = field(default_factory=list)
    passing: set[str] = field(default_factory=set)
    unidentified: Unidentified = field(default_factory=Unidentified)
    unreceived: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)


@dataclass(slots=True)
class RunState:
    """The state of one run over a catalog. The module in brackets owns the fields named after it.

    Given [refresh]: `listing`, `known`, `options`, `now`, and the `quarantined` URLs.

    Position [refresh]: `cursor` is the cursor for the next run, as far as it is known. `endless` is the reason why a
    listing without end was left. `replaced` is set if so many records are new that they may be known items under new
    identifiers.

    Records [state]: `shown` contains the records of the current walk. `item_count` is the number of items after all
    records are stored. `passed` contains the hashes of listed records that are no items, from this run and earlier
    runs. `unread` contains the URLs of all unidentified records of this run, `holes` their places, `handles` the
    arguments of `Listing.read_record` for failed items.

    Dates [walk, changes]: `newest` is the latest date, `clock` the source's time when the run began; `recent` counts
    the records with the latest dates. `page` is the number of records on the largest page that was not the last.

    Single records [retries]: `failed_again` contains records that failed again when requested individually.
    `unanswered` counts consecutive requests without an answer.
    """

    listing: Listing
    known: Known
    options: CatalogOptions
    now: Callable[[], datetime]
    cursor: CatalogCursor
    item_count: int
    recent: RecentDates
    quarantined: frozenset[str]
    passed: set[str]
    handles: dict[str, str]
    holes: dict[str, Any]
    shown: Shown = field(default_factory=Shown)
    unread: set[str] = field(default_factory=set)
    newest: datetime | None = None
    clock: datetime | None = None
    page: int = 0
    endless: str | None = None
    replaced: bool = False
    failed_again: list[Failed] = field(default_factory=list)
    unanswered: int = 0

    @classmethod
    def begin(
        cls, listing: Listing, known: Known, options: CatalogOptions, *, now: Callable[[], datetime]
    ) -> "RunState":
        """Begin a run with the cursor of the previous run."""
        cursor = CatalogCursor.of(known.cursor, listing.version)
        return cls(
            listing,
            known,
            options,
            now,
            cursor,
            item_count=known.count,
            recent=RecentDates(timedelta(hours=options.overlap_h)),
            quarantined=frozenset(failure.url for failure in known.failed),
            passed=set(cursor.passed or ()),
            handles=dict(cursor.handles or {}),
            holes=dict(cursor.holes or {}),
        )

    @property
    def seen(self) -> UrlSet:
        """Return the set of items that the current walk has shown."""
        return self.shown.urls

    @property
    def expected(self) -> int:
        """Return the count that the source declares if no record was added or deleted unnoticed.

        If the source declared no count before, this is the number of items and of listed records that are no items.
        """
        return self.item_count + (len(self.passed) if self.cursor.surplus is None else self.cursor.surplus)

    def begin_anew(self) -> None:
        """Discard the shown records, because a whole walk shows them again."""
        self.shown, self.passed, self.handles, self.failed_again = Shown(), set(), {}, []
        self.replaced = False

    def excess(self, received: int, declared: int | None) -> str | None:
        """Return the reason to leave a listing with too many records; None if the number is within the limit."""
        most = self.options.max_records
        if most is None:
            before = self.cursor.items
            grown = MOST_RECORDS if before is None else max(LEAST_GROWN, MOST_GROWTH * before)
            credible = MOST_UNDECLARED if declared is None else 2 * max(declared, 0) + LEAST_GROWN
            most = min(MOST_RECORDS, credible, grown)
        if received <= most:
            return None
        compared = "" if declared is None else f", {declared:,} are declared"
        return (
            f"The listing does not end: {received:,} records came{compared}, and the limit is {most:,}. "
            "The items that were read stay. "
            f"If the catalog is really that large, set the option max_records to more than {most:,}."
        )

    def are_failures_explained(self) -> bool:
        """Return whether all quarantined records failed in the stored document and were retried since.

        A record that failed outside the connector may have failed for reasons other than the document.
        """
        explained = {url for url, _, _ in self.cursor.failed or ()}
        return all(failure.tries > 1 and failure.url in explained for failure in self.known.failed)

    async def take(self, rows: list[Row], *, counting: bool) -> int:
        """Count the records of a page; with `counting`, return the number of new items, else 0."""
        urls = [row.url for row in rows if counting or not isinstance(row.seen, Fetched | Unchanged)]
        stored = await self.known.look_up(urls) if urls and self.known.count else {}
        passed = len(self.passed)
        for row in rows:
            self._count(row, is_stored=row.url in stored)
        if counting and self.cursor.surplus is not None:
            # The declared count includes listed records that are no items.
            self.cursor = replace(self.cursor, surplus=self.cursor.surplus + len(self.passed) - passed)
        return sum(isinstance(row.seen, Fetched) and row.url not in stored for row in rows) if counting else 0

    def _count(self, row: Row, *, is_stored: bool) -> None:
        shown = self.shown
        if isinstance(row.seen, Failed) or row.url in self.quarantined:
            if row.handle is not None and (row.url in self.handles or len(self.handles) < _MOST_HANDLES):
                self.handles[row.url] = row.handle
        elif self.handles:
            self.handles.pop(row.url, None)
        if row.modified is not None:
            shown.dated += 1
            self.recent.add(row.modified)
        match row.seen:
            case Fetched():
                shown.kept += 1
                self.item_count += not is_stored
                self._pass(row.url, passed=False)
            case Unchanged():
                shown.kept += 1
                self._pass(row.url, passed=False)
            case Gone():
                self.item_count -= is_stored
                self._pass(row.url, passed=row.named)
            case Failed() as failed:
                if len(shown.failed) <= _MOST_FAILED:
                    shown.failed.append(replace(failed, payload=None))
                shown.kept += is_stored
                shown.lost += not is_stored
                self._pass(row.url, passed=row.named and not is_stored)

    def _pass(self, url: str, *, passed: bool) -> None:
        """Store whether a listed record is no item; an identifier listing contains such a record nevertheless."""
        if self.listing.tells_deletions or not (passed or self.passed):
            return
        if self.listing.identifiers is None and len(self.passed) >= _MOST_PASSED:
            # The count will differ from the expected count, and the catalog is walked.
            return
        mark = mark_of(url)
        for marks in (self.passed, self.shown.passing):
            (marks.add if passed else marks.discard)(mark)

    def note_unidentified(self, row: Row) -> None:
        """Store that a record could not be identified, and the place at which it can be requested again."""
        self.unread.add(row.url)
        if row.received or not isinstance(row.seen, Failed):
            self.shown.unidentified.add(row.url)
        else:
            self.shown.unreceived[row.url] = row.seen.error
        if row.place is not None and (row.url in self.holes or len(self.holes) < _MOST_HOLES):
            self.holes[row.url] = row.place

    def interrupted(self, place: Any) -> CatalogCursor:
        """Return the cursor in the middle of a walk, with which the next run resumes at `place`."""
        return replace(
            self.cursor,
            place=place,
            passed=sorted(self.passed) or None,
            handles=self.handles or None,
            holes=self.holes or None,
            stumbled=None,
        )

    def settled(self, declared: int | None, *, kept: int, proved: bool) -> CatalogCursor:
        """Return the cursor after a complete walk; unless `proved`, the next run is a whole walk again."""
        shown = self.shown
        failed = [(failure.url, failure.error[:_LONGEST_ERROR], failure.hint) for failure in shown.failed]
        is_remembered = len(failed) <= _MOST_FAILED
        return replace(
            self.left(),
            modified=self._newest_stored(),
            walked=stamp(self.now()) if self.listing.dated and proved else None,
            surplus=None if declared is None else declared - kept,
            unidentified=shown.unidentified.stored(),
            passed=sorted(shown.passing) or None,
            handles=self.handles or None,
            holes={url: place for url, place in self.holes.items() if url in self.seen} or None,
            page=self.page or self.cursor.page,
            items=kept,
            tokens=self.listing.tokens if is_remembered else None,
            failed=failed if self.listing.tokens and is_remembered and failed else None,
        )

    def moved(self) -> CatalogCursor:
        """Return the cursor after the changes were read."""
        return replace(
            self.left(),
            modified=max(filter(None, (self._newest_stored(), self.cursor.modified)), default=None),
            passed=sorted(self.passed) or None,
            handles=self.handles or None,
            holes=self.holes or None,
        )

    def left(self) -> CatalogCursor:
        """Return the cursor without a place for resuming."""
        return replace(self.cursor, place=None, stumbled=None)

    def _newest_stored(self) -> str | None:
        """Return the newest stored date, at most the time when this run began; None if no record has a date.

        A record edited during the run may have been read before its edit. A record dated in the future must not hide
        all changes until then.
        """
        if self.newest is None:
            return None
        return stamp(min(self.newest, self.clock) if self.clock else self.newest)


def mark_of(url: str) -> str:
    """Return the hash of a URL, as stored in cursors."""
    return key(url).hex()[:16]
