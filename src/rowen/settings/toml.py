"""Read TOML that anybody may have written, in linear time."""

import re
from typing import Any

__all__ = ["read_toml"]

# Our own keys have three parts at most. The parser's time and memory grow with the square of the parts of a key: a key
# of 40 kB took 16 s, one of 400 kB took 17 GB. At 16 parts, no text costs more than twice what plain keys cost.
_MOST_KEY_PARTS = 16
_TOKEN = re.compile(
    r'"""(?:\\.|(?!""")[^\\])*+(?:"""|\\?\Z)'
    r"|'''(?:(?!''').)*+(?:'''|\Z)"
    r'|"(?:\\.|[^"\\\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+"
    r"|[.\n=,\[\]{}]",
    re.DOTALL,
)
"""A string, a comment, a dot, or what ends a key. Strings that are never closed are errors of the parser."""


def read_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raise `ValueError` for what is none, is nested too deeply, or has keys of too many parts."""
    if not text:
        return {}
    _check_keys(text)
    # Most commands read no file, and the parser takes 5 ms to import.
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _check_keys(text: str) -> None:
    dots = 0
    for token in _TOKEN.finditer(text):
        if token[0] == ".":
            dots += 1
            if dots >= _MOST_KEY_PARTS:
                line = text.count("\n", 0, token.start()) + 1
                raise ValueError(f"a key has more than {_MOST_KEY_PARTS} parts (at line {line})")
        elif token[0] in _ENDS:
            dots = 0


_ENDS = frozenset("\n=,[]{}")
