"""Telling records from other objects, and naming one that cannot be read."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from rowen.connectors.catalog.languages import word
from rowen.connectors.datajson.record import item_url
from rowen.formats.json_records import depths_at
from rowen.model.outside import UNREADABLE

__all__ = ["is_record", "name_of", "names_in"]

_IDENTIFIERS = (re.compile(rb'"identifier"\s*+:\s*+'), re.compile(rb'"@id"\s*+:\s*+'))
_GOES_ON = re.compile(r"\s*+[,}]")
_PARTS = frozenset({"accessURL", "byteSize", "downloadURL", "fn", "hasEmail", "mediaType"})
_OF_PARTS = re.compile(r"Distribution|Contact|Individual|Organization|Agent|Location|PeriodOfTime|Concept")
_MOST_READ_BYTES = 1 << 20  # of a broken record, looked at for its name: an honest one has some kB
_MOST_IDENTIFIER_BYTES = 1 << 14  # longer than any URL that servers take (8 kB)
_MOST_PLACES = 1000  # names in one broken piece: each is looked up, and a piece swallows a few records at most
_DECODER = json.JSONDecoder()


def is_record(value: Any) -> bool:
    """Whether an object is a record, and not one of its files, publishers or contacts."""
    if not isinstance(value, Mapping) or _PARTS & value.keys() or _OF_PARTS.search(str(value.get("@type"))):
        return False
    return any(value.get(name) for name in ("identifier", "@id", "title"))


def name_of(body: bytes, value: Any, document: str) -> str | None:
    """The URL of the item that an unreadable record is about, if it tells."""
    if not isinstance(value, Mapping):
        return _url(_identifier(body[:_MOST_READ_BYTES]), document) if body[:1] == b"{" else None
    with suppress(*UNREADABLE):
        return item_url(value, document)
    return None


def names_in(body: bytes, document: str) -> set[str]:
    """The URLs of all that may be in a broken piece: it may have swallowed other records."""
    places = (found for pattern in _IDENTIFIERS for found in islice(pattern.finditer(body), _MOST_PLACES))
    return {url for found in places if (url := _url(_value(body, found.end()), document))}


def _url(identifier: Any, document: str) -> str | None:
    with suppress(*UNREADABLE):
        return item_url({"identifier": identifier}, document) if word(identifier) else None
    return None


def _identifier(body: bytes) -> Any:
    """The identifier of a broken record: one that stands before the error and is its own, or the only one."""
    sound_bytes = _sound_bytes(body)
    for pattern in _IDENTIFIERS:
        places = list(islice(pattern.finditer(body), _MOST_PLACES))
        sound = [one for one in places if one.start() < sound_bytes]
        depths = depths_at(body, [one.start() for one in sound])
        own = [one for one, depth in zip(sound, depths, strict=True) if depth == 1]
        for found in own[:1] or (places if len(places) == 1 else []):
            if said := _value(body, found.end()):
                return said
    return None


def _sound_bytes(body: bytes) -> int:
    """Up to where a body is JSON: after that, brackets and strings cannot be told from each other."""
    with suppress(RecursionError):
        try:
            _DECODER.raw_decode(body.decode("latin-1"))
        except json.JSONDecodeError as problem:
            return problem.pos
    return len(body)


def _value(body: bytes, at: int) -> Any:
    text = body[at : at + _MOST_IDENTIFIER_BYTES].decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        value, end = _DECODER.raw_decode(text)
        return value if _GOES_ON.match(text, end) else None
    return None
