"""Reading JSON from a place in a body that may be broken there, or end too early."""

import json
import re
from typing import Any, NamedTuple

__all__ = ["Trouble", "Value", "decoded", "looked_at", "read_at"]

# Most objects end before that; of longer ones four times as much is looked at each time.
_FIRST_LOOK_BYTES = 1 << 12
# What is left of a number, a word or an escape that the end of the text has cut off.
_CUT_WORD = re.compile(r"[-+.\\\w]{0,12}")
_DECODER = json.JSONDecoder()


class Value(NamedTuple):
    """What was read, and where it ends."""

    value: Any
    end: int


class Trouble(NamedTuple):
    """Why something is no JSON; without a place where it could not be found out."""

    why: str
    at: int | None


def read_at(body: bytes, at: int, *, before: str = "") -> Value | Trouble | None:
    """What a body says from a place on; places are the body's own. It is decoded only as far as is needed."""
    size_bytes = _FIRST_LOOK_BYTES
    while True:
        read = decoded(before + body[at : at + size_bytes].decode("latin-1"), 0)
        if read is None and at + size_bytes < len(body):
            size_bytes *= 4
            continue
        shift = at - len(before)
        if isinstance(read, Value):
            return Value(read.value, read.end + shift)
        return Trouble(read.why, read.at + shift) if read and read.at is not None else read


def looked_at(read: "Value | Trouble | None", at: int, end: int) -> int:
    """About how many bytes it took to read what stands at a place."""
    match read:
        case Value(_, stop):
            return stop - at
        case Trouble(_, int(stop)):
            return max(_FIRST_LOOK_BYTES, stop - at)
    return end - at


def decoded(text: str, at: int) -> Value | Trouble | None:
    """What a text says from a place on; nothing if it ends too early."""
    try:
        return Value(*_DECODER.raw_decode(text, at))
    except json.JSONDecodeError as problem:
        if problem.msg.startswith("Unterminated string") or _CUT_WORD.fullmatch(text, problem.pos):
            return None
        return Trouble(problem.msg, problem.pos)
    except (ValueError, RecursionError):
        return Trouble("it cannot be read", None)
