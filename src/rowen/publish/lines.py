"""Exports as lines of text: JSON objects, one array of them, or CSV; in files, or as they are read."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TextIO, TypeAlias

import msgspec

from rowen.errors import UsageError
from rowen.model.changes import flattened
from rowen.model.extraction import Extraction
from rowen.model.text import finite
from rowen.publish.row import COLUMNS, ExportRow, Identity
from rowen.version import how_to_install

__all__ = [
    "STREAMED",
    "CsvWriter",
    "FactFiles",
    "JsonLinesWriter",
    "JsonWriter",
    "Streamed",
    "WithdrawnLines",
    "harmless",
    "text_stream",
]

Streamed: TypeAlias = Literal["jsonl", "json", "csv"]
STREAMED: tuple[Streamed, ...] = ("jsonl", "json", "csv")
"""The formats that can be sent while they are read."""
WITHDRAWN = "withdrawn.jsonl"
# What spreadsheets take for a formula; also after white space, which they drop.
_FORMULA = re.compile(r"\s*[=+\-@]|[\t\r]")
_NEEDS_QUOTES = re.compile('[",\r\n]')
FactFormat: TypeAlias = Literal["jsonl", "csv", "parquet"]
FACT_FORMATS: tuple[FactFormat, ...] = ("jsonl", "csv", "parquet")
_HEAD = ("source", "url", "schema", "version", "origin", "model", "at", "checked_at")


class TextStream(Protocol):
    """A format that can be written in pieces, one after the other."""

    def begin(self) -> bytes:
        """What comes first."""
        ...

    def rows(self, rows: Sequence[ExportRow]) -> bytes:
        """Some rows."""
        ...

    def end(self) -> bytes:
        """What comes last."""
        ...


class _JsonLines:
    def begin(self) -> bytes:
        return b""

    def rows(self, rows: Sequence[ExportRow]) -> bytes:
        return b"".join(map(json_line, rows))

    def end(self) -> bytes:
        return b""


class _JsonArray:
    """An array with an object a line, so that it can be looked at."""

    def __init__(self) -> None:
        self._before = b"\n"

    def begin(self) -> bytes:
        return b"["

    def rows(self, rows: Sequence[ExportRow]) -> bytes:
        if not rows:
            return b""
        before, self._before = self._before, b",\n"
        return before + b",\n".join(json_line(row)[:-1] for row in rows)

    def end(self) -> bytes:
        return b"\n]\n"


class _Table:
    def __init__(self, *, excel: bool) -> None:
        self._excel = excel

    def begin(self) -> bytes:
        return ("\ufeff".encode() if self._excel else b"") + self._text([COLUMNS])

    def rows(self, rows: Sequence[ExportRow]) -> bytes:
        cells = (map(_cell, row.values()) for row in rows)
        return self._text(map(harmless, row) for row in cells) if self._excel else self._text(cells)

    def end(self) -> bytes:
        return b""

    def _text(self, rows: Iterable[Iterable[str]]) -> bytes:
        return "".join(map(_csv_line, rows)).encode()


def text_stream(form: Streamed, *, excel: bool = False) -> TextStream:
    """Return a format to be sent while it is read."""
    match form:
        case "jsonl":
            return _JsonLines()
        case "json":
            return _JsonArray()
        case "csv":
            return _Table(excel=excel)


class _TextFiles:
    """Text files in a folder, one a source, and one that says which items there are."""

    form: Streamed
    identity_ending = ".jsonl"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self.identity_file = f"identity{self.identity_ending}"
        self._identity = self._open.enter_context(self._text(self.identity_file))
        self._out: BinaryIO | None = None

    def begin(self, source: str, file: str) -> str:
        """Begin a source in a file of its own."""
        self._end_source()
        name = f"{file}.{self.form}"
        self._stream = self._new_stream()
        self._out = (self._folder / name).open("wb")
        self._out.write(self._stream.begin())
        return name

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write rows."""
        if self._out is not None:
            self._out.write(self._stream.rows(rows))

    def identify(self, identities: Sequence[Identity]) -> None:
        """Write which items these were."""
        self._identity.writelines(f"{msgspec.json.encode(identity._asdict()).decode()}\n" for identity in identities)

    def close(self) -> None:
        """Finish all files."""
        self._end_source()
        self._open.close()

    def abandon(self) -> None:
        """Close all files without finishing them."""
        with suppress(OSError):
            self._open.close()
        if self._out is not None:
            with suppress(OSError):
                self._out.close()

    def _new_stream(self) -> TextStream:
        return text_stream(self.form)

    def _end_source(self) -> None:
        if self._out is not None:
            with self._out:
                self._out.write(self._stream.end())
            self._out = None

    def _text(self, name: str) -> TextIO:
        return (self._folder / name).open("w", encoding="utf-8", newline="", errors="surrogatepass")


class JsonLinesWriter(_TextFiles):
    """One JSON object a line; the source's record stands in it as an object."""

    form = "jsonl"


class JsonWriter(_TextFiles):
    """The same objects, as one array a source."""

    form = "json"


