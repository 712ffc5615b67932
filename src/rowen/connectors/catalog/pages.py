"""How much to ask for at once: less of a portal that is too slow for it, more again when it recovers."""

from dataclasses import dataclass

__all__ = ["FIRST_LIMIT_S", "LEAST_ROWS", "PageSize"]

LEAST_ROWS = 10
"""A portal that fails over so few fails over one of them, or over everything: then a cheap question decides."""

FIRST_LIMIT_S = 60.0
"""For a page: many proxies in front of portals give up after 60 s (nginx does), and waiting longer is in vain there."""

LONGEST_LIMIT_S = 300.0
"""A choice: three doublings of the first limit. What takes longer is asked for in smaller pages."""

_FIRST_PATIENCE = 4  # good pages before what failed is tried again: at 2, a failure would cost every third page
_MOST_PATIENCE = 256  # a portal that recovers is noticed within so many pages
_QUICK_SHARE = 0.25  # of the limit: an answer that took so little would do with half of the limit, twice over


@dataclass(slots=True)
class PageSize:
    """Rows for the next page and the time it may take.

    What `failed` is left alone for some good pages, `patience` of them, and for twice as many when it fails again: a
    portal that never gives more than some rows would otherwise fail over every other page. `fine` is a size that was
    answered since.
    """

    wanted: int
    rows: int = 0
    limit_s: float = 0.0
    failed: int | None = None
    fine: int = 0
    good: int = 0
    patience: int = _FIRST_PATIENCE // 2

    def __post_init__(self) -> None:
        self.rows = self.rows or self.wanted
        self.limit_s = self.limit_s or FIRST_LIMIT_S

    def shrink(self, *, least: int = LEAST_ROWS) -> bool:
        """Ask for a quarter, or for what was fine before; tells whether there is anything less to ask for."""
        if self.rows <= least:
            return False
        if self.good or self.failed is None:
            self.patience = min(self.patience * 2, _MOST_PATIENCE)
        self.failed, self.good = self.rows, 0
        quarter = max(least, self.rows // 4)
        self.rows, self.fine = self.fine if quarter < self.fine < self.rows else quarter, 0
        self.wait_longer()
        return True

    def wait_longer(self) -> None:
        """Give the next answer twice the time."""
        self.limit_s = min(self.limit_s * 2, max(LONGEST_LIMIT_S, self.limit_s))

    def grow(self, took_s: float | None = None) -> None:
        """Ask for twice as much, up to what is wanted, after a page that took so long; or creep up to what failed."""
        self.good += 1
        self.fine = self.rows
        if self.good >= self.patience:
            self.failed = None
        larger = self.rows * 2
        if self.failed is not None:
            larger = min(larger, (self.rows + self.failed) // 2)
        self.rows = min(max(larger, self.rows), self.wanted)
        if took_s is not None and took_s <= _QUICK_SHARE * self.limit_s:
            self.limit_s = max(self.limit_s / 2, min(self.limit_s, FIRST_LIMIT_S))

    def forgive(self) -> None:
        """Forget what failed: a single record was to blame, not the size."""
        self.failed, self.patience, self.good = None, _FIRST_PATIENCE // 2, 0
        self.rows = min(self.rows * 2, self.wanted)

    def learn(self, received: int) -> None:
        """Note that the portal gives no more than this at once, whatever it is asked for."""
        self.wanted = self.rows = max(received, 1)
