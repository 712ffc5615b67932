"""The formats of exports: JSON lines, a JSON array, CSV and SQLite, as files or as a stream. Parquet is separate."""

import csv
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeAlias

import msgspec

from rowen.errors import ExportError, UsageError
from rowen.model.changes import flattened
from rowen.model.extraction import Extraction
from rowen.model.text import finite
from rowen.publish.row import COLUMNS, ExportRow, Identity

Format: TypeAlias = Literal["parquet", "jsonl", "json", "csv", "sqlite"]
FORMATS: tuple[Format, ...] = ("parquet", "jsonl", "json", "csv", "sqlite")
Streamed: TypeAlias = Literal["jsonl", "json", "csv"]
STREAMED: tuple[Streamed, ...] = ("jsonl", "json", "csv")
"""The formats that can be sent while the items are read."""
FACT_FORMATS = ("jsonl", "csv", "parquet")
FILE = "items.sqlite"
WITHDRAWN = "withdrawn.jsonl"
_SQL_COLUMNS = ", ".join(f"{name} text" for name in COLUMNS)
_INSERT = f"insert into item ({', '.join(COLUMNS)}) values ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 (constants)
_FULL_TEXT = """
create virtual table item_search
 using fts5 (title, text, tags, content = 'item', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2')
"""
_FILL_FULL_TEXT = "insert into item_search (item_search) values ('rebuild')"
# Cells that spreadsheets read as a formula, even after white space, which they ignore.
_FORMULA = re.compile(r"\s*[=+\-@]|[\t\r]")
_NEEDS_QUOTES = re.compile('[",\r\n]')
_FACT_COLUMNS = ("source", "url", "schema", "version", "origin", "model", "at", "checked_at")


class SnapshotWriter(Protocol):
    """Writes a snapshot: one source after the other, each in batches of rows."""

    identity_file: str

    def begin(self, source: str, file: str) -> str:
        """Begin a source, and return the name of its file; `file` is a name for the source without an ending."""
        ...

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write rows of the current source."""
        ...

    def identify(self, identities: Sequence[Identity]) -> None:
        """Write the identities of items."""
        ...

    def close(self) -> None:
        """Finish all files."""
        ...

    def abandon(self) -> None:
        """Close all files without finishing them; the caller removes them."""
        ...


def writer(form: Format, folder: Path, *, excel: bool = False, joint: bool = False) -> SnapshotWriter:
    """Return the writer of a format for an empty folder."""
    match form:
        case "parquet":
            from rowen.publish.parquet import ParquetWriter

            return ParquetWriter(folder, joint=joint)
        case "sqlite":
            return SqliteWriter(folder)
    return TextWriter(form, folder, excel=excel)


class TextStream:
    """Converts rows to text: one JSON object per line, an array of objects, or CSV as in RFC 4180.

    For spreadsheets, CSV has a byte order mark, and an apostrophe before each cell that would be read as a formula.
    """

    def __init__(self, form: Streamed, *, excel: bool = False) -> None:
        self._form = form
        self._excel = excel
        self._separator = b"\n"

    def begin(self) -> bytes:
        """Return the text before the first row."""
        if self._form == "csv":
            return ("\ufeff" if self._excel else "").encode() + _csv_line(COLUMNS).encode()
        return b"[" if self._form == "json" else b""

    def rows(self, rows: Sequence[ExportRow]) -> bytes:
        """Return rows as text."""
        if self._form == "csv":
            cells = (map(_cell, row.values()) for row in rows)
            return "".join(_csv_line(map(harmless, row) if self._excel else row) for row in cells).encode()
        if self._form == "jsonl" or not rows:
            return b"".join(map(json_line, rows))
        separator, self._separator = self._separator, b",\n"
        return separator + b",\n".join(json_line(row)[:-1] for row in rows)

    def end(self) -> bytes:
        """Return the text after the last row."""
        return b"\n]\n" if self._form == "json" else b""


class TextWriter:
    """Writes text files: one for each source, and one with the identities of the items."""

    def __init__(self, form: Streamed, folder: Path, *, excel: bool = False) -> None:
        self._form = form
        self._folder = folder
        self._excel = excel
        self.identity_file = "identity.csv" if form == "csv" else "identity.jsonl"
        path = folder / self.identity_file
        self._identity = path.open("w", encoding="utf-8", newline="", errors="surrogatepass")
        if form == "csv":
            csv.writer(self._identity).writerow(Identity._fields)
        self._out: BinaryIO | None = None

    def begin(self, source: str, file: str) -> str:
        """Begin a source in a separate file."""
        self._end_source()
        name = f"{file}.{self._form}"
        self._stream = TextStream(self._form, excel=self._excel)
        self._out = (self._folder / name).open("wb")
        self._out.write(self._stream.begin())
        return name

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write rows."""
        if self._out is not None:
            self._out.write(self._stream.rows(rows))

    def identify(self, identities: Sequence[Identity]) -> None:
        """Write the identities of items."""
        if self._form == "csv":
            csv.writer(self._identity).writerows(identities)
        else:
            self._identity.writelines(f"{msgspec.json.encode(each._asdict()).decode()}\n" for each in identities)

    def close(self) -> None:
        """Finish all files."""
        self._end_source()
        self._identity.close()

    def abandon(self) -> None:
        """Close all files without finishing them."""
        with suppress(OSError):
            self._identity.close()
        if self._out is not None:
            with suppress(OSError):
                self._out.close()

    def _end_source(self) -> None:
        if self._out is not None:
            with self._out:
                self._out.write(self._stream.end())
            self._out = None


