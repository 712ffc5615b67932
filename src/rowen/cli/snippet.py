"""The few lines of a passage that show why it was found."""

import re
import textwrap

from rowen.cli.output import Piece
from rowen.model.query import Query

__all__ = ["highlight", "pattern", "snippet"]

_ENDINGS = re.compile(r"(?:ies|ing|ed|es|s|y|e)$", re.IGNORECASE)
_MARKUP = re.compile(r"^(?:#{1,6}\s+|[-*_=~`]{3,}.*$|\|[\s:|-]+\|$)")
_SHOWN = "bold yellow"


def pattern(query: Query) -> re.Pattern[str] | None:
    """Finds the words of a query in their usual forms; the index knows more forms than this one."""
    forms = [_form(word) for word in _words(query)]
    return re.compile(rf"\b(?:{'|'.join(forms)})", re.IGNORECASE) if forms else None


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


def highlight(line: str, wanted: re.Pattern[str] | None) -> list[Piece]:
    """A line in pieces, the wanted words styled."""
    pieces: list[Piece] = []
    end = 0
    for match in wanted.finditer(line) if wanted else ():
        pieces += [(line[end : match.start()], ""), (match[0], _SHOWN)]
        end = match.end()
    return [piece for piece in (*pieces, (line[end:], "")) if piece[0]]


def _words(query: Query) -> list[str]:
    terms = (*query.words, *query.prefixes, *query.phrases)
    return [word for term in terms for word in re.findall(r"\w+", term)]


def _form(word: str) -> str:
    stem = _ENDINGS.sub("", word) if len(word) > 4 else word
    return rf"{re.escape(stem)}\w{{0,4}}" if len(stem) > 2 else rf"{re.escape(word)}\b"


def _wrapped(text: str, width: int) -> list[str]:
    """Non-empty lines of at most the width, without Markdown's rulers, fences and heading marks."""
    plain = (_MARKUP.sub("", line.strip()) for line in text.splitlines())
    return [part for line in plain for part in textwrap.wrap(line, width)]


def _worth(lines: list[str], wanted: re.Pattern[str] | None) -> tuple[int, int]:
    found = [match.lower()[:5] for line in lines for match in (wanted.findall(line) if wanted else ())]
    return len(set(found)), len(found)
