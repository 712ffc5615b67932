"""Text for readers: numbers, sizes and times; names that users choose; quotations of foreign text.

Foreign text may imitate another search result, or give instructions to a model. A passage is put between two lines
that it cannot contain. Any other text, such as a title, is put on one line, with Markdown characters escaped.
"""

import os
import re
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import quote

from rowen.errors import UsageError
from rowen.model.url import runs_script

_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


# A line of a notebook has room for two.
_LONGEST_BRIEF = 60


def brief(what: object, *parts: str) -> str:
    """Return a short representation for notebooks: the type and the identifying values."""
    cut = (part if len(part) <= _LONGEST_BRIEF else f"{part[: _LONGEST_BRIEF - 1]}…" for part in parts if part)
    return f"<{type(what).__name__} {' · '.join(cut)}>"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: 1 file, 1,200 files."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(share: float) -> str:
    """Return a share as a percentage, rounded down: 99.9 % is 99 %."""
    return "under 1 %" if 0 < share < 0.01 else f"{int(share * 100 + 1e-9)} %"


def size(size_bytes: float) -> str:
    """Return a number of bytes in a suitable unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 999.5:
            return f"{size_bytes:.0f} {unit}" if size_bytes >= 9.95 or unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:,.1f} TB"


def seconds(time_s: float) -> str:
    """Return a duration in seconds or a larger unit."""
    if time_s < 60:
        return f"{time_s:.2f} s" if time_s < 0.095 else f"{time_s:.1f} s"
    minutes, rest = divmod(round(time_s), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(at: datetime | None) -> str:
    """Return a point in time, to the second, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z" if at else "never"


def age(at: datetime | None, now: datetime) -> str:
    """Return the time since a moment: `2 h ago`."""
    if at is None:
        return "never"
    passed_s = (now - at).total_seconds()
    for unit_s, unit in _AGES:
        if passed_s >= unit_s:
            return f"{passed_s // unit_s:.0f} {unit} ago"
    return "just now"


LONGEST_NAME = 100
"""In characters: a name fits into a line of a terminal together with other columns."""


def trouble_with_name(name: str) -> str | None:
    """Return the reason why a name is invalid; None if it is valid."""
    if not name or len(name) > LONGEST_NAME:
        return f"a name has 1 to {LONGEST_NAME} letters"
    if "/" in name or "\\" in name:
        return "it has a slash, which no address of it could hold"
    if not name.isprintable():
        return "it has a line break, a control or another letter that is not shown"
    if name in (".", "..") or name[0] in " :~" or name[-1] == " ":
        return "it begins with a space, a colon or a tilde, ends with a space, or is a dot"
    return None


def check_name(name: str, of: str) -> None:
    """Raise `UsageError` for an invalid name; `of` describes what it names, such as `a source`."""
    if trouble := trouble_with_name(name):
        raise UsageError(f"{name[: 2 * LONGEST_NAME]!r} cannot be the name of {of}: {trouble}. Nothing was changed.")


_BACKTICKS = re.compile(r"`+")
_SIGNS = re.compile(r"[\\`\[\]<>#]")
_NOT_IN_ADDRESS = re.compile(r"[\s<>`\\\x00-\x1f\x7f]")
# Random for each answer, and generated again if a text contains it, so that no text can guess or repeat it.
_BOUNDARY_BYTES = 4


def inline(text: str) -> str:
    """Escape a title or a name, and put it on one line."""
    return _SIGNS.sub(r"\\\g<0>", " ".join(text.split()))


def address(url: str) -> str:
    """Return a URL that cannot end early in Markdown; a URL that would run a script is made invalid."""
    if runs_script(url):
        url = url.replace(":", "%3A", 1)
    return _NOT_IN_ADDRESS.sub(lambda match: quote(match[0], errors="replace"), url)


def fence(texts: Iterable[str]) -> str:
    """Return a run of backticks that is longer than all runs in the texts."""
    longest = max((len(run) for text in texts for run in _BACKTICKS.findall(text)), default=0)
    return "`" * max(3, longest + 1)


def fenced(text: str, mark: str) -> str:
    """Return a text in a Markdown fence made of `mark`."""
    return f"{mark}text\n{text}\n{mark}"


def boundary(texts: Iterable[str]) -> str:
    """Return a random word that none of the texts contains."""
    whole = "\n".join(texts)
    while (word := f"quote-{os.urandom(_BOUNDARY_BYTES).hex()}") in whole:
        continue
    return word


def marked(text: str, word: str) -> str:
    """Return a text between an opening and a closing tag named `word`."""
    return f"<{word}>\n{text}\n</{word}>"
