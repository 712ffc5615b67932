"""Reads PDF: the text of each page below the headings of the outline, with anchors that PDF viewers understand.

The text comes from pdfium. A release of pdfium that reads pages differently changes the stored texts without changing
the hash of a body; raise the version of the format in that case.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import facts_of
from rowen.content.markdown import escaped
from rowen.model.text import spend
from rowen.version import how_to_install

# Further pages are left out, and the item says so: reading must end within a worker's time limit.
MOST_PAGES = 5_000
# The bookmarks of a damaged file may form a cycle.
_MOST_BOOKMARKS = 20_000
# Characters of the first page whose size is compared to find the title.
_MOST_TITLE_CHARS = 4_000
# Longer text in the largest size is no title; a first line used as title is truncated to this.
_LONGEST_TITLE = 200
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
# Two pages may begin with the same line by chance; the first of repeated lines is kept in any case.
_FEWEST_REPEATS = 3
# Share of the typical line length: a shorter line that ends a sentence ends a paragraph.
_SHORT = 0.8
# A bookmark's title is compared with at most so many lines.
_LONGEST_HEADING_LINES = 3
_DEEPEST_SECTION = 5  # Markdown has six levels; the last is for pages
# pdfium's character for a hyphen at the end of a line. After a digit or capital, it is a real hyphen.
_KEPT_HYPHEN = re.compile("(?<=[A-Z0-9])\ufffe")
_LEADERS = re.compile(r"(?:\s?[.·…]){4,}\s*")
_PAGE_NUMBER = re.compile(r"(?:page |seite |- ?)?(?:\d+|[ivxlc]+)(?: ?-|(?: of | / ?|/)\d+)?", re.IGNORECASE)
_BULLET = re.compile(r"[•‣▪●◦∙·]\s*(?=\S)")
_NUMBERING = re.compile(r"(?:chapter|part|appendix|section|kapitel|teil|anhang)?(?:\d*[a-z]?|[ivxlc]*)")
_LONGEST_NUMBERING = 12
_SENTENCE_END = (".", "!", "?", ":", ";", "。", "”", '"')


def read_pdf(body: bytes) -> Part:
    """Return the text of a PDF; raise `DamagedError` if it has no text layer."""
    try:
        import pypdfium2
    except ImportError as problem:
        raise DamagedError(
            "is a PDF, and the program that reads PDFs is not installed.",
            hint=f"Run `{how_to_install('documents')}`, or exclude such files.",
        ) from problem
    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as problem:
        if "assword" in str(problem):
            raise DamagedError("is encrypted.", hint="Save it without a password.") from problem
        raise DamagedError("is damaged, or not a PDF.") from problem
    try:
        return _read(document, pypdfium2.PdfiumError)
    finally:
        document.close()


def _read(document: Any, damaged: type[Exception]) -> Part:
    count = len(document)
    pages = []
    is_readable = False
    for number in range(min(count, MOST_PAGES)):
        try:
            page = document[number]
            words = page.get_textpage()
        except damaged:
            pages.append("")
            continue
        is_readable = True
        text: str = words.get_text_bounded()
        spend(len(text))
        words.close()
        page.close()
        pages.append(text.translate(_LIGATURES))
    if not is_readable:
        raise DamagedError("is damaged: none of its pages can be read.")
    if not any(map(str.strip, pages)):
        raise DamagedError(
            "has no text layer: its pages are pictures.", hint="Have its text recognised (OCR), or exclude it."
        )
    bookmarks = []
    for entry in islice(document.get_toc(), _MOST_BOOKMARKS):
        target = entry.get_dest()
        page_number = target.get_index() if target is not None else None
        title = " ".join(entry.get_title().split())
        if page_number is not None and title:
            bookmarks.append(Bookmark(page_number, entry.level, title))
    metadata = document.get_metadata_dict()
    facts = facts_of(metadata.get("Title", ""), [metadata.get("Author", "")], [metadata.get("Keywords", "")])
    lines = (" ".join(line.split()) for page in pages for line in page.splitlines())
    first_line = next((line[:_LONGEST_TITLE] for line in lines if any(map(str.isalpha, line))), "")
    truncated: dict[str, Any] = {"truncated": True} if count > MOST_PAGES else {}
    return facts.part(
        markdown(pages, bookmarks, missing=count - len(pages)),
        title="" if facts.title else _largest_words(document, damaged) or first_line,
        pages=count,
        **truncated,
    )


def _largest_words(document: Any, damaged: type[Exception]) -> str:
    """Return the text in the largest font size on the first page; empty if it is no plausible title."""
    try:
        words = document[0].get_textpage()
        boxes = [words.get_charbox(at, loose=True) for at in range(min(words.count_chars(), _MOST_TITLE_CHARS))]
    except damaged:
        return ""
    sizes = [float(top - bottom) for _, bottom, _, top in boxes]
    if not sizes or max(sizes) <= 0:
        return ""
    largest = max(sizes) * 0.95
    first = next(at for at, size in enumerate(sizes) if size >= largest)
    last = next((at for at in range(first, len(sizes)) if 0 < sizes[at] < largest), len(sizes))
    title = " ".join(words.get_text_range(first, last - first).replace("\ufffe", "").split()).translate(_LIGATURES)
    return title if sum(map(str.isalpha, title)) >= 3 and len(title) <= _LONGEST_TITLE else ""


class Bookmark(NamedTuple):
    """An entry of the outline; pages and levels are counted from 0."""

    page: int
    level: int
    title: str


def markdown(pages: Sequence[str], bookmarks: Sequence[Bookmark], *, missing: int = 0) -> str:
    """Return all pages below the headings of the outline; without an outline, each page below its number."""
    by_page: defaultdict[int, list[Bookmark]] = defaultdict(list)
    for bookmark in bookmarks:
        by_page[bookmark.page].append(bookmark)
    level = _DEEPEST_SECTION + 1 if bookmarks else 2
    lines_of_pages = []
    for page in pages:
        text = _KEPT_HYPHEN.sub("-", page).replace("\ufffe", "").replace("\xa0", " ")
        lines_of_pages.append([line for source in text.splitlines() if (line := _LEADERS.sub(" … ", source).strip())])
    _remove_decoration(lines_of_pages)
    parts = [_page(lines, number, by_page[number], level) for number, lines in enumerate(lines_of_pages)]
    if missing:
        parts.append(f"*{missing} more pages were left out.*")
    return "\n\n".join(filter(None, parts))


def _remove_decoration(pages: list[list[str]]) -> None:
    """Remove page numbers, and first and last lines that three or more pages share.

    The first of the repeated lines is kept, since it may be the title.
    """
    for _ in range(2):
        for end in (0, -1):
            shapes = [re.sub(r"\d+", "0", lines[end]) if lines else "" for lines in pages]
            repeats = Counter(shapes)
            seen = set[str]()
            for lines, shape in zip(pages, shapes, strict=True):
                if not shape:
                    continue
                if _PAGE_NUMBER.fullmatch(lines[end]) or (repeats[shape] >= _FEWEST_REPEATS and shape in seen):
                    del lines[end]
                else:
                    seen.add(shape)


def _page(lines: list[str], number: int, bookmarks: list[Bookmark], level: int) -> str:
    anchor = f"{{#page={number + 1}}}"
    # The headings by line, and the number of lines that each occupies; headings without a line come first.
    headings: defaultdict[int, list[str]] = defaultdict(list)
    taken: defaultdict[int, int] = defaultdict(int)
    after = 0
    for bookmark in bookmarks:
        start, length = _position(lines, bookmark.title, after)
        headings[start].append(f"{'#' * min(_DEEPEST_SECTION, bookmark.level + 1)} {bookmark.title} {anchor}")
        taken[start] = max(taken[start], length)
        after = max(after, start + length)
    parts = [] if 0 in headings or not lines else [f"{'#' * level} Page {number + 1} {anchor}"]
    bounds = sorted({0, *headings, len(lines)})
    typical = sorted(map(len, lines))[len(lines) * 4 // 5] if lines else 0
    for start, end in zip(bounds, [*bounds[1:], len(lines)], strict=True):
        parts += headings.get(start, [])
        # A short line that ends a sentence ends the paragraph, and a bullet starts a new one.
        text = gap = ""
        for line in lines[start + taken.get(start, 0) : end]:
            item = _BULLET.match(line)
            words = "- " + line[item.end() :] if item else escaped(line)
            text += ("\n\n" if item and gap else gap) + words
            gap = "\n\n" if line.endswith(_SENTENCE_END) and len(line) < _SHORT * typical else "\n"
        parts.append(text)
    return "\n\n".join(filter(None, parts))


def _position(lines: list[str], title: str, after: int) -> tuple[int, int]:
    """Return the line where a title starts and its number of lines; `after` and 0 if the page does not contain it."""
    wanted = _letters(title)
    for start in range(after, len(lines)):
        for length in range(1, _LONGEST_HEADING_LINES + 1):
            words = _letters(" ".join(lines[start : start + length]))
            if wanted and words.endswith(wanted) and _NUMBERING.fullmatch(words.removesuffix(wanted)):
                return start, length
            if len(words) > len(wanted) + _LONGEST_NUMBERING:
                break
    return after, 0


def _letters(words: str) -> str:
    return "".join(filter(str.isalnum, words.casefold()))
