"""Canonical JSON, the hashes that determine identity and change, and the versions of stored hashes.

All hashes are SHA-256 of an unambiguous encoding: canonical JSON quotes strings, so that the boundary between two
fields is part of the hash. Nothing is case-folded: otherwise a change of case would not be stored.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from rowen.model.text import letters

Hash = bytes

CANONICAL = msgspec.json.Encoder(order="deterministic")
"""The encoder of canonical JSON; it raises an error for values that JSON cannot represent."""

DOCUMENT_VERSION = 1
"""The version of `content_hash` and `record_hash`, and of the form in which a document is stored (`model/items.py`). It
is part of every recipe: when it is increased, all items are read again, and differences are announced as `amended`.
Increase the `record_version` of the catalogs too, so that they are walked completely.
"""

VERSIONS: Mapping[str, int] = {
    "key": 1,  # the key of an item, derived from its URL (`model/url.py`)
    "body": 1,  # the hash of a body, and of the headers that describe it
    "record": 1,  # the hash of a catalog's record, with the suffix for its bytes
    "twins": 1,  # the marks of datasets
    "title": 2,  # `title_words` in the database; version 1 included the tags
    "question": 1,  # the hash of a search query
    "schema": 1,
    "facts": 1,  # the hash of extracted facts
    "statements": 1,  # the labels of blank nodes in published data
    "note": 1,  # the names of the notes beside a cursor
    "git": 1,  # the hash of everything that is stored of a repository
    "token": 1,  # the hash of a secret; the secret itself is not stored
}
"""The versions of stored hashes that only a migration can renew. A migration that renews them stores the new version in
the table `hash_version`. Tests compare that table with these versions, and these versions with the hashes of fixed
examples (`tests/store/test_stored_hashes.py`).
"""

_HASH_BYTES = 32  # the length of a SHA-256 hash
_PATIENT = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def canonical_json(value: Any) -> bytes:
    """Return canonical JSON: keys sorted, no white space, integers of any size exact. Equal values have equal bytes."""
    try:
        return CANONICAL.encode(value)
    except (TypeError, UnicodeEncodeError):
        return _PATIENT.encode(value).encode("utf-8", "surrogatepass")


def body_hash(body: bytes) -> Hash:
    """Return the hash of a body as received; it shows that an unchanged body need not be parsed."""
    return hashlib.sha256(body).digest()


def unmarked(marked: Hash) -> Hash:
    """Return a hash without its suffix, which identifies the bytes of a record that is stored as received."""
    return marked[:_HASH_BYTES]


def text_hash(text: str) -> Hash:
    """Return the hash of a text. Embeddings are stored under the hash of a passage's words."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def content_hash(title: str, text: str, tags: Iterable[str]) -> Hash:
    """Return the hash of an item's content. If it differs, the outcome of the item is `updated`."""
    return hashlib.sha256(canonical_json([title, text, sorted(set(tags))])).digest()


def record_hash(
    content: Hash,
    url: str,
    language: str | None,
    media_type: str | None,
    record_json: bytes,
    remarks: Iterable[str] = (),
) -> Hash:
    """Return the hash of everything that is stored of an item. If it differs, the row must be written."""
    facts = [url, language, media_type, *remarks]
    return hashlib.sha256(content + canonical_json(facts) + record_json).digest()


def data_hash(data: Any) -> Hash:
    """Return the hash of extracted facts as JSON: keys sorted, no white space, nothing escaped, 5.0 equal to 5."""
    return hashlib.sha256(canonical_json(_plain(data))).digest()


def _plain(value: Any) -> Any:
    match value:
        case float() if math.isfinite(value) and value == int(value):
            return int(value)
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
    return value


OWN = "source"
"""The field of a dataset's record that contains the portal's own record. It is the largest part, and is stored
separately.
"""

FILES = "resources"
"""The field that repeats the portal's entry for each file; only the addresses in this field are searched."""

MOST_DEPTH = 200
"""The maximum depth of a record. Real records have a dozen levels; PostgreSQL allows a few thousand, Python 1,000."""

