"""The changes since an earlier snapshot: one line for each item, for programs, and a page for people."""

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
# The maximum number of changes that are listed for each kind and source; changes.jsonl has all of them.
_NAMED = 50


@dataclass(slots=True)
class _OfSource:
    counts: Counter[str] = field(default_factory=Counter)
    named: dict[Change, list[Identity]] = field(default_factory=dict)


class ChangeFiles:
    """Writes both files while changes are being found."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._out = (folder / CHANGES).open("w", encoding="utf-8", errors="surrogatepass")
        self._sources: dict[str, _OfSource] = {}

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """Return the number of changes of each kind in each source."""
        return {name: source.counts for name, source in self._sources.items()}

    def write(self, changes: Iterable[tuple[Change, Identity]]) -> None:
        """Write some changes."""
        for change, item in changes:
            source = self._sources.setdefault(item.source, _OfSource())
            source.counts[change] += 1
            named = source.named.setdefault(change, [])
            if len(named) < _NAMED:
                named.append(item)
            self._out.write(json.dumps({"change": change, **item._asdict()}, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close the file of lines."""
        self._out.close()

    def write_page(self, span: str) -> None:
        """Write the page for people; `span` describes the two ends of the period."""
        lines = ["# What changed", "", span]
        if not self._sources:
            lines += ["", "Nothing changed."]
        else:
            lines += ["", f"| source | {' | '.join(CHANGED)} |", f"|---|{'--:|' * len(CHANGED)}"]
        sources = sorted(self._sources.items())
        for name, source in sources:
            lines.append(f"| {cell(name)} | {' | '.join(f'{source.counts[change]:,}' for change in CHANGED)} |")
        for name, source in sources:
            lines += ["", f"## {inline(name)}"]
            for change, items in sorted(source.named.items(), key=lambda pair: CHANGED.index(pair[0])):
                lines += ["", f"### {_HEADINGS[change]}", "", *(f"- {_link(item)}" for item in items)]
                if more := source.counts[change] - len(items):
                    lines.append(f"- and {more:,} more, in `{CHANGES}`")
        (self._folder / CHANGELOG).write_text("\n".join(lines) + "\n", "utf-8", "replace")


def _link(item: Identity) -> str:
    title = inline(item.title) or "(no title)"
    is_page = item.url.startswith(("http://", "https://"))
    return f"[{title}](<{address(item.url)}>)" if is_page else f"{title}: {inline(item.url)}"


def compare(before: Path, after: Path, *, sources: frozenset[str]) -> Iterator[tuple[Change, Identity]]:
    """Yield the differences between two identity files, in their order; only items of `sources` are compared."""
    old_items, new_items = _read(before, sources), _read(after, sources)
    old, new = next(old_items, None), next(new_items, None)
    while old is not None or new is not None:
        if old is not None and (new is None or old[:2] < new[:2]):
            yield "deleted", old
            old = next(old_items, None)
        elif new is not None and (old is None or new[:2] < old[:2]):
            yield "created", new
            new = next(new_items, None)
        elif old is not None and new is not None:
            if old.content_hash != new.content_hash:
                yield "updated", new
            elif old.record_hash != new.record_hash:
                yield "amended", new
            old, new = next(old_items, None), next(new_items, None)


def _read(path: Path, sources: frozenset[str]) -> Iterator[Identity]:
    """Yield the identities of some sources from a file that is sorted by source and key."""
    last = ("", "")
    for item in _lines(path):
        if item[:2] < last:
            raise ExportError(f"{path} is not in order: {item.url} comes too late.")
        last = item[:2]
        if item.source in sources:
            yield item


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
