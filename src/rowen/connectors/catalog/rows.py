"""Records of JSON as rows of a listing: one that cannot be read costs itself, and is kept as it came."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from rowen.connectors.base import Held, Known, unread_url
from rowen.connectors.catalog.dataset import Dataset
from rowen.connectors.catalog.listing import RawRecord, Row, UnparsedRecord
from rowen.formats.json import payload_of
from rowen.model.hashes import Hash, body_hash, unmarked
from rowen.model.item import Failed, Fetched, Unchanged, Validators
from rowen.model.outside import attempt
from rowen.model.url import address

__all__ = ["MARK_BYTES", "listed", "mark_of_bytes", "objects", "one_by_one", "row_of", "settled", "unread", "without"]

Json = Mapping[str, Any]
T = TypeVar("T")

# Transactions wait for their turn between two of their statements: with 25 ms a first harvest took 4 % longer. A record
# that is larger than honest ones takes several times as long.
_TURN_S = 0.005
MARK_BYTES = 16  # no two records of a catalog share so many by chance


async def one_by_one(make: Callable[[T], Row], records: Iterable[T]) -> list[Row]:
    """The rows of a page, made while others have their turn: a page may be large, and all its records as well."""
    rows: list[Row] = []
    begun = time.perf_counter()
    for record in records:
        rows.append(make(record))
        if time.perf_counter() - begun > _TURN_S:
            await asyncio.sleep(0)
            begun = time.perf_counter()
    return rows


async def settled(rows: Sequence[Row], known: Known) -> list[Row]:
    """The rows of a page, each read that is not the record we hold; what is held is asked for once for all of them."""
    unread = [row.url for row in rows if isinstance(row.seen, UnparsedRecord | RawRecord)]
    if not unread:
        return list(rows)
    held = await known.look_up(unread) if known.count else {}
    return await one_by_one(lambda row: _settled(row, held), rows)


def _settled(row: Row, held: Mapping[str, Held]) -> Row:
    if isinstance(row.seen, RawRecord):
        before = _held(row.seen.url, held)
        if before.removeprefix(unmarked(before)) == row.seen.mark:
            return row._replace(seen=Unchanged(row.seen.url, by_body=True))
        row = row.seen.open()
    unread = row.seen
    if not isinstance(unread, UnparsedRecord):
        return row
    is_same = unmarked(_held(unread.url, held)) == unmarked(unread.digest)
    return row._replace(seen=Unchanged(unread.url, by_body=True) if is_same else unread.read())


def _held(url: str, held: Mapping[str, Held]) -> Hash:
    """The hash of what we hold of a record, with the mark of its bytes; empty if there is none."""
    before = held.get(url)
    return b"" if before is None else before.body_hash or b""


def mark_of_bytes(record: bytes) -> Hash:
    """What tells a record from others by its bytes alone."""
    return body_hash(record)[:MARK_BYTES]


def row_of(
    record: Any,
    read: Callable[[Json], Dataset],
    *,
    site: str,
    url: str | None,
    steady: Callable[[Json], Json],
    modified: datetime | None = None,
    language: str | None = None,
    landing_page: str | None = None,
) -> Row:
    """What a record amounts to. `url` is that of its item, None if it has no identifier to build one from.

    `steady` gives the record without what moves by itself: all that may enter into the dataset.
    """
    if not isinstance(record, Mapping):
        return _unread(record, site, "The record is no object.")
    if url is None:
        return _unread(record, site, "The record has no identifier.", modified)
    seen = unread(record, read, url=url, steady=steady, language=language, landing_page=landing_page)
    return Row(seen, modified)


def unread(
    record: Json,
    read: Callable[[Json], Dataset],
    *,
    url: str,
    steady: Callable[[Json], Json],
    beside: str = "",
    language: str | None = None,
    landing_page: str | None = None,
    what: str = "record",
    mark: Hash = b"",
) -> UnparsedRecord | Fetched | Failed:
    """A record of an item, to be read if it is not the one that we hold; one that cannot be hashed is read at once.

    `beside` is what else decides what is made of it, as the address that its links are relative to. `mark` is that of
    its bytes, where it was not opened for the same ones.
    """

    def failed(why: str) -> Failed:
        return Failed(url, f"The {what} cannot be read: {why}.", payload=payload_of(record))

    def fetched(said: Json, digest: Hash | None) -> Fetched | Failed:
        how: dict[str, Any] = {"language": language, "landing_page": landing_page}
        return attempt(lambda: Fetched(read(said).document(validators=Validators(body_hash=digest), **how)), failed)

    def hashed() -> UnparsedRecord:
        said = steady(record)
        written = msgspec.json.encode(said, order="deterministic")
        digest = body_hash(written + beside.encode("utf-8", "surrogatepass")) + mark
        return UnparsedRecord(address(url), digest, lambda: fetched(said, digest))

    return attempt(hashed, lambda _: None) or fetched(record, None)


def _unread(record: Any, site: str, why: str, modified: datetime | None = None) -> Row:
    """A record that is no item: known by what it says."""
    payload = payload_of(record)
    return Row(Failed(unread_url(site, payload or b""), why, payload=payload), modified, named=False)


def listed(value: Any) -> list[Any]:
    """What stands where a list belongs: a list, one value, or nothing."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def objects(value: Any) -> list[Json]:
    """The objects of what should be a list of them."""
    return [one for one in listed(value) if isinstance(one, Mapping)]


def without(record: Json, names: frozenset[str]) -> dict[str, Any]:
    """A record without what moves by itself, and without objects that hold nothing else."""
    kept: dict[str, Any] = {}
    for name, value in record.items():
        if name in names:
            continue
        rest = without(value, names) if isinstance(value, Mapping) else value
        if rest != {} or value == {}:
            kept[name] = rest
    return kept
