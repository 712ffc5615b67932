"""Deleting at the end of a run what is gone, within limits.

What a complete run did not see has vanished; what its source says is gone is marked while the run goes on
(`store/gone.py`). The guard decides about both together, and about all of a run at once: a deployment gone wrong
answers 404 for everything, and must not lose a few pages in each run either.
"""

from dataclasses import dataclass
from math import ceil

from rowen.harvest.plan import Planner
from rowen.model.source import Source
from rowen.settings import Settings
from rowen.store import changes, gone, items, quarantine, runs, sources
from rowen.store.database import Connection, Database
from rowen.store.items import Dropped

__all__ = ["Guard", "Swept", "sweep"]


@dataclass(frozen=True, slots=True)
class Guard:
    """How much of a source may go at once without somebody's word.

    Fewer items than `floor` may, of a small source no more than `small_share` (but always one: a single page that is
    gone goes), of a large one less than `share`.
    """

    floor: int
    share: float
    small_share: float
    accepted: bool = False

    @classmethod
    def of(cls, settings: Settings, *, accepted: bool) -> "Guard":
        """The guard that the settings ask for."""
        return cls(settings.deletion_floor, settings.deletion_share, settings.deletion_small_share, accepted)

    def bound(self, held: int) -> int:
        """The most items that may go of a source that held so many when the run began."""
        few = min(self.floor - 1, max(1, int(self.small_share * held)))
        return max(0, few, ceil(self.share * held) - 1)

    def lets_through(self, count: int, *, held: int) -> bool:
        """Whether so many of `held` items may be deleted."""
        return self.accepted or count <= self.bound(held)


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did."""

    deleted: int = 0
    held_back: int = 0


async def sweep(
    database: Database,
    source: Source,
    run_id: int,
    *,
    planner: Planner,
    whole: bool,
    guard: Guard,
    dry_run: bool,
) -> Swept:
    """Delete what is gone, and after a `whole` run what vanished, or hold it back; runs in one transaction.

    An empty listing proves nothing: after a run that saw no item, only what the source itself called gone may go.
    """
    async with database.transaction() as c:
        if not dry_run:
            await runs.fence(c, run_id)
        missing = await _missing(c, source, planner, whole=whole)
        through = guard.lets_through(len(missing), held=planner.held)
        doomed = [item for item in missing if planner.seen or item.id in planner.gone] if through else []
        swept = Swept(len(doomed), len(missing) - len(doomed))
        if dry_run:
            return swept
        if whole:
            await quarantine.release(c, source.id, list(await quarantine.keys(c, source.id) - planner.failed))
        # Of what had vanished before, a run that is not whole knows nothing: it is held as it was.
        vanished_before = 0 if whole else max(0, source.deletions_held - planner.marked_before)
        await sources.hold_deletions(c, source.id, swept.held_back + vanished_before)
        dropped = await items.delete(c, source, [item.key for item in doomed])
        lines = [changes.LogLine("deleted", item.key, item.url, item.title) for item in dropped]
        await changes.append(c, source, run_id, lines)
    return swept


async def _missing(c: Connection, source: Source, planner: Planner, *, whole: bool) -> list[Dropped]:
    """What is no more: what is marked, and after a whole run all else that was not seen, which costs one count
    where as many were seen as there are.
    """
    if not whole:
        return await gone.items_of(c, source.id, planner.gone)
    if len(planner.seen) == await items.count(c, source.id):
        return []
    return await items.vanished(c, source.id, planner.seen)
