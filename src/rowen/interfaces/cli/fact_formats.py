"""The facts of one page on stdout, in the form that somebody asked for."""

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from rowen.interfaces.cli.words import clean, escaped
from rowen.model.changes import flattened

if TYPE_CHECKING:
    from rowen.interfaces.cli.output import Output
    from rowen.model.extraction import Extracted

__all__ = ["FORMATS", "print_facts"]

FORMATS = ("json", "compact", "jsonl", "csv", "table")


def print_facts(out: "Output", found: "Extracted", form: str) -> None:
    """The data over several lines or on one; with where it is from on one, as `rowen export` has it; as a table."""
    match form:
        case "compact":
            _print(json.dumps(found.data, ensure_ascii=False))
        case "jsonl":
            told = {"url": found.url, "schema": found.schema, "data": found.data}
            _print(json.dumps(told, ensure_ascii=False))
        case "csv":
            print(clean(_as_csv(found)), end="")
        case "table":
            fields = list(flattened(found.data).items())
            columns = {"field": lambda one: (one[0], "bold"), "value": lambda one: _cell(one[1])}
            out.listing(fields, columns, fact=dict)  # type: ignore[arg-type]
        case _:
            _print(json.dumps(found.data, indent=2, ensure_ascii=False))


def _print(written: str) -> None:
    """JSON whose letters do nothing to a terminal."""
    print(escaped(written))


def _as_csv(found: "Extracted") -> str:
    """A head and a row; a field that is called `url` does not take the place of where the page is."""
    fields = {("data.url" if name == "url" else name): value for name, value in flattened(found.data).items()}
    made = io.StringIO()
    table = csv.writer(made, lineterminator="\n")
    table.writerow(["url", *fields])
    table.writerow([found.url, *map(_cell, fields.values())])
    return made.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
