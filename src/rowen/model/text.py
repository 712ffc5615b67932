"""Text and values of sources: normalised, storable, and within limits.

Each value of a source is processed here once. The functions are pure, so that a refresh and a rebuild store the same.
"""

import hashlib
import logging
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate
from typing import Any, TypeVar

from rowen.errors import ItemError, RowenError

_UNICODE_LINE_ENDS = ("\u2028", "\u2029", "\x85")
# PostgreSQL stores neither NUL nor a lone surrogate; other control characters, such as a form feed, are no text.
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def normalise(text: str) -> str:
    """Normalise a text: NFC, LF as line ends, no trailing white space, no characters that cannot be stored."""
    if not text.isascii():
        for end in _UNICODE_LINE_ENDS:
            text = text.replace(end, "\n")
        text = unicodedata.normalize("NFC", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.replace("\n", "").isprintable() and " \n" not in text and not text.endswith(" "):
        # The only printable white space is the space, so no line of this text ends with white space.
        return text.strip("\n")
    lines = text.split("\n")
    if not all(map(str.isprintable, lines)):
        lines = _NO_TEXT.sub("", text).split("\n")
    return "\n".join([line.rstrip() for line in lines]).strip("\n")


log = logging.getLogger(__name__)

T = TypeVar("T")
F = TypeVar("F")
S = TypeVar("S")

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""The exceptions that malformed records cause; such an exception affects its record only."""

UNSTORABLE = "a text has a NUL or half of a surrogate pair, or a number is none: neither can be stored."

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NO_HEADER = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def letters(text: str) -> str:
    """Return a text without the characters that PostgreSQL cannot store: NUL and lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub("", text)


def is_storable(value: Any) -> bool:
    """Return whether plain values can be stored unchanged: no NUL, lone surrogate or NaN at any depth."""
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
    """Return the value if it can be stored unchanged; raise `ValueError` otherwise."""
    if not is_storable(value):
        raise ValueError(UNSTORABLE.rstrip("."))
    return value


def message(text: str) -> str:
    """Return an error message, normalised and truncated."""
    return normalise(error_within(text))


def header(value: Any) -> str | None:
    """Return a validator that can be sent back unchanged; None if it cannot, for example if it is not UTF-8."""
    if not isinstance(value, str) or not value or len(value) > LONGEST_VALIDATOR:
        return None
    return None if _NO_HEADER.search(value) else value


def attempt(read: Callable[[], T], otherwise: Callable[[str], F]) -> T | F:
    """Read one record; if that fails, return `otherwise(reason)`, so that the other records can be read."""
    try:
        return read()
    except UNREADABLE as problem:
        text = str(problem).rstrip(".")
        is_clear = isinstance(problem, ValueError | RecursionError) and text
        return otherwise(text if is_clear else f"{type(problem).__name__} {text}")


@contextmanager
def one_item(item: str, *passing: type[Exception]) -> Iterator[None]:
    """Convert an unexpected exception into an `ItemError`, which affects one item only.

    Errors of Rowen, cancellations and exceptions of the types `passing` are raised unchanged.
    """
    try:
        yield
    except RowenError:
        raise
    except passing:
        raise
    except Exception as problem:
        log.exception("one item failed with an unexpected error: %s", item)
        raise ItemError(
            message(f"{item} could not be handled: {type(problem).__name__}: {problem}"),
            hint="This is a bug in Rowen, please report it. The other items were handled.",
        ) from problem


def each(items: Iterable[S], make: Callable[[S], T], *, name: Callable[[S], str]) -> Iterator[T]:
    """Yield the result of `make` for each item; an item with an unexpected error is logged and skipped."""
    for item in items:
        try:
            with one_item(name(item)):
                made = make(item)
        except ItemError:
            continue
        yield made


LONGEST_TITLE = 1_000
"""In characters. Of 30,000 titles in recorded responses of portals the longest has 345; a passage has up to 1,500, so
that a title at most doubles its index entry. A title of 0.4 MB took minutes and half a gigabyte.
"""

LONGEST_HEADING = 200
"""In characters, for each heading in a passage's path. A path has at most six headings, which together are no longer
than a passage.
"""

LONGEST_ANCHOR = 256
"""In characters. An anchor consists of a heading's words, with a number if they are repeated, or of an id of twenty
characters.
"""

MOST_TAGS = 1_000
"""The maximum number of tags of an item; items of the recorded portals have up to 71."""
LONGEST_TAG = 300
"""In characters; the longest recorded tag has 87."""
MOST_TAG_CHARS = 20_000
"""The maximum number of characters in all tags of an item. They are stored with each revision; recorded items have at
most 757.
"""

LONGEST_URL = 8_192
"""In characters. Servers reject longer request lines (RFC 9110 4.1 requires 8,000); the longest recorded URL has 1,328.
"""

MOST_LINKS = 50_000
"""The maximum number of links of an item. Python's general index, one of the largest pages, has 20,000."""
MOST_LINK_CHARS = 4_000_000
"""The maximum number of characters in all links of an item. They are stored in one value, which each check may rewrite.
"""

LONGEST_LANGUAGE = 35
"""In characters (RFC 5646 4.4.1). A database index over languages rejects values of 2,704 bytes."""
LONGEST_MEDIA_TYPE = 255
"""In characters: 127 for each half (RFC 6838 4.2)."""
LONGEST_VALIDATOR = 1_024
"""In characters, for an ETag or a date; each request sends it back."""

LONGEST_ERROR = 2_000
"""In characters, for an error or a hint. It may quote the origin, and is stored for every failed item."""


def title_within(title: str, remarks: list[str]) -> str:
    """Return a title; if it is too long, truncate it and add a remark."""
    if len(title) > LONGEST_TITLE:
        remarks.append(f"Its title has {len(title):,} characters; the first {LONGEST_TITLE:,} are kept.")
    return _beginning(title, LONGEST_TITLE)


def tags_within(tags: tuple[str, ...], remarks: list[str]) -> tuple[str, ...]:
    """Return the tags within the limits of length and number; a remark counts the tags that are left out."""
    return _first("tags", tags, remarks, longest=LONGEST_TAG, most=MOST_TAGS, most_chars=MOST_TAG_CHARS)


def links_within(links: tuple[str, ...], remarks: list[str]) -> tuple[str, ...]:
    """Return the links within the limits of length and number; a remark counts the links that are left out."""
    return _first("links", links, remarks, longest=LONGEST_URL, most=MOST_LINKS, most_chars=MOST_LINK_CHARS)


def _first(
    noun: str, values: tuple[str, ...], remarks: list[str], *, longest: int, most: int, most_chars: int
) -> tuple[str, ...]:
    if len(values) <= most and sum(map(len, values)) <= min(longest, most_chars):
        return values
    short = [value for value in values if len(value) <= longest]
    chosen = tuple(
        value for value, chars in zip(short[:most], accumulate(map(len, short)), strict=False) if chars <= most_chars
    )
    if len(chosen) < len(values):
        left_out = len(values) - len(chosen)
        remarks.append(f"{left_out:,} of its {len(values):,} {noun} were too long or too many, and are left out.")
    return chosen


def language_within(language: str | None, remarks: list[str]) -> str | None:
    """Return a language tag; if it is too long, return None and add a remark."""
    if language is None or len(language) <= LONGEST_LANGUAGE:
        return language
    remarks.append("Its language is no language tag, and is left out.")
    return None


def media_type_within(media_type: str | None, remarks: list[str]) -> str | None:
    """Return a media type; if it is too long, return None and add a remark."""
    if media_type is None or len(media_type) <= LONGEST_MEDIA_TYPE:
        return media_type
    remarks.append("Its media type is too long to be one, and is left out.")
    return None


def heading_within(heading: str) -> str:
    """Return a heading, truncated if it is too long."""
    return _beginning(heading, LONGEST_HEADING)


def anchor_within(anchor: str | None) -> str | None:
    """Return an anchor; None if it is too long, since a truncated anchor leads nowhere."""
    return anchor if anchor is None or len(anchor) <= LONGEST_ANCHOR else None


def error_within(error: str) -> str:
    """Return an error or a hint, truncated if it is too long."""
    return _beginning(error, LONGEST_ERROR)


def name_within(url: str) -> str:
    """Return a URL; if it is too long, return its beginning and a digest of the whole."""
    if len(url) <= LONGEST_URL:
        return url
    return f"{url[:200]}…{hashlib.sha256(url.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _beginning(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def finite(value: float) -> float | None:
    """Return a number as a float; None for NaN, infinity, and an integer that is too large for a float."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


FACTOR = 50
"""The maximum number of characters for each byte of a body. The largest known expansion is 49: a wide table of
one-digit answers, each written with the question in the head of its column. No recorded catalog reaches 3.
"""

CONSTANT_CHARS = 2_000_000
"""The minimum budget, for small bodies: office files of a few kB have a high compression ratio."""

MOST_CHARS = 200_000_000
"""The absolute limit of a budget. Memory holds the text several times: as a whole, as passages, and as rows for the
database.
"""


class OverspentError(Exception):
    """The text read from a body exceeds its budget."""

    def __init__(self) -> None:
        super().__init__(f"would become more than {FACTOR} times as long as it is")


class Budget:
    """The number of characters that may still be created from a body."""

    def __init__(self, body_bytes: int, *, most_chars: int | None = None) -> None:
        share = FACTOR * body_bytes + CONSTANT_CHARS
        self.left_chars = share if most_chars is None else min(most_chars, share)

    def spend(self, chars: int) -> None:
        """Reserve characters before they are created; raise `OverspentError` if the budget is too small."""
        self.left_chars -= chars
        if self.left_chars < 0:
            raise OverspentError


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def reading(body_bytes: int) -> Iterator[None]:
    """Provide one budget, shared by all reads inside the context."""
    token = _current.set(Budget(body_bytes, most_chars=MOST_CHARS))
    try:
        yield
    finally:
        _current.reset(token)


def spend(chars: int) -> None:
    """Reserve characters from the budget of the current context; without a context there is no limit."""
    if (budget := _current.get()) is not None:
        budget.spend(chars)


def left_chars() -> int:
    """Return the rest of the budget, for readers that truncate text instead of raising an error."""
    budget = _current.get()
    return MOST_CHARS if budget is None else max(0, budget.left_chars)


_TOKEN = re.compile(r"\\[pP]\{[^{}]*\}|\\.|\[\^?\]?|\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\}|.", re.DOTALL)
_KEEPS_ATOM = frozenset("*+?|^$")
# Compiling `\p{L}` takes 130 microseconds, compiling a letter takes 1 to 3.
_CLASS_STATES = 50
_SET_STATES = 8
# Compiling the word characters of all scripts takes 250 microseconds.
_WORD_STATES = 80
_LARGEST = 1_000_000_000


def linear_search(pattern: str, *, most_states: int) -> Callable[[str], bool]:
    """Return a function that searches a text for a pattern in linear time.

    Raise `ValueError` if the pattern is too large or not supported, such as a pattern with lookaround.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if pattern_states(pattern) > most_states:
        raise ValueError("it repeats too much")
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as problem:
        # The engine puts the pattern before its error message.
        reason = str(problem).rpartition("error: ")[2].partition("\n")[0]
        raise ValueError(f"it cannot be matched in linear time: {reason[:200]}") from None
    return validator.isinstance_python


def pattern_states(pattern: str, *, ascii_words: bool = False) -> int:
    """Estimate the number of states of a regular expression, in linear time."""
    word_states = _SET_STATES if ascii_words else _WORD_STATES
    groups = [0]
    atom = in_set = widest = 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if in_set or text[0] == "[":
            widest = max(widest, _states(text, word_states), _SET_STATES)
            in_set += (text[0] == "[") - (text == "]")
            if in_set:
                continue
            atom, widest = widest, 0
            groups[-1] += atom
        elif text == "(":
            groups.append(2)
            atom = 0
        elif text == ")" and len(groups) > 1:
            atom = groups.pop()
            groups[-1] += atom
        elif token["least"] is not None:
            times = max(1, int(token["least"]), int(token["most"] or 0))
            groups[-1] = min(_LARGEST, groups[-1] + atom * (times - 1))
            atom = min(_LARGEST, atom * times)
        elif text in _KEEPS_ATOM or text.isspace():
            groups[-1] += 1
            atom = max(atom, 1)
        else:
            atom = _states(text, word_states)
            groups[-1] += atom
    return min(_LARGEST, sum(groups) + widest)


def _states(token: str, word_states: int) -> int:
    if token.startswith(("\\p", "\\P")):
        return _CLASS_STATES
    if token in ("\\w", "\\W"):
        return word_states
    return _SET_STATES if token in ("\\s", "\\S", "\\d", "\\D", ".") else 1
