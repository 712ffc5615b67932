"""Convert records to rows of a listing: parse only changed records, and isolate broken records."""

import asyncio
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from rowen.connectors.base import Known, unread_url
from rowen.connectors.catalog.dataset import Dataset
from rowen.connectors.catalog.listing import Row, UnparsedRecord
from rowen.connectors.catalog.options import DocumentOptions
from rowen.errors import SourceError
from rowen.formats.json import payload_of
from rowen.model.hashes import Hash, body_hash, unmarked
from rowen.model.items import Failed, Fetched, Unchanged, Validators
from rowen.model.text import attempt
from rowen.model.url import address, key

Json = Mapping[str, Any]
T = TypeVar("T")
# Other tasks, such as open transactions, wait this long for their next step: with 25 ms a first harvest took 4 %
# longer. An unusually large record takes several times as long.
_TURN_S = 0.005
MARK_BYTES = 16  # long enough that no two records of a catalog have the same hash by chance


async def one_by_one(make: Callable[[T], Row], records: Iterable[T]) -> list[Row]:
    """Return the rows of a page; let other tasks run in between, since pages and records may be large."""
    rows: list[Row] = []
    begun = time.perf_counter()
    for record in records:
        rows.append(make(record))
        if time.perf_counter() - begun > _TURN_S:
            await asyncio.sleep(0)
            begun = time.perf_counter()
    return rows


async def settled(rows: Sequence[Row], known: Known) -> list[Row]:
    """Parse the changed records of a page and return all its rows; look up all stored hashes by one query."""
    urls = [row.url for row in rows if isinstance(row.seen, UnparsedRecord)]
    if not urls:
        return list(rows)
    stored = await known.look_up(urls) if known.count else {}

    def settle(row: Row) -> Row:
        seen = row.seen
        while isinstance(seen, UnparsedRecord):
            before = stored.get(seen.url)
            body = before.body_hash or b"" if before else b""
            # A hash of the bytes is compared with the end of the stored value, a hash of the record with its beginning.
            is_mark = len(seen.digest) == MARK_BYTES
            if seen.digest == body.removeprefix(unmarked(body)) if is_mark else unmarked(seen.digest) == unmarked(body):
                return row._replace(seen=Unchanged(seen.url, by_body=True))
            seen = seen.read()
        return row._replace(seen=seen)

    return await one_by_one(settle, rows)


def mark_of_bytes(record: bytes) -> Hash:
    """Return the short hash of a record's bytes."""
    return body_hash(record)[:MARK_BYTES]


def row_of(
    record: Any,
    read: Callable[[Json], Dataset],
    *,
    site: str,
    url: str | None,
    steady: Callable[[Json], Json],
    options: DocumentOptions,
    modified: datetime | None = None,
) -> Row:
    """Return the row of a JSON record; `url` is the URL of its item, None if the record has no identifier.

    `steady` returns the record without volatile values, from which the dataset is made.
    """
    if not isinstance(record, Mapping):
        return unidentified(site, "The record is no object.", payload_of(record))
    if url is None:
        return unidentified(site, "The record has no identifier.", payload_of(record), modified)
    return Row(unparsed_json(record, read, url=url, steady=steady, options=options), modified)


def unparsed_json(
    record: Json,
    read: Callable[[Json], Dataset],
    *,
    url: str,
    steady: Callable[[Json], Json],
    options: DocumentOptions,
    beside: str = "",
    what: str = "record",
    mark: Hash = b"",
) -> UnparsedRecord | Fetched | Failed:
    """Return a JSON record that is mapped to a dataset only if it changed.

    `beside` contains other values that affect the dataset, such as the base address of its links. `mark` is the hash
    of the record's bytes.
    """
    content = record

    def digest() -> Hash:
        nonlocal content
        steadied = steady(record)
        encoded = msgspec.json.encode(steadied, order="deterministic")
        content = steadied
        return body_hash(encoded + beside.encode("utf-8", "surrogatepass")) + mark

    return unparsed(url, digest, lambda: read(content), payload=lambda: payload_of(record), options=options, what=what)


