"""The listing of a catalog: the contract that a kind fulfils, page by page.

Everything else that a run over a catalog needs (where to resume, what may have been missed, what is proved) is the same
for all kinds, and is done by `refresh`.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from rowen.model.hashes import Hash
from rowen.model.items import Failed, Fetched, Gone, Unchanged

FAR_PAST = datetime(1900, 1, 1, tzinfo=UTC)
FAR_FUTURE = datetime(9000, 1, 1, tzinfo=UTC)


class UnparsedRecord(NamedTuple):
    """A record as it was received. `read` is called only if `digest` differs from the stored hash of the item.

    The digest is the hash of the parsed record, or a mark of its bytes (`records.mark_of_bytes`). Marks are stored
    behind the hash; if the bytes differ, `read` parses the record and returns it with its hash, which decides.
    """

    url: str
    digest: Hash
    read: Callable[[], "Fetched | Unchanged | Gone | Failed | UnparsedRecord"]


class Row(NamedTuple):
    """One record of a page, and its modification date according to the source.

    A row is not `named` if no item can be identified from the record. It is `shared` if another record has the same
    identifier and both are items. It is `absent` if it failed because the source, asked for this record alone, does not
    have it. A row that was not `received` may stand for any record of the source.

    `handle` identifies the record in `Listing.read_record` where the URL of its item does not. `place` is the argument
    of `Listing.retry` for a row that is not named, in plain JSON; None if only a walk can read the record.
    """

    seen: Fetched | Unchanged | Gone | Failed | UnparsedRecord
    modified: datetime | None = None
    named: bool = True
    shared: bool = False
    handle: str | None = None
    absent: bool = False
    received: bool = True
    place: Any = None

    @property
    def observed(self) -> Fetched | Unchanged | Gone | Failed:
        """Return the observation of the item; parse the record if necessary."""
        seen = self.seen
        while isinstance(seen, UnparsedRecord):
            seen = seen.read()
        return seen

    @property
    def url(self) -> str:
        """Return the URL of the item that the record describes."""
        return self.seen.item.url if isinstance(self.seen, Fetched) else self.seen.url


@dataclass(frozen=True, slots=True)
class ListingPage:
    """One page of a listing.

    `place` is where the next page begins, in plain JSON; None ends the listing. `declared` is the number of records
    that the source declares for this listing, `clock` its own time if it states it. `doubt` is a reason why the end of
    this listing does not prove that all records were seen.

    `unshown` records are counted by the source but were missing from its answer. `unreceived` records could not be
    received and have no row, because their places are unknown. `stumbled` is set if the source failed on this page and
    then returned less or nothing of it. `ends_by_count` is set if only the declared count says that this is the last
    page: if the walk continues, the next page is requested.
    """

    rows: Sequence[Row]
    place: Any = None
    declared: int | None = None
    clock: datetime | None = None
    doubt: str | None = None
    unshown: int = 0
    unreceived: int = 0
    stumbled: bool = False
    ends_by_count: bool = False


class Tokens(NamedTuple):
    """The validators of a catalog in a single document."""

    url: str
    etag: str | None
    last_modified: str | None


class IdentifierPage(NamedTuple):
    """One page of an identifier listing: the URLs of items, None for each record without an identifier.

    A URL is repeated if the source has the record twice, but not if it comes again because two pages overlap.
    """

    urls: Sequence[str | None]
    declared: int | None = None


class IdentifierListing(Protocol):
    """The identifiers of all records, for a small part of the cost of the records.

    An identifier proves that a record exists, not that it is unchanged.
    """

    def read_identifiers(self) -> AsyncGenerator[IdentifierPage]:
        """Yield all identifiers, page by page."""
        ...


class Listing(Protocol):
    """A catalog in terms of its protocol; a kind inherits from this class and overrides what differs.

    `version` is increased when records are parsed differently than before. `dated` is set if the protocol can list what
    was modified since a date; `rising` if such a list is sorted by date, oldest first; `counts_changes` if the count of
    such a list is exact. `resolution` is the coarsest resolution of its dates. `tells_deletions` is set if the protocol
    lists deleted records. `identifiers` is set where identifiers alone can be listed.

    A catalog in a single document sets `tokens` when it was read, and `not_modified` if it was requested with tokens
    and has not changed; it then yields no pages.
    """

    version: int
    dated: bool = False
    rising: bool = False
    counts_changes: bool = True
    resolution: timedelta = timedelta(seconds=1)
    tells_deletions: bool = False
    tokens: Tokens | None = None
    not_modified: bool = False
    identifiers: IdentifierListing | None = None

    def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield the pages from a place on, the first one by default; all records, or those modified since a date."""
        ...

    async def count(self, since: datetime | None = None) -> int | None:
        """Return the number of records, or of those after `since`, by one cheap request; None if impossible."""
        return None

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        """Return the record of one item as the listing would, by one request; None if only the listing has it.

        A record that the source does not return is a `Failed` row, unless the source states that it was deleted.
        """
        return None

    async def retry(self, place: Any) -> Any | None:
        """Request a record again that could not be identified; return its place if it still cannot be.

        Return None if it can be identified now or no longer exists: a walk then reads it. Raise `SourceError` if the
        request for this place fails.
        """
        return None
