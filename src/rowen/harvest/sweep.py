"""Deleting what a complete run did not see, within limits."""

from dataclasses import dataclass

from rowen.harvest.seen import Seen
from rowen.model.source import Source
from rowen.settings import Settings
from rowen.store import changes, items, quarantine, runs, sources
from rowen.store.database import Database

__all__ = ["Guard", "Swept", "sweep"]


@dataclass(frozen=True, slots=True)
class Guard:
    """How much of a source may vanish at once without somebody's word."""

    floor: int
    share: float
    accepted: bool = False

    @classmethod
    def of(cls, settings: Settings, *, accepted: bool) -> "Guard":
        """The guard that the settings ask for."""
        return cls(settings.deletion_floor, settings.deletion_share, accepted)

    def lets_through(self, vanished: int, *, seen: int, held: int) -> bool:
        """Whether `vanished` of `held` items may be deleted; an empty listing never deletes."""
        if not seen:
            return False
        return self.accepted or vanished < max(self.floor, self.share * held)


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
    seen: Seen,
    failed: set[bytes],
    deleted: int,
    guard: Guard,
    dry_run: bool,
) -> Swept:
    """Delete what vanished, or hold it back; runs in one transaction.

    A run that deleted nothing and saw as many items as there are saw them all: that costs one count.
    """
    async with database.transaction() as c:
        if not dry_run:
            await runs.fence(c, run_id)
        held = await items.count(c, source.id)
        vanished = [] if len(seen) == held and not deleted else await items.vanished(c, source.id, seen)
        through = guard.lets_through(len(vanished), seen=len(seen), held=held)
        swept = Swept(deleted=len(vanished)) if through else Swept(held_back=len(vanished))
        if dry_run:
            return swept
        await quarantine.release(c, source.id, list(await quarantine.keys(c, source.id) - failed))
        await sources.hold_deletions(c, source.id, swept.held_back)
        if through:
            dropped = await items.delete(c, source, [item.key for item in vanished])
            lines = [changes.Line("deleted", item.key, item.url, item.title) for item in dropped]
            await changes.append(c, source, run_id, lines)
    return swept