class CsvWriter(_TextFiles):
    """CSV by RFC 4180, with lists as JSON.

    For spreadsheets there is a mark that it is UTF-8, and an apostrophe before all that they would take for a formula.
    """

    form = "csv"
    identity_ending = ".csv"

    def __init__(self, folder: Path, *, excel: bool = False) -> None:
        self._excel = excel
        super().__init__(folder)
        csv.writer(self._identity).writerow(Identity._fields)

    def identify(self, identities: Sequence[Identity]) -> None:
        """Write which items these were."""
        csv.writer(self._identity).writerows(identities)

    def _new_stream(self) -> TextStream:
        return text_stream("csv", excel=self._excel)


class WithdrawnLines:
    """The last copies of deleted items, apart from what is there, as JSON lines whatever the format of the rest."""

    def __init__(self, folder: Path) -> None:
        self._out = (folder / WITHDRAWN).open("wb")
        self.items = 0

    def write(self, rows: Sequence[tuple[ExportRow, datetime]]) -> None:
        """Write rows, each with the moment at which it was withdrawn."""
        self._out.writelines(json_line(row, withdrawn_at=_moment(at)) for row, at in rows)
        self.items += len(rows)

    def close(self) -> None:
        """Finish the file."""
        self._out.close()


def json_line(row: ExportRow, **more: str) -> bytes:
    """One row on a line of its own."""
    facts: dict[str, Any] = {**row, "first_seen": _moment(row["first_seen"]), "updated_at": _moment(row["updated_at"])}
    facts |= more
    # The record is JSON as it comes from the database, and need not be read to be written.
    record = facts.pop("record")
    return b'%b,"record":%b}\n' % (msgspec.json.encode(facts)[:-1], record)


def _csv_line(cells: Iterable[str]) -> str:
    """Return a line as `csv.writer` gives it, which looks at each letter by itself and takes ten times as long."""
    return ",".join([_quoted(cell) if _NEEDS_QUOTES.search(cell) else cell for cell in cells]) + "\r\n"


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def _cell(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
        case bytes():
            return value.decode()
        case list():
            return msgspec.json.encode(value).decode() if value else ""
    return _moment(value)


def harmless(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _moment(at: Any) -> str:
    return str(at.isoformat())


class FactFiles:
    """Writes facts in batches. The columns of a table are known when all rows are, so JSON lines are written first."""

    def __init__(self, form: str, folder: Path, *, excel: bool = False) -> None:
        if form not in FACT_FORMATS:
            raise UsageError(f"Facts are not written as {form}.", hint=f"The formats are: {', '.join(FACT_FORMATS)}.")
        self._form = form
        self._folder = folder
        self._excel = excel
        self._columns: dict[str, dict[str, None]] = {}
        self.rows = 0

    def write(self, batch: Sequence[Extraction]) -> None:
        """Write some facts."""
        for one in batch:
            name = one.schema.partition("@")[0]
            columns = self._columns.setdefault(name, {})
            columns.update(dict.fromkeys(_named(flattened(one.data))))
            with (self._folder / f"{name}.jsonl").open("a", encoding="utf-8") as out:
                out.write(json.dumps({**_head(one), "data": one.data}, ensure_ascii=False) + "\n")
            self.rows += 1

    def close(self) -> None:
        """Make tables of the lines, where tables are wanted."""
        for name, columns in self._columns.items():
            lines = self._folder / f"{name}.jsonl"
            match self._form:
                case "csv":
                    self._as_csv(lines, [*_HEAD, *columns])
                    lines.unlink()
                case "parquet":
                    _as_parquet(lines, [*_HEAD, *columns])
                    lines.unlink()

    def _as_csv(self, lines: Path, columns: list[str]) -> None:
        encoding = "utf-8-sig" if self._excel else "utf-8"
        with lines.with_suffix(".csv").open("w", encoding=encoding, newline="") as out:
            table = csv.writer(out)
            table.writerow(columns)
            for row in _rows(lines):
                cells = [_fact_cell(row.get(column)) for column in columns]
                table.writerow(map(harmless, cells) if self._excel else cells)


def _head(one: Extraction) -> dict[str, Any]:
    checked = one.checked_at.isoformat() if one.checked_at else None
    told = (one.source, one.url, one.schema, one.number, one.origin, one.model, one.at.isoformat(), checked)
    return dict(zip(_HEAD, told, strict=True))


def _rows(lines: Path) -> Iterator[dict[str, Any]]:
    with lines.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            yield {**_named(flattened(row.pop("data"))), **row}


def _named(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as columns; one that is called as a column of ours gets a name of its own."""
    return {(f"data.{name}" if name in _HEAD else name): value for name, value in fields.items()}


def _fact_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_parquet(lines: Path, columns: list[str]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UsageError(
            "Parquet needs the package pyarrow, which is not installed. Nothing was written.",
            hint=f"`{how_to_install('export')}` installs it; JSON lines and CSV need nothing.",
        ) from None
    rows = list(_rows(lines))
    made = {column: _column([row.get(column) for row in rows]) for column in dict.fromkeys(columns)}
    pq.write_table(pa.table(made), lines.with_suffix(".parquet"), compression="zstd")


def _column(values: list[Any]) -> list[Any]:
    """Values of one type: numbers stay numbers, what is mixed or nested becomes text."""
    kinds = {_kind(value) for value in values if value is not None}
    if kinds <= {float}:
        return [None if value is None else float(value) for value in values]
    if kinds in ({bool}, {str}):
        return values
    return [None if value is None else _fact_cell(value) for value in values]


def _kind(value: Any) -> type:
    """Return the type of a column that holds a value; an integer that no float can hold is told as text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return type(value)
    return float if finite(value) is not None else int
