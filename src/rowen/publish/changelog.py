"""What changed since an earlier moment: a line for each item, for programs, and a page for people."""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from rowen.errors import ExportError
from rowen.model.wording import address, inline
from rowen.publish.report import cell
from rowen.publish.row import Identity

__all__ = ["CHANGED", "CHANGELOG", "CHANGES", "Change", "ChangeFiles", "compare"]

CHANGES = "changes.jsonl"
CHANGELOG = "changelog.md"
Change: TypeAlias = Literal["created", "updated", "amended", "deleted"]
CHANGED: tuple[Change, ...] = ("created", "updated", "amended", "deleted")
_HEADINGS: dict[Change, str] = {
    "created": "Created",
    "updated": "Updated: title, text or tags",
    "amended": "Amended: anything else",
    "deleted": "Deleted",
}
# So many of each sort in each source are named; all of them stand in changes.jsonl.
_NAMED = 50


@dataclass(slots=True)
class _OfSource:
    counts: Counter[str] = field(default_factory=Counter)
    named: dict[Change, list[Identity]] = field(default_factory=dict)


class ChangeFiles:
    """Both files, written while changes are found."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._out = (folder / CHANGES).open("w", encoding="utf-8", errors="surrogatepass")
        self._sources: dict[str, _OfSource] = {}

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """Return how many changes of each sort there are in each source."""
        return {name: one.counts for name, one in self._sources.items()}

    def write(self, changes: Iterable[tuple[Change, Identity]]) -> None:
        """Write some changes."""
        for change, one in changes:
            source = self._sources.setdefault(one.source, _OfSource())
            source.counts[change] += 1
            named = source.named.setdefault(change, [])
            if len(named) < _NAMED:
                named.append(one)
            self._out.write(json.dumps({"change": change, **one._asdict()}, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Finish the lines; what was found so far stays."""
        self._out.close()

    def write_page(self, span: str) -> None:
        """Write the page for people; `span` says from when to when."""
        text = "\n".join(self._page(span)) + "\n"
        (self._folder / CHANGELOG).write_text(text, "utf-8", "replace")

    def _page(self, span: str) -> Iterator[str]:
        yield from ("# What changed", "", span)
        if not self._sources:
            yield from ("", "Nothing changed.")
            return
        yield from ("", f"| source | {' | '.join(CHANGED)} |", f"|---|{'--:|' * len(CHANGED)}")
        for name, one in sorted(self._sources.items()):
            yield f"| {cell(name)} | {' | '.join(f'{one.counts[change]:,}' for change in CHANGED)} |"
        for name, one in sorted(self._sources.items()):
            yield from ("", f"## {inline(name)}")
            for change in CHANGED:
                yield from _named(change, one)


def _named(change: Change, source: _OfSource) -> Iterator[str]:
    if not (items := source.named.get(change)):
        return
    yield from ("", f"### {_HEADINGS[change]}", "")
    yield from (f"- {_link(item)}" for item in items)
    if more := source.counts[change] - len(items):
        yield f"- and {more:,} more, in `{CHANGES}`"


def _link(one: Identity) -> str:
    title = inline(one.title) or "(no title)"
    is_page = one.url.startswith(("http://", "https://"))
    return f"[{title}](<{address(one.url)}>)" if is_page else f"{title}: {inline(one.url)}"


def compare(before: Path, after: Path, *, sources: frozenset[str]) -> Iterator[tuple[Change, Identity]]:
    """What differs between two identity files, in their order; items of other sources are not looked at."""
    return _changes(_read(before, sources), _read(after, sources))


def _changes(before: Iterator[Identity], after: Iterator[Identity]) -> Iterator[tuple[Change, Identity]]:
    old, new = next(before, None), next(after, None)
    while old is not None or new is not None:
        if new is None or (old is not None and _place(old) < _place(new)):
            assert old is not None  # noqa: S101 (one of the two is left)
            yield "deleted", old
            old = next(before, None)
        elif old is None or _place(new) < _place(old):
            yield "created", new
            new = next(after, None)
        else:
            if old.content_hash != new.content_hash:
                yield "updated", new
            elif old.record_hash != new.record_hash:
                yield "amended", new
            old, new = next(before, None), next(after, None)


def _place(one: Identity) -> tuple[str, str]:
    return one.source, one.key


def _read(path: Path, sources: frozenset[str]) -> Iterator[Identity]:
    last = ("", "")
    for line in _lines(path):
        if _place(line) < last:
            raise ExportError(f"{path} is not in order: {line.url} comes too late.")
        last = _place(line)
        if line.source in sources:
            yield line


def _lines(path: Path) -> Iterator[Identity]:
    match path.suffix:
        case ".parquet":
            from rowen.publish.parquet import identities

            yield from identities(path)
        case ".csv":
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield from (Identity(**row) for row in csv.DictReader(file))
        case _:
            with path.open(encoding="utf-8") as file:
                yield from (Identity(**json.loads(line)) for line in file)