_NUL = b"\\u0000"
_LEAVES = frozenset({str, int, float, bool, type(None)})


class RecordJson(NamedTuple):
    """A record in canonical JSON; `fields` maps encoded names to encoded values, in order.

    A record that includes the portal's own record is stored in two parts: the searchable `facts`, and the rest
    (`apart`). In its facts, `files` replaces the list of files by their addresses.
    """

    fields: dict[bytes, bytes]
    files: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """The approximate size in bytes."""
        return sum(map(len, self.fields.values()))

    @property
    def is_parted(self) -> bool:
        """Whether the record is stored in two parts."""
        return _NAME_OF_OWN in self.fields

    def whole(self) -> bytes:
        """Return the record as one object."""
        return _object(self.fields)

    def facts(self) -> bytes:
        """Return the searchable part of the record."""
        if not self.is_parted:
            return self.whole()
        fields = {name: value for name, value in self.fields.items() if name != _NAME_OF_OWN}
        return _object(fields if self.files is None else {**fields, _NAME_OF_FILES: self.files})

    def apart(self) -> bytes:
        """Return the second part, whose fields replace or extend the facts."""
        return _object({name: self.fields[name] for name in (_NAME_OF_FILES, _NAME_OF_OWN) if name in self.fields})

    def holds(self, part: bytes) -> bool:
        """Return whether the encoded record contains the bytes `part`."""
        return any(part in name or part in value for name, value in self.fields.items())

    def brackets(self) -> int:
        """Return an upper bound on the number of objects and lists."""
        return 1 + sum(value.count(b"{") + value.count(b"[") for value in self.fields.values())


_NAME_OF_OWN, _NAME_OF_FILES = canonical_json(OWN), canonical_json(FILES)


def _object(fields: Mapping[bytes, bytes]) -> bytes:
    return b"{" + b",".join([name + b":" + value for name, value in fields.items()]) + b"}"


def storable(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], RecordJson]:
    """Return a record in a form that can be stored, and its encoding; numbers that are not finite become null.

    Raise `RecursionError` if the record is nested too deeply; the limit does not depend on the caller's stack.
    """
    written: RecordJson | None = None
    with suppress(TypeError, UnicodeEncodeError, RecursionError):
        written = _parted(record, CANONICAL.encode)
    if written is None or written.brackets() > MOST_DEPTH:
        inner: list[Any] = [record]
        for _ in range(MOST_DEPTH):
            inner = [
                value
                for outer in inner
                for value in (outer if isinstance(outer, list | tuple) else outer.values())
                if type(value) not in _LEAVES and isinstance(value, list | tuple | Mapping)
            ]
        if inner:
            raise RecursionError(f"it is nested more than {MOST_DEPTH} levels deep")
    if written is not None and not written.holds(_NUL):
        return record, written
    changed = _changed(record)
    return changed, _parted(changed, canonical_json)


def storable_cursor(cursor: Any) -> Any:
    """Return a cursor in a form that can be stored; None, which starts a new walk, if it is nested too deeply."""
    try:
        record, _ = storable({"cursor": cursor})
    except RecursionError:
        return None
    return record["cursor"]


def _parted(record: Mapping[str, Any], write: Callable[[Any], bytes]) -> RecordJson:
    names = sorted(record) if all(type(name) is str for name in record) else None
    if names is None:
        # The encoder converts names of other types to text, so the order is that of the converted names.
        record = json.loads(write(record))
        names = sorted(record)
    fields = {write(name): write(record[name]) for name in names}
    listed = record.get(FILES) if OWN in record else None
    if not isinstance(listed, list):
        return RecordJson(fields)
    urls = [{"url": file["url"]} if isinstance(file, dict) and "url" in file else {} for file in listed]
    return RecordJson(fields, write(urls))


def _changed(value: Any) -> Any:
    match value:
        case str():
            return letters(value)
        case Mapping():
            return {letters(str(name)): _changed(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_changed(inner) for inner in value]
        case float():
            return value if math.isfinite(value) else None
        case int() | None:
            return value
        case _:
            return letters(str(value))
