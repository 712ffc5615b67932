"""PDF: the words of each page under the headings of the outline, with anchors that viewers understand.

The text is pdfium's. A release that reads pages otherwise changes what is stored, though not the hash of a body:
it goes with a new `VERSION` of `read`.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.facts import Facts, facts_of, record_of
from rowen.content.documents.pdf_pages import Bookmark, markdown
from rowen.model.text import spend
from rowen.version import how_to_install

__all__ = ["read_pdf"]

# More are left out, and the item says so: reading must end within a worker's time.
MOST_PAGES = 5_000
# Bookmarks of a damaged file may lead in a circle.
_MOST_BOOKMARKS = 20_000
# The title is looked for in the first page, and each character of it is asked for its size.
_MOST_TITLE_CHARS = 4_000
# What is larger than the rest and longer than this is no title; a first line is cut off here.
_LONGEST_TITLE = 200
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})


def read_pdf(body: bytes) -> Part:
    """The text of a PDF that has any."""
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
    """The text of a page; nothing at all if the page is damaged."""
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


def _bookmarks(document: Any) -> Iterator[Bookmark]:
    for entry in islice(document.get_toc(), _MOST_BOOKMARKS):
        target = entry.get_dest()
        page = target.get_index() if target is not None else None
        title = " ".join(entry.get_title().split())
        if page is not None and title:
            yield Bookmark(page, entry.level, title)


def _largest_words(document: Any) -> str:
    """The words of the first page that are written largest."""
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
