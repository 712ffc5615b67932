"""Read a body by its format: the table of all readers, and the choice by media type and name.

Other packages declare theirs by the entry point `rowen.readers`. Theirs are asked first: what they claim, a built-in
reader no longer reads. The table is asked by every run, for the versions; a reader is imported with its first body.
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

__all__ = [
    "BUILT_IN",
    "CHUNKER_VERSION",
    "VERSION",
    "VERSION_BEFORE_FORMATS",
    "Format",
    "formats",
    "is_document",
    "join",
    "places",
    "read",
    "reader_of",
    "supported",
]

GROUP = "rowen.readers"
CHUNKER_VERSION = 3
"""Of passages: raised whenever the same text would be cut in another way, or a passage would have another `text_hash`.

What an earlier version wrote is renewed from the stored texts (`harvest/passages.py`). Version 3 hashes the words of a
passage, where 2 began with its letters and went on with its words.
"""
VERSION = 2
"""Raised when what all readers share changes what is stored: the decoding of text, or the making of a document."""
VERSION_BEFORE_FORMATS = 2
"""The `VERSION` that stood for all formats before each got its own."""
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


def _later(module: str, function: str) -> Callable[..., Part]:
    """Return a function of this package whose module is imported with its first call."""

    def call(*given: Any, **named: Any) -> Part:
        read: Callable[..., Part] = getattr(import_module(f"rowen.content.{module}"), function)
        return read(*given, **named)

    return call


read_fenced, read_json = _later("data", "read_fenced"), _later("data", "read_json")


def _of_text(read: Callable[[str], Part]) -> Callable[[Body], Part]:
    return lambda body: read(body.text)


def _of_bytes(read: Callable[[bytes], Part]) -> Callable[[Body], Part]:
    def read_document(body: Body) -> Part:
        try:
            return read(body.data)
        except DamagedError as problem:
            raise ItemError(f"{body.name} {problem}", hint=problem.hint) from problem

    return read_document


def _document(name: str) -> Callable[[Body], Part]:
    return _of_bytes(_later(f"documents.{name}", f"read_{name}"))


def _by_type(readers: Mapping[str, Callable[[str], Part]]) -> Callable[[Body], Part]:
    return lambda body: readers[body.media_type](body.text)


def _markdown(body: Body) -> Part:
    from rowen.content.markdown import markdown_links, read_markdown

    text = body.text
    part = read_markdown(text)
    return replace(part, links=markdown_links(text, body.url)) if body.url.startswith("http") else part


def _page(body: Body) -> Part:
    """Read a page; keep its instructions for crawlers in the record, where connectors obey them."""
    from rowen.content.html import read_page

    text = body.text
    page = read_page(text, body.url, select=body.select, ignore=body.ignore, facts=body.facts)
    hints: dict[str, Any] = {}
    if page.noindex:
        hints["noindex"] = True
    if page.canonical and page.canonical != body.url:
        hints["canonical"] = page.canonical
    if page.facts:
        hints["facts"] = page.facts
    if body.statements:
        from rowen.content.page_statements import statements_in

        hints |= statements_in(text, body.url, body.statements, body.profile)
    links = () if page.nofollow else page.links
    return Part(page.text, page.title, page.tags, page.language, links, hints)


def _code(body: Body) -> Part:
    return read_fenced(body.text, files.language_of(body.media_type) or "")


_TABLES = {
    "text/csv": _later("data", "read_csv"),
    "text/tab-separated-values": _later("data", "read_tsv"),
}
_JSON: Mapping[str, Callable[[str], Part]] = {
    "application/json": read_json,
    "application/json5": lambda text: read_fenced(text, "json5"),
    "application/x-ndjson": _later("data", "read_json_lines"),
}
_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."


def _json(body: Body) -> Part:
    read: Callable[[str], Part] = _JSON.get(body.media_type, read_json)
    return read(body.text)


def _opendocument(body: Body) -> Part:
    kinds = {"text": "read_text", "spreadsheet": "read_sheets"}
    read = kinds.get(body.media_type.removeprefix(_OPEN), "read_slides")
    return _of_bytes(_later("documents.opendocument", read))(body)


_CODE = FormatReader("code", 1, _code, ())
_TEXT = FormatReader("text", 1, _of_text(_later("markdown", "read_plain")), ("text/plain",))
BUILT_IN: tuple[FormatReader, ...] = (
    FormatReader("html", 2, _page, ("text/html",)),
    FormatReader("markdown", 1, _markdown, ("text/markdown",)),
    _TEXT,
    _CODE,
    FormatReader("rst", 1, _of_text(_later("rst", "read_rst")), ("text/x-rst",)),
    FormatReader("tables", 1, _by_type(_TABLES), tuple(_TABLES)),
    FormatReader("json", 1, _json, tuple(_JSON)),
    FormatReader("notebook", 1, _of_text(_later("code", "read_notebook")), ("application/x-ipynb+json",)),
    FormatReader("yaml", 1, _of_text(lambda text: read_fenced(text, "yaml")), ("application/yaml",)),
    FormatReader("toml", 1, _of_text(lambda text: read_fenced(text, "toml")), ("application/toml",)),
    FormatReader("xml", 1, _of_text(_later("data", "read_xml")), ("application/xml",)),
    FormatReader("pdf", 1, _document("pdf"), ("application/pdf",), binary=True),
    FormatReader("rtf", 1, _document("rtf"), ("application/rtf",), uses=("html",), binary=True),
    FormatReader("epub", 1, _document("epub"), ("application/epub+zip",), uses=("html",), binary=True),
    FormatReader("word", 1, _document("word"), (_OFFICE + "wordprocessingml.document",), uses=("html",), binary=True),
    FormatReader("excel", 1, _document("excel"), (_OFFICE + "spreadsheetml.sheet",), uses=("tables",), binary=True),
    FormatReader(
        "powerpoint",
        1,
        _document("powerpoint"),
        (_OFFICE + "presentationml.presentation",),
        uses=("html",),
        binary=True,
    ),
    FormatReader(
        "opendocument",
        1,
        _opendocument,
        (_OPEN + "text", _OPEN + "spreadsheet", _OPEN + "presentation"),
        uses=("html", "tables"),
        binary=True,
    ),
)
# The last part of a media type tells the notation of what has no reader of its own: application/geo+json.
_BY_SUFFIX = {"json": "application/json", "xml": "application/xml", "yaml": "application/yaml"}


@dataclass(frozen=True, slots=True)
class Format:
    """A format as a recipe knows it: `versions` are all that decide what is stored of its bodies.

    `taken` are the media types and endings that a built-in format leaves to readers of other packages.
    """

    name: str
    versions: tuple[tuple[str, int], ...]
    taken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _ReaderTable:
    """All readers by their media types. `joined` are those of other packages, by the name that imports them."""

    by_type: Mapping[str, FormatReader]
    readers: tuple[FormatReader, ...]
    joined: Mapping[str, FormatReader]


_told: list[str] | None = None


def join(places: Iterable[str]) -> None:
    """Set where readers of other packages are: a worker process is told by its parent, and need not search for them."""
    global _told
    _told = list(places)
    _table.cache_clear()


def places() -> list[str]:
    """Return where readers of other packages are imported from: `package.module:NAME`."""
    return sorted(_table().joined)


def is_foreign(reader: FormatReader) -> bool:
    """Return whether a reader is another package's."""
    return reader in _table().joined.values()


