"""The stored cursor of a catalog, and a connector's notes, which are stored beside the cursor."""

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
_MOST_DOUBLINGS = 20  # a million runs: a day passes long before
# A filter that failed is tested again after this time at the latest; a test costs one request in a run that costs a
# walk. With half of it, a portal that is synced daily is tested as often; with twice, a repair is noticed a day later.
_TRIAL_DAYS = 1.0
_CLOCK_MOVED_DAYS = 1.0  # clocks are corrected by hours at most; a date further ahead was not written by Rowen
_FORMERLY = {"strangers": "unidentified"}
_NO_LONGER = frozenset({"since", "begun"})


@dataclass(frozen=True, slots=True)
class Overlap:
    """The records dated from `since` on, as counted when the newest date was stored.

    `count` is None if the records must be read again. `at` is the time, by our clock, when a run first met the newest
    date. `is_over` is set if the source's clock had passed the newest date. `settled` is set if all records were read
    again at a time when no late record could follow.
    """

    since: str
    count: int | None
    at: str
    is_over: bool = False
    settled: bool = False


@dataclass(frozen=True, slots=True)
class CatalogCursor:
    """The stored cursor of a catalog. The module in brackets owns the fields named after it.

    Changes [changes]: `modified` is the newest stored date, by the source's clock. `filters` is set if the source
    applies the modified filter; `probed` is the time of that check. `trials` counts consecutive failed checks of the
    filter, `waited` the runs since the last check; `refused` is the error of a filter that fails. `overlap` is set if
    many records are dated shortly before `modified`.

    Completeness [completeness]: `walked` is the time, by our clock, of the last complete walk. `surplus` is the
    declared count minus the number of items; while it stays the same, no record was added or deleted unnoticed.
    `short` is the declared count minus the number of listed records. `unidentified` contains hashes of the records
    from which no item could be identified, `passed` hashes of listed records that are no items. `page` is the number
    of records on the largest page that was not the last: only a smaller page proves the end of a list.

    Failures [retries]: `handles` contains the arguments of `Listing.read_record` for quarantined items, by URL.
    `holes` contains the places of unidentified records, by the URLs of their quarantine entries.

    Interruptions [refresh]: `place` is the place at which an interrupted walk resumes; `stumbled` is set if resuming
    failed once.

    Single documents [refresh]: `items` is the number of items in the document, `tokens` contains its validators,
    `failed` its broken records.
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
        """Return the stored cursor; an empty cursor if it is damaged or was written for another record version."""
        if not isinstance(cursor, dict) or cursor.get("version") != version:
            return cls(version)
        values = {_FORMERLY.get(name, name): value for name, value in cursor.items() if name not in _NO_LONGER}
        if "since" in cursor:
            # Earlier versions also resumed lists of changes; such a place cannot resume a whole walk.
            values.pop("place", None)
        return parse_stored(values, cls) or cls(version)

    def to_json(self) -> dict[str, Any]:
        """Return the cursor as it is stored, without empty fields."""
        values = {**asdict(self), "tokens": list(self.tokens) if self.tokens else None}
        values["failed"] = [list(failure) for failure in self.failed or ()] or None
        return {name: value for name, value in values.items() if value is not None}

    def is_due(self, now: datetime, days: float) -> bool:
        """Return whether the last complete walk of the catalog is at least `days` days old."""
        return age_days(self.walked, now) >= days

    def should_probe(self, now: datetime, days: float) -> bool:
        """Return whether a walk should probe the modified filter: never probed, or at least `days` days ago."""
        return self.filters is None or age_days(self.probed, now) >= days

    def is_trial_due(self, now: datetime) -> bool:
        """Return whether a filter that failed should be tested again: after 1, 2, 4, 8 … runs, or after a day.

        A trial costs one request. Each failure doubles the number of runs until the next trial: in 100 runs of one
        day, six runs make a trial.
        """
        waits = 1 << min(max((self.trials or 1) - 1, 0), _MOST_DOUBLINGS)
        return (self.waited or 0) >= waits or age_days(self.probed, now) >= _TRIAL_DAYS


def stamp(value: datetime) -> str:
    """Format a date for a cursor."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age_days(at: str | None, now: datetime) -> float:
    """Return the age of a stored date in days; infinity for None, and for a date more than a day in the future."""
    then = moment(at)
    days = (now - then).total_seconds() / 86_400 if then else _EVER
    return days if days > -_CLOCK_MOVED_DAYS else _EVER


_KEY = "notes"


class Noted:
    """The known state of a source, with its notes separated from its cursor."""

    def __init__(self, known: Known) -> None:
        cursor = known.cursor if isinstance(known.cursor, dict) else {}
        notes = cursor.get(_KEY)
        self.notes: Mapping[str, Any] = notes if isinstance(notes, dict) else {}
        self.cursor: Any = {name: value for name, value in cursor.items() if name != _KEY} or None
        self.mode, self.count, self.failed, self.losable = known.mode, known.count, known.failed, known.losable
        self.look_up, self.everything = known.look_up, known.everything
        self.recall, self.recall_all = known.recall, known.recall_all

    def forget(self) -> None:
        """Discard the cursor and the notes, so that the next walk begins at the start."""
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
