"""The one form in which a source's record is stored and hashed: as it came, less what PostgreSQL cannot hold."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rowen.model.hashes import CANONICAL, canonical_json
from rowen.model.outside import letters

__all__ = ["RecordJson", "storable", "storable_cursor"]

OWN = "source"
"""The field in which a dataset's record holds the one that its portal gave: most of it, and kept apart."""

FILES = "resources"
"""The field that says once more of each file what the portal's record says; where they lie is what is asked for."""

MOST_DEPTH = 200
"""Honest records are a dozen levels deep; PostgreSQL takes a few thousand, Python 1,000 of its own calls."""

_NUL = b"\\u0000"
_LEAVES = frozenset({str, int, float, bool, type(None)})


class RecordJson(NamedTuple):
    """A record in canonical JSON, field by field: `fields` has names and values as they are written, in order.

    A record that holds the one of its portal has `files` as well: where they lie, and nothing else. It is stored in two
    parts, `facts` that can be looked into and what is kept `apart`.
    """

    fields: dict[bytes, bytes]
    files: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """About how long it is."""
        return sum(map(len, self.fields.values()))

    @property
    def is_parted(self) -> bool:
        """Whether it is stored in two parts."""
        return _NAME_OF_OWN in self.fields

    def whole(self) -> bytes:
        """The record as one object."""
        return _object(self.fields)

    def facts(self) -> bytes:
        """The record without what is kept apart."""
        if not self.is_parted:
            return self.whole()
        kept = {name: value for name, value in self.fields.items() if name != _NAME_OF_OWN}
        return _object(kept if self.files is None else {**kept, _NAME_OF_FILES: self.files})

    def apart(self) -> bytes:
        """What takes the place of facts, or adds to them."""
        return _object({name: self.fields[name] for name in (_NAME_OF_FILES, _NAME_OF_OWN) if name in self.fields})

    def holds(self, letters: bytes) -> bool:
        """Whether something stands in it."""
        return any(letters in name or letters in value for name, value in self.fields.items())

    def brackets(self) -> int:
        """How many objects and lists there are, at most."""
        return 1 + sum(value.count(b"{") + value.count(b"[") for value in self.fields.values())


_NAME_OF_OWN, _NAME_OF_FILES = canonical_json(OWN), canonical_json(FILES)


def _object(fields: Mapping[bytes, bytes]) -> bytes:
    return b"{" + b",".join([name + b":" + value for name, value in fields.items()]) + b"}"


def storable(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], RecordJson]:
    """A record of JSON values that can be stored, and how it is written; a number that is none becomes null.

    Raises `RecursionError` for one that is nested too deeply, wherever it is called from.
    """
    written = _written(record)
    if written is None or written.brackets() > MOST_DEPTH:
        _check_depth(record)
    if written is not None and not written.holds(_NUL):
        return record, written
    changed = _changed(record)
    return changed, _parted(changed, canonical_json)


def storable_cursor(cursor: Any) -> Any:
    """A cursor that can be stored: None, which is a walk from the beginning, for one that is nested too deeply."""
    try:
        kept, _ = storable({"cursor": cursor})
    except RecursionError:
        return None
    return kept["cursor"]


def _check_depth(record: Mapping[str, Any]) -> None:
    inner: list[Any] = [record]
    for _ in range(MOST_DEPTH):
        inner = [
            one
            for outer in inner
            for one in (outer if isinstance(outer, list | tuple) else outer.values())
            if type(one) not in _LEAVES and isinstance(one, list | tuple | Mapping)
        ]
        if not inner:
            return
    raise RecursionError(f"it is nested more than {MOST_DEPTH} levels deep")


def _written(record: Mapping[str, Any]) -> RecordJson | None:
    """The record in canonical JSON; None if it has values that are no JSON."""
    try:
        return _parted(record, CANONICAL.encode)
    except (TypeError, UnicodeEncodeError, RecursionError):
        return None


def _parted(record: Mapping[str, Any], write: Callable[[Any], bytes]) -> RecordJson:
    names = sorted(record) if all(type(name) is str for name in record) else None
    if names is None:
        # Names that are no text are written as text, and only then in order.
        record = json.loads(write(record))
        names = sorted(record)
    fields = {write(name): write(record[name]) for name in names}
    listed = record.get(FILES) if OWN in record else None
    files = write([_place(one) for one in listed]) if isinstance(listed, list) else None
    return RecordJson(fields, files)


def _place(file: Any) -> dict[str, Any]:
    return {"url": file["url"]} if isinstance(file, dict) and "url" in file else {}


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
