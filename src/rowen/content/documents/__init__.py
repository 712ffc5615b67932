"""Documents that are no text: PDF, Word, Excel, PowerPoint, OpenDocument, EPUB and RTF become Markdown.

Office files are read here and not by a library: those that were tried lose words, or write another text with every
release. Only PDF needs one, from the extra `rowen[documents]`.
"""

from collections.abc import Callable, Mapping

from rowen.content.documents.epub import read_epub
from rowen.content.documents.excel import read_excel
from rowen.content.documents.opendocument import read_sheets, read_slides, read_text
from rowen.content.documents.pdf import read_pdf
from rowen.content.documents.powerpoint import read_powerpoint
from rowen.content.documents.problem import DamagedError
from rowen.content.documents.rtf import read_rtf
from rowen.content.documents.word import read_word
from rowen.content.part import Part
from rowen.errors import ItemError

__all__ = ["READERS", "read_document"]

_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."
READERS: Mapping[str, Callable[[bytes], Part]] = {
    "application/pdf": read_pdf,
    "application/rtf": read_rtf,
    "application/epub+zip": read_epub,
    _OFFICE + "wordprocessingml.document": read_word,
    _OFFICE + "spreadsheetml.sheet": read_excel,
    _OFFICE + "presentationml.presentation": read_powerpoint,
    _OPEN + "text": read_text,
    _OPEN + "spreadsheet": read_sheets,
    _OPEN + "presentation": read_slides,
}
"""What reads a body, by its media type."""


def read_document(body: bytes, media_type: str, name: str) -> Part:
    """What a document says; raises `ItemError` if it cannot be read."""
    try:
        return READERS[media_type](body)
    except DamagedError as problem:
        raise ItemError(f"{name} {problem}", hint=problem.hint) from problem
