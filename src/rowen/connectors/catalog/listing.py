"""What a kind of catalog has to say for itself: its listing, page by page.

Everything else that a run over a catalog needs (where to go on, what may have been missed, what is proved) is the same
for all kinds, and stands in `refresh`.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from rowen.model.hashes import Hash
from rowen.model.items import Failed, Fetched, Gone, Unchanged

__all__ = [
    "FAR_FUTURE",
    "FAR_PAST",
    "Listing",
    "ListingPage",
    "Names",
    "RawRecord",
    "RollCall",
    "Row",
    "Tokens",
    "UnparsedRecord",
]

FAR_PAST = datetime(1900, 1, 1, tzinfo=UTC)
FAR_FUTURE = datetime(9000, 1, 1, tzinfo=UTC)


class UnparsedRecord(NamedTuple):
    """A record as it was received. It is read only if `digest`, the hash of what it says, is not the one we hold."""

    url: str
    digest: Hash
    read: Callable[[], Fetched | Failed]


class RawRecord(NamedTuple):
    """A record as it was received, not even parsed. It is only if `mark`, a hash of its bytes, is not the one we hold.

    The mark stands behind the hash of what the record says, which decides where the bytes differ.
    """

    url: str
    mark: Hash
    open: "Callable[[], Row]"


class Row(NamedTuple):
    """One record of a page: what it amounts to, and when its source says that it was modified.

    One that is not `named` cannot be read so far as to tell which item it is about, if any. One that is `shared` has
    the identifier of another record, and is an item of its own all the same. `handle` is what the record can be asked
    for by, where the URL of its item does not tell. One that is `absent` failed because the source, asked for it by
    itself, has no such record. One that was not `received` may be any record of the source. The `place` of one that is
    not named is what `Listing.retry` needs, in plain JSON; None if only a walk tells whether it can be read.
    """

    seen: Fetched | Unchanged | Gone | Failed | UnparsedRecord | RawRecord
    modified: datetime | None = None
    named: bool = True
    shared: bool = False
    handle: str | None = None
    absent: bool = False
    received: bool = True
    place: Any = None

    @property
    def observed(self) -> Fetched | Unchanged | Gone | Failed:
        """What is said of the item, for which the record is read if it was not yet."""
        if isinstance(self.seen, RawRecord):
            return self.seen.open().observed
        return self.seen.read() if isinstance(self.seen, UnparsedRecord) else self.seen

    @property
    def url(self) -> str:
        """The item that the record is about."""
        return self.seen.item.url if isinstance(self.seen, Fetched) else self.seen.url


@dataclass(frozen=True, slots=True)
class ListingPage:
    """One page of a listing.

    `place` is where the next page begins, in plain JSON; None ends the listing. `declared` is how many records the
    source says that this listing has, `clock` its own time if it tells it, `doubt` why reaching the end of this
    listing would not prove that all was seen. `unshown` records are counted, but were not shown when asked for;
    `unreceived` ones could not be received, and have no row since nothing tells their place.
    `stumbled` tells that the source failed over this page, before it gave less or nothing of it.
    `ends_by_count` tells that only the count says that this page is the last: if the walk goes on, the next one is
    asked for all the same.
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
    """What a catalog in a single document can be asked by: is it still this one?"""

    url: str
    etag: str | None
    last_modified: str | None


class Names(NamedTuple):
    """One page of a roll call: the URLs of the items that it names, None for a record without an identifier.

    An item that is there twice is named twice; one that comes again because two pages overlap is not.
    """

    urls: Sequence[str | None]
    declared: int | None = None


class RollCall(Protocol):
    """The identifiers of all records, for a small part of what the records cost.

    A name proves that a record is there, not that it is unchanged.
    """

    def names(self) -> AsyncGenerator[Names]:
        """All names, page by page."""
        ...


class Listing(Protocol):
    """A catalog as its protocol shows it; a kind that inherits from this class states only what differs.

    `version` is raised when a record is read into something else than before. `dated` tells whether the protocol can be
    asked for what was modified since a moment; `rising`, whether such an answer comes oldest first; `counts_changes`,
    whether how many there are is told exactly. `resolution` is how exact its dates are at worst. `tells_deletions` is
    for protocols that list what was deleted. A catalog in a single document sets `tokens` once it was read, and
    `not_modified` if it was asked by tokens and is still the same; it then gives no pages at all. `roll` is set where
    identifiers alone can be listed.
    """

    version: int
    dated: bool = False
    rising: bool = False
    counts_changes: bool = True
    resolution: timedelta = timedelta(seconds=1)
    tells_deletions: bool = False
    tokens: Tokens | None = None
    not_modified: bool = False
    roll: RollCall | None = None

    def pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """The pages from a place on, the first one by default; all records, or those modified since."""
        ...

    async def count(self, since: datetime | None = None) -> int | None:
        """How many records there are, or were modified since, by one cheap question; None if that cannot be asked."""
        ...

    async def record(self, url: str, handle: str | None = None) -> Row | None:
        """The record of one item as the listing would show it, by one question; None if only the listing shows it.

        One that the source does not show is a `Failed` row, unless the source itself says that it is gone.
        """
        return None

    async def retry(self, place: Any) -> Any | None:
        """Ask again for a record that could not be identified; returns the place where it still cannot be.

        Returns None if it can be, or is no longer there: a walk then reads it. Raises `SourceError` if the place fails.
        """
        return None
