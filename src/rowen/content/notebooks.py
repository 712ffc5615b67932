"""Jupyter notebooks: prose as it is, code with its language, and the beginning of what it printed."""

import json
from collections.abc import Iterator
from typing import Any

from rowen.content.base import Part
from rowen.content.code import fenced
from rowen.content.markdown import first_heading

__all__ = ["read_notebook"]

# Only the beginning of what code printed: the rest is data, and changes with every execution.
_MOST_OUTPUT_LINES = 6
# An output may be a single line of any length.
_LONGEST_OUTPUT_LINE = 200


def read_notebook(text: str) -> Part:
    """The cells of a notebook in their order; what is no notebook is kept as text."""
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
