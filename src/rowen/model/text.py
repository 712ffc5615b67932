"""Values from outside, made fit to be stored and sent back, and kept within limits.

Everything that enters `model/` from a source passes here once. All of it is a pure function of the value, so that a
refresh and a rebuild store the same.
"""

import hashlib
import logging
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from rowen.errors import ItemError, RowenError

__all__ = [
    "CONSTANT_CHARS",
    "FACTOR",
    "LONGEST_ANCHOR",
    "LONGEST_HEADING",
    "LONGEST_URL",
    "LONGEST_VALIDATOR",
    "MOST_CHARS",
    "MOST_LINK_CHARS",
    "UNREADABLE",
    "UNSTORABLE",
    "Budget",
    "OverspentError",
    "Remarks",
    "anchor_within",
    "attempt",
    "check_storable",
    "each",
    "error_within",
    "finite",
    "header",
    "heading_within",
    "is_storable",
    "language_within",
    "left_chars",
    "letters",
    "linear_search",
    "links_within",
    "media_type_within",
    "message",
    "name_within",
    "normalise",
    "one_item",
    "pattern_states",
    "reading",
    "spend",
    "tags_within",
    "title_within",
]

_UNICODE_LINE_ENDS = ("\u2028", "\u2029", "\x85")
# PostgreSQL stores neither NUL nor a lone surrogate; a form feed or bell is no text either.
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def normalise(text: str) -> str:
    """NFC, line ends as LF, no trailing white space, nothing that cannot be stored."""
    if not text.isascii():
        for end in _UNICODE_LINE_ENDS:
            text = text.replace(end, "\n")
        text = unicodedata.normalize("NFC", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.replace("\n", "").isprintable() and " \n" not in text and not text.endswith(" "):
        # Of all white space only the space is printable: no line has any at its end.
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
"""Exceptions of code that reads one record of an unknown shape. They cost that record, and nothing else."""

UNSTORABLE = "a text has a NUL or half of a surrogate pair, or a number is none: neither can be stored."
"""The error message for a value that cannot be stored."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NO_HEADER = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def letters(text: str) -> str:
    """Return a text without the characters that PostgreSQL cannot store: NUL and lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub("", text)


def is_storable(value: Any) -> bool:
    """Return whether plain values can be stored as they are, at any depth: no text with NUL or a lone surrogate, no
    NaN.
    """
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
    """Return an error message in the form of all stored text, and of bounded length."""
    return normalise(error_within(text))


def header(value: Any) -> str | None:
    """Return a validator, if it can be sent back byte by byte; None for any other.

    Headers are read and written as UTF-8. Other bytes arrive as lone surrogates, which cannot be written.
    """
    if not isinstance(value, str) or not value or len(value) > LONGEST_VALIDATOR:
        return None
    return None if _NO_HEADER.search(value) else value


def attempt(read: Callable[[], T], otherwise: Callable[[str], F]) -> T | F:
    """Read one record, or pass the reason why it cannot be read to `otherwise`.

    An error in one record does not affect the others.
    """
    try:
        return read()
    except UNREADABLE as problem:
        return otherwise(_reason(problem))


@contextmanager
def one_item(item: str, *passing: type[Exception]) -> Iterator[None]:
    """Raise an unexpected exception while one item is handled as an `ItemError`, so that it costs that item alone.

    Errors that Rowen raises deliberately pass, such as those of the database, and so do a cancellation and `passing`.
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
    """Yield the result for each item; an item with an unexpected error is logged and skipped."""
    for item in items:
        try:
            with one_item(name(item)):
                made = make(item)
        except ItemError:
            continue
        yield made


def _reason(problem: Exception) -> str:
    text = str(problem).rstrip(".")
    return text if isinstance(problem, ValueError | RecursionError) and text else f"{type(problem).__name__} {text}"


LONGEST_TITLE = 1_000
"""Characters. Of 30,000 titles in recorded answers of portals the longest has 345; a passage has up to 1,500, so that a
title at most doubles its index entry. A title of 0.4 MB took minutes and half a gigabyte."""

LONGEST_HEADING = 200
"""Characters of each heading in a passage's path. It has at most six: together no more than a passage."""

LONGEST_ANCHOR = 256
"""Characters. An anchor is a heading's words, with a number where they were there before, or an id of twenty."""

MOST_TAGS = 1_000
"""The recorded portals have up to 71 an item."""
LONGEST_TAG = 300
"""Characters; the longest one recorded has 87."""
MOST_TAG_CHARS = 20_000
"""Characters of all tags together. They are stored with each revision; the recorded ones have at most 757 an item."""

LONGEST_URL = 8_192
"""Characters. Servers refuse longer request lines (RFC 9110 4.1 asks for 8,000); the longest recorded one has 1,328."""

MOST_LINKS = 50_000
"""Links of one item. Python's general index, as large as a page gets, has 20,000."""
MOST_LINK_CHARS = 4_000_000
"""Of all links of an item together: they are stored in one value, which each check may write anew."""

LONGEST_LANGUAGE = 35
"""Characters (RFC 5646 4.4.1). An index over languages refuses 2,704 bytes."""
LONGEST_MEDIA_TYPE = 255
"""Characters: 127 for either half (RFC 6838 4.2)."""
LONGEST_VALIDATOR = 1_024
"""Characters of an ETag or a date. It is sent back with each request; without it a body is sent again."""

LONGEST_ERROR = 2_000
"""Characters of an error or a hint: origins are quoted in it, and it is kept for every item that fails."""


class Remarks(list[str]):
    """Sentences about the parts of an item that were left out."""

    def cut(self, what: str, length: int, kept_length: int) -> None:
        """Note a value of which only the beginning is kept."""
        self.append(f"Its {what} has {length:,} characters; the first {kept_length:,} are kept.")

    def left_out(self, what: str) -> None:
        """Note a value, or some, that are not kept at all."""
        self.append(f"{what} left out.")


def title_within(title: str, remarks: Remarks) -> str:
    """Return a title, or its beginning."""
    if len(title) <= LONGEST_TITLE:
        return title
    remarks.cut("title", len(title), LONGEST_TITLE)
    return _beginning(title, LONGEST_TITLE)


def tags_within(tags: tuple[str, ...], remarks: Remarks) -> tuple[str, ...]:
    """Return the first tags, without those that are too long to be any."""
    if len(tags) <= MOST_TAGS and sum(map(len, tags)) <= min(LONGEST_TAG, MOST_TAG_CHARS):
        return tags
    chosen = tuple(_within((tag for tag in tags if len(tag) <= LONGEST_TAG), MOST_TAGS, MOST_TAG_CHARS))
    if len(chosen) < len(tags):
        remarks.left_out(f"{len(tags) - len(chosen):,} of its {len(tags):,} tags were too long or too many, and are")
    return chosen


def links_within(links: tuple[str, ...], remarks: Remarks) -> tuple[str, ...]:
    """Return the first links, without those that no server would answer."""
    if len(links) <= MOST_LINKS and sum(map(len, links)) <= LONGEST_URL:
        return links
    chosen = tuple(_within((link for link in links if len(link) <= LONGEST_URL), MOST_LINKS, MOST_LINK_CHARS))
    if len(chosen) < len(links):
        remarks.left_out(f"{len(links) - len(chosen):,} of its {len(links):,} links were too long or too many, and are")
    return chosen


def language_within(language: str | None, remarks: Remarks) -> str | None:
    """Return a language tag if its length is valid."""
    if language is None or len(language) <= LONGEST_LANGUAGE:
        return language
    remarks.left_out("Its language is no language tag, and is")
    return None


def media_type_within(media_type: str | None, remarks: Remarks) -> str | None:
    """Return a media type if its length is valid."""
    if media_type is None or len(media_type) <= LONGEST_MEDIA_TYPE:
        return media_type
    remarks.left_out("Its media type is too long to be one, and is")
    return None


def heading_within(heading: str) -> str:
    """Return a heading, or its beginning."""
    return heading if len(heading) <= LONGEST_HEADING else _beginning(heading, LONGEST_HEADING)


def anchor_within(anchor: str | None) -> str | None:
    """Return an anchor that a browser can be sent to; half of one leads nowhere."""
    return anchor if anchor is None or len(anchor) <= LONGEST_ANCHOR else None


def error_within(words: str) -> str:
    """Return an error or a hint, or its beginning."""
    return words if len(words) <= LONGEST_ERROR else _beginning(words, LONGEST_ERROR)


def name_within(url: str) -> str:
    """Return a URL; of one that is too long to be an identity the beginning, and a digest of the whole."""
    if len(url) <= LONGEST_URL:
        return url
    return f"{url[:200]}…{hashlib.sha256(url.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _beginning(text: str, most: int) -> str:
    return text[: most - 1].rstrip() + "…"


def _within(values: Iterable[str], most: int, most_chars: int) -> Iterator[str]:
    chars = 0
    for number, value in enumerate(values):
        chars += len(value)
        if number == most or chars > most_chars:
            return
        yield value


def finite(value: float) -> float | None:
    """Return a number as a float; None for NaN, infinity, and an integer that is too large for a float."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


FACTOR = 50
"""Characters for each byte. The largest expansion of an honest body is 49: a wide table of one-digit answers, each
written with the name of its column, a whole question. No recorded catalog reaches 3.
"""

CONSTANT_CHARS = 2_000_000
"""For small bodies: office files of a few kB are well packed."""

MOST_CHARS = 200_000_000
"""The absolute limit: the text exists several times, as text, as passages and on the way to the store."""


class OverspentError(Exception):
    """More would be made of a body than its share."""

    def __init__(self) -> None:
        super().__init__(f"would become more than {FACTOR} times as long as it is")


class Budget:
    """The remaining characters that may be made from a body."""

    def __init__(self, given_bytes: int, *, most_chars: int | None = None) -> None:
        share = FACTOR * given_bytes + CONSTANT_CHARS
        self.left_chars = share if most_chars is None else min(most_chars, share)

    def spend(self, chars: int) -> None:
        """Spend characters before they are made; raises `OverspentError` if there are not enough left."""
        self.left_chars -= chars
        if self.left_chars < 0:
            raise OverspentError


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def reading(given_bytes: int) -> Iterator[None]:
    """Share one budget among everything that is read inside the context."""
    token = _current.set(Budget(given_bytes, most_chars=MOST_CHARS))
    try:
        yield
    finally:
        _current.reset(token)


def spend(chars: int) -> None:
    """Spend from the budget of the current context; outside of one, there is no limit."""
    if (budget := _current.get()) is not None:
        budget.spend(chars)


def left_chars() -> int:
    """Return the rest of the budget, for readers that leave out the remainder rather than fail."""
    budget = _current.get()
    return MOST_CHARS if budget is None else max(0, budget.left_chars)


_TOKEN = re.compile(r"\\[pP]\{[^{}]*\}|\\.|\[\^?\]?|\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\}|.", re.DOTALL)
_KEEPS_ATOM = frozenset("*+?|^$")
# Compiling `\p{L}` takes 130 microseconds, a letter 1 to 3.
_CLASS_STATES = 50
_SET_STATES = 8
# Compiling the word characters of all scripts takes 250 microseconds.
_WORD_STATES = 80
_LARGEST = 1_000_000_000


def linear_search(pattern: str, *, most_states: int) -> Callable[[str], bool]:
    """Return a function that searches a text for a pattern in linear time.

    Raises `ValueError` for a pattern that is too large or not supported, such as one with lookaround.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if pattern_states(pattern) > most_states:
        raise ValueError("it repeats too much")
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as problem:
        # The engine repeats the pattern before the error message.
        reason = str(problem).rpartition("error: ")[2].partition("\n")[0]
        raise ValueError(f"it cannot be matched in linear time: {reason[:200]}") from None
    return validator.isinstance_python


def pattern_states(pattern: str, *, ascii_words: bool = False) -> int:
    """Estimate the number of states of a regular expression, in linear time."""
    word_states = _SET_STATES if ascii_words else _WORD_STATES
    groups = [0]
    atom = 0
    in_set = widest = 0
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
