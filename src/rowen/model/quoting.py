"""Somebody else's text inside an answer of ours: quoted so that it can pass for nothing else.

What was harvested may be written to look like another result, or like orders. A passage stands between two lines that
it cannot contain; all else, such as a title, is one line with the signs of Markdown escaped.
"""

import re
import secrets
from collections.abc import Iterable
from urllib.parse import quote

from rowen.model.url import runs_script

__all__ = ["address", "boundary", "fence", "fenced", "inline", "marked"]

_BACKTICKS = re.compile(r"`+")
_SIGNS = re.compile(r"[\\`\[\]<>#]")
_NOT_IN_ADDRESS = re.compile(r"[\s<>`\\\x00-\x1f\x7f]")
# Drawn anew for each answer, and again if a text contains it: it can be neither searched for nor hit by chance.
_BOUNDARY_BYTES = 4


def inline(text: str) -> str:
    """A title or a name as part of a line."""
    return _SIGNS.sub(r"\\\g<0>", " ".join(text.split()))


def address(url: str) -> str:
    """A URL that ends where it should; one that would run where it is followed is no link."""
    if runs_script(url):
        url = url.replace(":", "%3A", 1)
    return _NOT_IN_ADDRESS.sub(lambda found: quote(found[0], errors="replace"), url)


def fence(texts: Iterable[str]) -> str:
    """A run of backticks that is longer than any in the texts."""
    longest = max((len(run) for text in texts for run in _BACKTICKS.findall(text)), default=0)
    return "`" * max(3, longest + 1)


def fenced(text: str, mark: str) -> str:
    """A text in a fence."""
    return f"{mark}text\n{text}\n{mark}"


def boundary(texts: Iterable[str]) -> str:
    """A word that nobody could know before, and that stands in none of the texts."""
    whole = "\n".join(texts)
    while (word := f"quote-{secrets.token_hex(_BOUNDARY_BYTES)}") in whole:
        continue
    return word


def marked(text: str, word: str) -> str:
    """A text between two tags that are called by such a word."""
    return f"<{word}>\n{text}\n</{word}>"
