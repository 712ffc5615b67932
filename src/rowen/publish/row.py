"""One item as it is exported: the same columns for every kind and every format."""

from datetime import datetime
from typing import Any, NamedTuple, TypedDict

import msgspec

from rowen.model.datasets import record_kind_of

__all__ = ["COLUMNS", "ExportRow", "Identity", "StoredRow", "row_of"]


class StoredRow(NamedTuple):
    """One item as the store hands it over; `record` is the whole of it, as JSON in UTF-8."""

    key: bytes
    url: str
    title: str
    text: str
    tags: list[str]
    record: bytes
    language: str | None
    media_type: str | None
    first_seen: datetime
    updated_at: datetime
    content_hash: bytes
    record_hash: bytes
    original_key: bytes | None
    original_url: str | None


class ExportResource(msgspec.Struct):
    """One file or service of a dataset."""

    url: str = ""
    name: str = ""
    description: str = ""
    format: str = ""
    media_type: str = ""
    size_bytes: int | None = None


class ExportColumn(TypedDict):
    """One column of a table."""

    name: str
    label: str
    type: str


class ExportRow(TypedDict):
    """One line of an export. `record` is the complete record of the source, as JSON in UTF-8."""

    source: str
    kind: str
    url: str
    identifier: str | None
    title: str
    text: str
    tags: list[str]
    publisher: str | None
    licence: str | None
    languages: list[str]
    issued: str | None
    modified: str | None
    spatial: str | None
    temporal: str | None
    landing_page: str | None
    record_kind: str | None
    resources: list[ExportResource]
    columns: list[ExportColumn]
    language: str | None
    media_type: str | None
    first_seen: datetime
    updated_at: datetime
    content_hash: str
    record_hash: str
    duplicate_of: str | None
    group_id: str | None
    record: bytes


COLUMNS = tuple(ExportRow.__annotations__)

_NOTHING = msgspec.Raw(b"")


class _Told(msgspec.Struct):
    """What is exported of a record. Most of it is the source's own, and goes out as it is: it is not read."""

    identifier: Any = None
    publisher: Any = None
    licence: Any = None
    languages: Any = None
    issued: Any = None
    modified: Any = None
    spatial: Any = None
    temporal: Any = None
    landing_page: Any = None
    record_kind: Any = None
    resources: msgspec.Raw = _NOTHING
    columns: Any = None
    source: msgspec.Raw = _NOTHING


_TOLD = msgspec.json.Decoder(_Told)
_RESOURCES = msgspec.json.Decoder(list[ExportResource])
# What Parquet holds as a size; of a larger one nobody knows what it means.
_MOST_BYTES = 2**63


class Identity(NamedTuple):
    """What tells whether an item is the same as in another snapshot, and what it is called."""

    source: str
    key: str
    url: str
    content_hash: str
    record_hash: str
    title: str = ""


def row_of(stored: StoredRow, source: str, kind: str) -> ExportRow:
    """Return the line of an item; what its kind does not know is left empty."""
    told = _told(stored.record)
    resources, tables = _resources(told.resources)
    is_copy = stored.original_key is not None and stored.original_key != stored.key
    return {
        "source": source,
        "kind": kind,
        "url": stored.url,
        "identifier": _text(told.identifier),
        "title": stored.title,
        "text": stored.text,
        "tags": stored.tags,
        "publisher": _text(told.publisher),
        "licence": _text(told.licence),
        "languages": [one for one in _list(told.languages) if isinstance(one, str)],
        "issued": _text(told.issued),
        "modified": _text(told.modified),
        "spatial": _text(told.spatial),
        "temporal": _text(told.temporal),
        "landing_page": _text(told.landing_page),
        "record_kind": record_kind_of({"record_kind": _text(told.record_kind)}, stored.media_type),
        "resources": resources,
        "columns": _columns([*_list(told.columns), *tables]),
        "language": stored.language,
        "media_type": stored.media_type,
        "first_seen": stored.first_seen,
        "updated_at": stored.updated_at,
        "content_hash": stored.content_hash.hex(),
        "record_hash": stored.record_hash.hex(),
        "duplicate_of": stored.original_url if is_copy else None,
        "group_id": stored.original_key.hex()[:16] if stored.original_key is not None else None,
        "record": bytes(told.source) or stored.record,
    }


def _told(record: bytes) -> _Told:
    try:
        return _TOLD.decode(record)
    except msgspec.ValidationError:
        return _Told()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _resources(told: msgspec.Raw) -> tuple[list[ExportResource], list[Any]]:
    """Return the resources of a dataset, and the columns that they tell of.

    Those that our connectors wrote are read in one go; others may hold anything.
    """
    if not (text := bytes(told)):
        return [], []
    try:
        found = _RESOURCES.decode(text)
    except msgspec.ValidationError:
        found = None
    if found is not None and b'"columns"' not in text and all(_is_size(one.size_bytes) for one in found):
        return found, []
    every = [one for one in _list(msgspec.json.decode(text)) if isinstance(one, dict)]
    return [_resource(one) for one in every], [column for one in every for column in _list(one.get("columns"))]


def _is_size(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) < _MOST_BYTES)


def _columns(told: list[Any]) -> list[ExportColumn]:
    """Return the columns of a dataset and of its resources, each name once."""
    held = (_column(one) for one in told if isinstance(one, dict))
    return list({column["name"]: column for column in held}.values())


def _column(one: dict[str, Any]) -> ExportColumn:
    return {
        "name": str(one.get("name") or ""),
        "label": str(one.get("label") or ""),
        "type": str(one.get("type") or ""),
    }


def _resource(one: dict[str, Any]) -> ExportResource:
    told, size = one.get, one.get("size_bytes")
    return ExportResource(
        url=str(told("url") or ""),
        name=str(told("name") or ""),
        description=str(told("description") or ""),
        format=str(told("format") or ""),
        media_type=str(told("media_type") or ""),
        size_bytes=size if _is_size(size) else None,
    )