def reader_of(media_type: str) -> FormatReader:
    """Return the reader of a supported media type."""
    return _table().by_type.get(media_type) or _general(media_type)


def is_claimed(media_type: str) -> bool:
    """Return whether a reader names this media type as its own."""
    return media_type in _table().by_type


def formats() -> tuple[Format, ...]:
    """Return all formats, as recipes know them."""
    table = _table()
    versions = {reader.format: reader.version for reader in table.readers}
    uses = {reader.format: reader.uses for reader in table.readers}
    taken = _taken(table)
    made = []
    for name in versions:
        parts = sorted({name, *(other for other in uses[name] if other in versions)})
        made.append(Format(name, tuple((part, versions[part]) for part in parts), taken.get(name, ())))
    return tuple(made)


def _taken(table: _ReaderTable) -> dict[str, tuple[str, ...]]:
    """Return the claims of other packages by the built-in format that they replace."""
    taken: dict[str, set[str]] = {}
    for reader in table.joined.values():
        for claim in reader.media_types:
            taken.setdefault(_built_in(claim).format, set()).add(claim)
        for ending in reader.endings:
            if before := files.MEDIA.get(ending):
                taken.setdefault(_built_in(before).format, set()).add(f".{ending}")
    return {name: tuple(sorted(claims)) for name, claims in taken.items()}


