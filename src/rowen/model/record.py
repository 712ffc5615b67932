"""The one form in which a source's record is stored and hashed: as it came, less what PostgreSQL cannot hold."""

import math
import re
from collections.abc import Mapping
from typing import Any

from rowen.model.hashes import CANONICAL, canonical_json

__all__ = ["storable"]

MOST_DEPTH = 200

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NUL = "\\u0000"


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


def _check_depth(record: Mapping[str, Any]) -> None:
    inner: list[Any] = [record]
    for _ in range(MOST_DEPTH):
        inner = [one for outer in inner for one in (outer.values() if isinstance(outer, Mapping) else outer)]
        inner = [one for one in inner if isinstance(one, list | tuple | Mapping)]
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
            return _UNSTORABLE.sub("", value)
        case Mapping():
            return {_UNSTORABLE.sub("", str(name)): _changed(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_changed(inner) for inner in value]
        case float():
            return value if math.isfinite(value) else None
        case int() | None:
            return value
        case _:
            return _UNSTORABLE.sub("", str(value))
