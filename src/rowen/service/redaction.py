"""Records without what should not be read by everybody: contact details, and what may be a credential."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["redacted"]


def redacted(value: Any, keys: Sequence[str]) -> Any:
    """A record without the values of sensitive keys, at any depth: those whose names have one of these parts."""
    match value:
        case Mapping():
            return {name: _told(name, one, keys) for name, one in value.items()}
        case list() | tuple():
            return [redacted(one, keys) for one in value]
    return value


def _told(name: str, value: Any, keys: Sequence[str]) -> Any:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    if not any(key in plain for key in keys):
        return redacted(value, keys)
    # What is not there cannot be hidden; that it is there may be known.
    return value if value in (None, "", [], {}) else "(hidden)"
