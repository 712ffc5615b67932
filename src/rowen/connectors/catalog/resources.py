"""The resources of datasets: file sizes with or without units, formats, and table columns."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rowen.connectors.catalog.text import one_line, one_of, word

# Per table. Census tables have hundreds; a few tables have ten thousand, all of which the source record contains.
MOST_COLUMNS = 1_000
_MOST_CHARS = 1_200  # as `dataset.MOST_CHARS`: a text of at most this length stays in one passage
_LONGEST_NAME = 120  # characters: a longer name or label is a description
_HEAD = "## Columns\n\n"
_NAMES = ("name", "id", "field_name", "fieldName")
_LABELS = ("label", "title", "titles", "alias", "info")
_TYPES = ("type", "datatype", "dataType")
_ESRI = "esriFieldType"


class Column(NamedTuple):
    """One column of a table, with its technical name, its label and its type."""

    name: str
    label: str = ""
    type: str = ""

    def written(self) -> dict[str, str]:
        """Return the column as it is stored, without empty fields."""
        return {field: value for field, value in self._asdict().items() if value}


def columns_in(fields: Any, language: str | None = None) -> tuple[Column, ...]:
    """Return the columns in a list of fields, as written by OpenDataSoft, ArcGIS, CKAN, STAC or Table Schema."""
    columns: list[Column] = []
    for field in fields[:MOST_COLUMNS] if isinstance(fields, list) else ():
        if isinstance(field, Mapping):
            name, label = _first(field, _NAMES, language), _first(field, _LABELS, language)
            kind = _first(field, _TYPES, None).removeprefix(_ESRI)
            columns.append(Column(name or label, label if name not in ("", label) else "", kind))
    return together(columns)


def columns_of_schema(resource: Mapping[str, Any], language: str | None = None) -> tuple[Column, ...]:
    """Return the columns of a resource, from Table Schema, CSV on the Web, or the fields of a data store."""
    for name, inner in (("schema", "fields"), ("tableSchema", "columns"), ("datastore_fields", None), ("fields", None)):
        schema = resource.get(name)
        if isinstance(schema, str) and schema.lstrip()[:1] in ("{", "["):
            # A schema may be JSON in a string; a schema given as an address is not fetched.
            with suppress(ValueError, RecursionError):
                schema = json.loads(schema)
        if isinstance(schema, Mapping):
            schema = schema.get(inner or "fields")
        if columns := columns_in(schema, language):
            return columns
    return ()


def together(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns of several tables, with each column name only once."""
    return tuple({column.name: column for column in columns if column.name}.values())[:MOST_COLUMNS]


def column_text(columns: Sequence[Column]) -> str:
    """Return the names and labels of columns as one passage; in a long list, count the omitted columns."""
    if not columns:
        return ""
    text = _HEAD
    for number, column in enumerate(columns):
        # The label follows the name if they differ in more than punctuation and case.
        letters = ("".join(filter(str.isalnum, text)).casefold() for text in (column.label, column.name))
        is_same = len(set(letters)) == 1
        name = column.name if is_same or not column.label else f"{column.name} ({column.label})"
        entry = f"{', ' if number else ''}{name}"
        if len(text) + len(entry) > _MOST_CHARS:
            return f"{text} and {len(columns) - number:,} more"
        text += entry
    return text


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


