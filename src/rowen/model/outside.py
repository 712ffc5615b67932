"""What comes from outside, made fit to be stored and sent back: texts, headers, JSON values.

Everything that enters `model/` from a source passes here once. All of it is a pure function of what came, so that a
refresh and a rebuild store the same.
"""

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from rowen.errors import ItemError, RowenError
from rowen.model.caps import LONGEST_VALIDATOR, error_within
from rowen.model.text import normalise

__all__ = [
    "UNREADABLE",
    "UNSTORABLE",
    "attempt",
    "check_storable",
    "header",
    "is_storable",
    "letters",
    "message",
    "one_item",
]

log = logging.getLogger(__name__)

T = TypeVar("T")
F = TypeVar("F")

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What code may raise that reads one record of an unknown shape. It costs that record, and nothing else."""

UNSTORABLE = "a text has a NUL or half of a surrogate pair, or a number is none: neither can be stored."
"""What is said to somebody who sends such a value."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NO_HEADER = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def letters(text: str) -> str:
    """A text letter by letter, less what PostgreSQL cannot hold: NUL and lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub("", text)


def is_storable(value: Any) -> bool:
    """Whether plain values can be stored as they are, at any depth: no text with NUL or a lone surrogate, no NaN."""
    left = [value]
    while left:
        match left.pop():
            case str() as text:
                if letters(text) != text:
                    return False
            case float() as number:
                if not math.isfinite(number):
                    return False
            case Mapping() as fields:
                left += [*fields, *fields.values()]
            case list() | tuple() as members:
                left += members
    return True


def check_storable(value: T) -> T:
    """Return plain values if they can be stored; raises `ValueError` for others."""
    if not is_storable(value):
        raise ValueError(UNSTORABLE.rstrip("."))
    return value


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


@contextmanager
def one_item(item: str, *passing: type[Exception]) -> Iterator[None]:
    """Raise what nobody expected while one item is worked on as an `ItemError`, so that it costs that item alone.

    What Rowen raises on purpose passes, such as an error of the database, and so do a cancellation and `passing`.
    """
    try:
        yield
    except RowenError:
        raise
    except passing:
        raise
    except Exception as problem:
        log.exception("an unexpected error cost one item: %s", item)
        raise ItemError(
            message(f"{item} could not be handled: {type(problem).__name__}: {problem}"),
            hint="This is a bug in Rowen, please report it. The other items were handled.",
        ) from problem


def _reason(problem: Exception) -> str:
    said = str(problem).rstrip(".")
    return said if isinstance(problem, ValueError | RecursionError) and said else f"{type(problem).__name__} {said}"
