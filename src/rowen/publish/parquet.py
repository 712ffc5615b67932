"""Exports as Parquet: one compressed file for each source, optionally one of all; lists and resources stay nested."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rowen.errors import UsageError
from rowen.publish.row import COLUMNS, ExportRow, Identity
from rowen.version import how_to_install

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    raise UsageError(
        "Parquet needs the package pyarrow, which is not installed. Nothing was written.",
        hint=f"Run `{how_to_install('export')}`, or choose another format.",
    ) from missing

# The size at which a group of rows is compressed and written; memory holds one group.
GROUP_ROWS = 10_000
GROUP_BYTES = 16 << 20
JOINT = "items.parquet"
# Two hashes in hexadecimal, a key, an address and a title.
_IDENTITY_BYTES = 300

_MOMENT = pa.timestamp("us", tz="UTC")
_RESOURCE = pa.struct(
    [
        *((name, pa.string()) for name in ("url", "name", "description", "format", "media_type")),
        ("size_bytes", pa.int64()),
    ]
)
_COLUMN = pa.struct([(name, pa.string()) for name in ("name", "label", "type")])
_TYPES = {
    "tags": pa.list_(pa.string()),
    "languages": pa.list_(pa.string()),
    "resources": pa.list_(_RESOURCE),
    "columns": pa.list_(_COLUMN),
    "first_seen": _MOMENT,
    "updated_at": _MOMENT,
}
# A dictionary costs as much as writing the values, so only columns with repeated values get one.
_REPEATED = [
    *("source", "kind", "record_kind", "publisher", "licence", "issued", "spatial", "temporal", "language"),
    "media_type",
    *("tags.list.element", "languages.list.element", "duplicate_of", "group_id"),
    *(f"resources.list.element.{name}" for name in ("description", "format", "media_type")),
]
# Clients skip groups of rows by their minimum and maximum values; for long texts these are useless.
_SOUGHT = ["source", "url", "identifier", "title", "issued", "modified", "first_seen", "updated_at"]
_SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in COLUMNS])
_IDENTITY = pa.schema([(name, pa.string()) for name in Identity._fields])


class ParquetWriter:
    """Writes one file for each source, optionally one of all sources, and one with the identities of the items."""

    identity_file = "identity.parquet"

    def __init__(self, folder: Path, *, joint: bool = False) -> None:
        self._folder = folder
        self._source: _Table | None = None
        self._joint = _Table(folder / JOINT, _SCHEMA) if joint else None
        self._identity = _Table(folder / self.identity_file, _IDENTITY)

    def begin(self, source: str, file: str) -> str:
        """Begin a source in a separate file."""
        self._end_source()
        self._source = _Table(self._folder / f"{file}.parquet", _SCHEMA)
        return f"{file}.parquet"

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write rows."""
        size = sum(len(row["text"]) + len(row["record"]) for row in rows)
        batch = _batch([list(column) for column in zip(*(row.values() for row in rows), strict=True)], _SCHEMA)
        for table in filter(None, (self._source, self._joint)):
            table.add(batch, size)

    def identify(self, identities: Sequence[Identity]) -> None:
        """Write the identities of items."""
        columns = [list(column) for column in zip(*identities, strict=True)]
        self._identity.add(_batch(columns, _IDENTITY), _IDENTITY_BYTES * len(identities))

    def close(self) -> None:
        """Finish all files."""
        self._end_source()
        for table in filter(None, (self._joint, self._identity)):
            table.close()

    def abandon(self) -> None:
        """Close all files without finishing them."""
        for table in filter(None, (self._source, self._joint, self._identity)):
            with suppress(OSError):
                table.abandon()

    def _end_source(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None


def _array(column: list[Any], type_: pa.DataType) -> pa.Array:
    """Return a column; resources are split into fields here, since Arrow would read each resource four times."""
    if column and isinstance(column[0], bytes):
        # The database guarantees UTF-8; a second check takes as long as compression.
        return pa.array(column, pa.binary()).view(type_)
    if not (pa.types.is_list(type_) and type_.value_type == _RESOURCE):
        return pa.array(column, type_)
    every = list(chain.from_iterable(column))
    fields = [pa.array(list(map(attrgetter(field.name), every)), field.type) for field in _RESOURCE]
    offsets = pa.array(accumulate(map(len, column), initial=0), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(fields, fields=list(_RESOURCE)), type=type_)


class _Table:
    """A Parquet file to which rows are added in groups."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = pq.ParquetWriter(
            path, schema, compression="zstd", use_dictionary=_REPEATED, write_statistics=_SOUGHT
        )
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch, size_bytes: int) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += size_bytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._file.close()

    def abandon(self) -> None:
        self._batches = []
        self._file.close()

    def _flush(self) -> None:
        if self._batches:
            self._file.write_table(pa.Table.from_batches(self._batches), row_group_size=self._rows)
        self._batches, self._rows, self._bytes = [], 0, 0


def _batch(columns: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [_array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def identities(path: Path) -> Iterator[Identity]:
    """Yield the identities in a file, in the order of the file."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=list(Identity._fields), batch_size=5000):
            # Files of earlier versions lack the last column, the titles.
            columns = [batch.column(name).to_pylist() for name in Identity._fields if name in batch.schema.names]
            yield from (Identity(*values) for values in zip(*columns, strict=True))


def write_table(path: Path, columns: Mapping[str, list[Any]]) -> None:
    """Write columns as a separate Parquet file."""
    pq.write_table(pa.table(dict(columns)), path, compression="zstd")
