"""One run over a catalog, whatever its protocol: what changed, is it all there, is it true, what do we remember.

A run walks the catalog whole, or reads what changed (`_catch_up`) and lets the source's count tell whether anything
else happened: deletions are in no listing, but in the count. Where the count differs, a roll call tells what is gone;
kinds without one are walked whole. What failed in earlier runs is asked for by itself (`retries`). An interrupted walk
is resumed; what it had read before may have been edited or deleted since, so that part is proved unchanged by the
source's dates and a roll call, or read again. Nothing is deleted unless a walk or a roll call proved that it saw
everything (`completeness`), and no filter is believed that was not tried (`trust`). What the next run needs is in the
cursor (`cursor`); the state of the run is `progress`.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from rowen.connectors.base import Known, is_unread
from rowen.connectors.catalog import changes, completeness
from rowen.connectors.catalog.completeness import Roll
from rowen.connectors.catalog.cursor import CatalogCursor, stamp
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import Listing, Row
from rowen.connectors.catalog.options import CatalogOptions
from rowen.connectors.catalog.portal_client import TooMuchError
from rowen.connectors.catalog.progress import Progress
from rowen.connectors.catalog.retries import Retries, ask_for_missing, is_walk_wanted
from rowen.connectors.catalog.walk import Walk
from rowen.errors import FetchError, SourceError
from rowen.model.items import Checkpoint, Complete, Failed, FellBack, Gone, Incomplete, Observation, Proved, Unchanged
from rowen.model.text import UNREADABLE
from rowen.model.url import key

__all__ = ["Refresh"]

# Of what is held. If more was edited since, reading the part before again costs about as much, and proves more.
_EDITED_SHARE = 0.5

_REFUSED = "The catalog cannot be asked for what was modified: {}"

log = logging.getLogger(__name__)


class Refresh:
    """What one run sees of a catalog."""

    def __init__(self, listing: Listing, known: Known, options: CatalogOptions, *, now: Callable[[], datetime]) -> None:
        self._run = Progress.begin(listing, known, options, now=now)

    async def pull(self) -> AsyncGenerator[Observation]:
        """Walk the catalog, or read what changed."""
        cursor = self._run.cursor
        modified = moment(cursor.modified)
        # A list of changes does not show all that a whole walk is wanted for.
        if cursor.place is not None and not (cursor.since and self._is_walk_wanted()):
            parts = self._resume()
        elif modified is None or self._is_walk_wanted():
            parts = self._whole()
        elif await changes.is_usable(self._run, modified):
            parts = self._catch_up(modified)
        else:
            parts = self._without_filter()
        async with aclosing(parts) as observations:
            async for observation in observations:
                if isinstance(observation, Complete | Incomplete) and (found := self._run.namesakes()):
                    yield found
                yield observation

    def _is_walk_wanted(self) -> bool:
        run = self._run
        return not run.listing.dated or is_walk_wanted(run) or run.cursor.is_due(run.now(), run.options.reconcile_days)

    async def _without_filter(self) -> AsyncGenerator[Observation]:
        """All records, since the catalog cannot be asked for what was modified."""
        yield FellBack(self._why_unfiltered())
        async for observation in self._whole():
            yield observation

    def _why_unfiltered(self) -> str:
        error = self._run.cursor.refused
        return _REFUSED.format(error) if error else changes.IGNORED

    async def _whole(self) -> AsyncGenerator[Observation]:
        """All records, from the first one on."""
        run = self._run
        run.begin_anew()
        cursor, known = run.cursor, run.known
        is_settled = cursor.place is None and run.are_failures_explained()
        if is_settled and cursor.tokens is not None and cursor.items != known.count:
            # What the document does not hold any more, and whose deletion is pending, does not make it another one.
            is_settled = cursor.items == known.count - await self._leaving()
        walk = run.walk(tokens=cursor.tokens if is_settled else None)
        async for observation in self._read(walk):
            yield observation
        conclusion = self._unchanged() if run.listing.not_modified else self._conclude(walk, resumed=False)
        async for observation in conclusion:
            yield observation

    async def _resume(self) -> AsyncGenerator[Observation]:
        """The rest of an interrupted walk; then the part before, which may have changed since."""
        run, place = self._run, self._run.cursor.place
        since, begun = moment(run.cursor.since), moment(run.cursor.begun)
        rest = run.walk(place=place, since=since)
        async with aclosing(self._go_on(rest)) as observations:
            async for observation in observations:
                yield observation
        if run.endless:
            yield Incomplete(run.endless)
            return
        if not rest.refused:
            # What follows may fail as well, and should then begin here again.
            yield Checkpoint(replace(run.cursor, place=rest.reached or place, passed=run.all_passed()).to_json())
        if rest.unfiltered:
            # Only the place may be what is refused: the next run asks for changes as ever.
            yield FellBack(_REFUSED.format(rest.unfiltered))
        if rest.refused or rest.disobeyed or run.replaced:
            parts = self._whole()
        elif since is not None:
            parts = self._after_changes(begun or since)
        elif begun is not None and await self._can_tell_edits(rest, begun):
            parts = self._prove_part_before(rest, begun, place)
        else:
            parts = self._read_part_before(rest, place)
        async with aclosing(parts) as observations:
            async for observation in observations:
                yield observation

    async def _go_on(self, rest: Walk) -> AsyncGenerator[Observation]:
        """The rest of an interrupted walk; nothing if its place is no longer known.

        A catalog that is too busy can still resume from this place later, unless it is so at this place each time.
        """
        run = self._run
        log.info("resumed an interrupted walk")
        try:
            async for observation in self._read_changes(rest) if rest.since else self._read(rest):
                yield observation
            rest.refused = bool(rest.unfiltered)
        except SourceError as problem:
            is_busy = isinstance(problem, FetchError | TooMuchError)
            if not rest.received and is_busy and not run.cursor.stumbled:
                yield Checkpoint(replace(run.cursor, stumbled=True).to_json())
                raise
            if rest.received:
                raise
            rest.refused = True
            log.warning("could not resume an interrupted walk, which begins anew: %s", problem)
        except UNREADABLE as problem:
            # The position was written by another version, or is damaged.
            if rest.received:
                raise
            rest.refused = True
            log.warning("dropped a place that cannot be read; the walk begins anew: %r", problem)

    async def _can_tell_edits(self, rest: Walk, begun: datetime) -> bool:
        """Whether names and dates together prove the part before unchanged, for less than reading it costs.

        A name proves that a record is there, not that it is unchanged: only a source that obeys the filter tells what
        was edited. Records that cannot be identified have no names.
        """
        run = self._run
        if run.listing.roll is None or any(is_unread(one.url) for one in run.known.failed):
            return False
        if len(run.unidentified) or run.unreceived:
            return False
        await changes.probe(run, rest.declared)
        since = begun - timedelta(hours=run.options.overlap_h)
        edited = await changes.count_since(run, since) if run.cursor.filters else None
        return edited is not None and edited <= _EDITED_SHARE * run.known.count

    async def _prove_part_before(self, rest: Walk, begun: datetime, place: Any) -> AsyncGenerator[Observation]:
        """What was edited since the walk began, and the names of all the rest."""
        run = self._run
        run.newest = max(filter(None, (run.newest, begun)))
        edits = run.walk(since=begun - timedelta(hours=run.options.overlap_h))
        async for observation in self._read_changes(edits, resumable=False, counting=False):
            yield observation
        is_whole = not (edits.doubt or edits.repeated or edits.distinct < (edits.declared or 0))
        if edits.unfiltered:
            changes.distrusted(run, edits.unfiltered)
            is_whole = False
        elif not await changes.was_obeyed(run, edits):
            changes.distrusted(run)
            is_whole = False
        if rest.doubt or rest.repeated:
            parts = self._conclude(rest, resumed=True)
        else:
            parts = (
                self._after_retries(partial(self._call_roll, asked=None))
                if is_whole
                else self._read_part_before(rest, place)
            )
        async with aclosing(parts) as observations:
            async for observation in observations:
                yield observation

    async def _read_part_before(self, rest: Walk, place: Any) -> AsyncGenerator[Observation]:
        """The part before, read again; and what moved from one part into the other meanwhile."""
        walk = self._run.walk()
        async for observation in self._read(walk, until=place):
            yield observation
        if walk.place is not None:
            # It ended where the other part began. One that went on to the end of the listing has shown all of it.
            walk.join(rest)
        async for observation in self._moved_meanwhile():
            yield observation
        walk.doubt = walk.doubt or self._run.endless
        async for observation in self._conclude(walk, resumed=True):
            yield observation

    async def _moved_meanwhile(self) -> AsyncGenerator[Observation]:
        """What was edited since this run began: in a listing by date it has moved from one part into the other."""
        run = self._run
        if run.clock is None or not run.listing.dated or run.cursor.filters is False:
            return
        since = run.clock - timedelta(hours=run.options.overlap_h)
        walk = run.walk(since=since)
        async for observation in self._read_changes(walk, resumable=False, counting=False):
            yield observation
        if walk.unfiltered:
            changes.distrusted(run, walk.unfiltered)

    async def _unchanged(self) -> AsyncGenerator[Observation]:
        """The document is the one that we hold: so is everything in it, and the same records fail."""
        failed = [Failed(*one) for one in self._run.cursor.failed or ()]
        keys = {key(one.url) for one in failed}
        for one in failed:
            yield one
        leaving = 0
        async for batch in self._run.known.everything():
            for held in batch:
                leaving += held.is_leaving
                if not held.is_leaving and (not keys or key(held.url) not in keys):
                    yield Unchanged(held.url)
        yield Complete(expected=self._run.known.count - leaving)

    async def _leaving(self) -> int:
        """How many items the catalog did not show when it was last seen whole, and are held all the same."""
        leaving = 0
        async for batch in self._run.known.everything():
            leaving += sum(held.is_leaving for held in batch)
        return leaving

    async def _conclude(self, walk: Walk, *, resumed: bool) -> AsyncGenerator[Observation]:
        """What a whole walk proved."""
        run = self._run
        short = await completeness.shortfall_of(run, walk)
        if completeness.is_second_look_wanted(run, walk, short):
            named = replace(walk, doubt=None, shrank=False, restarted=False, fresh=0)
            before = max(one.most for one in run.walks)
            again = named if run.listing.roll is not None else run.walk()
            async for observation in self._look_again(again):
                yield observation
            walk, short = again, await completeness.shortfall_of(run, again)
            walk.doubt = walk.doubt or (completeness.shortfall(run, walk) if short > 0 and walk.fresh else None)
            if run.listing.roll is None:
                walk.doubt = walk.doubt or completeness.mixture(run, walk, before)
        if why := completeness.doubt(run, walk, short):
            if resumed and walk.restarted:
                # The place is not minded any more: the next run begins anew instead of going on there.
                yield Checkpoint(replace(run.left(), walked=None).to_json())
            yield Incomplete(why)
            return
        if why := await completeness.misses(run, walk, short):
            # A count that is wrong by as much in another walk, which is the next run, is believed.
            yield Checkpoint(replace(run.left(), walked=None, short=short).to_json())
            yield Incomplete(why)
            return
        if run.unreceived and run.unreceived.keys() <= run.quarantined:
            # They may fail for ever; deletions do not wait for them.
            async for observation in ask_for_missing(run):
                yield observation
        if why := await completeness.unreceived(run):
            async for observation in self._leave_open(walk, why):
                yield observation
            return
        if why := await completeness.mistakable(run):
            # The next run is another walk, will meet the same ones, and is believed.
            yield Checkpoint(replace(run.left(), walked=None, unidentified=run.unidentified.kept()).to_json())
            yield Incomplete(why, some_failed=True)
            return
        for gone in self._places_left():
            yield gone
        await changes.probe(run, walk.declared)
        # More records than are declared: some went while we looked, which only another walk can tell, or it is a habit.
        proved = short >= 0 or short == run.cursor.short
        run.cursor = replace(run.cursor, short=short or None)
        cursor = run.settled(walk.declared, kept=run.kept, proved=proved)
        yield Checkpoint((await changes.with_overlap(run, cursor)).to_json())
        yield Complete(expected=None if resumed else run.kept + run.lost)

    async def _leave_open(self, walk: Walk, why: str) -> AsyncGenerator[Observation]:
        """The end of a walk that could not receive some records, and so cannot tell what is gone.

        Another walk would prove no more: the next runs read what changes, and ask for the places of these records.
        """
        run = self._run
        for gone in self._places_left({one.url for one in run.known.failed if is_unread(one.url)}):
            yield gone
        await changes.probe(run, walk.declared)
        kept = run.kept + await completeness.lacking(run)
        cursor = run.settled(walk.declared, kept=kept, proved=True)
        yield Checkpoint((await changes.with_overlap(run, cursor)).to_json())
        yield Incomplete(why, some_failed=True)

    def _places_left(self, before: AbstractSet[str] = frozenset()) -> list[Gone]:
        """Report positions as gone where this walk met no unidentified record any more."""
        return [Gone(url) for url in sorted(before | self._run.unread) if url not in self._run.seen]

    async def _look_again(self, walk: Walk) -> AsyncGenerator[Observation]:
        """A second look for what slipped past: by names where there is a roll call, else by another walk."""
        run = self._run
        if run.listing.roll is None:
            async for observation in self._read(walk, resumable=False):
                yield observation
            return
        roll = Roll(run, run.listing.roll)
        async with aclosing(roll.names(proves=False)) as observations:
            async for observation in observations:
                yield observation
        async with aclosing(roll.read_missing()) as observations:
            async for observation in observations:
                yield observation
        walk.declared, walk.received, walk.doubt = roll.declared, roll.received, run.endless or roll.doubt()

    async def _call_roll(self, *, asked: changes.Since | None) -> AsyncGenerator[Observation]:
        """What names prove after the changes were read: what is gone, what was never read, and that the rest is there.

        `asked` is the question for these changes, None where the rest of a whole walk was read as well.
        """
        run = self._run
        if run.listing.roll is None:
            return
        log.info("called the roll: the count is not what was expected, or a walk had been interrupted")
        roll = Roll(run, run.listing.roll)
        async with aclosing(roll.names(proves=True)) as observations:
            async for observation in observations:
                yield observation
        if run.endless:
            yield Checkpoint(run.left().to_json())
            yield Incomplete(run.endless)
            return
        retries = Retries(run)
        async for observation in retries.places(all_of_them=True):
            yield observation
        if why := retries.walk_wanted or await roll.is_too_little():
            yield FellBack(why)
            async for observation in self._whole():
                yield observation
            return
        async with aclosing(roll.read_missing()) as observations:
            async for observation in observations:
                yield observation
        for failed in roll.failed_again():
            yield failed
        if why := roll.doubt():
            yield Incomplete(why)
            return
        run.passed &= roll.listed
        cursor = run.called(roll.declared, kept=roll.kept, whole=asked is None, proved=roll.is_settled())
        yield Checkpoint((await changes.with_overlap(run, cursor, asked)).to_json())
        yield Complete(expected=roll.kept)

    async def _catch_up(self, modified: datetime) -> AsyncGenerator[Observation]:
        """What was modified since the cursor; then the count tells whether anything else is missing."""
        run = self._run
        asked = await changes.since_when(run, modified)
        walk = run.walk(since=asked.since)
        async for observation in self._read_changes(walk):
            yield observation
        if run.endless:
            yield Incomplete(run.endless)
            return
        if walk.unfiltered:
            changes.distrusted(run, walk.unfiltered)
            parts = self._without_filter()
        elif run.replaced:
            log.info("many records are new, but the catalog is no larger: it was walked whole")
            parts = self._whole()
        elif walk.disobeyed or not (asked.is_short or await changes.was_obeyed(run, walk)):
            changes.distrusted(run)
            parts = self._without_filter()
        elif (
            walk.doubt
            or walk.repeated
            or walk.distinct < (walk.declared or 0) - (run.cursor.short or 0)
            or walk.unreceived > len(run.holes)
        ):
            yield FellBack(walk.doubt or "The list of what was modified is not whole.")
            parts = self._whole()
        else:
            changes.trusted(run)
            parts = self._after_retries(partial(self._compare_counts, asked))
        async with aclosing(parts) as observations:
            async for observation in observations:
                yield observation

    async def _after_retries(self, following: Callable[[], AsyncGenerator[Observation]]) -> AsyncGenerator[Observation]:
        """What failed before, as far as it can be asked for; then what follows, or a whole walk."""
        retries = Retries(self._run)
        async with aclosing(retries.rows()) as observations:
            async for observation in observations:
                yield observation
        if retries.walk_wanted:
            yield FellBack(retries.walk_wanted)
        async with aclosing(self._whole() if retries.walk_wanted else following()) as observations:
            async for observation in observations:
                yield observation

    async def _after_changes(self, begun: datetime) -> AsyncGenerator[Observation]:
        """The rest of an interrupted list of changes was read: those since it began follow."""
        run = self._run
        modified = max(filter(None, (stamp(begun), run.cursor.modified)))
        run.cursor = changes.uncounted(replace(run.left(), modified=modified))
        async for observation in self._catch_up(moment(modified) or begun):
            yield observation

    async def _compare_counts(self, asked: changes.Since) -> AsyncGenerator[Observation]:
        run = self._run
        declared = None if run.listing.tells_deletions else await run.listing.count()
        if declared == 0 and run.known.count:
            yield Incomplete(f"The catalog declares nothing, although {run.known.count} are held.")
        elif declared is None and run.cursor.surplus is not None and not run.listing.tells_deletions:
            # What was deleted since shows in no listing; without a count, only a walk tells.
            yield FellBack("The catalog no longer tells how many records it has.")
            async for observation in self._whole():
                yield observation
        elif declared is not None and declared != run.expected:
            log.info("the count is not what was expected")
            parts = self._whole() if run.listing.roll is None else self._call_roll(asked=asked)
            async with aclosing(parts) as observations:
                async for observation in observations:
                    yield observation
        else:
            # As many are there as should be, and so what failed again is among them.
            for failed in run.failed_again:
                yield failed
            if declared is not None or run.listing.tells_deletions:
                yield Proved()
            if (cursor := (await changes.with_overlap(run, run.moved(), asked)).to_json()) != run.stored:
                yield Checkpoint(cursor)

    async def _read(
        self, walk: Walk, *, until: Any = None, resumable: bool = True, counting: bool = False
    ) -> AsyncGenerator[Observation]:
        """The records of a walk, with a checkpoint after each page but the last."""
        run = self._run
        async with aclosing(walk.rows()) as pages:
            async for rows in pages:
                new = await run.take(rows, counting=counting)
                if counting and await changes.is_replaced(run, new, len(rows)):
                    run.replaced = True
                    return
                if run.cursor.tokens is not None:
                    # Some of it will be stored before the last page: what the tokens stand for is held no longer.
                    run.cursor = replace(run.cursor, tokens=None, failed=None)
                    yield Checkpoint(run.cursor.to_json())
                for row in (*rows, *walk.again):
                    if not row.named:
                        run.note_unidentified(row)
                    yield row.observed
                run.endless = run.bounds.exceeded(walk.received, walk.declared)
                if run.endless:
                    walk.doubt = run.endless
                    # From here the next run would go on for as long again.
                    yield Checkpoint(run.left().to_json())
                    return
                run.note_dates(walk)
                if cursor := self._on_the_way(walk, resumable=resumable, counting=counting):
                    run.stored = cursor.to_json()
                    yield Checkpoint(run.stored)
                if until is not None and self._has_reached(until, walk, rows):
                    return

    async def _read_changes(
        self, walk: Walk, *, resumable: bool = True, counting: bool = True
    ) -> AsyncGenerator[Observation]:
        """The records of a list of changes; the walk tells if the catalog cannot be asked for one any more."""
        try:
            async for observation in self._read(walk, resumable=resumable, counting=counting):
                yield observation
        except SourceError as problem:
            await changes.blame(self._run, walk, problem)
        else:
            # Some connectors detect the refusal themselves, and report it in place of a first page.
            walk.unfiltered = None if walk.received or walk.unreceived else walk.doubt

    def _on_the_way(self, walk: Walk, *, resumable: bool, counting: bool) -> CatalogCursor | None:
        """Where the next run would go on if this one ended here."""
        listing = self._run.listing
        if walk.place is None or walk.disobeyed or not resumable:
            return None
        if counting and listing.rising:
            return changes.uncounted(self._run.moved()) if walk.ascending else None
        return self._run.interrupted(walk) if not counting or listing.roll is not None else None

    def _has_reached(self, until: Any, walk: Walk, rows: list[Row]) -> bool:
        """Whether the part before ends here; in the order of names, so does a page of records that came already."""
        if walk.declared is None:
            return False
        return walk.place == until or (self._run.listing.roll is not None and walk.received > 0 and not rows)
