"""Data files as Markdown: JSON, YAML, TOML and XML become fences, CSV and TSV tables."""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rowen.content.base import Part
from rowen.content.code import fenced
from rowen.model.text import spend

# The average over all lines: only text without line breaks reaches it.
_LONG_LINE = 400
# Nested brackets would otherwise make a text grow with the square of its depth.
_DEEPEST_INDENT = 24
# Short lists and empty objects stay on one line: coordinates, for example, come by the million.
_TOKEN = re.compile(
    r'(?P<short>\[[^\[\]{}"]{0,100}\]|\{\s*\})|(?P<text>"(?:[^"\\]++|\\.)*+"?)|(?P<mark>[{}\[\],:])|(?P<word>[^\s"{}\[\],:]+)'
)
# The delimiter is detected in so many characters, whatever the size of the file.
_SAMPLE = 16_384
_DELIMITERS = ",;\t|"
_LONGEST_HEAD = 500  # a third of a passage, each of which repeats the head of its table
# The names of columns are repeated with each passage of a table; longer names are truncated.
_LONGEST_NAME = 100


def read_json(text: str) -> Part:
    """Read JSON; indent it if it is minified, and keep invalid JSON as text."""
    source = text.strip()
    return read_fenced(_laid_out(source) if _is_minified(source) else source, "json")


def read_json_lines(text: str) -> Part:
    """Read one value per line; indent long ones, with a blank line between two."""
    rows = [row.strip() for row in text.split("\n") if row.strip()]
    if any(map(_is_minified, rows)):
        return read_fenced("\n\n".join(_laid_out(row) for row in rows), "json")
    return read_fenced("\n".join(rows), "json")


def read_xml(text: str) -> Part:
    """Read XML; put each element on a line of its own if it is minified."""
    source = text.strip()
    return read_fenced(re.sub(r">\s*<", ">\n<", source) if _is_minified(source) else source, "xml")


def read_fenced(text: str, language: str) -> Part:
    """Return a text in its own notation, between fences."""
    source = text.strip("\n")
    return Part(fenced(source, language) if source.strip() else "")


def _is_minified(source: str) -> bool:
    return len(source) > _LONG_LINE * (1 + source.count("\n"))


def _laid_out(source: str) -> str:
    """Return JSON with line ends and indentation between its tokens, each exactly as it is written."""
    try:
        json.loads(source)
    except (ValueError, RecursionError):
        return source
    parts = []
    depth = 0
    for token in _TOKEN.finditer(source):
        mark = token[0]
        match mark:
            case "{" | "[" | ",":
                depth += mark != ","
                parts.append(mark + "\n" + "  " * min(depth, _DEEPEST_INDENT))
            case "}" | "]":
                depth -= 1
                parts.append("\n" + "  " * min(depth, _DEEPEST_INDENT) + mark)
            case _:
                parts.append(": " if mark == ":" else mark)
    return "".join(parts)


def read_csv(text: str) -> Part:
    """Read a table with the delimiter that splits most lines into the same number of cells."""
    sample = text[:_SAMPLE]
    lines = [line for line in sample.split("\n")[:50] if line.strip()]
    if len(lines) > 1 and len(sample) == _SAMPLE:
        lines.pop()

    def agreement(mark: str) -> tuple[int, int]:
        counts = [len(row) for row in _rows("\n".join(lines), mark)]
        width = counts[0] if counts else 1
        return (counts.count(width), width) if width > 1 else (0, 0)

    return _read(text, max(_DELIMITERS, key=agreement))


def read_tsv(text: str) -> Part:
    """Read a table whose cells are separated by tabs."""
    return _read(text, "\t")


def _read(text: str, delimiter: str) -> Part:
    try:
        rows = [row for row in _rows(text, delimiter) if any(cell.strip() for cell in row)]
    except csv.Error:
        return Part(fenced(text.strip("\n"), "csv"))
    return Part(fitting_table(rows))


def _rows(text: str, delimiter: str) -> Iterable[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False)


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return a table with the first row as its head; shorter rows are filled up to the width of the head."""
    lines = []
    width = 0
    for row in rows:
        cells = [_cell(value) for value in row]
        width = width or len(cells)
        spend(3 * max(0, width - len(cells)))
        cells += [""] * (width - len(cells))
        lines.append("| " + " | ".join(cells) + " |")
        if len(lines) == 1:
            lines.append("|" + " --- |" * width)
    return "\n".join(lines)


def fitting_table(rows: list[list[str]]) -> str:
    """Return a table; if its head is too wide to be repeated in every chunk, one paragraph for each row.

    Such a paragraph has each value with the name of its column.
    """
    if not rows:
        return ""
    if sum(len(cell) + 3 for cell in rows[0]) <= _LONGEST_HEAD:
        return markdown_table(rows)
    names = [_cell(name) for name in rows[0]]
    paragraphs = ["Columns: " + ", ".join(names)]
    head = [name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…" for name in names]
    for row in rows[1:]:
        named = zip_longest(head, row, fillvalue="")
        lines = [f"{name}: {_cell(value)}".removeprefix(": ") for name, value in named if value.strip()]
        spend(sum(map(len, lines)))
        paragraphs.append("\n".join("\\" + line if line.startswith("#") else line for line in lines))
    return "\n\n".join(paragraphs)


def _cell(value: str) -> str:
    words = " ".join(value.split())
    return words.replace("|", "\\|") if "|" in words else words
