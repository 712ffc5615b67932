"""The hashes that decide identity and change, and the versions of stored hashes that have none elsewhere.

All are SHA-256 over an unambiguous encoding: canonical JSON, whose strings are quoted, so that no field can
run into the next one. Nothing is case-folded: a folded hash would leave old text behind.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

__all__ = [
    "CANONICAL",
    "DOCUMENT_VERSION",
    "VERSIONS",
    "Hash",
    "body_hash",
    "canonical_json",
    "content_hash",
    "record_hash",
    "text_hash",
    "unmarked",
]

Hash = bytes

CANONICAL = msgspec.json.Encoder(order="deterministic")
"""Writes canonical JSON; refuses what is none."""

DOCUMENT_VERSION = 1
"""Of `content_hash` and `record_hash`, and of the form in which a document is stored (`model/item.py`).

It is part of every recipe: when it is raised, all items are read again, and what differs is announced as amended. Raise
`record_version` of the catalogs with it, so that they are walked whole.
"""

VERSIONS: Mapping[str, int] = {
    "key": 1,  # of an item, by its URL: `model/url.py`
    "body": 1,  # of what an origin sent, and of what its headers say of it
    "record": 1,  # of a catalog's record, with the mark of its bytes
    "twins": 1,  # marks of datasets
    "title": 2,  # `title_words` in the database; 1 had the tags as well
    "question": 1,  # of what was searched for
    "schema": 1,
    "facts": 1,  # of what was extracted
    "statements": 1,  # names that are given to nodes without one in what is published
    "note": 1,  # names of what is remembered beside a cursor
    "git": 1,  # of all that is held of a repository
    "token": 1,  # of secrets, of which nothing else is stored
}
"""The versions of stored hashes that only a migration can renew.

A migration that renews them notes the new version in the table `hash_version`. Tests compare it with this one, and this
one with what the functions give for fixed examples (`tests/store/test_stored_hashes.py`).
"""

_HASH_BYTES = 32  # of SHA-256
_PATIENT = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def canonical_json(value: Any) -> bytes:
    """The same bytes for equal values: keys sorted, no white space, integers of any size exact."""
    try:
        return CANONICAL.encode(value)
    except (TypeError, UnicodeEncodeError):
        return _PATIENT.encode(value).encode("utf-8", "surrogatepass")


def body_hash(body: bytes) -> Hash:
    """What an origin sent, byte for byte: stops an unchanged body before it is parsed."""
    return hashlib.sha256(body).digest()


def unmarked(found: Hash) -> Hash:
    """A hash without what may stand behind it: of a record that is held as it was sent, a mark of its bytes."""
    return found[:_HASH_BYTES]


def text_hash(text: str) -> Hash:
    """One text, letter by letter. Of a passage its words are hashed, and embeddings kept by that."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def content_hash(title: str, text: str, tags: Iterable[str]) -> Hash:
    """What an item says. A difference makes it `updated`."""
    return hashlib.sha256(canonical_json([title, text, sorted(set(tags))])).digest()


def record_hash(
    content: Hash,
    url: str,
    language: str | None,
    media_type: str | None,
    record_json: bytes,
    remarks: Iterable[str] = (),
) -> Hash:
    """Everything that is stored of an item. A difference means that a row must be written."""
    told = [url, language, media_type, *remarks]
    return hashlib.sha256(content + canonical_json(told) + record_json).digest()
