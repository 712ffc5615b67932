"""One item as it is exported: the same columns for every kind and every format."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

import msgspec

from rowen.model.record_kinds import record_kind_of

__all__ = ["COLUMNS", "ExportColumn", "ExportResource", "ExportRow", "Identity", "StoredRow", "row_of"]


class StoredRow(NamedTuple):
    """One item as the store hands it over; `record` is the whole of it, as JSON text."""

    key: bytes
    url: str
    title: str
    text: str
    tags: list[str]
    record: str
    language: str | None
    media_type: str | None
    first_seen: datetime
    updated_at: datetime
    content_hash: bytes
    record_hash: bytes
    original_key: bytes | None
    original_url: str | None


class ExportResource(TypedDict):
    """One file or service of a dataset."""

    url: str
    name: str
    description: str
    format: str
    media_type: str
    size_bytes: int | None


class ExportColumn(TypedDict):
    """One column of a table."""

    name: str
    label: str
    type: str


class ExportRow(TypedDict):
    """One line of an export. `record` is the complete record of the source, as JSON text."""

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
    record: str


COLUMNS = tuple(ExportRow.__annotations__)

Facts = Mapping[str, msgspec.Raw]
_FACTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NONE = msgspec.Raw(b"null")


class Identity(NamedTuple):
    """What tells whether an item is the same as in another snapshot, and what it is called."""

    source: str
    key: str
    url: str
    content_hash: str
    record_hash: str
    title: str = ""


def row_of(stored: StoredRow, source: str, kind: str) -> ExportRow:
    """The line of an item; what its kind does not know is left empty."""
    facts = _facts(stored.record)
    source_record = facts.get("source")
    resources = [one for one in _list(facts, "resources") if isinstance(one, dict)]
    is_copy = stored.original_key is not None and stored.original_key != stored.key
    return {
        "source": source,
        "kind": kind,
        "url": stored.url,
        "identifier": _text(facts, "identifier"),
        "title": stored.title,
        "text": stored.text,
        "tags": stored.tags,
        "publisher": _text(facts, "publisher"),
        "licence": _text(facts, "licence"),
        "languages": [one for one in _list(facts, "languages") if isinstance(one, str)],
        "issued": _text(facts, "issued"),
        "modified": _text(facts, "modified"),
        "spatial": _text(facts, "spatial"),
        "temporal": _text(facts, "temporal"),
        "landing_page": _text(facts, "landing_page"),
        "record_kind": record_kind_of({"record_kind": _text(facts, "record_kind")}, stored.media_type),
        "resources": [_resource(one) for one in resources],
        "columns": _columns([*_list(facts, "columns"), *(one for each in resources for one in _told_columns(each))]),
        "language": stored.language,
        "media_type": stored.media_type,
        "first_seen": stored.first_seen,
        "updated_at": stored.updated_at,
        "content_hash": stored.content_hash.hex(),
        "record_hash": stored.record_hash.hex(),
        "duplicate_of": stored.original_url if is_copy else None,
        "group_id": stored.original_key.hex()[:16] if stored.original_key is not None else None,
        "record": stored.record if source_record is None else bytes(source_record).decode(),
    }


def _facts(record: str) -> Facts:
    """The parts of a record, unread: most of it is the source's own, and goes out as it is."""
    try:
        return _FACTS.decode(record)
    except msgspec.ValidationError:
        return {}


def _text(facts: Facts, name: str) -> str | None:
    value = msgspec.json.decode(facts.get(name, _NONE))
    return value if isinstance(value, str) and value else None


def _list(facts: Facts, name: str) -> list[Any]:
    value = msgspec.json.decode(facts.get(name, _NONE))
    return value if isinstance(value, list) else []


def _told_columns(resource: dict[str, Any]) -> list[Any]:
    told = resource.get("columns")
    return told if isinstance(told, list) else []


def _columns(told: list[Any]) -> list[ExportColumn]:
    """The columns of a dataset and of its resources, each name once."""
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
    return {
        "url": str(told("url") or ""),
        "name": str(told("name") or ""),
        "description": str(told("description") or ""),
        "format": str(told("format") or ""),
        "media_type": str(told("media_type") or ""),
        "size_bytes": size if type(size) is int and abs(size) < 2**63 else None,
    }
