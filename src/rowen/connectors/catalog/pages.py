"""How much to ask for at once: less of a portal that is too slow for it, more again when it recovers."""

from dataclasses import dataclass

__all__ = ["LEAST_ROWS", "PageSize"]

LEAST_ROWS = 10
FIRST_LIMIT_S = 60.0
LONGEST_LIMIT_S = 300.0


@dataclass(slots=True)
class PageSize:
    """Rows for the next page and the time it may take. The time stays long once it had to grow."""

    wanted: int
    rows: int = 0
    limit_s: float = FIRST_LIMIT_S

    def __post_init__(self) -> None:
        self.rows = self.rows or self.wanted

    def shrink(self, *, least: int = LEAST_ROWS) -> bool:
        """Ask for a quarter, and wait twice as long; tells whether there is anything less to ask for."""
        if self.rows <= least:
            return False
        self.rows = max(least, self.rows // 4)
        self.limit_s = min(self.limit_s * 2, LONGEST_LIMIT_S)
        return True

    def grow(self) -> None:
        """Ask for twice as much, up to what is wanted."""
        self.rows = min(self.rows * 2, self.wanted)

    def learn(self, received: int) -> None:
        """Note that the portal gives no more than this at once, whatever it is asked for."""
        self.wanted = self.rows = max(received, 1)
