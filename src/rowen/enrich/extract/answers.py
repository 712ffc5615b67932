"""The JSON object in a model's answer, with what models put around it taken off."""

import json
import re
from typing import Any, NoReturn

from rowen.errors import AnswerInvalidError
from rowen.model.hashes import storable
from rowen.model.text import finite

__all__ = ["parsed"]

_FENCE = re.compile(r"```[a-zA-Z]*\s*\n(.*?)(?:\n```|\Z)", re.DOTALL)
_COMMA = re.compile(r",(\s*[}\]])")
# An answer has up to 8,192 tokens, 40 kB of JSON; ten times that is none.
_MOST_CHARS = 1_000_000


def parsed(text: str) -> dict[str, Any]:
    """The object, without what cannot be stored; raises `AnswerInvalidError` where there is none."""
    if len(text) > _MOST_CHARS:
        raise AnswerInvalidError(f"The answer has {len(text):,} characters.")
    for candidate in _candidates(text.strip()):
        try:
            found = json.loads(candidate, parse_constant=_refuse, parse_float=_number, parse_int=_whole)
            if isinstance(found, dict):
                return dict(storable(found)[0])
        except (ValueError, RecursionError):
            continue
    shown = " ".join(text.split())[:80]
    raise AnswerInvalidError(f"The answer is no JSON object: {shown!r}." if shown else "The answer is empty.")


def _candidates(text: str) -> list[str]:
    """The text, what stands in a code fence, what stands between braces; each also without trailing commas."""
    found = [text]
    if fence := _FENCE.search(text):
        found.append(fence[1])
    begin, end = text.find("{"), text.rfind("}")
    if 0 <= begin < end:
        found.append(text[begin : end + 1])
    return [*found, *(_COMMA.sub(r"\1", one) for one in found)]


def _number(digits: str) -> float:
    """A number that can be written again: 1e999 cannot."""
    number = finite(float(digits))
    return _refuse(digits) if number is None else number


def _whole(digits: str) -> int:
    """An integer that other programs can read: one of 400 digits is infinite to most."""
    number = int(digits)
    return _refuse(digits) if finite(number) is None else number


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word[:20]} is no JSON")
