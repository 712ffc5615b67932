"""Exports as lines of text: JSON objects, or CSV."""

import csv
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import msgspec

from rowen.publish.row import COLUMNS, ExportRow, Identity

__all__ = ["WITHDRAWN", "CsvWriter", "JsonLinesWriter", "WithdrawnLines", "harmless", "json_line"]

WITHDRAWN = "withdrawn.jsonl"

# What spreadsheets take for a formula; also after white space, which they drop.
_FORMULA = re.compile(r"\s*[=+\-@]|[\t\r]")
_NEEDS_QUOTES = re.compile('[",\r\n]')


class _Lines:
    """Text files in a folder, one a source."""

    ending = ""
    encoding = "utf-8"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self.identity_file = f"identity{self.ending}"
        self._identity = self._file(self.identity_file)
        self._source = ExitStack()

    def begin(self, source: str, file: str) -> str:
        """Begin a source in a file of its own."""
        self._source.close()
        self._out = self._source.enter_context(self._text(file + self.ending))
        return file + self.ending

    def close(self) -> None:
        """Finish all files."""
        self._source.close()
        self._open.close()

    def abandon(self) -> None:
        """Close all files without finishing them."""
        with suppress(OSError):
            self._source.close()
        with suppress(OSError):
            self._open.close()

    def _file(self, name: str) -> TextIO:
        return self._open.enter_context(self._text(name))

    def _text(self, name: str) -> TextIO:
        return (self._folder / name).open("w", encoding=self.encoding, newline="", errors="surrogatepass")


class JsonLinesWriter(_Lines):
    """One JSON object a line; the source's record stands in it as an object."""

    ending = ".jsonl"

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write rows."""
        self._out.writelines(map(json_line, rows))

    def identify(self, identities: Sequence[Identity]) -> None:
        """Write which items these were."""
        self._identity.writelines(f"{msgspec.json.encode(one._asdict()).decode()}\n" for one in identities)


class WithdrawnLines:
    """The last copies of deleted items, apart from what is there, as JSON lines whatever the format of the rest."""

    def __init__(self, folder: Path) -> None:
        self._out = (folder / WITHDRAWN).open("w", encoding="utf-8", newline="", errors="surrogatepass")
        self.items = 0

    def write(self, rows: Sequence[tuple[ExportRow, datetime]]) -> None:
        """Write rows, each with the moment at which it was withdrawn."""
        self._out.writelines(json_line(row, withdrawn_at=_moment(at)) for row, at in rows)
        self.items += len(rows)

    def close(self) -> None:
        """Finish the file."""
        self._out.close()


def json_line(row: ExportRow, **more: str) -> str:
    """One row on a line of its own."""
    facts: dict[str, Any] = {**row, "first_seen": _moment(row["first_seen"]), "updated_at": _moment(row["updated_at"])}
    facts |= more
    # The record is JSON as it comes from the database, and need not be read to be written.
    record = facts.pop("record")
    return f'{msgspec.json.encode(facts)[:-1].decode()},"record":{record}}}\n'


class CsvWriter(_Lines):
    """CSV by RFC 4180, with lists as JSON.

    For spreadsheets there is a mark that it is UTF-8, and an apostrophe before all that they would take for a formula.
    """

    ending = ".csv"

    def __init__(self, folder: Path, *, excel: bool = False) -> None:
        self._excel = excel
        self.encoding = "utf-8-sig" if excel else "utf-8"
        super().__init__(folder)
        csv.writer(self._identity).writerow(Identity._fields)

    def begin(self, source: str, file: str) -> str:
        """Begin a source in a file of its own."""
        name = super().begin(source, file)
        self._out.write(_csv_line(COLUMNS))
        return name

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write rows."""
        cells = (map(_cell, row.values()) for row in rows)
        self._out.writelines(_csv_line(map(harmless, row) if self._excel else row) for row in cells)

    def identify(self, identities: Sequence[Identity]) -> None:
        """Write which items these were."""
        csv.writer(self._identity).writerows(identities)


def _csv_line(cells: Iterable[str]) -> str:
    """A line as `csv.writer` gives it, which looks at each letter by itself and takes ten times as long."""
    return ",".join([_quoted(cell) if _NEEDS_QUOTES.search(cell) else cell for cell in cells]) + "\r\n"


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def _cell(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
        case list():
            return msgspec.json.encode(value).decode() if value else ""
    return _moment(value)


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _moment(at: Any) -> str:
    return str(at.isoformat())
