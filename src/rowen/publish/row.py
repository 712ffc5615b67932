"""One item as it is exported: the same columns for every kind and every format."""

import json
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

from rowen.model.record_kinds import record_kind_of

__all__ = ["COLUMNS", "ExportColumn", "ExportResource", "ExportRow", "Identity", "StoredRow", "row_of"]


class StoredRow(NamedTuple):
    """One item as the store hands it over; `facts` is its record without the source's own, `record` only that."""

    key: bytes
    url: str
    title: str
    text: str
    tags: list[str]
    facts: str
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
    facts = json.loads(stored.facts)
    if not isinstance(facts, dict):
        facts = {}
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
        "record_kind": record_kind_of(facts, stored.media_type),
        "resources": [_resource(one) for one in _list(facts, "resources") if isinstance(one, dict)],
        "columns": _columns(facts),
        "language": stored.language,
        "media_type": stored.media_type,
        "first_seen": stored.first_seen,
        "updated_at": stored.updated_at,
        "content_hash": stored.content_hash.hex(),
        "record_hash": stored.record_hash.hex(),
        "duplicate_of": stored.original_url if is_copy else None,
        "group_id": stored.original_key.hex()[:16] if stored.original_key is not None else None,
        "record": stored.record,
    }


def _text(facts: dict[str, Any], name: str) -> str | None:
    value = facts.get(name)
    return value if isinstance(value, str) and value else None


def _list(facts: dict[str, Any], name: str) -> list[Any]:
    value = facts.get(name)
    return value if isinstance(value, list) else []


def _columns(facts: dict[str, Any]) -> list[ExportColumn]:
    """The columns of a dataset and of its resources, each name once."""
    held = [facts, *(one for one in _list(facts, "resources") if isinstance(one, dict))]
    told = [column for one in held for column in _list(one, "columns") if isinstance(column, dict)]
    return list({column["name"]: column for column in map(_column, told)}.values())


def _column(one: dict[str, Any]) -> ExportColumn:
    return {
        "name": str(one.get("name") or ""),
        "label": str(one.get("label") or ""),
        "type": str(one.get("type") or ""),
    }


def _resource(one: dict[str, Any]) -> ExportResource:
    size = one.get("size_bytes")
    return {
        "url": str(one.get("url") or ""),
        "name": str(one.get("name") or ""),
        "description": str(one.get("description") or ""),
        "format": str(one.get("format") or ""),
        "media_type": str(one.get("media_type") or ""),
        "size_bytes": size if type(size) is int and abs(size) < 2**63 else None,
    }
