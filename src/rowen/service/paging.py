"""Opaque cursors: where a list goes on, for the list that it was made by and for no other."""

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from rowen.errors import UsageError
from rowen.model.hashes import canonical_json
from rowen.model.page import Page

__all__ = ["decoded", "encoded", "page_of"]

T = TypeVar("T")

# Guards against mix-ups, not against anybody: four bytes miss one in four billion.
_DIGEST_BYTES = 4


def encoded(listing: Any, place: Sequence[Any]) -> str:
    """A cursor for a place in a list; `listing` is all that decides which list it is, as plain values."""
    return urlsafe_b64encode(_digest(listing) + canonical_json(list(place))).decode().rstrip("=")


def decoded(cursor: str | None, listing: Any) -> list[Any] | None:
    """The place that a cursor stands for; raises `UsageError` for one of another list, or none at all."""
    if cursor is None:
        return None
    try:
        raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        place = json.loads(raw[_DIGEST_BYTES:])
    except (binascii.Error, ValueError):
        raise UsageError(
            f"{cursor[:80]!r} is no cursor.", hint="Take the one that came with the page before."
        ) from None
    if raw[:_DIGEST_BYTES] != _digest(listing) or not isinstance(place, list):
        raise UsageError(
            "The cursor belongs to another list.", hint="Ask with the same filters as for the page before."
        )
    return place


def page_of(found: Sequence[T], limit: int | None, listing: Any, place: Callable[[T], Sequence[Any]]) -> Page[T]:
    """A page of what was read; where one more than the limit was found, it goes on."""
    if limit is None or len(found) <= limit:
        return Page(found)
    return Page(found[:limit], encoded(listing, place(found[limit - 1])))


def _digest(listing: Any) -> bytes:
    return sha256(canonical_json(listing)).digest()[:_DIGEST_BYTES]
