"""What is kept between two runs over a CKAN portal."""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from rowen.connectors.catalog.memory import age_days
from rowen.connectors.remembered import remembered

__all__ = ["Memory", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """How far a listing was walked when the run ended; `since` None is the whole listing.

    `clock` is the portal's time when that walk began: what was edited later may have been passed already.
    """

    since: str | None
    position: Annotated[int, Meta(ge=0)]
    after: str | None
    clock: str
    newest: str | None


@dataclass(frozen=True, slots=True)
class Memory:
    """The cursor of a portal.

    `modified` is the newest date that was stored, by the portal's clock; `walked` when, by ours, it was last
    seen whole. `filters` tells whether it minds the modified filter, as found at `probed`. `unheld` are the records
    that it lists although no item stands for them: not read, not wanted, said to be deleted. Unless the last whole
    look `proved` what there is, counts that agree prove nothing: something gone may make up for something missed.
    `nameless` is how many records of the last whole walk have no identifier, `repeats` how many rows it declares beyond
    the different ones.
    """

    modified: str | None = None
    walked: str | None = None
    filters: bool | None = None
    probed: str | None = None
    unheld: frozenset[str] = field(default_factory=frozenset)
    place: Place | None = None
    proved: bool = False
    nameless: int | None = None
    repeats: int | None = None

    @classmethod
    def of(cls, cursor: Any) -> "Memory":
        """The memory in a cursor; a cursor of another making is none."""
        return remembered(cursor, cls) or cls()

    def to_cursor(self) -> dict[str, Any]:
        """The memory as a cursor; what is empty is left out."""
        values = {**asdict(self), "unheld": sorted(self.unheld)}
        return {name: value for name, value in values.items() if value not in (None, [])}

    def is_due(self, now: datetime, days: float) -> bool:
        """Whether the portal was last seen whole too long ago."""
        return age_days(self.walked, now) >= days

    def should_probe(self, now: datetime, days: float) -> bool:
        """Whether the filter should be tried again."""
        return self.filters is None or age_days(self.probed, now) >= days
