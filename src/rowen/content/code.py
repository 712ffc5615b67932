"""Where source code may be cut: before its definitions, outermost first.

Indentation, blank lines and closing brackets are enough to see them in nearly every language. Python's own parser
is left out on purpose: it would make cuts depend on the version of Python that reads the file.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["CodeLine", "fenced", "lines", "units"]

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
    """The lines of `text[start:end]`; inside a Python string of many lines all are as deep as can be."""
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
    """The quotes that are open at the end of a line that begins inside of `quote`, or outside of all."""
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
