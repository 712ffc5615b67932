"""Lines that were written without Markdown in mind."""

import re

__all__ = ["escaped"]

_MARK = re.compile(
    r"^[ \t]*(?=#{1,6}(?:\s|$)|[>|<]|`{3}|~{3}|(?:=+|-+|_+|\*+)[ \t]*$|[-+*]\s|\d{1,9}[.)]\s)", re.MULTILINE
)
_NUMBER = re.compile(r"\\(\d+)(?=[.)])")


def escaped(text: str) -> str:
    """The same words, none of which makes a heading, list, table, quote or rule of its line."""
    return _NUMBER.sub(r"\1\\", _MARK.sub(r"\\", text))
