"""Reading a cursor: it was written by a connector of this kind, but perhaps of another version, or by another hand."""

import logging
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import msgspec

from rowen.model.outside import UNREADABLE

__all__ = ["remembered"]

T = TypeVar("T")

log = logging.getLogger(__name__)


def remembered(cursor: Any, kind: type[T]) -> T | None:
    """A cursor, or a part of one, as what it should be; None if it is anything else.

    Nothing is converted and nothing is guessed: whoever gets None looks at the whole source, which is always right.
    """
    if cursor is None:
        return None
    try:
        if is_dataclass(kind) and isinstance(cursor, Mapping):
            _check_names(cursor, {one.name for one in fields(kind)})
        return msgspec.convert(cursor, kind)
    except (msgspec.ValidationError, *UNREADABLE) as problem:
        log.warning("dropped a cursor that cannot be read; the source is looked at from its beginning: %s", problem)
        return None


def _check_names(cursor: Mapping[str, Any], known: set[str]) -> None:
    if others := cursor.keys() - known:
        raise ValueError(f"it has fields that are not known: {', '.join(sorted(others)[:3])}")