_MOST_BYTES = 10**18  # an exabyte: more is a mistake, and would not fit into 64 bits with a sign
_SIZE = re.compile(r"(\d{1,18})(?:\.(\d{1,6}))? ?(?:(|K|M|G|T)(I?)B|BYTES?)?", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_MEDIA_TYPE = re.compile(r"\A.*/media-types/+", re.IGNORECASE)
_FILE_TYPE = re.compile(r"\A.*/file-type/", re.IGNORECASE)
_ENDING = re.compile(r"\.([a-z0-9]{2,10})/*", re.IGNORECASE)
_FORMATS = {
    "application/dbf": "DBF",
    "application/geo+json": "GeoJSON",
    "application/geopackage+sqlite3": "GPKG",
    "application/gml+xml": "GML",
    "application/gpx+xml": "GPX",
    "application/gzip": "GZIP",
    "application/json": "JSON",
    "application/ld+json": "JSON-LD",
    "application/msword": "DOC",
    "application/netcdf": "NetCDF",
    "application/pdf": "PDF",
    "application/rdf+xml": "RDF",
    "application/sparql-query": "SPARQL",
    "application/vnd+zarr": "Zarr",
    "application/vnd.apache.parquet": "Parquet",
    "application/vnd.geo+json": "GeoJSON",
    "application/vnd.google-earth.kml+xml": "KML",
    "application/vnd.google-earth.kmz": "KMZ",
    "application/vnd.laszip": "LAZ",
    "application/vnd.ms-excel": "XLS",
    "application/vnd.oasis.opendocument.spreadsheet": "ODS",
    "application/vnd.oasis.opendocument.text": "ODT",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "XLSX",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "DOCX",
    "application/vnd.zarr": "Zarr",
    "application/x-hdf": "HDF",
    "application/x-hdf5": "HDF5",
    "application/x-netcdf": "NetCDF",
    "application/x-parquet": "Parquet",
    "application/x-shapefile": "SHP",
    "application/xml": "XML",
    "application/zip": "ZIP",
    "image/gif": "GIF",
    "image/jp2": "JPEG 2000",
    "image/jpeg": "JPEG",
    "image/jpg": "JPEG",
    "image/png": "PNG",
    "image/svg+xml": "SVG",
    "image/tiff": "TIFF",
    "image/webp": "WebP",
    "text/csv": "CSV",
    "text/html": "HTML",
    "text/plain": "TXT",
    "text/tab-separated-values": "TSV",
    "text/turtle": "Turtle",
    "text/xml": "XML",
}
_SUFFIXES = {"xml": "XML", "json": "JSON", "zip": "ZIP"}
# Only known file extensions count, because the text after the last dot of an address may be anything.
_ENDINGS = {
    **{name.lower(): name for name in _FORMATS.values() if name.isalnum() and name not in ("HTML", "Turtle")},
    "geotiff": "TIFF",
    "h5": "HDF5",
    "jpg": "JPEG",
    "jsonld": "JSON-LD",
    "jsonl": "JSONL",
    "nc": "NetCDF",
    "tif": "TIFF",
    "ttl": "Turtle",
    "gz": "GZIP",
    "pptx": "PPTX",
    "7z": "7Z",
    "jp2": "JPEG 2000",
}


def size_of(value: Any) -> int | None:
    """Return a size in bytes; None for zero, which stands for "unknown", and for values that are no size.

    The value may be a float and may have a unit, in upper or lower case: kB, MB, GB and TB are powers of 1000; KiB,
    MiB, GiB and TiB are powers of 1024. A publisher's "KB" may mean 1024 bytes: the error of 2 % is within the
    precision of a rounded size.
    """
    digits = word(value)
    if digits.isdecimal():
        return (int(digits) or None) if len(digits) <= 18 else None
    match = _SIZE.fullmatch(digits) if digits else None
    if match is None:
        return None
    whole, fraction, power, binary = match.groups()
    exact = int(whole + (fraction or "")) * (1024 if binary else 1000) ** _POWERS[(power or "").upper()]
    size, rest = divmod(exact, 10 ** len(fraction or ""))
    # A fractional number without a unit is a size in an unknown unit.
    return size if 0 < size < _MOST_BYTES and (power or not rest) else None


def format_of(media_type: str, url: str = "") -> str:
    """Return the format of a media type, else of the address's file extension; empty if neither is known."""
    essence, _, parameters = media_type.lower().partition(";")
    known = _FORMATS.get(essence.strip()) or _SUFFIXES.get(essence.strip().rpartition("+")[2])
    if known == "TIFF" and "geotiff" in parameters:
        return "GeoTIFF"
    if known or not url:
        return known or ""
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    match = _ENDING.fullmatch(path, path.rfind("."))
    return _ENDINGS.get(match[1].lower(), "") if match and "." in path else ""


def format_named(name: str) -> str:
    """Return a format's name; accept its address in the EU's list of file types or in IANA's list of media types."""
    if "://" not in name:
        return name
    if _MEDIA_TYPE.match(name):
        media_type = media_type_named(name)
        return format_of(media_type) or media_type
    return _FILE_TYPE.sub("", name, count=1)


def media_type_named(address: str) -> str:
    """Return a media type's name; accept its address in IANA's list."""
    return _MEDIA_TYPE.sub("", address, count=1)
