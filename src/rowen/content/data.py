"""Converts data files to Markdown: JSON, YAML, TOML and XML to fenced text, CSV and TSV to tables."""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rowen.content.base import Part
from rowen.content.code import fenced
from rowen.model.text import spend

# Average line length from which text counts as minified; only text without line breaks reaches it.
_LONG_LINE = 400
# Nested brackets would otherwise make a text grow with the square of its depth.
_DEEPEST_INDENT = 24
# Short lists and empty objects stay on one line, since a file may have millions of them, such as coordinates.
_TOKEN = re.compile(
    r'(?P<short>\[[^\[\]{}"]{0,100}\]|\{\s*\})|(?P<text>"(?:[^"\\]++|\\.)*+"?)|(?P<mark>[{}\[\],:])|(?P<word>[^\s"{}\[\],:]+)'
)
# The delimiter is detected in the first characters, whatever the size of the file.
_SAMPLE = 16_384
_DELIMITERS = ",;\t|"
_LONGEST_HEAD = 500  # a third of a passage, since each passage of a table repeats its head
# The names of columns are repeated with each passage of a table; longer names are truncated.
_LONGEST_NAME = 100


def read_json(text: str) -> Part:
    """Read JSON; indent minified JSON, and return invalid JSON unchanged."""
    source = text.strip()
    return read_fenced(_laid_out(source) if _is_minified(source) else source, "json")


def read_json_lines(text: str) -> Part:
    """Read one JSON value per line; if a line is long, indent all values and separate them by blank lines."""
    rows = [row.strip() for row in text.split("\n") if row.strip()]
    if any(map(_is_minified, rows)):
        return read_fenced("\n\n".join(_laid_out(row) for row in rows), "json")
    return read_fenced("\n".join(rows), "json")


def read_xml(text: str) -> Part:
    """Read XML; put each tag of minified XML on a line of its own."""
    source = text.strip()
    return read_fenced(re.sub(r">\s*<", ">\n<", source) if _is_minified(source) else source, "xml")


def read_fenced(text: str, language: str) -> Part:
    """Return a text unchanged inside a Markdown fence; empty if the text is blank."""
    source = text.strip("\n")
    return Part(fenced(source, language) if source.strip() else "")


def _is_minified(source: str) -> bool:
    return len(source) > _LONG_LINE * (1 + source.count("\n"))


def _laid_out(source: str) -> str:
    """Return JSON with line breaks and indentation between its tokens; tokens and invalid JSON stay unchanged."""
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
    """Return a Markdown table with the first row as its head; shorter rows are padded to the width of the head."""
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
    """Return a Markdown table, or one paragraph per row if the head is too wide to repeat in every chunk.

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
