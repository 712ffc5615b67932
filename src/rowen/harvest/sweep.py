"""The end of a run: what is missing moved to another key, is deleted within limits, or is held back.

What a complete run did not see has vanished; what its source says is gone is marked while the run goes on
(`store/gone.py`). First those are found that are there under another key (`store/moves.py`). The guard decides about
all others together, and about all of a run at once: a deployment gone wrong answers 404 for everything, and must not
lose a few pages in each run either.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

from rowen.harvest.known import Seen
from rowen.harvest.plan import Planner
from rowen.model.source import Source
from rowen.settings import Settings
from rowen.store import changes, held, items, missing, moves, quarantine, runs
from rowen.store.database import Connection, Database

__all__ = ["Guard", "Swept", "rehearse", "sweep"]


@dataclass(frozen=True, slots=True)
class Guard:
    """How much of a source may go at once without somebody's word.

    Fewer items than `floor` may, of a small source no more than `small_share` (but always one: a single page that is
    gone goes), of a large one less than `share`. `spent` is how many have gone since the source was last seen whole:
    single looks between two whole runs count as one, or a site that answers 404 for everything would lose its pages one
    by one.
    """

    floor: int
    share: float
    small_share: float
    accepted: bool = False
    spent: int = 0

    @classmethod
    def of(cls, settings: Settings, *, accepted: bool) -> "Guard":
        """The guard that the settings ask for."""
        return cls(settings.deletion_floor, settings.deletion_share, settings.deletion_small_share, accepted)

    def bound(self, held: int) -> int:
        """The most items that may go of a source that held so many when the run began."""
        before = held + self.spent
        few = min(self.floor - 1, max(1, int(self.small_share * before)))
        return max(0, max(few, ceil(self.share * before) - 1) - self.spent)

    def lets_through(self, count: int, *, held: int) -> bool:
        """Whether so many of `held` items may be deleted."""
        return self.accepted or count <= self.bound(held)


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did, or would do. `amended` and `updated` are moved items that the run had counted as created.

    `noted` are those of `held_back` that were not held back before, `unstated` the statements that
    went with the deleted ones.
    """

    moved: int = 0
    amended: int = 0
    updated: int = 0
    deleted: int = 0
    held_back: int = 0
    noted: int = 0
    unstated: int = 0

    @property
    def joined(self) -> int:
        """How many moved items had their new row from an earlier run, so that two items became one."""
        return self.moved - self.amended - self.updated


async def sweep(
    database: Database,
    source: Source,
    run_id: int,
    *,
    planner: Planner,
    created: Seen,
    whole: bool,
    guard: Guard,
    settings: Settings,
) -> Swept:
    """Give moved items their new keys; delete what is gone, and after a `whole` run what vanished, or hold it back.

    An empty listing proves nothing: after a run that saw no item, only what the source itself called gone may go.
    What all runs share (the fence, the change log) is touched last: until then the lease can be renewed.
    """
    async with database.transaction() as c:
        swept = await _decide(c, source, planner, guard, settings, whole=whole, is_created=created.__contains__)
        if swept.moved:
            await moves.make(c, revisions_kept=settings.revisions_kept)
        if swept.held_back:
            swept = replace(swept, noted=await held.put(c, source.id, run_id))
        if swept.deleted:
            await missing.delete(c, copies=settings.withdrawn_kept_days > 0)
        await held.release(c, planner.returned)
        if whole:
            await quarantine.release(c, source.id, list(await quarantine.keys(c, source.id) - planner.failed))
        await runs.fence(c, run_id)
        if swept.moved:
            async for moved in moves.made(c):
                await changes.append(c, source, run_id, [move.line for move in moved])
        if swept.deleted:
            unstated = 0
            async for dropped in missing.deleted(c):
                unstated += sum(len(item.stated or ()) for item in dropped)
                await changes.append(c, source, run_id, [item.line for item in dropped])
            swept = replace(swept, unstated=unstated)
    return swept


async def rehearse(
    database: Database, source: Source, *, planner: Planner, whole: bool, guard: Guard, settings: Settings
) -> Swept:
    """What a sweep would do."""
    async with database.transaction() as c:
        return await _decide(c, source, planner, guard, settings, whole=whole, is_created=moves.is_arrival)


async def _decide(
    c: Connection,
    source: Source,
    planner: Planner,
    guard: Guard,
    settings: Settings,
    *,
    whole: bool,
    is_created: Callable[[int], bool],
) -> Swept:
    """What moved, what goes and what is held back, in the table of what is missing.

    What somebody wants kept stays, and what was held back for long enough goes; the guard decides about all the rest.
    """
    absent = await _note_missing(c, source, planner, whole=whole)
    if not absent:
        return Swept()
    found = await moves.find(
        c,
        source.id,
        arrivals=planner.arrivals,
        redirects=planner.redirects,
        redirected_arrivals=planner.redirected_arrivals,
        is_created=is_created,
    )
    absent -= found.moved
    # What came and went within this run was never shown to anybody: it is no loss.
    doomed = await missing.mark_deleted(c, (item_id for item_id in planner.gone if is_created(item_id)))
    if planner.pending.held:
        absent -= await held.spare_kept(c)
        doomed += await held.doom_overdue(
            c, source.id, runs=settings.deletion_patience_runs, days=settings.deletion_patience_days
        )
    if doomed < absent and guard.lets_through(absent - doomed, held=planner.held):
        await missing.doom(c)
        doomed = absent
    if doomed and not planner.seen:
        doomed = await missing.unmark_unconfirmed(c)
    return Swept(found.moved, found.amended, found.updated, doomed, absent - doomed)


async def _note_missing(c: Connection, source: Source, planner: Planner, *, whole: bool) -> int:
    """How many are no more: what is marked, and after a whole run all else that was not seen, which costs one count
    where as many were seen as there are.
    """
    if not whole:
        return await missing.note_marked(c, source.id, planner.gone) if planner.gone else 0
    if len(planner.seen) == await items.count(c, source.id):
        return 0
    return await missing.note_unseen(c, source.id, planner.seen, told=planner.gone)