_OWN = {media_type: reader for reader in BUILT_IN for media_type in reader.media_types}


def _built_in(media_type: str) -> FormatReader:
    return _OWN.get(media_type) or _general(media_type)


def _general(media_type: str) -> FormatReader:
    if files.language_of(media_type):
        return _CODE
    family = _BY_SUFFIX.get(media_type.rpartition("+")[2])
    return _OWN[family] if family else _TEXT


@cache
def _table() -> _ReaderTable:
    joined = {place: _loaded(place) for place in (_installed() if _told is None else _told)}
    by_type = dict(_OWN)
    names = {reader.format for reader in BUILT_IN}
    claimed: dict[str, str] = {}
    for place, reader in sorted(joined.items()):
        _refuse_double(reader, place, names, claimed)
        names.add(reader.format)
        by_type.update(dict.fromkeys(reader.media_types, reader))
    endings = {ending.lower(): reader.media_types[0] for reader in joined.values() for ending in reader.endings}
    files.claim(endings, (claim for reader in joined.values() for claim in reader.media_types))
    return _ReaderTable(by_type, (*BUILT_IN, *joined.values()), joined)


def _refuse_double(reader: FormatReader, place: str, names: set[str], claimed: dict[str, str]) -> None:
    if reader.format in names:
        raise ConfigurationError(
            f"The reader {place} calls its format {reader.format!r}, a name that another reader has.",
            hint="Uninstall one of the packages.",
        )
    for claim in (*reader.media_types, *(f".{ending.lower()}" for ending in reader.endings)):
        if other := claimed.get(claim):
            raise ConfigurationError(
                f"The readers {other} and {place} both claim {claim}.", hint="Uninstall one of the packages."
            )
        claimed[claim] = place


def _installed() -> list[str]:
    return [point.value for point in entry_points(group=GROUP)]


def _loaded(place: str) -> FormatReader:
    """The reader at a place. One that is missing is an error: without it, what it read would be taken for gone."""
    module, _, name = place.partition(":")
    try:
        reader = getattr(import_module(module), name)
    except (ImportError, AttributeError) as problem:
        raise ConfigurationError(
            f"The reader {place} cannot be loaded: {problem}.", hint="Reinstall the package that brings it."
        ) from problem
    if not isinstance(reader, FormatReader) or not reader.media_types:
        raise ConfigurationError(
            f"{place} is no reader with at least one media type.", hint="Report it to the package that brings it."
        )
    return reader


def read(raw: Raw) -> Document:
    """Return the document that a body holds; raise `ItemError` if it cannot be read."""
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
    """Read a body; refuse it if the output is out of all proportion to the input."""
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
    """Call another package's reader; turn its exceptions into an error of the item."""
    try:
        return reader.read(body)
    except UNREADABLE as problem:
        raise ItemError(
            f"{body.name} cannot be read as {reader.format}: {problem!r}.",
            hint="Exclude it, or report it to the package that brings the reader.",
        ) from problem


def supported(name: str, media_type: str | None = None) -> bool:
    """Return whether a body of this name and media type can be read."""
    return _media_type(name, media_type) is not None


def is_document(raw: Raw) -> bool:
    """Return whether a body needs a worker process: a PDF, an office file, a book, another package's format."""
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
