"""A body becomes a document: told apart by its media type, then by the ending of its name."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

from rowen.content.data import read_fenced, read_json, read_json_lines, read_xml
from rowen.content.documents import READERS, read_document
from rowen.content.html import read_page
from rowen.content.markdown import markdown_links, read_markdown, read_plain
from rowen.content.notebooks import read_notebook
from rowen.content.part import Part
from rowen.content.rst import read_rst
from rowen.content.tables import read_csv, read_tsv
from rowen.errors import ItemError
from rowen.formats.charset import decode, parameter
from rowen.model.budget import Budget, OverspentError, reading
from rowen.model.item import Document, Raw
from rowen.model.media import is_text, language_of, media_type_of

__all__ = ["VERSION", "is_document", "read", "supported"]

VERSION = 2
"""Raised whenever the same body would be read into another document."""

_VAGUE = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream", "application/x-unknown"})
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)

_READERS: Mapping[str, Callable[[str], Part]] = {
    "text/markdown": read_markdown,
    "text/plain": read_plain,
    "text/x-rst": read_rst,
    "text/csv": read_csv,
    "text/tab-separated-values": read_tsv,
    "application/json": read_json,
    "application/json5": lambda text: read_fenced(text, "json5"),
    "application/x-ndjson": read_json_lines,
    "application/x-ipynb+json": read_notebook,
    "application/yaml": lambda text: read_fenced(text, "yaml"),
    "application/toml": lambda text: read_fenced(text, "toml"),
    "application/xml": read_xml,
}
_ALIASES: Mapping[str, str] = {
    "application/xhtml+xml": "text/html",
    "text/x-markdown": "text/markdown",
    "text/prs.fallenstein.rst": "text/x-rst",
    "text/json": "application/json",
    "application/ndjson": "application/x-ndjson",
    "application/jsonlines": "application/x-ndjson",
    "application/x-jsonlines": "application/x-ndjson",
    "text/yaml": "application/yaml",
    "text/x-yaml": "application/yaml",
    "application/x-yaml": "application/yaml",
    "text/x-toml": "application/toml",
    "application/x-toml": "application/toml",
    "text/xml": "application/xml",
    "application/x-pdf": "application/pdf",
    "application/x-rtf": "application/rtf",
    "text/rtf": "application/rtf",
}
# What servers say of office files that they have no word for.
_VAGUE_OFFICE = frozenset(
    {
        "application/zip",
        "application/x-zip-compressed",
        "application/msword",
        "application/vnd.ms-excel",
        "application/vnd.ms-powerpoint",
        "application/vnd.ms-word.document.macroenabled.12",
        "application/vnd.ms-excel.sheet.macroenabled.12",
        "application/vnd.ms-powerpoint.presentation.macroenabled.12",
        "application/vnd.openxmlformats-officedocument.presentationml.slideshow",
    }
)
_BY_SUFFIX: Mapping[str, str] = {"json": "application/json", "xml": "application/xml", "yaml": "application/yaml"}


def read(raw: Raw) -> Document:
    """The document that a body holds; raises `ItemError` if it cannot be read."""
    name = _name(raw)
    media_type = _media_type(name, raw.media_type) or _sniffed(raw)
    if media_type is None:
        raise ItemError(
            f"{name or raw.url} cannot be read: {raw.media_type or 'its kind'} is no format that Rowen knows",
            hint="Leave it out of the source, or give it the ending of its format.",
        )
    part = _within_budget(raw, media_type, name or raw.url)
    return Document(
        url=raw.url,
        title=part.title or raw.title or name or raw.url,
        text=part.text,
        tags=raw.tags + part.tags,
        record={**raw.record, **part.record},
        language=raw.language or part.language,
        media_type=media_type,
        links=part.links,
        depth=raw.depth,
        validators=raw.validators,
    )


def _within_budget(raw: Raw, media_type: str, name: str) -> Part:
    """What a body says, unless that is out of all proportion to what was sent."""
    try:
        with reading(len(raw.body)):
            part = _read(raw, media_type, name)
        Budget(len(raw.body)).spend(len(part.text))
    except OverspentError as problem:
        raise ItemError(f"{name} {problem}.", hint="It may be a bomb: leave it out.") from None
    return part


def _read(raw: Raw, media_type: str, name: str) -> Part:
    if media_type in READERS:
        return read_document(raw.body, media_type, name)
    text = decode(raw.body, charset=_charset(raw), media_type=media_type, name=name)
    return _part(text.replace("\r\n", "\n").replace("\r", "\n"), media_type, raw)


def supported(name: str, media_type: str | None = None) -> bool:
    """Whether a body of this name and media type can be read."""
    return _media_type(name, media_type) is not None


def is_document(raw: Raw) -> bool:
    """Whether a body is no text, but something whose parser may well stumble: a PDF, an office file, a book."""
    return _media_type(_name(raw), raw.media_type) in READERS


def _media_type(name: str, told: str | None) -> str | None:
    essence = (told or "").partition(";")[0].strip().lower()
    by_name = media_type_of(name)
    if essence in _VAGUE:
        return by_name or ("text/plain" if essence == "text/plain" else None)
    essence = _ALIASES.get(essence, essence)
    if essence in READERS:
        return essence
    if essence in _VAGUE_OFFICE and by_name in READERS:
        return by_name
    if not is_text(essence):
        return None
    # The ending may say more: a notebook is JSON, a stylesheet for transformations is XML.
    return by_name if by_name and by_name.endswith("+" + essence.rpartition("/")[2]) else essence


def _sniffed(raw: Raw) -> str | None:
    told = (raw.media_type or "").partition(";")[0].strip().lower()
    return "text/html" if told in _VAGUE and _LOOKS_LIKE_HTML.match(raw.body, 0, 1024) else None


def _charset(raw: Raw) -> str | None:
    return raw.charset or parameter(raw.media_type)


def _name(raw: Raw) -> str:
    path = raw.name or unquote(urlsplit(raw.url).path)
    return path.rstrip("/").replace("\\", "/").rpartition("/")[2]


def _part(text: str, media_type: str, raw: Raw) -> Part:
    if media_type == "text/html":
        return _page(text, raw)
    if media_type == "text/markdown" and raw.url.startswith("http"):
        return replace(read_markdown(text), links=markdown_links(text, raw.url))
    if reader := _READERS.get(media_type):
        return reader(text)
    if language := language_of(media_type):
        return read_fenced(text, language)
    family = _BY_SUFFIX.get(media_type.rpartition("+")[2])
    return _READERS[family](text) if family else read_plain(text)


def _page(text: str, raw: Raw) -> Part:
    """What a page asks of a crawler is kept in the record: a connector that follows links obeys it there."""
    page = read_page(text, raw.url, select=raw.select, ignore=raw.ignore)
    hints: dict[str, Any] = {}
    if page.noindex:
        hints["noindex"] = True
    if page.canonical and page.canonical != raw.url:
        hints["canonical"] = page.canonical
    return Part(
        text=page.text,
        title=page.title,
        tags=page.tags,
        language=page.language,
        links=() if page.nofollow else page.links,
        record=hints,
    )
