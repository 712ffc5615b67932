"""Decide whether a walk or an identifier listing proves that all records were seen."""

from collections.abc import AsyncGenerator, Container
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from rowen.connectors.base import is_unread
from rowen.connectors.catalog.listing import Names, RollCall
from rowen.connectors.catalog.progress import Progress, mark_of
from rowen.connectors.catalog.records import UrlSet
from rowen.connectors.catalog.retries import ask_for
from rowen.connectors.catalog.walk import Walk
from rowen.model.items import Failed, Observation, Unchanged
from rowen.model.wording import count

__all__ = [
    "Roll",
    "doubt",
    "is_second_look_wanted",
    "lacking",
    "misses",
    "mistakable",
    "mixture",
    "shortfall",
    "shortfall_of",
    "unreceived",
]

# Counts are wrong by one, or by one in a hundred where an index lags; a listing that falls shorter was cut off.
_SHORT_SHARE = 0.01


async def shortfall_of(run: Progress, walk: Walk) -> int:
    """How many records fewer came than are declared; the source is asked again, since both may have changed."""
    if walk.declared is None:
        return 0
    is_explained = walk.declared - len(run.seen) in (0, run.cursor.short)
    if not (is_explained or walk.doubt or walk.repeated):
        declared = await run.listing.count()
        if declared is not None:
            walk.shrank = walk.shrank or declared < walk.declared
            walk.declared = declared
    return walk.declared - len(run.seen)


def is_second_look_wanted(run: Progress, walk: Walk, short: int) -> bool:
    """Whether a second look may find more.

    Records that come twice, and counts that are wrong by one, are the same the second time. Where records went
    during the walk, others may have slipped past a page's border. With a roll call every shortfall is looked into,
    unless repeats explain it.
    """
    if walk.doubt or walk.repeated:
        return False
    is_worth_it = run.listing.roll is not None or _is_little(short, walk.declared or 0)
    is_new = short > 0 and short != run.cursor.short and not _is_explained(run, walk)
    return walk.shrank or (is_new and is_worth_it)


def mixture(run: Progress, again: Walk, before: int) -> str | None:
    """Why two looks prove nothing together: where records went between them, one of the first look may be gone.

    It would stand for one that neither showed. A second look that shows all by itself needs nothing of the first.
    """
    if again.declared is None or again.declared >= before or again.distinct >= min(again.declared, len(run.seen)):
        return None
    return f"The catalog declared {before} records, and then {again.declared}, of which it lists {again.distinct}."


def doubt(run: Progress, walk: Walk, short: int) -> str | None:
    """Why the walk proves nothing, by itself."""
    if not len(run.seen) and run.known.count:
        return f"The catalog lists nothing, although {run.known.count} are held."
    if walk.doubt:
        return walk.doubt
    is_cut = walk.repeated or walk.restarted
    if is_cut and walk.declared is None:
        return "The listing does not end: pages came again."
    if walk.stumbled and short > 0 and walk.received > (walk.declared or 0):
        # Its positions mean nothing, so the failed record cannot be named.
        return f"{shortfall(run, walk)} More came than are declared, some of them again, and pages failed."
    is_little = _is_little(short, walk.declared or 0) or _is_explained(run, walk) or short <= walk.unshown
    return shortfall(run, walk) if short > 0 and (is_cut or not is_little) else None


async def misses(run: Progress, walk: Walk, short: int) -> str | None:
    """What makes a shortfall more than a wrong count: an item of ours may be among what was not shown.

    Where as many records came as are declared, and twice the same ones, some are listed more than once.
    """
    is_repeated = walk.received >= (walk.declared or 0) and not walk.unshown
    if short <= 0 or short == run.cursor.short or is_repeated:
        return None
    return shortfall(run, walk) if await lacks_one(run) else None


async def mistakable(run: Progress) -> str | None:
    """Why a record that was not there before may be an item that did not come."""
    if run.unidentified.are_known(run.cursor.unidentified) or not await lacks_one(run):
        return None
    return (
        f"{len(run.unidentified)} records cannot be identified, not all of which were there before, "
        "and an item that is held did not come: one of them may be that item."
    )


async def unreceived(run: Progress) -> str | None:
    """Why records that were not received leave it open what is gone: any of them may be an item that did not come.

    Those that failed before as well are no reason where every item that is held came, or is known to be gone.
    """
    if run.unreceived.keys() <= run.quarantined and not (run.unreceived and await lacks_one(run, absent=run.absent)):
        return None
    many = len(run.unreceived)
    error = next(iter(run.unreceived.values()))
    return f"{count(many, 'record')} could not be received and may be items that are held: {error}"


async def lacks_one(run: Progress, *, absent: Container[str] = ()) -> bool:
    """Whether an item that is held was not shown, other than those that the source is known not to have."""
    lacks = False
    async for batch in run.known.everything():
        lacks = lacks or any(held.url not in run.seen and held.url not in absent for held in batch)
    return lacks


