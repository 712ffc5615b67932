"""A body becomes a document: told apart by its media type, then by the ending of its name."""

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from rowen.content.base import Body, FormatReader, Part
from rowen.content.readers import is_claimed, is_foreign, reader_of
from rowen.errors import ItemError
from rowen.formats.charset import parameter
from rowen.model.files import is_text, media_type_of
from rowen.model.items import Document, Raw
from rowen.model.text import UNREADABLE, Budget, OverspentError, reading

__all__ = ["is_document", "read", "supported"]

_VAGUE = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream", "application/x-unknown"})
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)

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
    charset = raw.charset or parameter(raw.media_type)
    told = raw.select, raw.ignore, raw.facts, raw.statements, raw.profile
    body = Body(raw.body, media_type, name, raw.url, charset, *told)
    reader = reader_of(media_type)
    return _guarded(reader, body) if is_foreign(reader) else reader.read(body)


def _guarded(reader: FormatReader, body: Body) -> Part:
    """What another package's reader says. What it stumbles over costs that item, and not the process."""
    try:
        return reader.read(body)
    except UNREADABLE as problem:
        raise ItemError(
            f"{body.name} cannot be read as {reader.format}: {problem!r}.",
            hint="Exclude it, or report it to the package that brings the reader.",
        ) from problem


def supported(name: str, media_type: str | None = None) -> bool:
    """Whether a body of this name and media type can be read."""
    return _media_type(name, media_type) is not None


def is_document(raw: Raw) -> bool:
    """Whether a parser may well stumble over a body: a PDF, an office file, a book, what another package reads."""
    media_type = _media_type(_name(raw), raw.media_type)
    return _is_binary(media_type) or (media_type is not None and is_foreign(reader_of(media_type)))


def _media_type(name: str, told: str | None) -> str | None:
    essence = (told or "").partition(";")[0].strip().lower()
    by_name = media_type_of(name)
    if essence in _VAGUE:
        return by_name or ("text/plain" if essence == "text/plain" else None)
    essence = _ALIASES.get(essence, essence)
    if is_claimed(essence):
        # The ending may say more: a notebook is JSON.
        return by_name if by_name and _is_kind_of(by_name, essence) else essence
    if essence in _VAGUE_OFFICE and _is_binary(by_name):
        return by_name
    if not is_text(essence):
        return None
    return by_name if by_name and _is_kind_of(by_name, essence) else essence


def _is_kind_of(media_type: str, general: str) -> bool:
    return media_type.endswith("+" + general.rpartition("/")[2])


def _is_binary(media_type: str | None) -> bool:
    return media_type is not None and reader_of(media_type).binary


def _sniffed(raw: Raw) -> str | None:
    told = (raw.media_type or "").partition(";")[0].strip().lower()
    return "text/html" if told in _VAGUE and _LOOKS_LIKE_HTML.match(raw.body, 0, 1024) else None


def _name(raw: Raw) -> str:
    path = raw.name or unquote(urlsplit(raw.url).path)
    return path.rstrip("/").replace("\\", "/").rpartition("/")[2]
