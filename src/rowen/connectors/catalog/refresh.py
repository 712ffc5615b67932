"""One run over a catalog of any protocol.

There are three kinds of walk:

- A whole walk reads all records. It proves what is gone, by its declared count and the records seen (`completeness`).
- Changes are the records modified since the newest stored date (`changes`). Deletions show in no list of changes, but
  in the count: where it differs from what is expected, the identifier listing shows what is gone; kinds without one
  are walked whole.
- An interrupted whole walk is resumed at its place. The part before may have changed meanwhile and is read again.

Failed records of earlier runs are requested one by one (`retries`). Nothing is deleted unless a walk or an identifier
listing proved that it saw everything, and no filter is trusted without a check. The state of the run is `state`, what
the next run needs is `cursor`.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from rowen.connectors.base import Known, is_unread
from rowen.connectors.catalog import changes, completeness
from rowen.connectors.catalog.completeness import IdentifierCheck
from rowen.connectors.catalog.cursor import CatalogCursor
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import Listing, Row
from rowen.connectors.catalog.options import CatalogOptions
from rowen.connectors.catalog.portal_client import TooMuchError
from rowen.connectors.catalog.retries import Retries, ask_for_missing, is_walk_wanted
from rowen.connectors.catalog.state import RunState
from rowen.connectors.catalog.walk import Walk
from rowen.errors import FetchError, SourceError
from rowen.model.items import (
    Checkpoint,
    Complete,
    Failed,
    FellBack,
    Gone,
    Incomplete,
    Namesakes,
    Observation,
    Proved,
    Unchanged,
)
from rowen.model.text import UNREADABLE
from rowen.model.url import key

__all__ = ["Refresh"]

_REFUSED = "The catalog cannot be asked for what was modified: {}"

log = logging.getLogger(__name__)


class Refresh:
    """The observations of one run over a catalog."""

    def __init__(self, listing: Listing, known: Known, options: CatalogOptions, *, now: Callable[[], datetime]) -> None:
        self._run = RunState.begin(listing, known, options, now=now)
        self._stored: Any = known.cursor

    async def pull(self) -> AsyncGenerator[Observation]:
        """Resume an interrupted walk, read what changed, or walk the catalog whole."""
        run = self._run
        modified = moment(run.cursor.modified)
        # Only a whole walk shows records that cannot be requested alone, and edits without a new date.
        is_due = run.cursor.is_due(run.now(), run.options.reconcile_days)
        if run.cursor.place is not None:
            parts = self._resume()
        elif modified is None or not run.listing.dated or is_due or is_walk_wanted(run):
            parts = self._whole()
        elif await changes.may_use_filter(run, modified):
            parts = self._changes(modified)
        else:
            parts = self._without_filter()
        async with aclosing(parts) as observations:
            async for observation in observations:
                namesakes = Namesakes(run.shown.shared, run.shown.dropped)
                if isinstance(observation, Complete | Incomplete) and namesakes:
                    yield namesakes
                yield observation

    # Whole walks

    async def _whole(self) -> AsyncGenerator[Observation]:
        """Read all records, from the first one on."""
        run = self._run
        run.begin_anew()
        cursor, known = run.cursor, run.known
        is_settled = cursor.place is None and run.are_failures_explained()
        if is_settled and cursor.tokens is not None and cursor.items != known.count:
            # Items whose deletion is pending are not in the document any more, and do not make it another one.
            leaving = 0
            async for batch in known.everything():
                leaving += sum(item.is_leaving for item in batch)
            is_settled = cursor.items == known.count - leaving
        walk = Walk.begin(run, tokens=cursor.tokens if is_settled else None)
        async for observation in self._read(walk):
            yield observation
        conclusion = self._unchanged() if run.listing.not_modified else self._conclude(walk, resumed=False)
        async for observation in conclusion:
            yield observation

    async def _without_filter(self) -> AsyncGenerator[Observation]:
        """Walk the catalog whole, because changes cannot be requested."""
        error = self._run.cursor.refused
        yield FellBack(_REFUSED.format(error) if error else changes.IGNORED)
        async for observation in self._whole():
            yield observation

    async def _resume(self) -> AsyncGenerator[Observation]:
        """Read the rest of an interrupted walk, then the part before, which may have changed since."""
        run, place = self._run, self._run.cursor.place
        rest = Walk.begin(run, place=place)
        log.info("resumed an interrupted walk")
        try:
            async for observation in self._read(rest):
                yield observation
        except (SourceError, *UNREADABLE) as problem:
            # An error that is no `SourceError`: the place was written by another version, or is damaged.
            if rest.received:
                raise
            if isinstance(problem, FetchError | TooMuchError) and not run.cursor.stumbled:
                # A catalog that is too busy can still be resumed at this place later, unless it is busy there each
                # time.
                yield Checkpoint(replace(run.cursor, stumbled=True).to_json())
                raise
            log.warning("could not resume an interrupted walk, which begins anew: %r", problem)
            async for observation in self._whole():
                yield observation
            return
        if run.endless:
            yield Incomplete(run.endless)
            return
        before = Walk.begin(run)
        async for observation in self._read(before, until=place):
            yield observation
        if before.place is not None:
            # It ended where the other part began. A walk to the end of the listing has shown all of it.
            before.join(rest)
        if run.clock is not None and run.listing.dated and run.cursor.filters is not False:
            # In a listing by date, an edit during this run moves a record from one part into the other.
            moved = Walk.begin(run, since=run.clock - timedelta(hours=run.options.overlap_h))
            async for observation in self._read_changes(moved, counting=False):
                yield observation
            if moved.unfiltered or moved.disobeyed:
                changes.distrust_filter(run, moved.unfiltered)
        before.doubt = before.doubt or run.endless
        async for observation in self._conclude(before, resumed=True):
            yield observation

    async def _unchanged(self) -> AsyncGenerator[Observation]:
        """Report all items as unchanged, and the same records as failed: the document is the stored one."""
        run = self._run
        failed = [Failed(*one) for one in run.cursor.failed or ()]
        keys = {key(one.url) for one in failed}
        for one in failed:
            yield one
        leaving = 0
        async for batch in run.known.everything():
            for item in batch:
                leaving += item.is_leaving
                if not item.is_leaving and (not keys or key(item.url) not in keys):
                    yield Unchanged(item.url)
        yield Complete(expected=run.known.count - leaving)

    async def _conclude(self, walk: Walk, *, resumed: bool) -> AsyncGenerator[Observation]:
        """Report what a whole walk proved."""
        run = self._run
        short = await completeness.shortfall_of(run, walk)
        if completeness.is_second_look_wanted(run, walk, short):
            before = len(run.seen)
            again = walk if run.listing.identifiers is not None else Walk.begin(run)
            async for observation in self._look_again(again):
                yield observation
            short = await completeness.shortfall_of(run, again)
            if again is not walk:
                # It proves something if it is whole by itself, or shows the same records as the first look.
                is_whole = again.declared is None or again.distinct >= again.declared
                if not is_whole and not before == again.distinct == len(run.seen):
                    looks = f"two walks show {before} and {again.distinct}, not all the same"
                    again.doubt = again.doubt or f"The catalog declares {again.declared} records, but {looks}."
            walk = again
        if why := completeness.doubt(run, walk, short):
            if resumed and walk.restarted:
                # The source ignores the place: the next run begins anew instead of resuming there.
                yield Checkpoint(replace(run.left(), walked=None).to_json())
            yield Incomplete(why)
            return
        if why := await completeness.misses(run, walk, short):
            # A count that is wrong by as much in another walk, which is the next run, is believed.
            yield Checkpoint(replace(run.left(), walked=None, short=short).to_json())
            yield Incomplete(why)
            return
        unreceived = run.shown.unreceived
        if unreceived and unreceived.keys() <= run.quarantined:
            # They may fail for ever; deletions do not wait for them.
            async for observation in ask_for_missing(run):
                yield observation
        if why := await completeness.unreceived(run):
            # Another walk would prove no more: the next runs read what changes, and request these records again.
            for gone in self._places_left({one.url for one in run.known.failed if is_unread(one.url)}):
                yield gone
            await changes.probe_filter(run, walk.declared)
            cursor = run.settled(walk.declared, kept=run.shown.kept + await completeness.lacking(run), proved=True)
            yield Checkpoint((await changes.add_overlap(run, cursor)).to_json())
            yield Incomplete(why, some_failed=True)
            return
        if why := await completeness.mistakable(run):
            # The next run is another walk, will meet the same ones, and is believed.
            known = run.shown.unidentified.stored()
            yield Checkpoint(replace(run.left(), walked=None, unidentified=known).to_json())
            yield Incomplete(why, some_failed=True)
            return
        for gone in self._places_left():
            yield gone
        await changes.probe_filter(run, walk.declared)
        # More records than are declared: some went during the walk, which only another one can show, or it is always
        # so.
        proved = short >= 0 or short == run.cursor.short
        run.cursor = replace(run.cursor, short=short or None)
        cursor = run.settled(walk.declared, kept=run.shown.kept, proved=proved)
        yield Checkpoint((await changes.add_overlap(run, cursor)).to_json())
        yield Complete(expected=None if resumed else run.shown.kept + run.shown.lost)

    def _places_left(self, before: AbstractSet[str] = frozenset()) -> list[Gone]:
        """Report positions as gone where this walk met no unidentified record any more."""
        return [Gone(url) for url in sorted(before | self._run.unread) if url not in self._run.seen]

    async def _look_again(self, walk: Walk) -> AsyncGenerator[Observation]:
        """Look for records that slipped past a walk: by identifiers where they can be listed, else by another walk."""
        run = self._run
        if run.listing.identifiers is None:
            async for observation in self._read(walk, resumable=False):
                yield observation
            return
        check = IdentifierCheck(run, run.listing.identifiers)
        async with aclosing(check.compare(proves=False)) as observations:
            async for observation in observations:
                yield observation
        async with aclosing(check.read_missing()) as observations:
            async for observation in observations:
                yield observation
        walk.shrank = walk.restarted = False
        walk.declared, walk.received, walk.doubt = check.declared, check.received, run.endless or check.doubt()

    # Changes

    async def _changes(self, modified: datetime) -> AsyncGenerator[Observation]:
        """Read what was modified since the cursor; then the count shows whether anything else is missing."""
        run = self._run
        asked = await changes.choose_since(run, modified)
        walk = Walk.begin(run, since=asked.since)
        async for observation in self._read_changes(walk, counting=True):
            yield observation
        if run.endless:
            yield Incomplete(run.endless)
            return
        if walk.unfiltered:
            changes.distrust_filter(run, walk.unfiltered)
            parts = self._without_filter()
        elif run.replaced:
            log.info("many records are new, but the catalog is no larger: it was walked whole")
            parts = self._whole()
        elif walk.disobeyed or not (asked.is_short or await changes.is_filter_applied(run, walk)):
            changes.distrust_filter(run)
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
            changes.trust_filter(run)
            retries = Retries(run)
            async with aclosing(retries.rows()) as observations:
                async for observation in observations:
                    yield observation
            if retries.walk_wanted:
                yield FellBack(retries.walk_wanted)
            parts = self._whole() if retries.walk_wanted else self._compare_counts(asked)
        async with aclosing(parts) as observations:
            async for observation in observations:
                yield observation

    async def _compare_counts(self, asked: changes.Since) -> AsyncGenerator[Observation]:
        """Compare the declared count with the expected one; a deletion shows nowhere else."""
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
            parts = self._whole() if run.listing.identifiers is None else self._check_identifiers(asked)
            async with aclosing(parts) as observations:
                async for observation in observations:
                    yield observation
        else:
            # As many are there as should be, and so what failed again is among them.
            for failed in run.failed_again:
                yield failed
            if declared is not None or run.listing.tells_deletions:
                yield Proved()
            if (cursor := (await changes.add_overlap(run, run.moved(), asked)).to_json()) != self._stored:
                yield Checkpoint(cursor)

    async def _check_identifiers(self, asked: changes.Since) -> AsyncGenerator[Observation]:
        """Report what identifiers prove after the changes were read: what is gone, and that the rest is unchanged."""
        run = self._run
        if run.listing.identifiers is None:
            return
        check = IdentifierCheck(run, run.listing.identifiers)
        async with aclosing(check.compare(proves=True)) as observations:
            async for observation in observations:
                yield observation
        if run.endless:
            yield Checkpoint(run.left().to_json())
            yield Incomplete(run.endless)
            return
        retries = Retries(run)
        async for observation in retries.places(all_of_them=True):
            yield observation
        if why := retries.walk_wanted or await check.needs_walk():
            yield FellBack(why)
            async for observation in self._whole():
                yield observation
            return
        async with aclosing(check.read_missing()) as observations:
            async for observation in observations:
                yield observation
        for failed in check.failed_again():
            yield failed
        if why := check.doubt():
            yield Incomplete(why)
            return
        run.passed &= check.listed
        proved = check.is_settled()
        cursor = run.moved()
        cursor = replace(
            cursor,
            walked=cursor.walked if proved else None,
            surplus=None if check.declared is None else check.declared - check.kept,
            # Identifiers do not show what unidentified records contain.
            unidentified=run.shown.unidentified.stored(run.cursor.unidentified or ()),
        )
        yield Checkpoint((await changes.add_overlap(run, cursor, asked)).to_json())
        yield Complete(expected=check.kept)

    # Pages

    async def _read(
        self, walk: Walk, *, until: Any = None, resumable: bool = True, counting: bool = False
    ) -> AsyncGenerator[Observation]:
        """Read the records of a walk, with a checkpoint after each page but the last."""
        run = self._run
        async with aclosing(walk.rows()) as pages:
            async for rows, again in pages:
                new = await run.take(rows, counting=counting)
                if counting and await changes.are_items_replaced(run, new, len(rows)):
                    run.replaced = True
                    return
                if run.cursor.tokens is not None:
                    # Some records will be stored before the last page: the tokens stand for the stored ones no longer.
                    run.cursor = replace(run.cursor, tokens=None, failed=None)
                    yield Checkpoint(run.cursor.to_json())
                for row in (*rows, *again):
                    if not row.named:
                        run.note_unidentified(row)
                    yield row.observed
                run.endless = run.excess(walk.received, walk.declared)
                if run.endless:
                    walk.doubt = run.endless
                    # From here the next run would go on for as long again.
                    yield Checkpoint(run.left().to_json())
                    return
                run.clock = run.clock or run.now()
                run.newest = max(filter(None, (run.newest, walk.newest)), default=None)
                if resumable and (cursor := self._on_the_way(walk, counting=counting)):
                    self._stored = cursor.to_json()
                    yield Checkpoint(self._stored)
                if until is not None and self._has_reached(until, walk, rows):
                    return

    async def _read_changes(self, walk: Walk, *, counting: bool) -> AsyncGenerator[Observation]:
        """Read the records of a list of changes; set `walk.unfiltered` if the filter does not work any more."""
        try:
            async for observation in self._read(walk, resumable=counting, counting=counting):
                yield observation
        except SourceError as problem:
            await changes.blame_filter(self._run, walk, problem)
        else:
            # Some connectors detect the refusal themselves, and report it in place of a first page.
            walk.unfiltered = None if walk.received or walk.unreceived else walk.doubt

    def _on_the_way(self, walk: Walk, *, counting: bool) -> CatalogCursor | None:
        """Return the cursor with which the next run goes on if this one ends here."""
        if walk.place is None or walk.disobeyed:
            return None
        if not counting:
            return self._run.interrupted(walk.place)
        # A list of changes is not resumed, but where the oldest come first the date moves on.
        return changes.drop_overlap_count(self._run.moved()) if self._run.listing.rising and walk.ascending else None

    def _has_reached(self, until: Any, walk: Walk, rows: list[Row]) -> bool:
        """Return whether the part before ends here; in the order of identifiers, also at a page without new records."""
        if walk.declared is None:
            return False
        return walk.place == until or (self._run.listing.identifiers is not None and walk.received > 0 and not rows)