async def lacking(run: Progress) -> int:
    """How many items that are held were not shown."""
    lacks = 0
    async for batch in run.known.everything():
        lacks += sum(held.url not in run.seen for held in batch)
    return lacks


def shortfall(run: Progress, walk: Walk) -> str:
    """The words for a listing that does not give what it declares."""
    how = "pages came again" if walk.repeated or walk.restarted else f"it lists {len(run.seen)}"
    return f"The catalog declares {walk.declared} records, but {how}."


def _is_explained(run: Progress, walk: Walk) -> bool:
    """Whether repeats explain a shortfall: kinds with a roll call give no repeat that overlapping pages may cause."""
    return run.listing.roll is not None and walk.received >= (walk.declared or 0)


def _is_little(short: int, declared: int) -> bool:
    return short <= max(1, _SHORT_SHARE * declared)


MOST_MISSING = 200
"""More records than this are not asked for one by one: a walk gives hundreds for each of these requests."""


@dataclass(slots=True)
class Roll:
    """One roll call. `received` counts names, `unnamed` records without one; `missing` are items to be read."""

    run: Progress
    call: RollCall
    declared: int | None = None
    received: int = 0
    unnamed: int = 0
    named: UrlSet = field(default_factory=UrlSet)
    listed: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)

    async def names(self, *, proves: bool) -> AsyncGenerator[Observation]:
        """Call all names. Where the dates of the source prove that what is held is unchanged, that is said of it."""
        async with aclosing(self.call.names()) as pages:
            async for page in pages:
                unseen = await self._take(page)
                held = await self.run.known.look_up(self._trusted(unseen)) if proves and unseen else {}
                self.missing += [url for url in unseen if url not in held]
                for url in held:
                    self.run.seen.add(url)
                    yield Unchanged(url)
                self.run.endless = self.run.bounds.exceeded(self.received, self.declared)
                if self.run.endless:
                    return

    def _trusted(self, urls: list[str]) -> list[str]:
        """Those whose copy is the latest version that was shown to us, if there is a copy."""
        return [url for url in urls if url not in self.run.quarantined] if self.run.quarantined else urls

    async def _take(self, page: Names) -> list[str]:
        """The items of a page that neither this run has seen nor an earlier one passed over."""
        self.declared = page.declared
        self.received += len(page.urls)
        self.unnamed += page.urls.count(None)
        fresh = [url for url in page.urls if url is not None and self.named.add(url)]
        passed = {url: mark for url in fresh if (mark := mark_of(url)) in self.run.passed} if self.run.passed else {}
        self.listed.update(passed.values())
        if unseen := [url for url in passed if url not in self.run.seen]:
            # One that is held all the same was read by a run that did not come to write its cursor, or its deletion is
            # held back: only the source knows which.
            self.missing += await self.run.known.look_up(unseen)
        return [url for url in fresh if url not in self.run.seen and url not in passed]

    async def read_missing(self) -> AsyncGenerator[Observation]:
        """The records of the missing items, one by one."""
        for url in self.missing[:MOST_MISSING]:
            row = await ask_for(self.run, url)
            self.listed.add(mark_of(url))
            if row is not None:
                yield row.observed

    def failed_again(self) -> list[Failed]:
        """What was asked for by itself, could not be read, and is there."""
        return [one for one in self.run.failed_again if one.url in self.named]

    async def is_too_little(self) -> str | None:
        """Why names do not suffice: one without may be an item that did not come, or too much was never read."""
        before = sum(is_unread(one.url) for one in self.run.known.failed)
        if self.unnamed > max(before, len(self.run.cursor.unidentified or ())) and await lacks_one(self.run):
            return f"{self.unnamed} records have no identifier, and an item that is held did not come."
        if len(self.missing) > MOST_MISSING:
            return f"{len(self.missing)} records are listed that are not held, although they are not new."
        return None

    @property
    def kept(self) -> int:
        """How many of the names are items."""
        return len(self.named) - len(self.run.passed & self.listed)

    def is_settled(self) -> bool:
        """Whether no more came than is declared: some went while we looked, which a walk can tell, or it is a habit."""
        excess = min(0, (self.declared or 0) - self.received) or None
        before = self.run.cursor.short or 0
        if excess is not None or before < 0:
            self.run.cursor = replace(self.run.cursor, short=excess)
        return excess is None or excess == before

    def doubt(self) -> str | None:
        """Why the roll call proves nothing."""
        if not self.received and self.run.known.count:
            return f"The catalog lists nothing, although {self.run.known.count} are held."
        if self.declared is None:
            return "The catalog does not tell how many records it has."
        if self.received < self.declared:
            return f"The catalog declares {self.declared} records, but it lists {self.received}."
        if len(self.missing) > MOST_MISSING:
            return f"{len(self.missing)} records are listed that were not shown."
        return None
