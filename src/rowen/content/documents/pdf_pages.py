"""Pages of bare lines become Markdown: headings, paragraphs, and nothing that only decorates a page."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from rowen.content.markdown import escaped

__all__ = ["Bookmark", "markdown"]

# Two pages may begin with the same line by chance; the first one that repeats is kept in any case.
_FEWEST_REPEATS = 3
# Of the typical length: a line that ends a sentence, and stops before the margin, ends a paragraph.
_SHORT = 0.8
# A bookmark's title is compared with so many lines at a time.
_LONGEST_HEADING_LINES = 3
_DEEPEST_SECTION = 5  # Markdown has six levels; the last is for pages
# How pdfium writes a hyphen that ends a line; the word goes on after it. A digit or capital before it means a real one.
_KEPT_HYPHEN = re.compile("(?<=[A-Z0-9])\ufffe")
_LEADERS = re.compile(r"(?:\s?[.·…]){4,}\s*")
_PAGE_NUMBER = re.compile(r"(?:page |seite |- ?)?(?:\d+|[ivxlc]+)(?: ?-|(?: of | / ?|/)\d+)?", re.IGNORECASE)
_BULLET = re.compile(r"[•‣▪●◦∙·]\s*(?=\S)")
_NUMBERING = re.compile(r"(?:chapter|part|appendix|section|kapitel|teil|anhang)?(?:\d*[a-z]?|[ivxlc]*)")
_LONGEST_NUMBERING = 12
_SENTENCE_END = (".", "!", "?", ":", ";", "。", "”", '"')


class Bookmark(NamedTuple):
    """An entry of the outline; pages and levels are counted from 0."""

    page: int
    level: int
    title: str


def markdown(pages: Sequence[str], bookmarks: Sequence[Bookmark], *, missing: int = 0) -> str:
    """All pages under the headings of the outline; where there is none, each under its number."""
    by_page: defaultdict[int, list[Bookmark]] = defaultdict(list)
    for bookmark in bookmarks:
        by_page[bookmark.page].append(bookmark)
    level = _DEEPEST_SECTION + 1 if bookmarks else 2
    parts = [
        _page(lines, number, by_page[number], level)
        for number, lines in enumerate(_undecorated([_lines(page) for page in pages]))
    ]
    if missing:
        parts.append(f"*{missing} more pages were left out.*")
    return "\n\n".join(filter(None, parts))


def _lines(page: str) -> list[str]:
    text = _KEPT_HYPHEN.sub("-", page).replace("\ufffe", "").replace("\xa0", " ")
    return [line for source in text.splitlines() if (line := _LEADERS.sub(" … ", source).strip())]


def _undecorated(pages: list[list[str]]) -> list[list[str]]:
    """The pages without numbers, and without the lines at their ends that three or more have in common."""
    for _ in range(2):
        for end in (0, -1):
            seen = Counter(_shape(lines[end]) for lines in pages if lines)
            first = set[str]()
            for lines in pages:
                shape = _shape(lines[end]) if lines else ""
                if shape and _is_decoration(lines[end], shape, seen[shape], first):
                    del lines[end]
    return pages


def _is_decoration(line: str, shape: str, repeats: int, met: set[str]) -> bool:
    """The first of the lines that repeat is kept: it may be the title."""
    if _PAGE_NUMBER.fullmatch(line):
        return True
    is_new = shape not in met
    met.add(shape)
    return repeats >= _FEWEST_REPEATS and not is_new


def _shape(line: str) -> str:
    return re.sub(r"\d+", "0", line)


def _page(lines: list[str], number: int, bookmarks: list[Bookmark], level: int) -> str:
    anchor = f"{{#page={number + 1}}}"
    headings = _placed(lines, bookmarks)
    parts = [] if 0 in headings or not lines else [f"{'#' * level} Page {number + 1} {anchor}"]
    bounds = sorted({0, *headings, len(lines)})
    typical = sorted(map(len, lines))[len(lines) * 4 // 5] if lines else 0
    for start, end in zip(bounds, [*bounds[1:], len(lines)], strict=True):
        found = headings.get(start, [])
        taken = max((length for _, length in found), default=0)
        parts += [f"{'#' * min(_DEEPEST_SECTION, each.level + 1)} {each.title} {anchor}" for each, _ in found]
        parts.append(_paragraphs(lines[start + taken : end], typical))
    return "\n\n".join(filter(None, parts))


def _placed(lines: list[str], bookmarks: list[Bookmark]) -> dict[int, list[tuple[Bookmark, int]]]:
    """The headings of a page by the line they stand on, with the number of lines that they take up; else at its top."""
    placed: defaultdict[int, list[tuple[Bookmark, int]]] = defaultdict(list)
    after = 0
    for bookmark in bookmarks:
        start, length = _found(lines, bookmark.title, after)
        placed[start].append((bookmark, length))
        after = max(after, start + length)
    return placed


def _found(lines: list[str], title: str, after: int) -> tuple[int, int]:
    wanted = _plain(title)
    for start in range(after, len(lines)):
        for length in range(1, _LONGEST_HEADING_LINES + 1):
            words = _plain(" ".join(lines[start : start + length]))
            if wanted and words.endswith(wanted) and _NUMBERING.fullmatch(words.removesuffix(wanted)):
                return start, length
            if len(words) > len(wanted) + _LONGEST_NUMBERING:
                break
    return after, 0


def _plain(words: str) -> str:
    return "".join(filter(str.isalnum, words.casefold()))


def _paragraphs(lines: list[str], typical: int) -> str:
    """Lines that belong together: a short one that ends a sentence ends the paragraph, a bullet begins another."""
    text = ""
    gap = ""
    for line in lines:
        item = _BULLET.match(line)
        words = "- " + line[item.end() :] if item else escaped(line)
        text += ("\n\n" if item and gap else gap) + words
        ends = line.endswith(_SENTENCE_END) and len(line) < _SHORT * typical
        gap = "\n\n" if ends else "\n"
    return text
