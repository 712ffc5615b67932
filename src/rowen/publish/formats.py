"""The formats that an export can have: each writes rows into a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from rowen.publish.row import ExportRow, Identity

__all__ = ["FORMATS", "Format", "SnapshotWriter", "writer"]

Format: TypeAlias = Literal["parquet", "jsonl", "json", "csv", "sqlite"]
FORMATS: tuple[Format, ...] = ("parquet", "jsonl", "json", "csv", "sqlite")


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
    """The writer of a format, for an empty folder."""
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
            from rowen.publish.sqlite import SqliteWriter

            return SqliteWriter(folder)
