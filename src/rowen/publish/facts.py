"""Facts as files, one a schema: JSON lines with the data as it is, CSV and Parquet with a column for each field."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rowen.errors import UsageError
from rowen.model.changes import flattened
from rowen.model.extraction import Extraction
from rowen.model.text import finite
from rowen.publish.lines import harmless
from rowen.version import how_to_install

__all__ = ["FACT_FORMATS", "FactFiles", "FactFormat"]

FactFormat: TypeAlias = Literal["jsonl", "csv", "parquet"]
FACT_FORMATS: tuple[FactFormat, ...] = ("jsonl", "csv", "parquet")
_HEAD = ("source", "url", "schema", "version", "origin", "model", "at", "checked_at")


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
                cells = [_cell(row.get(column)) for column in columns]
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


def _cell(value: Any) -> str:
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
    kinds = {_kind(one) for one in values if one is not None}
    if kinds <= {float}:
        return [None if one is None else float(one) for one in values]
    if kinds in ({bool}, {str}):
        return values
    return [None if one is None else _cell(one) for one in values]


def _kind(value: Any) -> type:
    """The type of a column that holds a value; an integer that no float can hold is told as text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return type(value)
    return float if finite(value) is not None else int
