"""The few lines of a passage that show why it was found."""

import re
import textwrap
from collections.abc import Iterator

from rowen.model.query import Query, pairs, spaced
from rowen.model.words import words_of

__all__ = ["marked", "pattern", "snippet"]

_ENDINGS = re.compile(r"(?:ies|ing|ed|es|s|y|e)$", re.IGNORECASE)
_HEADING = re.compile(r"#{1,6}\s+\S")
_RULER = re.compile(r"[-*_=]{3,}$|[~`]{3,}|\|[\s:|-]+\|$")
_APART = re.compile(r"[-*+>|]|\d+[.)]|```|~~~|\s{4}|#{1,6}\s")
# Code, in which a backslash is a letter, or a mark that Markdown needs one before.
_ESCAPED = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)(?s:.*?)(?:^[ \t]*+\1|\Z)|`[^`\n]++`|\\([\[\]<>`\\])", re.MULTILINE)
# Code points that stand for no character, in no text.
_HIDDEN = {mark: chr(0xFDD0 + number) for number, mark in enumerate("[]<>`\\")}
_UNHIDDEN = str.maketrans({hidden: mark for mark, hidden in _HIDDEN.items()})
# English words that the index does not keep either.
_COMMON = re.compile(
    r"an?|and|are|as|at|be|but|by|can|do|for|from|has|have|how|i|if|in|is|its?|my|no|not|of|on|or|our|so|that|the|their"
    r"|them|there|they|this|to|was|we|were|what|when|where|which|who|why|will|with|you|your",
    re.IGNORECASE,
)


def pattern(query: Query) -> re.Pattern[str] | None:
    """Finds the words of a query in their usual forms; the index knows more forms than this one."""
    unspaced = [re.escape(pair) for term in (*query.words, *query.prefixes, *query.phrases) for pair in pairs(term)]
    forms = [rf"\b{_form(word)}" for word in _words(query)]
    forms += [rf"\b{re.escape(prefix)}\w*" for prefix in query.prefixes if spaced(prefix)]
    return re.compile("|".join(forms + unspaced), re.IGNORECASE) if forms or unspaced else None


def snippet(text: str, wanted: re.Pattern[str] | None, *, lines: int = 3, width: int = 96) -> list[str]:
    """The lines of a passage, wrapped, in which most of the wanted words stand."""
    wrapped = _wrapped(text, width)
    if len(wrapped) <= lines:
        return wrapped
    starts = range(len(wrapped) - lines + 1)
    best = max(starts, key=lambda start: (_worth(wrapped[start : start + lines], wanted), -start))
    chosen = wrapped[best : best + lines]
    if best:
        chosen[0] = f"… {chosen[0]}"
    if best + lines < len(wrapped):
        chosen[-1] = f"{chosen[-1]} …"
    return chosen


def marked(line: str, wanted: re.Pattern[str] | None) -> list[tuple[str, bool]]:
    """A line in pieces, each with whether it is a wanted word."""
    pieces: list[tuple[str, bool]] = []
    end = 0
    for match in wanted.finditer(line) if wanted else ():
        pieces += [(line[end : match.start()], False), (match[0], True)]
        end = match.end()
    return [piece for piece in (*pieces, (line[end:], False)) if piece[0]]


def _words(query: Query) -> list[str]:
    words = [word for term in (*query.words, *query.phrases) for word in re.findall(r"\w+", spaced(term))]
    return [word for word in words if not _COMMON.fullmatch(word)] or words


def _form(word: str) -> str:
    stem = _ENDINGS.sub("", word) if len(word) > 4 else word
    return rf"{re.escape(stem)}\w{{0,4}}\b" if len(stem) > 2 else rf"{re.escape(word)}\b"


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most the width: words without addresses and markup, paragraphs filled.

    Headings are left out where there is anything else.
    """
    prose = "\n".join("" if _HEADING.match(line) else line for line in text.splitlines())
    blocks = list(_blocks(_shown(prose))) or list(_blocks(_shown(text)))
    return [line for block in blocks for line in textwrap.wrap(block, width)]


def _shown(markdown: str) -> str:
    """The words of a passage; what is escaped is a word, and is hidden while marks are looked for."""
    hidden = _ESCAPED.sub(lambda found: _HIDDEN[found[2]] if found[2] else found[0], markdown)
    return words_of(hidden).translate(_UNHIDDEN)


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs, each in one line; lists, tables and code line by line."""
    paragraph: list[str] = []
    for line in (*text.splitlines(), ""):
        if paragraph and (not line.strip() or _APART.match(line)):
            yield " ".join(paragraph)
            paragraph = []
        if line.strip() and not _RULER.match(line.strip()):
            paragraph.append(line.strip())


def _worth(lines: list[str], wanted: re.Pattern[str] | None) -> tuple[int, int, bool]:
    """How many different words the lines have, how many in all, and whether the middle line has one."""
    found = [[match.lower()[:5] for match in wanted.findall(line)] if wanted else [] for line in lines]
    return len(set().union(*found)), sum(map(len, found)), bool(found[len(found) // 2])
