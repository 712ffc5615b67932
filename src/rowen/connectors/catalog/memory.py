"""What is kept between two runs over a catalog."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import Tokens
from rowen.connectors.remembered import remembered

__all__ = ["Memory", "age_days", "stamp"]

_EVER = float("inf")
_CLOCK_MOVED_DAYS = 1.0  # clocks are set, by hours at most; a date further ahead is none that we wrote


@dataclass(frozen=True, slots=True)
class Memory:
    """The cursor of a catalog.

    `modified` is the newest date that was stored, by the source's clock; `walked` when, by ours, it was last seen
    whole. `filters` tells whether it minds the modified filter, as found at `probed`. `surplus` is how many more
    records it declares than it gives items: while that stays so, nothing was deleted or added behind our back; None as
    long as nothing is proved. `short` is by how many records its whole listing falls short of what it declares, having
    been walked twice, `strangers` those records that could not be told to be about any item. `place` is where
    an interrupted walk may go on, `stumbled` that going on there failed once; `tokens` are those of a single document.
    """

    version: int = 0
    modified: str | None = None
    walked: str | None = None
    filters: bool | None = None
    probed: str | None = None
    surplus: int | None = None
    short: int | None = None
    strangers: list[str] | None = None
    place: Any = None
    stumbled: bool | None = None
    items: int | None = None
    tokens: Tokens | None = None

    @classmethod
    def of(cls, cursor: Any, version: int) -> "Memory":
        """The memory in a cursor; one of another making, or of another reading, is none."""
        if not isinstance(cursor, dict) or cursor.get("version") != version:
            return cls(version)
        return remembered(cursor, cls) or cls(version)

    def to_cursor(self) -> dict[str, Any]:
        """The memory as a cursor; what is empty is left out."""
        values = {**asdict(self), "tokens": list(self.tokens) if self.tokens else None}
        return {name: value for name, value in values.items() if value is not None}

    def is_due(self, now: datetime, days: float) -> bool:
        """Whether the catalog was last seen whole too long ago."""
        return age_days(self.walked, now) >= days

    def should_probe(self, now: datetime, days: float) -> bool:
        """Whether the filter should be tried again."""
        return self.filters is None or age_days(self.probed, now) >= days


def stamp(value: datetime) -> str:
    """A moment as cursors hold it."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age_days(at: str | None, now: datetime) -> float:
    """How long ago something was that a cursor holds; for ever, if it never was, or is still to come."""
    then = moment(at)
    days = (now - then).total_seconds() / 86_400 if then else _EVER
    return days if days > -_CLOCK_MOVED_DAYS else _EVER
