"""PDF: the words of each page under the headings of the outline, with anchors that viewers understand.

The text is pdfium's. A release that reads pages otherwise changes what is stored, though not the hash of a body:
it goes with a new `VERSION` of `read`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import Facts, facts_of, record_of
from rowen.content.markdown import escaped
from rowen.model.text import spend
from rowen.version import how_to_install

__all__ = ["Bookmark", "markdown", "read_pdf"]

# More are left out, and the item says so: reading must end within a worker's time.
MOST_PAGES = 5_000
# Bookmarks of a damaged file may lead in a circle.
_MOST_BOOKMARKS = 20_000
# The title is looked for in the first page, and each character of it is asked for its size.
_MOST_TITLE_CHARS = 4_000
# What is larger than the rest and longer than this is no title; a first line is cut off here.
_LONGEST_TITLE = 200
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
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


def read_pdf(body: bytes) -> Part:
    """Return the text of a PDF that has any."""
    document = _opened(body)
    try:
        return _read(document)
    finally:
        document.close()


def _opened(body: bytes) -> Any:
    try:
        import pypdfium2
    except ImportError as problem:
        raise DamagedError(
            "is a PDF, and the program that reads those is not installed.",
            hint=f"Run `{how_to_install('documents')}`, or exclude such files.",
        ) from problem
    try:
        return pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as problem:
        if "assword" in str(problem):
            raise DamagedError("is encrypted.", hint="Save it without a password.") from problem
        raise DamagedError("is damaged, or no PDF.") from problem


def _read(document: Any) -> Part:
    count = len(document)
    found = [_text(document, number) for number in range(min(count, MOST_PAGES))]
    pages = [page or "" for page in found]
    if all(page is None for page in found):
        raise DamagedError("is damaged: none of its pages can be read.")
    if not any(map(str.strip, pages)):
        raise DamagedError(
            "has no text layer: its pages are pictures.", hint="Have its text recognised (OCR), or leave it out."
        )
    facts = _facts(document)
    cut = {"truncated": True} if count > MOST_PAGES else {}
    return Part(
        text=markdown(pages, list(_bookmarks(document)), missing=count - len(pages)),
        title=facts.title or _largest_words(document) or _first_line(pages),
        tags=facts.keywords,
        language=facts.language,
        record=record_of(facts, {"pages": count, **cut}),
    )


def _text(document: Any, number: int) -> str | None:
    """Return the text of a page; nothing at all if the page is damaged."""
    import pypdfium2

    try:
        page = document[number]
        words = page.get_textpage()
    except pypdfium2.PdfiumError:
        return None
    text: str = words.get_text_bounded()
    spend(len(text))
    words.close()
    page.close()
    return text.translate(_LIGATURES)


def _facts(document: Any) -> Facts:
    told = document.get_metadata_dict()
    return facts_of(told.get("Title", ""), [told.get("Author", "")], [told.get("Keywords", "")], "")


class Bookmark(NamedTuple):
    """An entry of the outline; pages and levels are counted from 0."""

    page: int
    level: int
    title: str


def _bookmarks(document: Any) -> Iterator[Bookmark]:
    for entry in islice(document.get_toc(), _MOST_BOOKMARKS):
        target = entry.get_dest()
        page = target.get_index() if target is not None else None
        title = " ".join(entry.get_title().split())
        if page is not None and title:
            yield Bookmark(page, entry.level, title)


def _largest_words(document: Any) -> str:
    """Return the words of the first page that are written largest."""
    import pypdfium2

    try:
        words = document[0].get_textpage()
        sizes = [_size(words, at) for at in range(min(words.count_chars(), _MOST_TITLE_CHARS))]
    except pypdfium2.PdfiumError:
        return ""
    if not sizes or max(sizes) <= 0:
        return ""
    largest = max(sizes) * 0.95
    first = next(at for at, size in enumerate(sizes) if size >= largest)
    last = next((at for at in range(first, len(sizes)) if 0 < sizes[at] < largest), len(sizes))
    title = " ".join(words.get_text_range(first, last - first).replace("\ufffe", "").split()).translate(_LIGATURES)
    return title if sum(map(str.isalpha, title)) >= 3 and len(title) <= _LONGEST_TITLE else ""


def _size(words: Any, at: int) -> float:
    _, bottom, _, top = words.get_charbox(at, loose=True)
    return float(top - bottom)


def _first_line(pages: list[str]) -> str:
    lines = (" ".join(line.split()) for page in pages for line in page.splitlines())
    return next((line[:_LONGEST_TITLE] for line in lines if any(map(str.isalpha, line))), "")


def markdown(pages: Sequence[str], bookmarks: Sequence[Bookmark], *, missing: int = 0) -> str:
    """Return all pages under the headings of the outline; where there is none, each under its number."""
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
    """Return the pages without numbers, and without the lines at their ends that three or more have in common."""
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
    """Return whether a line is a decoration. The first of repeated lines is kept: it may be the title."""
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
