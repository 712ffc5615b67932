"""Reads a body by its format: holds the table of all readers, and selects one by media type and name.

Readers of other packages are declared by the entry point `rowen.readers` and take precedence over built-in readers.
Each run reads the table, because of the versions; a reader is imported when it reads its first body.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import unquote, urlsplit

from rowen.content.base import Body, FormatReader, Part
from rowen.content.documents import DamagedError
from rowen.errors import ConfigurationError, ItemError
from rowen.formats.charset import parameter
from rowen.model import files
from rowen.model.files import is_text, media_type_of
from rowen.model.items import Document, Raw
from rowen.model.text import UNREADABLE, Budget, OverspentError, reading

CHUNKER_VERSION = 4
"""Raise this whenever the same text would be cut differently, or a passage would have another `text_hash` or language.

Passages of earlier versions are renewed from the stored texts (`harvest/passages.py`). Version 3 hashes the words of a
passage; version 2 hashed its letters first, then its words. Version 4 detects languages.
"""
VERSION = 2
"""Raise this when the code that all readers share (decoding, assembly of documents) stores other results."""
VERSION_BEFORE_FORMATS = 2
"""The `VERSION` of all formats before each format got a version of its own."""
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
# Media types that servers send for office files of an unknown type.
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


def _later(module: str, function: str) -> Callable[..., Any]:
    """Return a function of this package; its module is imported on the first call."""
    return lambda *args, **options: getattr(import_module(f"rowen.content.{module}"), function)(*args, **options)


_read_fenced, _read_json = _later("data", "read_fenced"), _later("data", "read_json")
_read_markdown, _markdown_links = _later("markdown", "read_markdown"), _later("markdown", "markdown_links")
_read_html, _statements_in = _later("html", "read_page"), _later("page_statements", "statements_in")
_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."
_OPEN_READERS = {
    f"{_OPEN}{kind}": _later("documents.opendocument", function)
    for kind, function in (("text", "read_text"), ("spreadsheet", "read_sheets"), ("presentation", "read_slides"))
}
_TABLES: dict[str, Callable[[str], Part]] = {
    "text/csv": _later("data", "read_csv"),
    "text/tab-separated-values": _later("data", "read_tsv"),
}
_JSON: Mapping[str, Callable[..., Any]] = {
    "application/json": _read_json,
    "application/json5": lambda text: _read_fenced(text, "json5"),
    "application/x-ndjson": _later("data", "read_json_lines"),
}


def _of_text(read: Callable[..., Part], *options: str) -> Callable[[Body], Part]:
    return lambda body: read(body.text, *options)


def _of_bytes(read: Callable[[bytes], Part], body: Body) -> Part:
    try:
        return read(body.data)
    except DamagedError as problem:
        raise ItemError(f"{body.name} {problem}", hint=problem.hint) from problem


def _document(name: str, media_type: str, *uses: str) -> FormatReader:
    read = _later(f"documents.{name}", f"read_{name}")
    return FormatReader(name, 1, lambda body: _of_bytes(read, body), (media_type,), uses=uses, binary=True)


def _markdown(body: Body) -> Part:
    text = body.text
    part: Part = _read_markdown(text)
    return replace(part, links=_markdown_links(text, body.url)) if body.url.startswith("http") else part


def _page(body: Body) -> Part:
    """Read an HTML page; its instructions for crawlers are put in the record, so that connectors obey them."""
    text = body.text
    page = _read_html(text, body.url, select=body.select, ignore=body.ignore, facts=body.facts)
    hints: dict[str, Any] = {"noindex": True} if page.noindex else {}
    if page.canonical and page.canonical != body.url:
        hints["canonical"] = page.canonical
    if page.facts:
        hints["facts"] = page.facts
    if body.statements:
        hints |= _statements_in(text, body.url, body.statements, body.profile)
    links = () if page.nofollow else page.links
    return Part(page.text, page.title, page.tags, page.language, links, hints)


_CODE = FormatReader("code", 1, lambda body: _read_fenced(body.text, files.language_of(body.media_type) or ""), ())
_TEXT = FormatReader("text", 1, _of_text(_later("markdown", "read_plain")), ("text/plain",))
BUILT_IN: tuple[FormatReader, ...] = (
    FormatReader("html", 2, _page, ("text/html",)),
    FormatReader("markdown", 1, _markdown, ("text/markdown",)),
    _TEXT,
    _CODE,
    FormatReader("rst", 1, _of_text(_later("rst", "read_rst")), ("text/x-rst",)),
    FormatReader("tables", 1, lambda body: _TABLES[body.media_type](body.text), tuple(_TABLES)),
    FormatReader("json", 1, lambda body: _JSON.get(body.media_type, _read_json)(body.text), tuple(_JSON)),
    FormatReader("notebook", 1, _of_text(_later("code", "read_notebook")), ("application/x-ipynb+json",)),
    FormatReader("yaml", 1, _of_text(_read_fenced, "yaml"), ("application/yaml",)),
    FormatReader("toml", 1, _of_text(_read_fenced, "toml"), ("application/toml",)),
    FormatReader("xml", 1, _of_text(_later("data", "read_xml")), ("application/xml",)),
    _document("pdf", "application/pdf"),
    _document("rtf", "application/rtf", "html"),
    _document("epub", "application/epub+zip", "html"),
    _document("word", f"{_OFFICE}wordprocessingml.document", "html"),
    _document("excel", f"{_OFFICE}spreadsheetml.sheet", "tables"),
    _document("powerpoint", f"{_OFFICE}presentationml.presentation", "html"),
    FormatReader(
        "opendocument",
        1,
        lambda body: _of_bytes(_OPEN_READERS[body.media_type], body),
        tuple(_OPEN_READERS),
        uses=("html", "tables"),
        binary=True,
    ),
)
# The suffix of a media type without a reader names its notation: application/geo+json.
_BY_SUFFIX = {"json": "application/json", "xml": "application/xml", "yaml": "application/yaml"}
_OWN = {media_type: reader for reader in BUILT_IN for media_type in reader.media_types}


@dataclass(frozen=True, slots=True)
class Format:
    """A format in a recipe; `versions` lists all versions that affect the stored result of its bodies.

    `taken` lists the media types and endings of a built-in format that readers of other packages have taken over.
    """

    name: str
    versions: tuple[tuple[str, int], ...]
    taken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _ReaderTable:
    """All readers, by media type. `joined` has the readers of other packages, by their import path."""

    by_type: Mapping[str, FormatReader]
    readers: tuple[FormatReader, ...]
    joined: Mapping[str, FormatReader]


_places: list[str] | None = None


def join(places: Iterable[str]) -> None:
    """Set the import paths of other packages' readers, so that a worker process need not search for them."""
    global _places
    _places = list(places)
    _table.cache_clear()


