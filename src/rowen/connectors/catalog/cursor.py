"""The stored cursor of a catalog, and the notes of a connector that are stored beside it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rowen.connectors.base import Held, Known, remembered
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import Tokens
from rowen.model.items import Checkpoint, Observation

__all__ = ["CatalogCursor", "Noted", "Overlap", "age_days", "noted", "stamp"]

_EVER = float("inf")
_MOST_DOUBLINGS = 20  # a million runs: the day is over long before
_TRIAL_DAYS = 1.0
"""A filter that failed is tried again after this time at the latest: one request in a run that costs a walk. With
half of it a portal that is synced daily is asked as often, with twice as much a repair is noticed a day later."""
_CLOCK_MOVED_DAYS = 1.0  # clocks are set, by hours at most; a date further ahead is none that we wrote
_FORMERLY = {"strangers": "unidentified"}


@dataclass(frozen=True, slots=True)
class Overlap:
    """The records dated from `since` on, as they were counted when the newest date was stored.

    `count` is None if they have to be read again. `at` is when, by our clock, that date was first met; `is_over` tells
    that the source's clock had passed it, `settled` that all were read again when no late one could follow.
    """

    since: str
    count: int | None
    at: str
    is_over: bool = False
    settled: bool = False


@dataclass(frozen=True, slots=True)
class CatalogCursor:
    """The cursor of a catalog.

    What changed: `modified` is the newest date that was stored, by the source's clock; `filters` tells whether the
    source obeys the modified filter, as found at `probed`. `overlap` is set where many records are dated shortly before
    `modified`. Of a filter that does not work, `trials` counts how often in a row that was found, `waited` the runs
    since that did not try it; `refused` is the error, if there was one. `walked` is when, by our clock, the
    catalog was last seen whole.

    Is it all there: `surplus` is how many more records the source declares than it gives items; while that stays so,
    nothing was deleted or added unnoticed. `short` is by how many records its whole listing falls short of what it
    declares, `unidentified` are the records that could not be told to be about any item, `passed` the hashes of those
    that are listed, and named in a roll call, but are no items. `page` is how many records its largest page had that
    was not the last, when it was walked whole: only a smaller one proves the end of a list by itself.

    What failed: `handles` are what records in quarantine can be asked for by, by the URLs of their items; `holes` are
    the places of records that could not be identified, by the URLs under which they stand in quarantine.

    Where to go on: `place` in an interrupted walk, `since` if that walk lists changes only. `begun` is a moment, by the
    source's own dates, before which nothing was edited since the copy that is held was read, whether this walk showed
    it or not; None if no date proves that. `stumbled` tells that going on failed once.

    A single document: `items` that it held, its `tokens`, and the records that `failed` in it.
    """

    version: int = 0
    modified: str | None = None
    walked: str | None = None
    filters: bool | None = None
    probed: str | None = None
    trials: int | None = None
    waited: int | None = None
    refused: str | None = None
    overlap: Overlap | None = None
    surplus: int | None = None
    short: int | None = None
    unidentified: list[str] | None = None
    passed: list[str] | None = None
    page: int | None = None
    handles: dict[str, str] | None = None
    holes: dict[str, Any] | None = None
    place: Any = None
    since: str | None = None
    begun: str | None = None
    stumbled: bool | None = None
    items: int | None = None
    tokens: Tokens | None = None
    failed: list[tuple[str, str, str | None]] | None = None

    @classmethod
    def of(cls, cursor: Any, version: int) -> "CatalogCursor":
        """The cursor that was stored; one that another version wrote, or nobody, is ignored."""
        if not isinstance(cursor, dict) or cursor.get("version") != version:
            return cls(version)
        named = {_FORMERLY.get(name, name): value for name, value in cursor.items()}
        return remembered(named, cls) or cls(version)

    def to_json(self) -> dict[str, Any]:
        """The cursor as it is stored; what is empty is left out."""
        values = {**asdict(self), "tokens": list(self.tokens) if self.tokens else None}
        values["failed"] = [list(one) for one in self.failed or ()] or None
        return {name: value for name, value in values.items() if value is not None}

    def is_due(self, now: datetime, days: float) -> bool:
        """Whether the catalog was last seen whole too long ago."""
        return age_days(self.walked, now) >= days

    def should_probe(self, now: datetime, days: float) -> bool:
        """Whether a walk should find out whether the filter works."""
        return self.filters is None or age_days(self.probed, now) >= days

    def is_trial_due(self, now: datetime) -> bool:
        """Whether a filter that did not work is to be tried again: after 1, 2, 4, 8 … runs, or a day.

        A trial costs one request. Each failed one doubles the number of runs: in 100 runs of a day, six are tried.
        """
        waits = 1 << min(max((self.trials or 1) - 1, 0), _MOST_DOUBLINGS)
        return (self.waited or 0) >= waits or age_days(self.probed, now) >= _TRIAL_DAYS


def stamp(value: datetime) -> str:
    """A moment as cursors hold it."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age_days(at: str | None, now: datetime) -> float:
    """How long ago something was that a cursor holds; for ever, if it never was, or is still to come."""
    then = moment(at)
    days = (now - then).total_seconds() / 86_400 if then else _EVER
    return days if days > -_CLOCK_MOVED_DAYS else _EVER


_KEY = "notes"


class Noted:
    """What we hold of a source, with the notes taken out of the cursor."""

    def __init__(self, known: Known) -> None:
        cursor = known.cursor if isinstance(known.cursor, dict) else {}
        notes = cursor.get(_KEY)
        self.mode = known.mode
        self.count = known.count
        self.failed = known.failed
        self.losable = known.losable
        self.notes: Mapping[str, Any] = notes if isinstance(notes, dict) else {}
        self.cursor: Any = {name: value for name, value in cursor.items() if name != _KEY} or None
        self._known = known

    def forget(self) -> None:
        """Hold neither cursor nor notes: the source is to be walked from its beginning."""
        self.cursor, self.notes = None, {}

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, Held]:
        """What we hold under these URLs."""
        return await self._known.look_up(urls)

    def everything(self) -> AsyncIterator[Sequence[Held]]:
        """All that we hold, in batches."""
        return self._known.everything()

    async def recall(self, room: str, names: Sequence[str]) -> Mapping[str, Any]:
        """The notes of these names."""
        return await self._known.recall(room, names)

    def recall_all(self, room: str) -> AsyncIterator[Mapping[str, Any]]:
        """All notes of a room, in batches."""
        return self._known.recall_all(room)


async def noted(
    observations: AsyncGenerator[Observation], notes: Callable[[], Mapping[str, Any]]
) -> AsyncGenerator[Observation]:
    """The same observations, with the notes as they are then in each checkpoint."""
    async with aclosing(observations):
        async for observation in observations:
            if isinstance(observation, Checkpoint):
                yield replace(observation, cursor={**observation.cursor, _KEY: dict(notes())})
            else:
                yield observation