class SqliteWriter:
    """Writes one database of all sources: the table `item`, and `item_search` for searching it. Lists are JSON."""

    identity_file = "identity.jsonl"

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / FILE, isolation_level=None, check_same_thread=False)
        self._identity = (folder / self.identity_file).open("w", encoding="utf-8")
        # The folder is removed after an error, so nothing needs to be rolled back.
        self._run("pragma journal_mode = off", "pragma synchronous = off")
        self._run(f"create table item (id integer primary key, {_SQL_COLUMNS})", "begin")

    def begin(self, source: str, file: str) -> str:
        """Return the name of the database file, which all sources share."""
        return FILE

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write rows."""
        try:
            self._database.executemany(_INSERT, ([_sql_value(value) for value in row.values()] for row in rows))
        except sqlite3.Error as problem:
            raise _sqlite_error(problem) from problem

    def identify(self, identities: Sequence[Identity]) -> None:
        """Write the identities of items."""
        self._identity.writelines(json.dumps(identity._asdict(), ensure_ascii=False) + "\n" for identity in identities)

    def close(self) -> None:
        """Create the indexes and close the database."""
        self._identity.close()
        self._run("create index item_url on item (url)", "create index item_group on item (group_id)", "commit")
        if self._database.execute("select 1 from pragma_module_list where name = 'fts5'").fetchone() is not None:
            self._run(_FULL_TEXT, _FILL_FULL_TEXT)
        self._database.close()

    def abandon(self) -> None:
        """Close the database without finishing it."""
        with suppress(OSError):
            self._identity.close()
        self._database.close()

    def _run(self, *statements: str) -> None:
        try:
            for statement in statements:
                self._database.execute(statement)
        except sqlite3.Error as problem:
            raise _sqlite_error(problem) from problem


def _sqlite_error(problem: sqlite3.Error) -> ExportError:
    return ExportError(f"SQLite could not be written: {problem}. Nothing was kept.", hint="Is there space left?")


def _sql_value(value: Any) -> str | None:
    match value:
        case list():
            return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        case bytes():
            return value.decode()
        case datetime():
            return value.isoformat()
        case str() | None:
            return value
    return str(value)


class WithdrawnLines:
    """Writes the last copies of deleted items to a separate file, as JSON lines in every format of an export."""

    def __init__(self, folder: Path) -> None:
        self._out = (folder / WITHDRAWN).open("wb")
        self.items = 0

    def write(self, rows: Sequence[tuple[ExportRow, datetime]]) -> None:
        """Write rows, each with the time of the withdrawal."""
        self._out.writelines(json_line(row, withdrawn_at=at.isoformat()) for row, at in rows)
        self.items += len(rows)

    def close(self) -> None:
        """Finish the file."""
        self._out.close()


def json_line(row: ExportRow, **more: str) -> bytes:
    """Return one row as a line of JSON."""
    moments = {"first_seen": row["first_seen"].isoformat(), "updated_at": row["updated_at"].isoformat()}
    fields: dict[str, Any] = {**row, **moments, **more}
    # The record is JSON from the database, and is copied without parsing it.
    record = fields.pop("record")
    return b'%b,"record":%b}\n' % (msgspec.json.encode(fields)[:-1], record)


def _csv_line(cells: Iterable[str]) -> str:
    """Return a line of CSV, equal to that of `csv.writer`.

    `csv.writer` takes ten times as long, since it checks each character separately.
    """
    quoted = ['"' + cell.replace('"', '""') + '"' if _NEEDS_QUOTES.search(cell) else cell for cell in cells]
    return ",".join(quoted) + "\r\n"


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
    return str(value.isoformat())


def harmless(cell: str) -> str:
    """Return a cell; put an apostrophe in front if a spreadsheet would read the cell as a formula."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