def places() -> list[str]:
    """Return the import paths of other packages' readers, in the form `package.module:NAME`."""
    return sorted(_table().joined)


def reader_of(media_type: str) -> FormatReader:
    """Return the reader for a supported media type."""
    return _table().by_type.get(media_type) or _built_in(media_type)


def formats() -> tuple[Format, ...]:
    """Return all formats with their versions, for recipes."""
    table = _table()
    versions = {reader.format: reader.version for reader in table.readers}
    taken: dict[str, set[str]] = {}
    for reader in table.joined.values():
        for claim in reader.media_types:
            taken.setdefault(_built_in(claim).format, set()).add(claim)
        for ending in reader.endings:
            if before := files.MEDIA.get(ending):
                taken.setdefault(_built_in(before).format, set()).add(f".{ending}")
    return tuple(
        Format(
            reader.format,
            tuple((name, versions[name]) for name in sorted({reader.format, *reader.uses} & versions.keys())),
            tuple(sorted(taken.get(reader.format, ()))),
        )
        for reader in table.readers
    )


def _built_in(media_type: str) -> FormatReader:
    if reader := _OWN.get(media_type):
        return reader
    if files.language_of(media_type):
        return _CODE
    family = _BY_SUFFIX.get(media_type.rpartition("+")[2])
    return _OWN[family] if family else _TEXT


