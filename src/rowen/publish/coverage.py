"""Which fields of the items are filled, source by source."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rowen.publish.row import ExportRow

__all__ = ["FIELDS", "Coverage"]

FIELDS = ("description", "licence", "publisher", "tags", "resources", "spatial", "temporal", "modified")


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
        """The counts, and their shares of all items."""
        have = {
            name: {"items": self.have[name], "share": round(self.have[name] / self.items, 4) if self.items else None}
            for name in FIELDS
        }
        return {"items": self.items, "copies": self.copies, "have": have}
