"""One run over a catalog, whatever its protocol: walk it whole, or read what changed and count the rest.

A walk that was interrupted goes on where it was, and then sees the part before again: what was deleted or edited there
meanwhile is in no listing of the rest. What a protocol does not tell, deletions above all, shows in its count: if it
declares as many records as we hold (and those that never became items), nothing happened behind our back. If not, it
is walked whole. Nothing is deleted unless a walk proved that it saw everything.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from rowen.connectors.base import Known
from rowen.connectors.catalog.bounds import Bounds
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import FAR_FUTURE, FAR_PAST, Listing, Row, Tokens
from rowen.connectors.catalog.marks import Urls
from rowen.connectors.catalog.memory import Memory, stamp
from rowen.connectors.catalog.options import CatalogOptions
from rowen.connectors.catalog.strangers import Strangers
from rowen.connectors.catalog.talk import TooMuchError
from rowen.connectors.catalog.walk import Walk
from rowen.errors import FetchError, SourceError
from rowen.model.item import (
    Checkpoint,
    Complete,
    Failed,
    FellBack,
    Fetched,
    Gone,
    Incomplete,
    Observation,
    Unchanged,
    Whole,
)
from rowen.model.outside import UNREADABLE

__all__ = ["Refresh"]

_PROBE_SHARE = 0.9
_SHORT_SHARE = 0.01
_LEAST_NEW = 3
_NEW_SHARE = 0.5

log = logging.getLogger(__name__)


class Refresh:
    """What one run sees of a catalog."""

    def __init__(self, listing: Listing, known: Known, options: CatalogOptions, *, now: Callable[[], datetime]) -> None:
        self._listing = listing
        self._known = known
        self._options = options
        self._now = now
        self._memory = Memory.of(known.cursor, listing.version)
        self._marks = Urls()
        self._held = known.count
        self._kept = 0
        self._failed = 0
        self._strangers = Strangers()
        self._dated = 0
        self._replaced = False
        self._newest: datetime | None = None
        self._clock: datetime | None = None
        self._bounds = Bounds(options, self._memory.items)
        self._endless: str | None = None

    async def pull(self) -> AsyncGenerator[Observation]:
        """Walk the catalog, or read what changed."""
        modified = moment(self._memory.modified)
        parts = self._whole() if modified is None or self._is_walk_wanted() else self._catch_up(modified)
        async with aclosing(parts) as observations:
            async for observation in observations:
                yield observation

    def _is_walk_wanted(self) -> bool:
        memory = self._memory
        return (
            not self._listing.dated
            or memory.place is not None
            or memory.filters is False
            or self._known.unsettled
            or memory.is_due(self._now(), self._options.reconcile_days)
        )

    async def _whole(self) -> AsyncGenerator[Observation]:
        """All records: the rest of an interrupted walk first."""
        yield Whole()
        rest = self._walk(place=self._memory.place) if self._memory.place is not None else None
        if rest is not None:
            async with aclosing(self._go_on(rest)) as observations:
                async for observation in observations:
                    yield observation
        if self._endless:
            yield Incomplete(self._endless)
            return
        resumed = rest is not None and not rest.refused
        tokens = None if rest is not None or self._memory.items != self._known.count else self._memory.tokens
        walk = self._walk(tokens=tokens)
        async for observation in self._read(walk, until=self._memory.place if resumed else None):
            yield observation
        if rest is not None and resumed:
            walk.join(rest)
            async for observation in self._moved_meanwhile():
                yield observation
            walk.doubt = walk.doubt or self._endless
        if self._listing.not_modified:
            async for observation in self._unchanged():
                yield observation
        else:
            async for observation in self._conclude(walk, resumed=resumed):
                yield observation

    async def _go_on(self, rest: Walk) -> AsyncGenerator[Observation]:
        """The rest of an interrupted walk; nothing if its place is no longer known.

        A catalog that is out of breath has not forgotten the place, unless it is so at this place each time.
        """
        log.info("went on with an interrupted walk")
        try:
            async for observation in self._read(rest):
                yield observation
        except SourceError as problem:
            breathless = isinstance(problem, FetchError | TooMuchError)
            if not rest.received and breathless and not self._memory.stumbled:
                yield Checkpoint(replace(self._memory, stumbled=True).to_cursor())
                raise
            if rest.received:
                raise
            rest.refused = True
            log.warning("could not go on with an interrupted walk, which begins anew: %s", problem)
        except UNREADABLE as problem:
            # The place is one that nobody wrote, or another version did.
            if rest.received:
                raise
            rest.refused = True
            log.warning("dropped a place that cannot be read; the walk begins anew: %r", problem)

    async def _moved_meanwhile(self) -> AsyncGenerator[Observation]:
        """What was edited since this run began: in a listing by date it has moved from one part into the other."""
        if self._clock is None or not self._listing.dated or self._memory.filters is False:
            return
        since = self._clock - timedelta(hours=self._options.overlap_h)
        async for observation in self._read(self._walk(since=since), resumable=False):
            yield observation

    async def _unchanged(self) -> AsyncGenerator[Observation]:
        """The document is the one that we hold: so is everything in it."""
        async for batch in self._known.everything():
            for held in batch:
                yield Unchanged(held.url)
        yield Complete(expected=self._known.count)

    async def _conclude(self, walk: Walk, *, resumed: bool) -> AsyncGenerator[Observation]:
        """What a whole walk proved."""
        short = await self._short(walk)
        if self._is_to_be_repeated(walk, short):
            walk = self._walk()
            async for observation in self._read(walk, resumable=False):
                yield observation
            short = await self._short(walk)
            walk.doubt = walk.doubt or (self._shortfall(walk) if short > 0 and walk.fresh else None)
        if why := self._doubt(walk, short) or await self._misses(walk, short):
            yield Incomplete(why)
            return
        if why := await self._mistakable():
            # The next walk will meet the same ones, and is believed.
            yield Checkpoint(replace(self._memory, strangers=self._strangers.kept(), place=None).to_cursor())
            yield Incomplete(why)
            return
        await self._probe(walk)
        # More records than are declared: some went while we looked, which only another walk can tell, or it is a habit.
        settled = short >= 0 or short == self._memory.short
        self._memory = replace(self._memory, short=short or None)
        yield Checkpoint(self._settled(walk, settled=settled).to_cursor())
        yield Complete(expected=None if resumed else self._kept + self._failed)

    async def _short(self, walk: Walk) -> int:
        """How many records fewer came than are declared; the source is asked again, since both may have changed."""
        if walk.declared is None:
            return 0
        is_settled = walk.doubt or walk.repeated or walk.declared - len(self._marks) in (0, self._memory.short)
        if not is_settled:
            declared = await self._listing.count()
            walk.declared = walk.declared if declared is None else declared
        return walk.declared - len(self._marks)

    def _is_to_be_repeated(self, walk: Walk, short: int) -> bool:
        """Whether a second walk may find more.

        Records that come twice, and counts that are wrong by one, are the same the second time. Where records went
        during the walk, others may have slipped past a page's border.
        """
        if walk.doubt or walk.repeated:
            return False
        return walk.shrank or (short > 0 and short != self._memory.short and self._is_little(short, walk.declared or 0))

    def _doubt(self, walk: Walk, short: int) -> str | None:
        if not len(self._marks) and self._known.count:
            return f"The catalog lists nothing, although {self._known.count} are held. Nothing was deleted."
        if walk.doubt:
            return walk.doubt
        if walk.repeated and walk.declared is None:
            return "The listing does not end: pages came again. Nothing was deleted."
        wanting = short > 0 and (walk.repeated or not self._is_little(short, walk.declared or 0))
        return self._shortfall(walk) if wanting else None

    async def _misses(self, walk: Walk, short: int) -> str | None:
        """What makes a shortfall more than a wrong count: an item of ours may be among what was not shown.

        Where as many records came as are declared, and twice the same ones, some are listed more than once.
        """
        if short <= 0 or short == self._memory.short or walk.received >= (walk.declared or 0):
            return None
        return self._shortfall(walk) if await self._lacks_one() else None

    async def _mistakable(self) -> str | None:
        """Why a record that was not there before may be an item that did not come."""
        if self._strangers.are_known(self._memory.strangers) or not await self._lacks_one():
            return None
        return (
            f"{len(self._strangers)} records cannot be told to be about any item, not all of which were there before, "
            "and an item that is held did not come: one of them may be that item. Nothing was deleted."
        )

    async def _lacks_one(self) -> bool:
        """Whether an item that is held was not shown."""
        lacks = False
        async for batch in self._known.everything():
            lacks = lacks or any(held.url not in self._marks for held in batch)
        return lacks

    @staticmethod
    def _is_little(short: int, declared: int) -> bool:
        return short <= max(1, _SHORT_SHARE * declared)

    def _shortfall(self, walk: Walk) -> str:
        how = "pages came again" if walk.repeated else f"it lists {len(self._marks)}"
        return f"The catalog declares {walk.declared} records, but {how}. Nothing was deleted."

    async def _catch_up(self, modified: datetime) -> AsyncGenerator[Observation]:
        """What was modified since the cursor; then the count tells whether anything else is missing."""
        since = modified - timedelta(hours=self._options.overlap_h)
        walk = self._walk(since=since)
        async for observation in self._read(walk, resumable=False, counting=True):
            yield observation
        if self._endless:
            yield Incomplete(self._endless)
            return
        if self._replaced:
            log.info("many records are new, but the catalog is no larger: it was walked whole")
            async for observation in self._again():
                yield observation
            return
        if not await self._was_obeyed(walk):
            why = "The catalog does not mind the modified filter: it was walked whole instead."
            self._memory = replace(self._memory, filters=False, probed=stamp(self._now()))
        elif walk.doubt or walk.repeated or walk.received < (walk.declared or 0) - (self._memory.short or 0):
            why = walk.doubt or "The list of what was modified is not whole: the catalog was walked whole instead."
        else:
            async for observation in self._compare_counts(walk):
                yield observation
            return
        yield FellBack(why)
        async for observation in self._again():
            yield observation

    async def _compare_counts(self, walk: Walk) -> AsyncGenerator[Observation]:
        declared = None if self._listing.tells_deletions else await self._listing.count()
        if declared == 0 and self._known.count:
            yield Incomplete(f"The catalog declares nothing, although {self._known.count} are held.")
        elif declared is not None and declared != self._held + (self._memory.surplus or 0):
            log.info("the count is not what was expected: the catalog was walked whole")
            async for observation in self._again():
                yield observation
        elif (cursor := self._moved(walk).to_cursor()) != self._known.cursor:
            yield Checkpoint(cursor)

    async def _again(self) -> AsyncGenerator[Observation]:
        """A whole walk after all; what was seen before counts, but is seen again."""
        self._marks = Urls()
        self._kept = self._failed = self._dated = 0
        self._strangers = Strangers()
        async with aclosing(self._whole()) as observations:
            async for observation in observations:
                yield observation

    async def _was_obeyed(self, walk: Walk) -> bool:
        """Whether the filter was minded: the newest record we hold should always be among what it lets through."""
        if walk.newest or walk.disobeyed:
            return not walk.disobeyed
        return self._known.count == 0 or bool(await self._listing.count(FAR_PAST))

    async def _probe(self, walk: Walk) -> None:
        """Try the filter: all dated records are newer than the far past, none than the far future."""
        memory = self._memory
        if not (self._listing.dated and self._newest):
            return
        if not memory.should_probe(self._now(), self._options.reconcile_days):
            return
        if not walk.declared:
            # Nothing to compare with: a catalog that once did not mind the filter gets another chance.
            self._memory = replace(memory, filters=None, probed=None)
            return
        past = await self._listing.count(FAR_PAST)
        future = await self._listing.count(FAR_FUTURE) if past is not None else None
        obeys = None
        if past is not None and future is not None:
            obeys = past >= self._dated * _PROBE_SHARE and future < walk.declared
        if obeys is False:
            log.warning("the catalog does not mind the modified filter: every run will walk it whole")
        self._memory = replace(memory, filters=obeys, probed=stamp(self._now()))

    def _walk(self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None) -> Walk:
        pages = self._listing.pages(since=since, place=place, tokens=tokens)
        return Walk(pages, self._marks, since=since)

    async def _read(
        self, walk: Walk, *, until: Any = None, resumable: bool = True, counting: bool = False
    ) -> AsyncGenerator[Observation]:
        """The records of a walk, with a checkpoint after each page but the last."""
        async with aclosing(walk.rows()) as pages:
            async for rows in pages:
                new = await self._count(rows, counting=counting)
                if counting and await self._is_replaced(new, len(rows)):
                    self._replaced = True
                    return
                for row in (*rows, *walk.again):
                    if not row.named:
                        self._strangers.add(row.url)
                    yield row.seen
                self._endless = self._bounds.exceeded(walk.received, walk.declared)
                if self._endless:
                    walk.doubt = self._endless
                    # From here the next run would go on for as long again.
                    yield Checkpoint(replace(self._memory, place=None, stumbled=None).to_cursor())
                    return
                self._clock = self._clock or walk.clock or self._now()
                self._newest = max(filter(None, (self._newest, walk.newest)), default=None)
                if resumable and walk.place is not None:
                    yield Checkpoint(replace(self._memory, place=walk.place, stumbled=None).to_cursor())
                elif counting and self._listing.rising and walk.ascending and walk.place and not walk.disobeyed:
                    yield Checkpoint(self._moved(walk).to_cursor())
                if until is not None and walk.declared is not None and walk.place == until:
                    return

    async def _is_replaced(self, new: int, rows: int) -> bool:
        """Whether something went where so much came: then these may be our items under other identifiers."""
        if self._listing.tells_deletions or new < _LEAST_NEW or new < _NEW_SHARE * rows:
            return False
        declared = await self._listing.count()
        return declared is not None and declared < self._held + (self._memory.surplus or 0)

    async def _count(self, rows: list[Row], *, counting: bool) -> int:
        """How many items there will be once these records are stored; returns how many of them are new."""
        odd = [row.url for row in rows if not isinstance(row.seen, Fetched)]
        asked = [row.url for row in rows] if counting else odd
        held = await self._known.look_up(asked) if asked and self._known.count else {}
        for row in rows:
            self._dated += row.modified is not None
            match row.seen:
                case Fetched():
                    self._kept += 1
                    self._held += row.url not in held
                case Gone():
                    self._held -= row.url in held
                case Failed():
                    self._failed += 1
                    self._kept += row.url in held
                    self._failed -= row.url in held
        return sum(isinstance(row.seen, Fetched) and row.url not in held for row in rows) if counting else 0

    def _settled(self, walk: Walk, *, settled: bool) -> Memory:
        """The memory after a whole walk; what it left open makes the next run another one."""
        return replace(
            self._memory,
            modified=self._newest_stored(),
            walked=stamp(self._now()) if self._listing.dated and settled else None,
            surplus=None if walk.declared is None else walk.declared - self._kept,
            strangers=self._strangers.kept(),
            place=None,
            stumbled=None,
            items=self._kept,
            tokens=None if self._failed else self._listing.tokens,
        )

    def _moved(self, walk: Walk) -> Memory:
        """The memory after reading what changed."""
        modified = max(filter(None, (self._newest_stored(), self._memory.modified)), default=None)
        return replace(self._memory, modified=modified)

    def _newest_stored(self) -> str | None:
        """Never beyond the beginning of this run: what was edited later may have been passed already.

        That also keeps a record dated in the future from hiding all that comes until then.
        """
        if self._newest is None:
            return None
        return stamp(min(self._newest, self._clock) if self._clock else self._newest)