@cache
def _table() -> _ReaderTable:
    installed = [point.value for point in entry_points(group="rowen.readers")] if _places is None else _places
    joined = {place: _loaded(place) for place in installed}
    by_type = dict(_OWN)
    names = {reader.format for reader in BUILT_IN}
    claimed: dict[str, str] = {}
    for place, reader in sorted(joined.items()):
        if reader.format in names:
            raise ConfigurationError(
                f"The reader {place} uses the format name {reader.format!r}, which another reader has.",
                hint="Uninstall one of the packages.",
            )
        for claim in (*reader.media_types, *(f".{ending.lower()}" for ending in reader.endings)):
            if other := claimed.get(claim):
                raise ConfigurationError(
                    f"The readers {other} and {place} both claim {claim}.", hint="Uninstall one of the packages."
                )
            claimed[claim] = place
        names.add(reader.format)
        by_type.update(dict.fromkeys(reader.media_types, reader))
    endings = {ending.lower(): reader.media_types[0] for reader in joined.values() for ending in reader.endings}
    files.claim(endings, (claim for reader in joined.values() for claim in reader.media_types))
    return _ReaderTable(by_type, (*BUILT_IN, *joined.values()), joined)


def _loaded(place: str) -> FormatReader:
    """Import a reader of another package; raise `ConfigurationError` if it is missing.

    Without a declared reader, its items would be treated as deleted.
    """
    module, _, name = place.partition(":")
    try:
        reader = getattr(import_module(module), name)
    except (ImportError, AttributeError) as problem:
        raise ConfigurationError(
            f"The reader {place} cannot be loaded: {problem}.", hint="Reinstall the package that brings it."
        ) from problem
    if not isinstance(reader, FormatReader) or not reader.media_types:
        raise ConfigurationError(
            f"{place} is not a reader with at least one media type.", hint="Report it to the package that brings it."
        )
    return reader


def read(raw: Raw) -> Document:
    """Return the document in a body; raise `ItemError` if it cannot be read, or expands disproportionately."""
    name = _name(raw)
    media_type = _media_type(name, raw.media_type)
    if media_type is None and _essence(raw.media_type) in _VAGUE and _LOOKS_LIKE_HTML.match(raw.body, 0, 1024):
        media_type = "text/html"
    if media_type is None:
        raise ItemError(
            f"{name or raw.url} cannot be read: {raw.media_type or 'its type'} is not a supported format",
            hint="Exclude it from the source, or give it the ending of its format.",
        )
    charset = raw.charset or parameter(raw.media_type)
    options = raw.select, raw.ignore, raw.facts, raw.statements, raw.profile
    body = Body(raw.body, media_type, name or raw.url, raw.url, charset, *options)
    reader = reader_of(media_type)
    try:
        with reading(len(raw.body)):
            part = _guarded(reader, body) if _is_foreign(reader) else reader.read(body)
        Budget(len(raw.body)).spend(len(part.text))
    except OverspentError as problem:
        raise ItemError(f"{body.name} {problem}.", hint="It may be a bomb: exclude it.") from None
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


def _guarded(reader: FormatReader, body: Body) -> Part:
    """Call a reader of another package, and convert its exceptions to `ItemError`."""
    try:
        return reader.read(body)
    except UNREADABLE as problem:
        raise ItemError(
            f"{body.name} cannot be read as {reader.format}: {problem!r}.",
            hint="Exclude it, or report it to the package that brings the reader.",
        ) from problem


def _is_foreign(reader: FormatReader) -> bool:
    """Return whether a reader comes from another package."""
    return reader in _table().joined.values()


def supported(name: str, media_type: str | None = None) -> bool:
    """Return whether a body with this name and media type can be read."""
    return _media_type(name, media_type) is not None


def is_document(raw: Raw) -> bool:
    """Return whether a body needs a worker process: it is a binary document or of another package's format."""
    media_type = _media_type(_name(raw), raw.media_type)
    return media_type is not None and ((reader := reader_of(media_type)).binary or _is_foreign(reader))


def _media_type(name: str, declared: str | None) -> str | None:
    essence = _essence(declared)
    by_name = media_type_of(name)
    if essence in _VAGUE:
        return by_name or ("text/plain" if essence == "text/plain" else None)
    essence = _ALIASES.get(essence, essence)
    is_claimed = essence in _table().by_type
    if not is_claimed and essence in _VAGUE_OFFICE and by_name and reader_of(by_name).binary:
        return by_name
    if not is_claimed and not is_text(essence):
        return None
    # The ending may be more precise: a notebook is JSON.
    return by_name if by_name and by_name.endswith("+" + essence.rpartition("/")[2]) else essence


def _essence(media_type: str | None) -> str:
    return (media_type or "").partition(";")[0].strip().lower()


def _name(raw: Raw) -> str:
    path = raw.name or unquote(urlsplit(raw.url).path)
    return path.rstrip("/").replace("\\", "/").rpartition("/")[2]
