"""The report of a snapshot: a Markdown page with its sources, distributions, and the share of items with each field."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rowen.model.wording import count, inline, moment, percent
from rowen.publish.row import ExportRow

REPORT = "report.md"
# The number of rows on a screen; coverage.json has all of them.
_SHOWN = 25
_HEADINGS = {
    "kind": ("By kind", "kind", "items"),
    "format": ("By format", "format", "files"),
    "licence": ("By licence", "licence", "items"),
    "language": ("By language", "language", "items"),
}
FIELDS = ("description", "licence", "publisher", "tags", "resources", "spatial", "temporal", "modified")
OTHERS = "(others)"
"""The name under which rare values are counted together."""
UNKNOWN = "(not given)"
# Portals use some hundred licences and formats. A portal with a different text in each dataset must not fill the
# memory: counts of ten thousand values of this length take a few MB.
_MOST_VALUES = 10_000
_LONGEST_VALUE = 120


@dataclass(frozen=True, slots=True)
class ReportedSource:
    """One source in the report."""

    name: str
    kind: str
    items: int
    last_complete_at: datetime | None
    complete: bool


class Coverage:
    """Counts, for each field, the items that have a value."""

    def __init__(self) -> None:
        self.items = 0
        self.copies = 0
        self.have: Counter[str] = Counter()

    def add(self, rows: Sequence[ExportRow]) -> None:
        """Count the fields of some rows."""
        for row in rows:
            # The text of a dataset without a description begins with the list of its resources.
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
        """Return the counts and their shares of all items."""
        have = {
            name: {"items": self.have[name], "share": round(self.have[name] / self.items, 4) if self.items else None}
            for name in FIELDS
        }
        return {"items": self.items, "copies": self.copies, "have": have}


class Distributions:
    """Counts of items by kind, licence and language, and of files by format."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in _HEADINGS}

    def add(self, rows: Sequence[ExportRow]) -> None:
        """Count the values of some rows."""
        for row in rows:
            self._count("kind", row["record_kind"] or row["kind"])
            self._count("licence", row["licence"] or "")
            for language in row["languages"] or [row["language"] or ""]:
                self._count("language", language)
            for resource in row["resources"]:
                self._count("format", resource.format or resource.media_type)

    def _count(self, name: str, value: str) -> None:
        counts = self._counts[name]
        value = " ".join(value.split())[:_LONGEST_VALUE] or UNKNOWN
        counts[value if value in counts or len(counts) < _MOST_VALUES else OTHERS] += 1

    def by(self, name: str) -> list[tuple[str, int]]:
        """Return the counts of one distribution in descending order."""
        return sorted(self._counts[name].items(), key=lambda pair: (-pair[1], pair[0]))

    def to_json(self) -> dict[str, Any]:
        """Return all counts."""
        return {name: dict(self.by(name)) for name in _HEADINGS}


def report(
    sources: Sequence[ReportedSource], whole: Coverage, spread: Distributions, *, now: datetime, last_change: int
) -> str:
    """Return the report as Markdown."""
    copies = f" Copies of others among them: {whole.copies:,}." if whole.copies else ""
    content = f"{count(whole.items, 'item')} of {count(len(sources), 'source')}"
    lines = ["# Report", "", f"{content}, {moment(now)}, up to change {last_change:,}.{copies}"]
    lines += ["", "## By source", "", "| source | kind | items | last seen whole | complete |", "|---|---|--:|---|---|"]
    for source in sources:
        seen, complete = moment(source.last_complete_at), "yes" if source.complete else "no"
        lines.append(f"| {cell(source.name)} | {source.kind} | {source.items:,} | {seen} | {complete} |")
    for name, (heading, noun, unit) in _HEADINGS.items():
        if not (counts := spread.by(name)):
            continue
        total, rest = sum(number for _, number in counts), sum(number for _, number in counts[_SHOWN:])
        lines += ["", f"## {heading}", "", f"| {noun} | {unit} | share |", "|---|--:|--:|"]
        for value, number in [*counts[:_SHOWN], *([(OTHERS, rest)] if rest else [])]:
            lines.append(f"| {cell(value)} | {number:,} | {percent(number / total)} |")
    if whole.items:
        lines += ["", "## Filled in", "", "| field | items | share |", "|---|--:|--:|"]
        lines += [f"| {name} | {whole.have[name]:,} | {percent(whole.have[name] / whole.items)} |" for name in FIELDS]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Escape foreign text for a cell of a table."""
    return inline(text).replace("|", "\\|")
