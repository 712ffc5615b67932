"""Converts source code and Jupyter notebooks to Markdown, and finds positions to cut code: before definitions.

Outer definitions come first. Indentation, blank lines and closing brackets are enough to recognise definitions in
nearly every language. Python's own parser is not used, since cuts would depend on the version of Python that runs
Rowen.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from rowen.content.base import Part
from rowen.content.markdown import first_heading

_CLOSER = re.compile(
    r"[)\]}]|</|(?:end|else|elif|elsif|elseif|except|finally|catch|rescue|ensure|fi|done|esac|then|do|begin)\b|\{\s*$"
    r"|[|.?:&]|--+\s*$|#(?:else|elif|endif)\b",
    re.IGNORECASE,
)
# A string without a closing quotation mark ends at the end of its line.
_QUOTED = re.compile(r""" \"{3} | '{3} | "(?:[^"\\]++|\\.)*+"? | '(?:[^'\\]++|\\.)*+'? | \#.* """, re.VERBOSE)
_BACKTICKS = re.compile(r"`{3,}")
_INSIDE = 1 << 30
_DEEPEST = 8
# Only the beginning of an output is kept: the rest is data, and changes with every execution.
_MOST_OUTPUT_LINES = 6
# An output may be a single line of any length.
_LONGEST_OUTPUT_LINE = 200


class CodeLine(NamedTuple):
    """A line of code that is not blank: its span, its indentation, and whether it continues the line above."""

    start: int
    end: int
    indent: int
    continues: bool
    after_blank: bool


def fenced(code: str, language: str) -> str:
    """Return code in a Markdown fence that is longer than any fence inside the code."""
    longest = max((len(run) for run in _BACKTICKS.findall(code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"


def lines(text: str, start: int, end: int, language: str) -> list[CodeLine]:
    """Return the lines of `text[start:end]`; lines inside a multi-line Python string get the greatest indentation."""
    code_lines: list[CodeLine] = []
    quote = ""
    after_blank = False
    for source in text[start:end].split("\n"):
        body = source.strip()
        if body:
            indent = _INSIDE if quote else len(source) - len(source.lstrip())
            continues = bool(quote) or _CLOSER.match(body) is not None
            code_lines.append(CodeLine(start, start + len(source.rstrip()), indent, continues, after_blank))
            if language == "python" and (quote or '"""' in body or "'''" in body):
                quote = _quote_after(body, quote)
        after_blank = not body
        start += len(source) + 1
    return code_lines


def _quote_after(body: str, quote: str) -> str:
    """Return the triple quote that is open at the end of a line; `quote` is the one open at its start, or empty."""
    at = 0
    while True:
        if quote:
            closing = body.find(quote, at)
            if closing < 0:
                return quote
            at = closing + len(quote)
        match = _QUOTED.search(body, at)
        if match is None:
            return ""
        at = match.end()
        quote = match[0] if match[0] in ('"' * 3, "'" * 3) else ""


def units(block: list[CodeLine]) -> Iterator[list[CodeLine]]:
    """Cut a block before each of its outermost definitions; if it has only one, cut inside that definition.

    A sequence of plain statements is not cut, and a comment or decorator stays with the definition below it.
    """

    def begins(line: CodeLine, above: CodeLine, depth: int) -> bool:
        if line.indent > depth or line.continues:
            return False
        return line.after_blank or above.indent > depth or (above.continues and above.indent <= depth)

    depths = sorted({line.indent for line in block if not line.continues})
    for depth in depths[:_DEEPEST]:
        cuts = [0, *(i for i in range(1, len(block)) if begins(block[i], block[i - 1], depth))]
        if len(cuts) > 1:
            for first, last in zip(cuts, [*cuts[1:], len(block)], strict=True):
                yield block[first:last]
            return
    yield block


def read_notebook(text: str) -> Part:
    """Return the cells of a notebook in order; a file that is no notebook is returned as fenced text."""
    try:
        book = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        book = None
    if not isinstance(book, dict):
        return Part(fenced(text.strip("\n"), "json"))
    facts = book["metadata"] if isinstance(book.get("metadata"), dict) else {}
    languages = (
        info.get(key)
        for name, key in (("language_info", "name"), ("kernelspec", "language"))
        if isinstance(info := facts.get(name), dict)
    )
    named = (name for name in languages if isinstance(name, str) and name.replace("+", "").replace("#", "").isalnum())
    language = next(named, "python").lower()
    # Before version 4 of the format, cells were inside worksheets.
    cells = [cell for sheet in (book, *_dicts(book.get("worksheets"))) for cell in _dicts(sheet.get("cells"))]
    markdown = "\n\n".join(part for cell in cells for part in _parts(cell, language))
    title = facts.get("title")
    return Part(markdown, title=(title if isinstance(title, str) else "") or first_heading(markdown))


def _parts(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input"))).strip("\n")
    if not source.strip():
        return
    match cell.get("cell_type"):
        case "code":
            yield fenced(source, language)
            yield from filter(None, map(_output, _dicts(cell.get("outputs"))))
        case "heading":
            level = cell.get("level")
            yield f"{'#' * (min(6, max(1, level)) if isinstance(level, int) else 1)} {source}"
        case _:
            yield source


def _output(output: dict[str, Any]) -> str:
    data = output.get("data")
    text = _joined(data.get("text/plain") if isinstance(data, dict) else output.get("text"))
    lines = text.strip("\n").split("\n")
    beginning = [line[:_LONGEST_OUTPUT_LINE] for line in lines[:_MOST_OUTPUT_LINES]]
    if len(lines) > _MOST_OUTPUT_LINES:
        beginning.append("…")
    return fenced("\n".join(beginning), "text") if text.strip() else ""


def _joined(source: Any) -> str:
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _dicts(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
