"""Records as rows of a listing: parsed only if they differ from what is stored, and isolated if they are broken."""

import asyncio
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from rowen.connectors.base import Known, StoredState, unread_url
from rowen.connectors.catalog.dataset import Dataset
from rowen.connectors.catalog.listing import Row, UnparsedRecord
from rowen.errors import SourceError
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
    "parsed",
    "row_of",
    "settled",
    "unidentified",
    "unparsed",
    "unparsed_json",
    "unreceived",
    "without",
]

Json = Mapping[str, Any]
T = TypeVar("T")

# Transactions wait for their turn between two of their statements: with 25 ms a first harvest took 4 % longer. A record
# that is larger than honest ones takes several times as long.
_TURN_S = 0.005
MARK_BYTES = 16  # no two records of a catalog share so many by chance


async def one_by_one(make: Callable[[T], Row], records: Iterable[T]) -> list[Row]:
    """Return the rows of a page; let other tasks run meanwhile, since pages and records may be large."""
    rows: list[Row] = []
    begun = time.perf_counter()
    for record in records:
        rows.append(make(record))
        if time.perf_counter() - begun > _TURN_S:
            await asyncio.sleep(0)
            begun = time.perf_counter()
    return rows


async def settled(rows: Sequence[Row], known: Known) -> list[Row]:
    """Return the rows of a page, each parsed unless it is unchanged; look up all stored hashes of a page at once."""
    unparsed = [row.url for row in rows if isinstance(row.seen, UnparsedRecord)]
    if not unparsed:
        return list(rows)
    stored = await known.look_up(unparsed) if known.count else {}
    return await one_by_one(lambda row: _settled(row, stored), rows)


def _settled(row: Row, stored: Mapping[str, StoredState]) -> Row:
    seen = row.seen
    while isinstance(seen, UnparsedRecord):
        before = stored.get(seen.url)
        body = before.body_hash or b"" if before else b""
        # A mark is compared with what stands behind the hash, a hash with the hash.
        is_mark = len(seen.digest) == MARK_BYTES
        if seen.digest == body.removeprefix(unmarked(body)) if is_mark else unmarked(seen.digest) == unmarked(body):
            return row._replace(seen=Unchanged(seen.url, by_body=True))
        seen = seen.read()
    return row._replace(seen=seen)


def mark_of_bytes(record: bytes) -> Hash:
    """Return a mark of a record's bytes."""
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
    """Return the row of a JSON record. `url` is that of its item; None if the record has no identifier.

    `steady` returns the record without values that change by themselves; the dataset is made of the rest.
    """
    if not isinstance(record, Mapping):
        return unidentified(site, "The record is no object.", payload_of(record))
    if url is None:
        return unidentified(site, "The record has no identifier.", payload_of(record), modified)
    how: dict[str, Any] = {"language": language, "landing_page": landing_page}
    return Row(unparsed_json(record, read, url=url, steady=steady, **how), modified)


def unparsed_json(
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
    """Return a JSON record that is mapped only if it changed.

    `beside` is what else the dataset depends on, as the base address of its links. `mark` is the mark of its bytes.
    """
    said = record

    def digest() -> Hash:
        nonlocal said
        steadied = steady(record)
        written = msgspec.json.encode(steadied, order="deterministic")
        said = steadied
        return body_hash(written + beside.encode("utf-8", "surrogatepass")) + mark

    how: dict[str, Any] = {"language": language, "landing_page": landing_page, "what": what}
    return unparsed(url, digest, lambda: read(said), payload=lambda: payload_of(record), **how)


def unparsed(
    url: str,
    digest: Callable[[], Hash],
    read: Callable[[], Dataset],
    *,
    payload: Callable[[], bytes | None],
    language: str | None,
    landing_page: str | None,
    what: str = "record",
) -> UnparsedRecord | Fetched | Failed:
    """Return a record that is mapped to a dataset only if its digest changed; at once if it cannot be hashed."""

    def parse(hashed: Hash | None) -> Fetched | Failed:
        how: dict[str, Any] = {"language": language, "landing_page": landing_page, "what": what}
        return parsed(url, read, digest=hashed, payload=payload, **how)

    def hashed() -> UnparsedRecord:
        made = digest()
        return UnparsedRecord(address(url), made, lambda: parse(made))

    return attempt(hashed, lambda _: None) or parse(None)


def parsed(
    url: str,
    read: Callable[[], Dataset],
    *,
    digest: Hash | None,
    payload: Callable[[], bytes | None],
    language: str | None,
    landing_page: str | None,
    what: str = "record",
) -> Fetched | Failed:
    """Map a record to a dataset and its document; a broken record is a failure that keeps its payload.

    This isolates a broken record for all kinds: it costs no other record of its page.
    """

    def document() -> Fetched:
        validators = Validators(body_hash=digest)
        return Fetched(read().document(validators=validators, language=language, landing_page=landing_page))

    return attempt(document, lambda why: Failed(url, f"The {what} cannot be read: {why}.", payload=payload()))


def unidentified(site: str, why: str, payload: bytes | None, modified: datetime | None = None) -> Row:
    """Return the row of a record from which no item can be identified; a hash of its payload identifies it."""
    return Row(Failed(unread_url(site, payload or b""), why, payload=payload), modified, named=False)


def unreceived(url: str, problem: SourceError, place: Any = None) -> Row:
    """Return the row of a record that could not be received, which may be any record."""
    return Row(Failed(url, str(problem), problem.hint), named=False, received=False, place=place)


def listed(value: Any) -> list[Any]:
    """Return a list of values, given as a list, as one value, or not at all."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def objects(value: Any) -> list[Json]:
    """Return the objects of a value that should be a list of objects."""
    return [one for one in listed(value) if isinstance(one, Mapping)]


def without(record: Json, names: frozenset[str]) -> dict[str, Any]:
    """Return a record without values that change by themselves, and without objects that become empty."""
    rest_of: dict[str, Any] = {}
    for name, value in record.items():
        if name in names:
            continue
        rest = without(value, names) if isinstance(value, Mapping) else value
        if rest != {} or value == {}:
            rest_of[name] = rest
    return rest_of


_FIRST_SIZE = 1 << 10  # 8 kB, and a power of two as the mask needs it
_ALL_BITS = (1 << 64) - 1


class HashSet:
    """A set of texts by their hashes, in a table that is never more than two thirds full."""

    def __init__(self) -> None:
        self._table = _empty(_FIRST_SIZE)
        self._count = 0

    def add(self, text: str) -> bool:
        """Return whether the text is new here."""
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
        """Return where a mark stands, or would stand."""
        table, mask = self._table, len(self._table) - 1
        place = mark & mask
        while (present := table[place]) and present != mark:
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
    """A set of items by their URLs, in any spelling."""

    def __init__(self) -> None:
        self._marks = HashSet()

    def add(self, url: str) -> bool:
        """Return whether the item is new here."""
        return self._marks.add(key(url).hex())

    def __contains__(self, url: str) -> bool:
        return key(url).hex() in self._marks

    def __len__(self) -> int:
        return len(self._marks)
