"""The stored cursor of a catalog, and the notes of a connector that are stored beside it."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rowen.connectors.base import Known, parse_stored
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import Tokens
from rowen.model.items import Checkpoint, Observation

_EVER = float("inf")
_MOST_DOUBLINGS = 20  # a million runs: the day is over long before
# A filter that failed is tried again after this time at the latest: one request in a run that costs a walk. With half
# of it a portal that is synced daily is asked as often, with twice as much a repair is noticed a day later.
_TRIAL_DAYS = 1.0
_CLOCK_MOVED_DAYS = 1.0  # clocks are set, by hours at most; a date further ahead was not written here
_FORMERLY = {"strangers": "unidentified"}
_NO_LONGER = frozenset({"since", "begun"})


@dataclass(frozen=True, slots=True)
class Overlap:
    """The records dated from `since` on, as counted when the newest date was stored.

    `count` is None if they must be read again. `at` is when, by our clock, the newest date was first met. `is_over` is
    set if the source's clock had passed that date, `settled` if all records were read again when no late one could
    follow.
    """

    since: str
    count: int | None
    at: str
    is_over: bool = False
    settled: bool = False


@dataclass(frozen=True, slots=True)
class CatalogCursor:
    """The stored cursor of a catalog. The module in brackets owns the fields that follow.

    Changes [changes]: `modified` is the newest date that was stored, by the source's clock. `filters` is whether the
    source applies the modified filter, as checked at `probed`. `trials` counts consecutive failed checks of the filter,
    `waited` the runs since the last one; `refused` is its error. `overlap` is set where many records are dated shortly
    before `modified`.

    Completeness [completeness]: `walked` is when, by our clock, the catalog was last seen whole. `surplus` is how many
    more records the source declares than it has items; while that stays so, nothing was added or deleted unnoticed.
    `short` is by how many records the listing falls short of its declared count. `unidentified` are the records from
    which no item could be identified, `passed` the hashes of records that are listed but are no items. `page` is the
    number of records on the largest page that was not the last: only a smaller page proves the end of a list.

    Failures [retries]: `handles` are the arguments of `Listing.read_record` for quarantined items, by URL; `holes` are
    the places of records that could not be identified, by the URLs of their quarantine entries.

    Interruptions [refresh]: `place` is where an interrupted walk resumes; `stumbled` is set if resuming failed once.

    Single documents [refresh]: `items` is the number of items in it, `tokens` its validators, `failed` its broken
    records.
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
    stumbled: bool | None = None
    items: int | None = None
    tokens: Tokens | None = None
    failed: list[tuple[str, str, str | None]] | None = None

    @classmethod
    def of(cls, cursor: Any, version: int) -> "CatalogCursor":
        """Return the stored cursor; an empty one if it is damaged or was written for another version of records."""
        if not isinstance(cursor, dict) or cursor.get("version") != version:
            return cls(version)
        values = {_FORMERLY.get(name, name): value for name, value in cursor.items() if name not in _NO_LONGER}
        if "since" in cursor:
            # Former versions resumed lists of changes as well.
            values.pop("place", None)
        return parse_stored(values, cls) or cls(version)

    def to_json(self) -> dict[str, Any]:
        """Return the cursor as it is stored, without empty fields."""
        values = {**asdict(self), "tokens": list(self.tokens) if self.tokens else None}
        values["failed"] = [list(failure) for failure in self.failed or ()] or None
        return {name: value for name, value in values.items() if value is not None}

    def is_due(self, now: datetime, days: float) -> bool:
        """Return whether the catalog was last seen whole too long ago."""
        return age_days(self.walked, now) >= days

    def should_probe(self, now: datetime, days: float) -> bool:
        """Return whether a walk should check the modified filter."""
        return self.filters is None or age_days(self.probed, now) >= days

    def is_trial_due(self, now: datetime) -> bool:
        """Return whether a filter that failed should be tried again: after 1, 2, 4, 8 … runs, or a day.

        A trial costs one request. Each failure doubles the number of runs: in 100 runs of a day, six are trials.
        """
        waits = 1 << min(max((self.trials or 1) - 1, 0), _MOST_DOUBLINGS)
        return (self.waited or 0) >= waits or age_days(self.probed, now) >= _TRIAL_DAYS


def stamp(value: datetime) -> str:
    """Format a date for a cursor."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age_days(at: str | None, now: datetime) -> float:
    """Return the age of a date in a cursor; infinity for none, or for one in the future."""
    then = moment(at)
    days = (now - then).total_seconds() / 86_400 if then else _EVER
    return days if days > -_CLOCK_MOVED_DAYS else _EVER


_KEY = "notes"


class Noted:
    """The known state of a source, with the notes separated from the cursor."""

    def __init__(self, known: Known) -> None:
        cursor = known.cursor if isinstance(known.cursor, dict) else {}
        notes = cursor.get(_KEY)
        self.notes: Mapping[str, Any] = notes if isinstance(notes, dict) else {}
        self.cursor: Any = {name: value for name, value in cursor.items() if name != _KEY} or None
        self.mode, self.count, self.failed, self.losable = known.mode, known.count, known.failed, known.losable
        self.look_up, self.everything = known.look_up, known.everything
        self.recall, self.recall_all = known.recall, known.recall_all

    def forget(self) -> None:
        """Discard cursor and notes, so that the source is walked from its beginning."""
        self.cursor, self.notes = None, {}


async def noted(
    observations: AsyncGenerator[Observation], notes: Callable[[], Mapping[str, Any]]
) -> AsyncGenerator[Observation]:
    """Yield the observations, with the current notes added to each checkpoint."""
    async with aclosing(observations):
        async for observation in observations:
            if isinstance(observation, Checkpoint):
                yield replace(observation, cursor={**observation.cursor, _KEY: dict(notes())})
            else:
                yield observation
