"""The one form in which a source's record is stored and hashed.

Most records need no change, and looking at one as it will be written is far cheaper than going through its values.
"""

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from unicodedata import is_normalized

from rowen.model.hashes import canonical_json
from rowen.model.text import normalise

__all__ = ["storable"]

MOST_DEPTH = 200

# As canonical JSON writes them: text in its stored form has none of these.
_DOUBTFUL = (' "', "\x7f")
_DOUBTFUL_ESCAPES = ("\\r", "\\\\", "\\t", "\\u", "\\b", "\\f", " \\n", '"\\n', '\\n"')
_DOUBTFUL_LETTER = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]")


def storable(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """A record with text in its stored form, and numbers that JSON has no word for as text; and how it is written.

    Raises `RecursionError` for one that is nested too deeply, wherever it is called from.
    """
    written = _written(record)
    if written is None or written.count("{") + written.count("[") > MOST_DEPTH:
        _check_depth(record)
    if written is not None and _is_plain(written):
        return record, written
    changed = _changed(record)
    return changed, canonical_json(changed).decode("utf-8", "surrogatepass")


def _refuse(value: Any) -> Any:
    raise TypeError(value)


def _check_depth(record: Mapping[str, Any]) -> None:
    inner: list[Any] = [record]
    for _ in range(MOST_DEPTH):
        inner = [one for outer in inner for one in (outer.values() if isinstance(outer, Mapping) else outer)]
        inner = [one for one in inner if isinstance(one, list | tuple | Mapping)]
        if not inner:
            return
    raise RecursionError(f"it is nested more than {MOST_DEPTH} levels deep")


_STRICT = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_refuse)


def _written(record: Mapping[str, Any]) -> str | None:
    """The record in canonical JSON; None if it has values that are no JSON."""
    try:
        return _STRICT.encode(record)
    except (TypeError, ValueError, RecursionError):
        return None


def _is_plain(written: str) -> bool:
    if any(mark in written for mark in _DOUBTFUL):
        return False
    if "\\" in written and any(mark in written for mark in _DOUBTFUL_ESCAPES):
        return False
    return written.isascii() or (not _DOUBTFUL_LETTER.search(written) and is_normalized("NFC", written))


def _changed(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is dict:
        return {_name(name): _changed(inner) for name, inner in value.items()}
    if kind is list or kind is tuple:
        return [_changed(inner) for inner in value]
    return value if value is None or kind is bool or kind is int else _changed_rarity(value)


def _changed_rarity(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case int():
            return value
        case Mapping():
            return _changed(dict(value))
        case _:
            return _text(str(value))


def _text(value: str) -> str:
    """Looking at a text is cheaper than normalising it, and most are plain."""
    if value.isprintable() and value[-1:] != " " and (value.isascii() or is_normalized("NFC", value)):
        return value
    return normalise(value)


@lru_cache(4096, typed=True)
def _name(name: Any) -> str:
    return _text(str(name))
