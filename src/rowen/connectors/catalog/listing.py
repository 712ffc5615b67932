"""The interface of a catalog's listing, which each kind implements page by page.

All other tasks of a run over a catalog (resuming, detecting missed records, proving completeness) are the same for all
kinds and are done by `refresh`.
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
    """A record as received. `read` is called only if `digest` differs from the stored hash of the item.

    The digest is either the hash of the parsed record or the shorter hash of its bytes (`records.mark_of_bytes`). The
    hash of the bytes is stored after the hash of the record. If the bytes differ, `read` parses the record and returns
    it with the hash of the record, which decides.
    """

    url: str
    digest: Hash
    read: Callable[[], "Fetched | Unchanged | Gone | Failed | UnparsedRecord"]


class Row(NamedTuple):
    """One record of a page, with its modification date according to the source.

    `named` is unset if no item can be identified from the record. `shared` is set if another record has the same
    identifier and both are items. `absent` is set if the record was requested individually and the source does not
    have it. A row that was not `received` may stand for any record of the source.

    `handle` identifies the record in `Listing.read_record` if the URL of its item does not. `place` is the argument of
    `Listing.retry` for a row without `named`, in plain JSON; None if only a walk can read the record.
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

    `place` is the place of the next page, in plain JSON; None ends the listing. `declared` is the number of records
    that the source declares for this listing, `clock` the source's own time if the source states it. `doubt` is the
    reason why the end of this listing does not prove that all records were seen.

    `unshown` counts the records that the source counts but does not return. `unreceived` counts the records that could
    not be received and have no row, because their places are unknown. `stumbled` is set if the source failed on this
    page and then returned only a part of it or nothing. `ends_by_count` is set if only the declared count indicates
    that this page is the last one: if the walk continues, the next page is requested.
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

    A URL is repeated if the source has the record twice, but not if the same record comes again because two pages
    overlap.
    """

    urls: Sequence[str | None]
    declared: int | None = None


class IdentifierListing(Protocol):
    """The listing of all identifiers, which costs a small part of the listing of all records.

    An identifier proves that a record exists, not that the record is unchanged.
    """

    def read_identifiers(self) -> AsyncGenerator[IdentifierPage]:
        """Yield all identifiers, page by page."""
        ...


class Listing(Protocol):
    """A catalog as its protocol presents it; a kind inherits from this class and overrides members.

    `version` is increased when records are parsed differently than before. `dated` is set if the protocol can list the
    records modified since a date. Such a list is `rising` if it is sorted by date, oldest first; `counts_changes` is
    set if its declared count is exact. `resolution` is the coarsest resolution of its dates. `tells_deletions` is set
    if the protocol lists deleted records. `identifiers` is set if the protocol can list identifiers without records.

    A catalog in a single document sets `tokens` after the document was read. It sets `not_modified` if the document
    was requested with tokens and has not changed; it then yields no pages.
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
        """Yield the pages from `place` on, by default from the first one; with `since`, only modified records."""
        ...

    async def count(self, since: datetime | None = None) -> int | None:
        """Return the number of records by one cheap request; with `since`, count only modified records.

        Return None if the source has no such request.
        """
        return None

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        """Request the record of one item and return its row; None if only a walk can read it.

        A record that the source does not return is a `Failed` row, unless the source states that it was deleted.
        """
        return None

    async def retry(self, place: Any) -> Any | None:
        """Request an unidentified record again; return its place if it still cannot be identified.

        Return None if the record can be identified now or no longer exists: a walk then reads it. Raise `SourceError`
        if the request for this place fails.
        """
        return None
