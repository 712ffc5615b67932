"""Facts as JSON, the same letters as those of the command line."""

import json
from datetime import datetime
from pathlib import PurePath
from typing import Any

__all__ = ["encoded"]


def encoded(value: Any) -> bytes:
    """A value as JSON, without white space, which nobody reads here."""
    # A record may hold half of a character; it is told as one that cannot be read.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case PurePath():
            return str(value)
        case frozenset() | set():
            return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
