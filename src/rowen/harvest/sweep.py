"""End a run: decide which missing items have moved, are deleted, or become pending deletions.

An item is missing if a complete run did not observe it, or if its source reported it gone during the run
(`store/items/deletions.py`). Items that exist under another key have moved (`store/items/moves.py`). The guard decides
about all other missing items of a run together, so that a broken deployment that answers 404 for everything does not
lose a few pages in each run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

from rowen.harvest.known import Seen
from rowen.harvest.plan import Planner
from rowen.model.sources import Source
from rowen.settings import Settings
from rowen.store import changes, runs
from rowen.store.database import Connection, Database
from rowen.store.items import deletions as store_deletions
from rowen.store.items import items, moves


@dataclass(frozen=True, slots=True)
class Guard:
    """The limit of deletions in one run that need no confirmation.

    Fewer than `floor` items may be deleted; of a small source at most `small_share` (but always one item), of a large
    source less than `share`. `spent` counts deletions since the last complete run. So checks of selected items between
    two complete runs count together; otherwise a site that answers 404 for everything would lose its pages one by one.
    """

    floor: int
    share: float
    small_share: float
    accepted: bool = False
    spent: int = 0

    @classmethod
    def of(cls, settings: Settings, *, accepted: bool) -> "Guard":
        """Return the guard with the limits of the settings."""
        return cls(settings.deletion_floor, settings.deletion_share, settings.deletion_small_share, accepted)

    def bound(self, count: int) -> int:
        """Return the maximum number of deletions in a source that had `count` items when the run began."""
        before = count + self.spent
        few = min(self.floor - 1, max(1, int(self.small_share * before)))
        return max(0, max(few, ceil(self.share * before) - 1) - self.spent)

    def allows(self, deletions: int, *, of: int) -> bool:
        """Return whether `deletions` items may be deleted without confirmation in a source of `of` items."""
        return self.accepted or deletions <= self.bound(of)


@dataclass(frozen=True, slots=True)
class Swept:
    """The numbers of a sweep or of its dry run.

    `amended` and `updated` are moved items that the run had counted as created. `pending` are deletions that need
    confirmation; `newly_pending` of them were not pending before. `unstated` counts the RDF statements of deleted
    items.
    """

    moved: int = 0
    amended: int = 0
    updated: int = 0
    deleted: int = 0
    pending: int = 0
    newly_pending: int = 0
    unstated: int = 0

    @property
    def joined(self) -> int:
        """The number of moved items whose new row came from an earlier run, so that two items became one."""
        return self.moved - self.amended - self.updated


async def sweep(
    database: Database,
    source: Source,
    run_id: int | None,
    *,
    planner: Planner,
    created: Seen,
    whole: bool,
    guard: Guard,
    settings: Settings,
) -> Swept:
    """Give moved items their new keys, and delete missing items or make their deletions pending.

    If `run_id` is None, only return the numbers, and change nothing. An empty listing proves nothing: after a run that
    observed no item, only items that the source reported gone may be deleted. Shared rows (the fence, the change log)
    are touched last: until then the lease can be renewed.
    """
    async with database.transaction() as c:
        is_created = moves.is_arrival if run_id is None else created.__contains__
        swept = await _decide(c, source, planner, guard, settings, whole=whole, is_created=is_created)
        if run_id is None:
            return swept
        if swept.moved:
            await moves.make(c, revisions_kept=settings.revisions_kept)
        if swept.pending:
            swept = replace(swept, newly_pending=await store_deletions.add_pending(c, source.id, run_id))
        if swept.deleted:
            await store_deletions.delete_marked(c, copies=settings.withdrawn_kept_days > 0)
        await store_deletions.remove_pending(c, planner.returned)
        if whole:
            await items.release_quarantined(
                c, source.id, list(await items.quarantined_keys(c, source.id) - planner.failed)
            )
        await runs.fence(c, run_id)
        if swept.moved:
            async for lines in moves.log_lines(c):
                await changes.append(c, source, run_id, lines)
        if swept.deleted:
            unstated = 0
            async for lines in store_deletions.read_deleted(c):
                unstated += sum(len(line.statements.removed) for line in lines if line.statements)
                await changes.append(c, source, run_id, lines)
            swept = replace(swept, unstated=unstated)
    return swept


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
    """Decide which missing items have moved, are deleted or become pending deletions, in the table of missing items.

    Items that a user chose to keep stay, and deletions that were pending long enough are made; the guard decides about
    the other items.
    """
    absent = 0
    if whole and len(planner.seen) != await items.count(c, source.id):
        absent = await store_deletions.note_unseen(c, source.id, planner.seen, reported=planner.gone)
    elif not whole and planner.gone:
        absent = await store_deletions.note_gone(c, source.id, planner.gone)
    if not absent:
        return Swept()
    moved = await moves.find(
        c,
        source.id,
        arrivals=planner.arrivals,
        redirects=planner.redirects,
        redirected_arrivals=planner.redirected_arrivals,
        is_created=is_created,
    )
    absent -= moved.moved
    # An item that was created and deleted within this run was never visible.
    deleted = await store_deletions.mark_deleted(c, (item_id for item_id in planner.gone if is_created(item_id)))
    if planner.pending.item_ids:
        absent -= await store_deletions.unmark_kept(c)
        deleted += await store_deletions.mark_overdue(
            c, source.id, runs=settings.deletion_patience_runs, days=settings.deletion_patience_days
        )
    if deleted < absent and guard.allows(absent - deleted, of=planner.count):
        await store_deletions.mark_all_deleted(c)
        deleted = absent
    if deleted and not planner.seen:
        deleted = await store_deletions.unmark_unconfirmed(c)
    return Swept(moved.moved, moved.amended, moved.updated, deleted, absent - deleted)
