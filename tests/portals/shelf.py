"""A catalog in the test itself, for the engine that all catalogs share; an index that does what the flow would do."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from rowen.connectors.base import FailedBefore, StoredState
from rowen.connectors.catalog.listing import IdentifierPage, Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.options import CatalogOptions
from rowen.connectors.catalog.refresh import Refresh
from rowen.errors import SourceError
from rowen.model.items import Checkpoint, Complete, Document, Failed, FellBack, Fetched, Gone, Incomplete, Unchanged
from rowen.model.runs import Mode

START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass
class Catalog:
    """A catalog with a clock of its own: names with their dates, and every way to lie about them."""

    dates: dict[str, datetime | None] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    clock: datetime = START
    size: int = 10
    miscount: int = 0
    counts: bool = True
    ignores_filter: bool = False
    empty_when_filtered: bool = False
    short_when_filtered: int = 0
    repeats: bool = False
    rewinds: bool = False
    endless: bool = False
    lists_nothing: bool = False
    twice: list[str] = field(default_factory=list)
    broken: frozenset[str] = frozenset()
    gone: set[str] = field(default_factory=set)
    doubt_at: int | None = None
    expired: bool = False
    etag: str | None = None
    after_page: Callable[[int], None] | None = None
    asked: list[str] = field(default_factory=list)

    def put(self, name: str, words: str = "", *, hours: float = 1.0, dated: bool = True) -> None:
        self.clock += timedelta(hours=hours)
        self.dates.pop(name, None)
        self.dates[name] = self.clock if dated else None
        self.words[name] = words or f"About {name}."

    def fill(self, count: int) -> None:
        for number in range(count):
            self.put(f"n{number:03}")

    def invent(self, number: int) -> str:
        """One more record that was never there."""
        name = f"e{number}"
        self.words[name], self.dates[name] = "Made up.", self.clock
        return name

    def found(self, since: datetime | None) -> list[str]:
        if self.lists_nothing or (since and self.empty_when_filtered):
            return []
        names = [*self.dates, *self.twice]
        if since is None or self.ignores_filter:
            return names
        held = [name for name in names if (at := self.dates[name]) is not None and at >= since]
        return held[: len(held) - self.short_when_filtered]


class Shelf(Listing):
    """The catalog's listing: by place in a list, ten at a time."""

    version = 1

    def __init__(self, catalog: Catalog, *, dated: bool = True, rising: bool = True, tells: bool = False) -> None:
        self.dated, self.rising, self.tells_deletions = dated, rising, tells
        self.tokens: Tokens | None = None
        self.not_modified = False
        self._catalog = catalog

    async def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        catalog = self._catalog
        start = place or 0
        if tokens and tokens.etag == catalog.etag:
            catalog.asked.append("tokens")
            self.not_modified = True
            return
        if place is not None and catalog.expired:
            raise SourceError("The token has expired.")
        self.tokens = Tokens("u", catalog.etag, None) if catalog.etag else None
        for turn in count():
            catalog.asked.append("since" if since else "page")
            found = catalog.found(since)
            shown = found[0 if catalog.repeats else start :][: catalog.size]
            if catalog.rewinds:
                # The place is ignored, and pages become larger after one that failed.
                shown = found[: catalog.size + turn]
            if catalog.endless:
                shown = [catalog.invent(start + number) for number in range(catalog.size)]
            following = start + len(shown)
            declared = len(found) + catalog.miscount + (catalog.short_when_filtered if since else 0)
            more = bool(shown) and (following < len(found) or catalog.repeats or catalog.endless)
            doubt = "The window is full." if catalog.doubt_at is not None and following > catalog.doubt_at else None
            yield ListingPage(
                [self._row(name) for name in shown],
                place=following if more and not doubt else None,
                declared=declared if catalog.counts else None,
                clock=catalog.clock,
                doubt=doubt,
            )
            if catalog.after_page:
                catalog.after_page(following)
            if not more or doubt:
                return
            start = following

    async def count(self, since: datetime | None = None) -> int | None:
        if not self._catalog.counts:
            return None
        self._catalog.asked.append("count")
        return max(0, len(self._catalog.found(since)) + self._catalog.miscount)

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        name = url.rpartition("/")[2]
        self._catalog.asked.append("record")
        return self._row(name) if name in self._catalog.dates else Row(Failed(url, "not shown"))

    def _row(self, name: str) -> Row:
        at = self._catalog.dates[name]
        if name in self._catalog.broken:
            return Row(Failed(url_of(name), "broken"), at)
        if name in self._catalog.gone:
            return Row(Gone(url_of(name)), at)
        return Row(Fetched(Document(url_of(name), name, self._catalog.words[name])), at)


