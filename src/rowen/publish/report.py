"""What a snapshot holds, as a page for people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rowen.model.wording import count, inline, moment, percent
from rowen.publish.coverage import FIELDS, Coverage
from rowen.publish.distributions import DISTRIBUTIONS, OTHERS, Distributions

__all__ = ["REPORT", "ReportedSource", "cell", "report"]

REPORT = "report.md"

# What fits a screen; coverage.json has all of them.
_SHOWN = 25
_HEADINGS = {
    "kind": ("By kind", "kind", "items"),
    "format": ("By format", "format", "files"),
    "licence": ("By licence", "licence", "items"),
    "language": ("By language", "language", "items"),
}


@dataclass(frozen=True, slots=True)
class ReportedSource:
    """One source, as the report lists it."""

    name: str
    kind: str
    items: int
    last_complete_at: datetime | None
    complete: bool


def report(
    sources: Sequence[ReportedSource], whole: Coverage, spread: Distributions, *, now: datetime, last_change: int
) -> str:
    """The page, as Markdown."""
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
    for one in sources:
        seen = moment(one.last_complete_at)
        yield f"| {cell(one.name)} | {one.kind} | {one.items:,} | {seen} | {'yes' if one.complete else 'no'} |"


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