class FactFiles:
    """Writes facts in batches.

    The columns of a table are known only after the last row, so the facts are written as JSON lines first.
    """

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
        for facts in batch:
            name = facts.schema.partition("@")[0]
            self._columns.setdefault(name, {}).update(dict.fromkeys(_as_columns(flattened(facts.data))))
            checked = facts.checked_at.isoformat() if facts.checked_at else None
            version = (facts.source, facts.url, facts.schema, facts.number, facts.origin, facts.model)
            head = dict(zip(_FACT_COLUMNS, (*version, facts.at.isoformat(), checked), strict=True))
            with (self._folder / f"{name}.jsonl").open("a", encoding="utf-8") as out:
                out.write(json.dumps({**head, "data": facts.data}, ensure_ascii=False) + "\n")
            self.rows += 1

    def close(self) -> None:
        """Convert the lines to tables, unless the format is JSON lines."""
        for name, own_columns in self._columns.items() if self._form != "jsonl" else ():
            lines = self._folder / f"{name}.jsonl"
            columns = [*_FACT_COLUMNS, *own_columns]
            if self._form == "csv":
                encoding = "utf-8-sig" if self._excel else "utf-8"
                with lines.with_suffix(".csv").open("w", encoding=encoding, newline="") as out:
                    table = csv.writer(out)
                    table.writerow(columns)
                    for row in _fact_rows(lines):
                        cells = [_fact_cell(row.get(column)) for column in columns]
                        table.writerow(map(harmless, cells) if self._excel else cells)
            else:
                from rowen.publish.parquet import write_table

                rows = list(_fact_rows(lines))
                values = {column: _uniform([row.get(column) for row in rows]) for column in columns}
                write_table(lines.with_suffix(".parquet"), values)
            lines.unlink()


def _fact_rows(lines: Path) -> Iterator[dict[str, Any]]:
    with lines.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            yield {**_as_columns(flattened(row.pop("data"))), **row}


def _as_columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as columns; a field with the name of a fixed column gets a prefix."""
    return {(f"data.{name}" if name in _FACT_COLUMNS else name): value for name, value in fields.items()}


def _fact_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _uniform(values: list[Any]) -> list[Any]:
    """Return values of one type: numbers stay numbers; mixed, nested and too large values become text."""
    kinds = set()
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None:
            kinds.add(type(value) if not is_number else float if finite(value) is not None else int)
    if kinds <= {float}:
        return [None if value is None else float(value) for value in values]
    if kinds in ({bool}, {str}):
        return values
    return [None if value is None else _fact_cell(value) for value in values]
