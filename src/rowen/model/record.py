"""The one form in which a source's record is stored and hashed: as it came, less what PostgreSQL cannot hold."""

import math
from collections.abc import Mapping
from typing import Any

from rowen.model.hashes import CANONICAL, canonical_json
from rowen.model.outside import letters

__all__ = ["storable", "storable_cursor"]

MOST_DEPTH = 200
"""Honest records are a dozen levels deep; PostgreSQL takes a few thousand, Python 1,000 of its own calls."""

_NUL = "\\u0000"
_LEAVES = frozenset({str, int, float, bool, type(None)})


def storable(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """A record of JSON values that can be stored, and how it is written; a number that is none becomes null.

    Raises `RecursionError` for one that is nested too deeply, wherever it is called from.
    """
    written = _written(record)
    if written is None or written.count("{") + written.count("[") > MOST_DEPTH:
        _check_depth(record)
    if written is not None and _NUL not in written:
        return record, written
    changed = _changed(record)
    return changed, canonical_json(changed).decode()


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


def _written(record: Mapping[str, Any]) -> str | None:
    """The record in canonical JSON; None if it has values that are no JSON."""
    try:
        return CANONICAL.encode(record).decode()
    except (TypeError, UnicodeEncodeError, RecursionError):
        return None


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
