"""What comes from outside, made fit to be stored and sent back: texts, headers, JSON values.

Everything that enters `model/` from a source passes here once. All of it is a pure function of what came, so that a
refresh and a rebuild store the same.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from rowen.model.caps import LONGEST_VALIDATOR, error_within
from rowen.model.text import normalise

__all__ = ["UNREADABLE", "attempt", "header", "letters", "message"]

T = TypeVar("T")
F = TypeVar("F")

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What code may raise that reads one record of an unknown shape. It costs that record, and nothing else."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NO_HEADER = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def letters(text: str) -> str:
    """A text letter by letter, less what PostgreSQL cannot hold: NUL and lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub("", text)


def message(text: str) -> str:
    """What is said about trouble, in the form of all stored text and no longer than anyone reads."""
    return normalise(error_within(text))


def header(value: Any) -> str | None:
    """A validator, if it can be sent back byte by byte; None for any other.

    Headers are read and written as UTF-8. Bytes that are none come as lone surrogates, which cannot be written.
    """
    if not isinstance(value, str) or not value or len(value) > LONGEST_VALIDATOR:
        return None
    return None if _NO_HEADER.search(value) else value


def attempt(read: Callable[[], T], otherwise: Callable[[str], F]) -> T | F:
    """What is read of one record, or what is made of the reason why it cannot be: the one place where that is decided.

    Nothing that is wrong with one record reaches the others.
    """
    try:
        return read()
    except UNREADABLE as problem:
        return otherwise(_reason(problem))


def _reason(problem: Exception) -> str:
    said = str(problem).rstrip(".")
    return said if isinstance(problem, ValueError | RecursionError) and said else f"{type(problem).__name__} {said}"
