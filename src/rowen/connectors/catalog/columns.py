"""The columns of tables, as far as a portal tells them: in the record, and their names in one short passage."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from rowen.connectors.catalog.languages import one_of, word
from rowen.connectors.catalog.text import one_line

__all__ = ["MOST_COLUMNS", "Column", "column_text", "columns_in", "columns_of_schema", "together"]

MOST_COLUMNS = 1_000
"""Of one table. Tables of censuses have hundreds; a few have ten thousand, which are all in the source's own record."""

_MOST_CHARS = 1_200  # as of resources: what is no longer stays in one passage
_LONGEST_NAME = 120  # a name is an identifier, a label a few words; what is longer is a description
_HEAD = "## Columns\n\n"
_NAMES = ("name", "id", "field_name", "fieldName")
_LABELS = ("label", "title", "titles", "alias", "info")
_TYPES = ("type", "datatype", "dataType")
_ESRI = "esriFieldType"


class Column(NamedTuple):
    """One column of a table: what it is called, for programs and for people, and what is in it."""

    name: str
    label: str = ""
    type: str = ""

    def written(self) -> dict[str, str]:
        """The column as it is stored; what is empty is left out."""
        return {field: value for field, value in self._asdict().items() if value}


def columns_in(fields: Any, language: str | None = None) -> tuple[Column, ...]:
    """The columns of a list of fields, however they are written: of OpenDataSoft, ArcGIS, CKAN, STAC, Table Schema."""
    listed = fields[:MOST_COLUMNS] if isinstance(fields, list) else []
    return together(_column(one, language) for one in listed if isinstance(one, Mapping))


def columns_of_schema(resource: Mapping[str, Any], language: str | None = None) -> tuple[Column, ...]:
    """The columns that a resource tells of itself: by Table Schema, by CSV on the Web, or as fields of a data store."""
    for name, inner in (("schema", "fields"), ("tableSchema", "columns"), ("datastore_fields", None), ("fields", None)):
        told = _unpacked(resource.get(name))
        if isinstance(told, Mapping):
            told = told.get(inner or "fields")
        if found := columns_in(told, language):
            return found
    return ()


def together(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Columns of several tables, each name once."""
    return tuple({column.name: column for column in columns if column.name}.values())[:MOST_COLUMNS]


def column_text(columns: Sequence[Column]) -> str:
    """The names and labels of columns as one passage; how many there are more, where it would be too long."""
    if not columns:
        return ""
    text = _HEAD
    for number, column in enumerate(columns):
        word_for_it = f"{', ' if number else ''}{_called(column)}"
        if len(text) + len(word_for_it) > _MOST_CHARS:
            return f"{text} and {len(columns) - number:,} more"
        text += word_for_it
    return text


def _column(field: Mapping[str, Any], language: str | None) -> Column:
    name = _first(field, _NAMES, language)
    label = _first(field, _LABELS, language)
    return Column(
        name or label, label if name not in ("", label) else "", _first(field, _TYPES, None).removeprefix(_ESRI)
    )


def _first(field: Mapping[str, Any], names: Sequence[str], language: str | None) -> str:
    for name in names:
        value = field.get(name)
        if name == "info" and isinstance(value, Mapping):
            value = value.get("label")
        if isinstance(value, list):
            value = value[0] if value else None
        said = word(value) or (one_of(value, language) if isinstance(value, Mapping) else "")
        if said := one_line(said)[:_LONGEST_NAME]:
            return said
    return ""


def _called(column: Column) -> str:
    """The name, with the label behind it if that says more."""
    is_same = (
        "".join(filter(str.isalnum, column.label)).casefold() == "".join(filter(str.isalnum, column.name)).casefold()
    )
    return column.name if is_same or not column.label else f"{column.name} ({column.label})"


def _unpacked(value: Any) -> Any:
    """A schema may be written as text; the address of one is not fetched."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value
