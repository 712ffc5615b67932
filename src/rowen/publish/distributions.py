"""How the items of a snapshot spread over formats, licences, languages and kinds."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rowen.publish.row import ExportRow

__all__ = ["DISTRIBUTIONS", "OTHERS", "Distributions", "kind_of"]

DISTRIBUTIONS = ("kind", "format", "licence", "language")
"""What is counted: items by kind, licence and language, files by format."""

OTHERS = "(others)"
"""What is counted together, since there are too many different ones."""

UNKNOWN = "(not given)"

# Portals name some hundred licences and formats. A portal that writes a text of its own for each dataset must not fill
# memory: of ten thousand values of this length the counts take a few MB.
_MOST_VALUES = 10_000
_LONGEST_VALUE = 120


def kind_of(row: ExportRow) -> str:
    """What sort of thing an item is: as its record says, else the kind of its source."""
    return row["record_kind"] or row["kind"]


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
        """The counts of one distribution, the greatest first."""
        return sorted(self._counts[name].items(), key=lambda pair: (-pair[1], pair[0]))

    def to_json(self) -> dict[str, Any]:
        """All counts."""
        return {name: dict(self.by(name)) for name in DISTRIBUTIONS}

    def _count(self, counts: Counter[str], value: str) -> None:
        known = value in counts or len(counts) < _MOST_VALUES
        counts[value if known else OTHERS] += 1


def _values(row: ExportRow) -> Iterator[tuple[str, str]]:
    yield "kind", kind_of(row)
    yield "licence", row["licence"] or ""
    for language in row["languages"] or [row["language"] or ""]:
        yield "language", language
    for resource in row["resources"]:
        yield "format", resource.format or resource.media_type
