"""The hashes that decide identity and change.

All are SHA-256 over an unambiguous encoding: canonical JSON, whose strings are quoted, so that no field can
run into the next one. Nothing is case-folded: a folded hash would leave old text behind.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec

__all__ = ["CANONICAL", "Hash", "body_hash", "canonical_json", "content_hash", "record_hash", "text_hash", "unmarked"]

Hash = bytes

CANONICAL = msgspec.json.Encoder(order="deterministic")
"""Writes canonical JSON; refuses what is none."""

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
