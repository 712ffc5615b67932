"""Opaque cursors: the position at which a list continues, valid for that list only.

A caller may forge a cursor, so each part of a position is validated before it is used in a query.
"""

import binascii
import json
import math
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar

from rowen.errors import UsageError
from rowen.model.hashes import canonical_json
from rowen.model.text import letters

T = TypeVar("T")


class Page(list[T]):
    """A page of a list; `next` is the cursor of the following page, None after the last."""

    def __init__(self, values: Iterable[T] = (), next: str | None = None) -> None:  # noqa: A002 (the public name)
        super().__init__(values)
        self.next = next


_KEY = re.compile("[0-9a-f]{64}")

# Detects mix-ups, but does not protect against attackers: four bytes miss one mix-up in four billion.
_DIGEST_BYTES = 4
# A bigint of PostgreSQL.
_LARGEST = 2**63 - 1


def encoded(listing: Any, place: Sequence[Any]) -> str:
    """Return a cursor for a position; `listing` has plain values that identify the list."""
    return urlsafe_b64encode(_digest(listing) + canonical_json(list(place))).decode().rstrip("=")


def decoded(
    cursor: str | None, listing: Any, *parts: Callable[[Any], Any], rest: Callable[[Any], Any] | None = None
) -> list[Any] | None:
    """Return the position in a cursor: one value for each part. Return None without a cursor.

    Raise `UsageError` if the cursor is invalid or belongs to another list.
    """
    if cursor is None:
        return None
    try:
        raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        place = json.loads(raw[_DIGEST_BYTES:])
        is_of_this = raw[:_DIGEST_BYTES] == _digest(listing)
        if is_of_this and isinstance(place, list):
            readers = [*parts, *[rest] * (len(place) - len(parts))] if rest else parts
            return [read(value) for read, value in zip(readers, place, strict=True)]
    except (binascii.Error, ValueError, OverflowError, RecursionError):
        is_of_this = True
    if is_of_this:
        raise UsageError(f"{cursor[:80]!r} is no cursor.", hint="Take the one that came with the page before.")
    raise UsageError("The cursor belongs to another list.", hint="Ask with the same filters as for the page before.")


def as_number(value: Any) -> int:
    """Return the number of a row; raise `ValueError` if it is invalid."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise ValueError(value)
    return value


def as_score(value: Any) -> float:
    """Return a score that a ranking orders by; raise `ValueError` if it is invalid."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def as_text(value: Any) -> str:
    """Return a text that the database can store; raise `ValueError` if it is invalid."""
    if not isinstance(value, str) or letters(value) != value:
        raise ValueError(value)
    return value


def as_key(value: Any) -> str:
    """Return the key of an item from hexadecimal digits; raise `ValueError` if it is invalid."""
    if not _KEY.fullmatch(as_text(value)):
        raise ValueError(value)
    return str(value)


def as_moment(value: Any) -> datetime:
    """Return a time with its time zone; raise `ValueError` if it is invalid."""
    moment = datetime.fromisoformat(as_text(value))
    if moment.tzinfo is None or not 1 < moment.year < 9999:
        raise ValueError(value)
    return moment


def page_of(rows: Sequence[T], limit: int | None, listing: Any, place: Callable[[T], Sequence[Any]]) -> Page[T]:
    """Return a page of at most `limit` rows; it has a next page if more than `limit` rows were read."""
    if limit is None or len(rows) <= limit:
        return Page(rows)
    return Page(rows[:limit], encoded(listing, place(rows[limit - 1])))


def _digest(listing: Any) -> bytes:
    return sha256(canonical_json(listing)).digest()[:_DIGEST_BYTES]
