"""How many records a listing may have before it is taken for one without end.

A portal that is broken, or means harm, invents records and tokens for ever. What it declares may be invented as well:
the bound is the least of several. An option raises it for the few catalogs that are really larger.
"""

from rowen.connectors.catalog.options import DocumentOptions
from rowen.errors import SourceError

__all__ = ["Bounds", "EndlessError"]

MOST_RECORDS = 10_000_000
"""A judgement, not a measurement: 30 GB at 3 kB a record. Aggregators may list more, and need the option."""

MOST_UNDECLARED = 1_000_000
"""Without a declared count. A judgement as well: 3 GB at 3 kB a record, 10,000 pages of a hundred."""

LEAST_GROWN = 100_000
"""So much a catalog may always have, also beyond twice what it declares: counts are wrong, catalogs are merged."""

MOST_GROWTH = 10
"""So many times what the last whole walk found: room for a merger or a large import, chosen and not measured."""


class EndlessError(SourceError):
    """A listing that brings more than can be believed."""


class Bounds:
    """The bound of one run. `before` is how many items the last whole walk left, None if there was none."""

    def __init__(self, options: DocumentOptions, before: int | None) -> None:
        self._told = options.max_records
        self._before = before

    def most(self, declared: int | None) -> int:
        """The most records that are believed."""
        if self._told is not None:
            return self._told
        grown = MOST_RECORDS if self._before is None else max(LEAST_GROWN, MOST_GROWTH * self._before)
        told = MOST_UNDECLARED if declared is None else 2 * max(declared, 0) + LEAST_GROWN
        return min(MOST_RECORDS, told, grown)

    def exceeded(self, received: int, declared: int | None) -> str | None:
        """Why a listing that has brought so many records is left; None as long as it is not."""
        most = self.most(declared)
        if received <= most:
            return None
        told = "" if declared is None else f", {declared:,} are declared"
        return (
            f"The listing does not end: {received:,} records came{told}, and {most:,} are the most that are believed. "
            "What was read is kept. "
            f"If the catalog is really that large, set the option max_records to more than {most:,}."
        )
