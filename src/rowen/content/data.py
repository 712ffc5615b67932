"""JSON, YAML, TOML and XML are kept as they are, fenced; what is all on one line is laid out."""

import json
import re
from collections.abc import Iterator

from rowen.content.base import Part
from rowen.content.code import fenced

__all__ = ["read_fenced", "read_json", "read_json_lines", "read_xml"]

# On average over all lines: only text without line breaks comes to it.
_LONG_LINE = 400
# Nested brackets would otherwise make a text grow with the square of its depth.
_DEEPEST_INDENT = 24

# Short lists and objects without anything inside stay on one line: coordinates, for one, come by the million.
_TOKEN = re.compile(
    r'(?P<short>\[[^\[\]{}"]{0,100}\]|\{\s*\})|(?P<text>"(?:[^"\\]++|\\.)*+"?)|(?P<mark>[{}\[\],:])|(?P<word>[^\s"{}\[\],:]+)'
)


def read_json(text: str) -> Part:
    """JSON, laid out if it is minified; what is no JSON is kept as text."""
    source = text.strip()
    return read_fenced(_laid_out(source) if _is_minified(source) else source, "json")


def read_json_lines(text: str) -> Part:
    """One value a line; long ones are laid out, with a blank line between two."""
    rows = [row.strip() for row in text.split("\n") if row.strip()]
    if any(map(_is_minified, rows)):
        return read_fenced("\n\n".join(_laid_out(row) for row in rows), "json")
    return read_fenced("\n".join(rows), "json")


def read_xml(text: str) -> Part:
    """XML, one element a line if it is minified."""
    source = text.strip()
    return read_fenced(re.sub(r">\s*<", ">\n<", source) if _is_minified(source) else source, "xml")


def read_fenced(text: str, language: str) -> Part:
    """Text in its own notation, between fences."""
    source = text.strip("\n")
    return Part(fenced(source, language) if source.strip() else "")


def _is_minified(source: str) -> bool:
    return len(source) > _LONG_LINE * (1 + source.count("\n"))


def _laid_out(source: str) -> str:
    try:
        json.loads(source)
    except (ValueError, RecursionError):
        return source
    return "".join(_tokens(source))


def _tokens(source: str) -> Iterator[str]:
    """The tokens of a JSON text exactly as they are written, with line ends and indentation between them."""
    depth = 0
    for token in _TOKEN.finditer(source):
        mark = token[0]
        match mark:
            case "{" | "[":
                depth += 1
                yield mark + _new_line(depth)
            case "}" | "]":
                depth -= 1
                yield _new_line(depth) + mark
            case ",":
                yield mark + _new_line(depth)
            case ":":
                yield ": "
            case _:
                yield mark


def _new_line(depth: int) -> str:
    return "\n" + "  " * min(depth, _DEEPEST_INDENT)
