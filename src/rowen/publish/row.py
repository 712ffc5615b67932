"""The row of an item in exports: the same columns for every kind of source and every format."""

from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

import msgspec

from rowen.model.datasets import record_kind_of


class StoredRow(NamedTuple):
    """An item from the store; `record` is the complete record, as JSON in UTF-8."""

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
    """One row of an export. `record` is the complete record of the source, as JSON in UTF-8."""

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


class _Fields(msgspec.Struct):
    """The exported fields of a record. The portal's own record, which is the largest part, is not parsed."""

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


_FIELDS = msgspec.json.Decoder(_Fields)
_RESOURCES = msgspec.json.Decoder(list[ExportResource])
# The maximum size in Parquet; a larger number is not a real size.
_MOST_BYTES = 2**63


class Identity(NamedTuple):
    """The identity of an item, with its hashes and title, for comparing snapshots."""

    source: str
    key: str
    url: str
    content_hash: str
    record_hash: str
    title: str = ""


def row_of(stored: StoredRow, source: str, kind: str) -> ExportRow:
    """Return the row of an item; fields that its kind does not have are empty."""
    try:
        fields = _FIELDS.decode(stored.record)
    except msgspec.ValidationError:
        fields = _Fields()
    resources, tables = _resources(bytes(fields.resources))
    columns = [column for column in (*_list(fields.columns), *tables) if isinstance(column, dict)]
    is_copy = stored.original_key is not None and stored.original_key != stored.key
    return {
        "source": source,
        "kind": kind,
        "url": stored.url,
        "identifier": _text(fields.identifier),
        "title": stored.title,
        "text": stored.text,
        "tags": stored.tags,
        "publisher": _text(fields.publisher),
        "licence": _text(fields.licence),
        "languages": [language for language in _list(fields.languages) if isinstance(language, str)],
        "issued": _text(fields.issued),
        "modified": _text(fields.modified),
        "spatial": _text(fields.spatial),
        "temporal": _text(fields.temporal),
        "landing_page": _text(fields.landing_page),
        "record_kind": record_kind_of({"record_kind": _text(fields.record_kind)}, stored.media_type),
        "resources": resources,
        "columns": list({column["name"]: column for column in map(_column, columns)}.values()),
        "language": stored.language,
        "media_type": stored.media_type,
        "first_seen": stored.first_seen,
        "updated_at": stored.updated_at,
        "content_hash": stored.content_hash.hex(),
        "record_hash": stored.record_hash.hex(),
        "duplicate_of": stored.original_url if is_copy else None,
        "group_id": stored.original_key.hex()[:16] if stored.original_key is not None else None,
        "record": bytes(fields.source) or stored.record,
    }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _resources(text: bytes) -> tuple[list[ExportResource], list[Any]]:
    """Return the resources of a dataset, and the columns in which they are exported.

    Resources from Rowen's own connectors are decoded in one step; others may contain any values.
    """
    if not text:
        return [], []
    with suppress(msgspec.ValidationError):
        resources = _RESOURCES.decode(text)
        if b'"columns"' not in text and all(_is_size(resource.size_bytes) for resource in resources):
            return resources, []
    every = [resource for resource in _list(msgspec.json.decode(text)) if isinstance(resource, dict)]
    columns = [column for resource in every for column in _list(resource.get("columns"))]
    return [_resource(resource) for resource in every], columns


def _is_size(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) < _MOST_BYTES)


def _column(column: dict[str, Any]) -> ExportColumn:
    name, label, kind = (str(column.get(field) or "") for field in ("name", "label", "type"))
    return {"name": name, "label": label, "type": kind}


def _resource(resource: dict[str, Any]) -> ExportResource:
    names = ("url", "name", "description", "format", "media_type")
    size = resource.get("size_bytes")
    texts: dict[str, Any] = {name: str(resource.get(name) or "") for name in names}
    return ExportResource(**texts, size_bytes=size if _is_size(size) else None)
