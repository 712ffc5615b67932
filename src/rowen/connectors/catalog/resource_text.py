"""The resources of a dataset in words: one short passage, however many there are.

All of them stand in the record. What is read, searched and embedded is the description; of two hundred files that are
named alike it is enough to know one.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rowen.connectors.catalog.columns import Column

__all__ = ["Resource", "resource_text"]

MOST_CHARS = 1_200
"""A passage has up to 1,500 characters, and no cut leaves less than 200 of them before it: what is no longer than this
stays in one passage, behind a short description as well."""

_LONGEST_LINE = 240  # five lines of it fill the passage: what a file holds is told in its first sentence
_MOST_FORMATS = 6  # a portal's own list of formats has three or four; more are spellings of the same
_HEAD = "## Resources\n\n"
_NUMBER = re.compile(r"\d+")


class Resource(NamedTuple):
    """One file or service of a dataset; `columns` are told where it is a table whose portal says what is in it."""

    url: str
    name: str = ""
    description: str = ""
    format: str = ""
    media_type: str = ""
    size_bytes: int | None = None
    columns: tuple[Column, ...] = ()

    def written(self) -> dict[str, Any]:
        """The resource as it is stored; one without columns says nothing of them."""
        facts = self._asdict()
        columns = facts.pop("columns")
        return {**facts, "columns": [one.written() for one in columns]} if columns else facts


def resource_text(resources: Sequence[Resource]) -> str:
    """The resources that have names, one a line; where that is too long, one of those whose names differ by numbers."""
    told = [one for one in resources if one.name or one.description]
    if not told:
        return ""
    if sum(len(one.description) for one in told) > MOST_CHARS:
        return _compact(told)
    whole = _HEAD + "\n".join(map(_line, told))
    return whole if len(whole) <= MOST_CHARS else _compact(told)


def _compact(told: Sequence[Resource]) -> str:
    patterns = [*map(_pattern, told)]
    counts = Counter(patterns)
    firsts = dict(zip(reversed(patterns), reversed(told), strict=True))
    text = f"{_HEAD}{len(told):,} in all{_formats(told)}.\n"
    for pattern in dict.fromkeys(patterns):
        line = "\n" + _alike(firsts[pattern], counts[pattern])
        if len(text) + len(line) > MOST_CHARS:
            break
        text += line
    return text


def _pattern(one: Resource) -> str:
    return _NUMBER.sub("0", one.name or one.description).casefold()


def _alike(one: Resource, count: int) -> str:
    more = f" (and {count - 1:,} more like it)" if count > 1 else ""
    line = _line(one)
    most = _LONGEST_LINE - len(more)
    return (line if len(line) <= most else line[: most - 1].rstrip() + "…") + more


def _formats(told: Sequence[Resource]) -> str:
    """How many there are of each format, the most frequent first."""
    counts = Counter(one.format for one in told if 0 < len(one.format) <= _LONGEST_LINE // _MOST_FORMATS)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_FORMATS]
    return f": {', '.join(_counted(ranked))}" if ranked else ""


def _counted(ranked: Sequence[tuple[str, int]]) -> Iterator[str]:
    return (f"{count:,} {' '.join(name.split())}" for name, count in ranked)


def _line(resource: Resource) -> str:
    form = f" ({resource.format})" if resource.format else ""
    words = f": {resource.description}" if resource.description else ""
    return f"- {resource.name or resource.url}{form}{words}".replace("\n", " ")
