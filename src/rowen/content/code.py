"""Source code and Jupyter notebooks as Markdown, and where code may be cut: before its definitions, outermost first.

Indentation, blank lines and closing brackets are enough to see them in nearly every language. Python's own parser
is left out on purpose: it would make cuts depend on the version of Python that reads the file.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from rowen.content.base import Part
from rowen.content.markdown import first_heading

__all__ = ["CodeLine", "fenced", "lines", "read_notebook", "units"]

_CLOSER = re.compile(
    r"[)\]}]|</|(?:end|else|elif|elsif|elseif|except|finally|catch|rescue|ensure|fi|done|esac|then|do|begin)\b|\{\s*$"
    r"|[|.?:&]|--+\s*$|#(?:else|elif|endif)\b",
    re.IGNORECASE,
)
# A quotation mark without another one ends with its line.
_QUOTED = re.compile(r""" \"{3} | '{3} | "(?:[^"\\]++|\\.)*+"? | '(?:[^'\\]++|\\.)*+'? | \#.* """, re.VERBOSE)
_BACKTICKS = re.compile(r"`{3,}")
_INSIDE = 1 << 30
_DEEPEST = 8
# Only the beginning of what code printed: the rest is data, and changes with every execution.
_MOST_OUTPUT_LINES = 6
# An output may be a single line of any length.
_LONGEST_OUTPUT_LINE = 200


class CodeLine(NamedTuple):
    """One line of code that is not blank: its span, its depth, and whether it continues what stands above."""

    start: int
    end: int
    indent: int
    continues: bool
    after_blank: bool


def fenced(code: str, language: str) -> str:
    """Code as a Markdown fence that nothing inside of it can close."""
    longest = max((len(run) for run in _BACKTICKS.findall(code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"


def lines(text: str, start: int, end: int, language: str) -> list[CodeLine]:
    """Return the lines of `text[start:end]`; inside a Python string of many lines all are as deep as can be."""
    found: list[CodeLine] = []
    quote = ""
    after_blank = False
    for source in text[start:end].split("\n"):
        body = source.strip()
        if body:
            indent = _INSIDE if quote else len(source) - len(source.lstrip())
            continues = bool(quote) or _CLOSER.match(body) is not None
            found.append(CodeLine(start, start + len(source.rstrip()), indent, continues, after_blank))
            if language == "python" and (quote or '"""' in body or "'''" in body):
                quote = _quote_after(body, quote)
        after_blank = not body
        start += len(source) + 1
    return found


def _quote_after(body: str, quote: str) -> str:
    """Return the quotes that are open at the end of a line that begins inside of `quote`, or outside of all."""
    at = 0
    while True:
        if quote:
            closing = body.find(quote, at)
            if closing < 0:
                return quote
            at = closing + len(quote)
            quote = ""
        found = _QUOTED.search(body, at)
        if found is None:
            return ""
        at = found.end()
        quote = found[0] if found[0] in ('"' * 3, "'" * 3) else ""


def units(block: list[CodeLine]) -> Iterator[list[CodeLine]]:
    """Cut a block before each of its outermost definitions; what has only one is cut a step further in.

    Nothing is cut inside a run of plain statements, and a comment or decorator stays with what it stands above.
    """
    depths = sorted({line.indent for line in block if not line.continues})
    for depth in depths[:_DEEPEST]:
        cuts = [0, *(i for i in range(1, len(block)) if _begins(block, i, depth))]
        if len(cuts) > 1:
            for first, last in zip(cuts, [*cuts[1:], len(block)], strict=True):
                yield block[first:last]
            return
    yield block


def _begins(block: list[CodeLine], i: int, depth: int) -> bool:
    line, above = block[i], block[i - 1]
    if line.indent > depth or line.continues:
        return False
    return line.after_blank or above.indent > depth or (above.continues and above.indent <= depth)


def read_notebook(text: str) -> Part:
    """Return the cells of a notebook in their order; what is no notebook is kept as text."""
    try:
        book = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return Part(fenced(text.strip("\n"), "json"))
    if not isinstance(book, dict):
        return Part(fenced(text.strip("\n"), "json"))
    language = _language(book)
    markdown = "\n\n".join(part for cell in _cells(book) for part in _parts(cell, language))
    return Part(markdown, title=_title(book) or first_heading(markdown))


def _cells(book: dict[str, Any]) -> Iterator[dict[str, Any]]:
    # Before version 4 of the format, cells were inside of worksheets.
    for holder in (book, *_dicts(book.get("worksheets"))):
        yield from _dicts(holder.get("cells"))


def _parts(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input"))).strip("\n")
    if not source.strip():
        return
    match cell.get("cell_type"):
        case "code":
            yield fenced(source, language)
            yield from filter(None, map(_output, _dicts(cell.get("outputs"))))
        case "heading":
            yield f"{'#' * min(6, max(1, _whole(cell.get('level'))))} {source}"
        case _:
            yield source


def _output(output: dict[str, Any]) -> str:
    data = output.get("data")
    text = _joined(data.get("text/plain") if isinstance(data, dict) else output.get("text"))
    lines = text.strip("\n").split("\n")
    shown = [line[:_LONGEST_OUTPUT_LINE] for line in lines[:_MOST_OUTPUT_LINES]]
    if len(lines) > _MOST_OUTPUT_LINES:
        shown.append("…")
    return fenced("\n".join(shown), "text") if text.strip() else ""


def _language(book: dict[str, Any]) -> str:
    metadata = book.get("metadata")
    for part in ("language_info", "kernelspec"):
        info = metadata.get(part) if isinstance(metadata, dict) else None
        told = (
            (info.get("name") if part == "language_info" else info.get("language")) if isinstance(info, dict) else None
        )
        if isinstance(told, str) and told.replace("+", "").replace("#", "").isalnum():
            return told.lower()
    return "python"


def _title(book: dict[str, Any]) -> str:
    metadata = book.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else None
    return title if isinstance(title, str) else ""


def _joined(source: Any) -> str:
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _dicts(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _whole(level: Any) -> int:
    return level if isinstance(level, int) else 1
