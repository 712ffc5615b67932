"""Records of JSON as rows of a listing: one that cannot be read costs itself, and is kept as it came."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from rowen.connectors.catalog.dataset import Dataset
from rowen.connectors.catalog.listing import Row
from rowen.connectors.unread import unread_url
from rowen.formats.json import payload_of
from rowen.model.item import Failed, Fetched
from rowen.model.outside import attempt

__all__ = ["listed", "objects", "one_by_one", "row_of", "without"]

Json = Mapping[str, Any]
T = TypeVar("T")

# Transactions wait for their turn between two of their statements: with 25 ms a first harvest took 4 % longer. A record
# that is larger than honest ones takes several times as long.
_TURN_S = 0.005


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


def row_of(
    record: Any,
    read: Callable[[Json], Dataset],
    *,
    site: str,
    url: str | None,
    modified: datetime | None = None,
    language: str | None = None,
) -> Row:
    """What a record amounts to. `url` is that of its item, None if it has no identifier to build one from."""
    if not isinstance(record, Mapping):
        return _unread(record, site, "The record is no object.")
    if url is None:
        return _unread(record, site, "The record has no identifier.", modified)
    seen = attempt(
        lambda: Fetched(read(record).document(language=language)),
        lambda why: Failed(url, f"The record cannot be read: {why}.", payload=payload_of(record)),
    )
    return Row(seen, modified)


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
