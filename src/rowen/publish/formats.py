"""The formats that an export can have: each writes rows into a folder."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from rowen.errors import ExportError
from rowen.publish.row import COLUMNS, ExportRow, Identity

__all__ = ["FILE", "FORMATS", "Format", "SnapshotWriter", "writer"]

Format: TypeAlias = Literal["parquet", "jsonl", "json", "csv", "sqlite"]
FORMATS: tuple[Format, ...] = ("parquet", "jsonl", "json", "csv", "sqlite")
FILE = "items.sqlite"
_COLUMNS = ", ".join(f"{name} text" for name in COLUMNS)
_INSERT = f"insert into item ({', '.join(COLUMNS)}) values ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 (constants)
_FULL_TEXT = """
create virtual table item_search
 using fts5 (title, text, tags, content = 'item', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2')
"""
_FILL_FULL_TEXT = "insert into item_search (item_search) values ('rebuild')"


class SnapshotWriter(Protocol):
    """Writes one snapshot: sources one after the other, each in batches."""

    identity_file: str

    def begin(self, source: str, file: str) -> str:
        """Begin a source; `file` is a name for it without an ending. Returns the name of the file that it is in."""
        ...

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write some rows of the source that was begun last."""
        ...

    def identify(self, identities: Sequence[Identity]) -> None:
        """Write which items these were."""
        ...

    def close(self) -> None:
        """Finish all files."""
        ...

    def abandon(self) -> None:
        """Close all files without finishing them; they are about to be removed."""
        ...


def writer(form: Format, folder: Path, *, excel: bool = False, joint: bool = False) -> SnapshotWriter:
    """Return the writer of a format, for an empty folder."""
    match form:
        case "parquet":
            from rowen.publish.parquet import ParquetWriter

            return ParquetWriter(folder, joint=joint)
        case "jsonl":
            from rowen.publish.lines import JsonLinesWriter

            return JsonLinesWriter(folder)
        case "json":
            from rowen.publish.lines import JsonWriter

            return JsonWriter(folder)
        case "csv":
            from rowen.publish.lines import CsvWriter

            return CsvWriter(folder, excel=excel)
        case "sqlite":
            return SqliteWriter(folder)


class SqliteWriter:
    """One database of all sources: `item`, and `item_search` to search it. Lists are JSON."""

    identity_file = "identity.jsonl"

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / FILE, isolation_level=None, check_same_thread=False)
        self._identity = (folder / self.identity_file).open("w", encoding="utf-8")
        # The folder is thrown away if anything goes wrong, so nothing needs to be undone.
        self._run("pragma journal_mode = off", "pragma synchronous = off")
        self._run(f"create table item (id integer primary key, {_COLUMNS})", "begin")

    def begin(self, source: str, file: str) -> str:
        """Return all sources go into one file."""
        return FILE

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write rows."""
        try:
            self._database.executemany(_INSERT, ([_value(value) for value in row.values()] for row in rows))
        except sqlite3.Error as problem:
            raise _error(problem) from problem

    def identify(self, identities: Sequence[Identity]) -> None:
        """Write which items these were."""
        self._identity.writelines(json.dumps(identity._asdict(), ensure_ascii=False) + "\n" for identity in identities)

    def close(self) -> None:
        """Make the indexes."""
        self._identity.close()
        self._run("create index item_url on item (url)", "create index item_group on item (group_id)", "commit")
        if self._has_full_text():
            self._run(_FULL_TEXT, _FILL_FULL_TEXT)
        self._database.close()

    def abandon(self) -> None:
        """Close the database without finishing it."""
        with suppress(OSError):
            self._identity.close()
        self._database.close()

    def _has_full_text(self) -> bool:
        rows = self._database.execute("select 1 from pragma_module_list where name = 'fts5'")
        return rows.fetchone() is not None

    def _run(self, *statements: str) -> None:
        try:
            for statement in statements:
                self._database.execute(statement)
        except sqlite3.Error as problem:
            raise _error(problem) from problem


def _error(problem: sqlite3.Error) -> ExportError:
    return ExportError(f"SQLite could not be written: {problem}. Nothing was kept.", hint="Is there space left?")


def _value(value: Any) -> str | None:
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
