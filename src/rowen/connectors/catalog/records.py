"""Records as rows of a listing: parsed only if they differ from what is stored, and isolated if they are broken."""

import asyncio
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from rowen.connectors.base import Held, Known, unread_url
from rowen.connectors.catalog.dataset import Dataset
from rowen.connectors.catalog.listing import RawRecord, Row, UnparsedRecord
from rowen.formats.json import payload_of
from rowen.model.hashes import Hash, body_hash, unmarked
from rowen.model.items import Failed, Fetched, Unchanged, Validators
from rowen.model.text import attempt
from rowen.model.url import address, key

__all__ = [
    "MARK_BYTES",
    "HashSet",
    "UrlSet",
    "listed",
    "mark_of_bytes",
    "objects",
    "one_by_one",
    "row_of",
    "settled",
    "unread",
    "without",
]

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


_FIRST_SIZE = 1 << 10  # 8 kB, and a power of two as the mask needs it
_ALL_BITS = (1 << 64) - 1


class HashSet:
    """A set of texts by their hashes, in a table that is never more than two thirds full."""

    def __init__(self) -> None:
        self._table = _empty(_FIRST_SIZE)
        self._count = 0

    def add(self, text: str) -> bool:
        """Whether the text is new here."""
        mark = _mark(text)
        place = self._place(mark)
        if self._table[place]:
            return False
        self._table[place] = mark
        self._count += 1
        if 3 * self._count > 2 * len(self._table):
            self._grow()
        return True

    def __contains__(self, text: str) -> bool:
        return self._table[self._place(_mark(text))] != 0

    def __len__(self) -> int:
        return self._count

    def _place(self, mark: int) -> int:
        """Where a mark stands, or would stand."""
        table, mask = self._table, len(self._table) - 1
        place = mark & mask
        while (found := table[place]) and found != mark:
            place = (place + 1) & mask
        return place

    def _grow(self) -> None:
        marks, self._table = self._table, _empty(2 * len(self._table))
        for mark in marks:
            if mark:
                self._table[self._place(mark)] = mark


def _mark(text: str) -> int:
    return hash(text) & _ALL_BITS or 1


def _empty(size: int) -> "array[int]":
    return array("Q", bytes(8 * size))


class UrlSet:
    """The same for items, by their URLs, however these are spelled."""

    def __init__(self) -> None:
        self._marks = HashSet()

    def add(self, url: str) -> bool:
        """Whether the item is new here."""
        return self._marks.add(key(url).hex())

    def __contains__(self, url: str) -> bool:
        return key(url).hex() in self._marks

    def __len__(self) -> int:
        return len(self._marks)