@dataclass
class NamedCatalog(Catalog):
    """A catalog that lists its records by name, and can list the names alone."""

    nameless: set[str] = field(default_factory=set)
    hides: set[str] = field(default_factory=set)
    forgets: int = 0

    def found(self, since: datetime | None) -> list[str]:
        return sorted(name for name in super().found(since) if name not in self.hides)


class NamedShelf(Shelf):
    """Its listing, with an identifier listing."""

    def __init__(self, catalog: NamedCatalog, **how: Any) -> None:
        super().__init__(catalog, rising=False, **how)
        self.identifiers = self
        self._named = catalog

    async def read_identifiers(self) -> AsyncGenerator[IdentifierPage]:
        catalog = self._named
        names = [] if catalog.lists_nothing else sorted([*catalog.dates, *catalog.twice])
        told = names[: len(names) - catalog.forgets]
        for start in range(0, len(told) or 1, 3 * catalog.size):
            catalog.asked.append("names")
            page = told[start : start + 3 * catalog.size]
            urls = [None if name in catalog.nameless else url_of(name) for name in page]
            yield IdentifierPage(urls, len(names) + catalog.miscount)

    def _row(self, name: str) -> Row:
        if name in self._named.nameless:
            return Row(Failed(f"https://catalog.example/#/unread/{name}", "no object"), named=False)
        return super()._row(name)


def url_of(name: str) -> str:
    return f"https://catalog.example/{name}"


class Index:
    """What the flow would hold: items, a cursor, and a sweep after what is complete."""

    mode: Mode = "incremental"

    def __init__(self, now: datetime = START) -> None:
        self.items: dict[str, str] = {}
        self.cursor: Any = None
        self.now = now
        self.ending: Complete | Incomplete | None = None
        self.fell_back: list[str] = []
        self.deleted: set[str] = set()
        self.failed: dict[str, FailedBefore] = {}
        self.unchanged = 0

    @property
    def count(self) -> int:
        return len(self.items)

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, StoredState]:
        return {url: StoredState(url, None, None, None, (), 0) for url in urls if url in self.items}

    async def everything(self) -> AsyncIterator[Sequence[StoredState]]:
        held = [StoredState(url, None, None, None, (), 0) for url in self.items]
        for start in range(0, len(held), 7):
            yield held[start : start + 7]

    def refresh(self, listing: Shelf, *, full: bool = False, **options: Any) -> Refresh:
        """One run, not yet begun."""
        run = KnownIndex(self, None if full else self.cursor)
        return Refresh(listing, run, CatalogOptions(**options), now=lambda: self.now)

    async def sync(self, listing: Shelf, *, full: bool = False, die_after: int | None = None, **options: Any) -> None:
        """One run, ended by force after so many checkpoints."""
        self.ending, self.fell_back, self.unchanged = None, [], 0
        seen: set[str] = set()
        pulling = self.refresh(listing, full=full, **options).pull()
        async for observation in pulling:
            match observation:
                case Fetched(item=Document() as item):
                    if item.url not in seen:
                        self.items[item.url] = item.text
                        self.failed.pop(item.url, None)
                    seen.add(item.url)
                case Gone(url=url):
                    self.items.pop(url, None)
                    self.failed.pop(url, None)
                case Failed(url=url):
                    self._quarantine(url)
                    seen.add(url)
                case Unchanged(url=url):
                    self.unchanged += 1
                    self.failed.pop(url, None)
                    seen.add(url)
                case Checkpoint(cursor=cursor):
                    self.cursor = cursor
                    die_after = die_after - 1 if die_after is not None else None
                    if die_after == 0:
                        await pulling.aclose()
                        return
                case FellBack(why=why):
                    self.fell_back.append(why)
                case Complete() | Incomplete():
                    self.ending = observation
        if isinstance(self.ending, Complete):
            assert self.ending.expected is None or len(seen) >= self.ending.expected
            self.deleted = set(self.items) - seen
            for url in self.deleted:
                del self.items[url]
            self.failed = {url: one for url, one in self.failed.items() if url in seen}

    def _quarantine(self, url: str) -> None:
        before = self.failed.get(url, FailedBefore(url, 0, self.now, self.now))
        self.failed[url] = before._replace(tries=before.tries + 1, last_at=self.now)


class KnownIndex:
    """The index as it was when a run began."""

    mode: Mode = "incremental"

    def __init__(self, index: Index, cursor: Any) -> None:
        self.failed = sorted(index.failed.values(), key=lambda one: one.last_at)
        self.cursor = cursor
        self.count = index.count
        self.look_up = index.look_up
        self.everything = index.everything


def expected(catalog: Catalog) -> dict[str, str]:
    return {url_of(name): catalog.words[name] for name in catalog.dates if name not in catalog.gone}
