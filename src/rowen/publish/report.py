"""What a snapshot holds, as a page for people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rowen.model.wording import count, inline, moment, percent
from rowen.publish.row import ExportRow

__all__ = ["FIELDS", "OTHERS", "REPORT", "Coverage", "Distributions", "ReportedSource", "cell", "kind_of", "report"]

REPORT = "report.md"
# What fits a screen; coverage.json has all of them.
_SHOWN = 25
_HEADINGS = {
    "kind": ("By kind", "kind", "items"),
    "format": ("By format", "format", "files"),
    "licence": ("By licence", "licence", "items"),
    "language": ("By language", "language", "items"),
}
FIELDS = ("description", "licence", "publisher", "tags", "resources", "spatial", "temporal", "modified")
DISTRIBUTIONS = ("kind", "format", "licence", "language")
"""What is counted: items by kind, licence and language, files by format."""
OTHERS = "(others)"
"""What is counted together, since there are too many different ones."""
UNKNOWN = "(not given)"
# Portals name some hundred licences and formats. A portal that writes a text of its own for each dataset must not fill
# memory: of ten thousand values of this length the counts take a few MB.
_MOST_VALUES = 10_000
_LONGEST_VALUE = 120


@dataclass(frozen=True, slots=True)
class ReportedSource:
    """One source, as the report lists it."""

    name: str
    kind: str
    items: int
    last_complete_at: datetime | None
    complete: bool


class Coverage:
    """Counts the items of one source that have something to say under each heading."""

    def __init__(self) -> None:
        self.items = 0
        self.copies = 0
        self.have: Counter[str] = Counter()

    def add(self, rows: Sequence[ExportRow]) -> None:
        """Count some rows."""
        for row in rows:
            # Of a dataset without a description the text begins with the list of its resources.
            self.have["description"] += bool(row["text"]) and not row["text"].startswith("## ")
            self.have.update(name for name in FIELDS[1:] if row[name])  # type: ignore[literal-required]
            self.copies += row["duplicate_of"] is not None
        self.items += len(rows)

    def merge(self, other: "Coverage") -> None:
        """Add the counts of another source."""
        self.items += other.items
        self.copies += other.copies
        self.have.update(other.have)

    def to_json(self) -> dict[str, Any]:
        """Return the counts, and their shares of all items."""
        have = {
            name: {"items": self.have[name], "share": round(self.have[name] / self.items, 4) if self.items else None}
            for name in FIELDS
        }
        return {"items": self.items, "copies": self.copies, "have": have}


class Distributions:
    """Counts of all items, by what they say of themselves."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in DISTRIBUTIONS}

    def add(self, rows: Sequence[ExportRow]) -> None:
        """Count some rows."""
        for row in rows:
            for name, value in _values(row):
                self._count(self._counts[name], " ".join(value.split())[:_LONGEST_VALUE] or UNKNOWN)

    def by(self, name: str) -> list[tuple[str, int]]:
        """Return the counts of one distribution, the greatest first."""
        return sorted(self._counts[name].items(), key=lambda pair: (-pair[1], pair[0]))

    def to_json(self) -> dict[str, Any]:
        """Return all counts."""
        return {name: dict(self.by(name)) for name in DISTRIBUTIONS}

    def _count(self, counts: Counter[str], value: str) -> None:
        known = value in counts or len(counts) < _MOST_VALUES
        counts[value if known else OTHERS] += 1


def report(
    sources: Sequence[ReportedSource], whole: Coverage, spread: Distributions, *, now: datetime, last_change: int
) -> str:
    """Return the page, as Markdown."""
    copies = f" Copies of others among them: {whole.copies:,}." if whole.copies else ""
    held = f"{count(whole.items, 'item')} of {count(len(sources), 'source')}"
    lines = [
        "# Report",
        "",
        f"{held}, {moment(now)}, up to change {last_change:,}.{copies}",
        *_sources(sources),
        *(line for name in DISTRIBUTIONS for line in _distribution(name, spread)),
        *_filled(whole),
    ]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Others' words within a table."""
    return inline(text).replace("|", "\\|")


def _sources(sources: Sequence[ReportedSource]) -> Iterator[str]:
    yield from (
        "",
        "## By source",
        "",
        "| source | kind | items | last seen whole | complete |",
        "|---|---|--:|---|---|",
    )
    for source in sources:
        seen = moment(source.last_complete_at)
        complete = "yes" if source.complete else "no"
        yield f"| {cell(source.name)} | {source.kind} | {source.items:,} | {seen} | {complete} |"


def _distribution(name: str, spread: Distributions) -> Iterator[str]:
    heading, noun, counted = _HEADINGS[name]
    counts = spread.by(name)
    if not counts:
        return
    total = sum(number for _, number in counts)
    yield from ("", f"## {heading}", "", f"| {noun} | {counted} | share |", "|---|--:|--:|")
    shown, rest = counts[:_SHOWN], sum(number for _, number in counts[_SHOWN:])
    for value, number in [*shown, *([(OTHERS, rest)] if rest else [])]:
        yield f"| {cell(value)} | {number:,} | {percent(number / total)} |"


def _filled(whole: Coverage) -> Iterator[str]:
    if not whole.items:
        return
    yield from ("", "## Filled in", "", "| field | items | share |", "|---|--:|--:|")
    for name in FIELDS:
        yield f"| {name} | {whole.have[name]:,} | {percent(whole.have[name] / whole.items)} |"


def kind_of(row: ExportRow) -> str:
    """What sort of thing an item is: as its record says, else the kind of its source."""
    return row["record_kind"] or row["kind"]


def _values(row: ExportRow) -> Iterator[tuple[str, str]]:
    yield "kind", kind_of(row)
    yield "licence", row["licence"] or ""
    for language in row["languages"] or [row["language"] or ""]:
        yield "language", language
    for resource in row["resources"]:
        yield "format", resource.format or resource.media_type