def unparsed(
    url: str,
    digest: Callable[[], Hash],
    read: Callable[[], Dataset],
    *,
    payload: Callable[[], bytes | None],
    options: DocumentOptions,
    what: str = "record",
) -> UnparsedRecord | Fetched | Failed:
    """Return a record that is mapped to a dataset only if its digest changed; map it now if hashing fails."""

    def parse(hashed: Hash | None) -> Fetched | Failed:
        return parsed(url, read, Validators(body_hash=hashed), payload=payload, options=options, what=what)

    def hashed() -> UnparsedRecord:
        made = digest()
        return UnparsedRecord(address(url), made, lambda: parse(made))

    return attempt(hashed, lambda _: None) or parse(None)


def parsed(
    url: str,
    read: Callable[[], Dataset],
    validators: Validators,
    *,
    payload: Callable[[], bytes | None],
    options: DocumentOptions,
    what: str = "record",
) -> Fetched | Failed:
    """Map a record to a dataset and its document; return a broken record as a failure that keeps its payload.

    This function isolates a broken record for all kinds, so that the other records of its page can be read.
    """

    def document() -> Fetched:
        language, landing_page = options.language, options.landing_page
        return Fetched(read().document(validators=validators, language=language, landing_page=landing_page))

    return attempt(document, lambda why: Failed(url, f"The {what} cannot be read: {why}.", payload=payload()))


def unidentified(site: str, why: str, payload: bytes | None, modified: datetime | None = None) -> Row:
    """Return the row of a record from which no item can be identified; its URL contains a hash of its payload."""
    return Row(Failed(unread_url(site, payload or b""), why, payload=payload), modified, named=False)


def unreceived(url: str, problem: SourceError, place: Any = None) -> Row:
    """Return the row of a record that could not be received, and which may be any record of the source."""
    return Row(Failed(url, str(problem), problem.hint), named=False, received=False, place=place)


def listed(value: Any) -> list[Any]:
    """Return a value as a list: a list as it is, a single value as its only element, None or "" as an empty list."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def objects(value: Any) -> list[Json]:
    """Return the objects in a value that should be a list of objects; ignore other values."""
    return [member for member in listed(value) if isinstance(member, Mapping)]


def without(record: Json, names: frozenset[str]) -> dict[str, Any]:
    """Return a record without the volatile values in `names`, and without objects that become empty."""
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
    """A set of texts that stores only their hashes, in a table that is never more than two thirds full."""

    def __init__(self) -> None:
        self._table = array("Q", bytes(8 * _FIRST_SIZE))
        self._count = 0

    def add(self, text: str) -> bool:
        """Add a text; return whether it is new."""
        mark = hash(text) & _ALL_BITS or 1
        place = self._place(mark)
        if self._table[place]:
            return False
        self._table[place] = mark
        self._count += 1
        if 3 * self._count > 2 * len(self._table):
            marks, self._table = self._table, array("Q", bytes(16 * len(self._table)))
            for old in filter(None, marks):
                self._table[self._place(old)] = old
        return True

    def __contains__(self, text: str) -> bool:
        return self._table[self._place(hash(text) & _ALL_BITS or 1)] != 0

    def __len__(self) -> int:
        return self._count

    def _place(self, mark: int) -> int:
        """Return the position of a hash in the table, or the free position for a hash that is not in the table."""
        table, mask = self._table, len(self._table) - 1
        place = mark & mask
        while (present := table[place]) and present != mark:
            place = (place + 1) & mask
        return place


class UrlSet(HashSet):
    """A set of items by their URLs, which are compared in canonical form."""

    def add(self, url: str) -> bool:
        """Add an item; return whether it is new."""
        return super().add(key(url).hex())

    def __contains__(self, url: str) -> bool:
        return super().__contains__(key(url).hex())
