"""Reads JSON as portals send it: it may be invalid UTF-8, invalid JSON, or an HTML page with an error message."""

import json
import math
from typing import Any

import msgspec

from rowen.errors import SourceError
from rowen.formats import UnreadableError
from rowen.formats.charset import decode_utf8
from rowen.model.text import UNREADABLE

# Payloads in quarantine are only read by people; longer payloads are truncated.
_MOST_PAYLOAD_BYTES = 1 << 20
_MOST_DIGITS = 4_000  # Python converts integers of at most 4,300 digits; longer integers stay strings


def read_json(body: bytes, where: str) -> Any:
    """Parse a JSON body. Invalid JSON is parsed leniently: NaN becomes a string, and invalid bytes are replaced."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    text = decode_utf8(body)
    if text.lstrip()[:1] == "<":
        raise SourceError(
            f"{where} answered with a web page instead of data.",
            hint="It may be down for maintenance, or refuse the request.",
        )
    try:
        return json.loads(text, parse_constant=str, parse_float=_number, parse_int=_integer)
    except (ValueError, RecursionError) as problem:
        reason = "it is nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        raise UnreadableError(f"{where} answered with broken JSON: {reason}.") from None


def _number(written: str) -> float | str:
    value = float(written)
    return value if math.isfinite(value) else written


def _integer(written: str) -> int | str:
    return int(written) if len(written) <= _MOST_DIGITS else written


def payload_of(record: Any) -> bytes | None:
    """Return a record as JSON for the quarantine, truncated; None if it cannot be serialised."""
    try:
        written = json.dumps(record, ensure_ascii=False, default=str).encode("utf-8", "replace")
    except UNREADABLE:
        return None
    return written[:_MOST_PAYLOAD_BYTES]
