"""One run over a catalog of any protocol.

There are three kinds of walk:

- A whole walk reads all records. It proves which items were deleted, by the declared count and the records seen
  (`completeness`).
- A walk over changes reads the records modified since the newest stored date (`changes`). A list of changes contains no
  deletions, but the count shows them: if it differs from the expected count, the identifier listing shows which items
  were deleted. A kind without an identifier listing is walked whole.
- An interrupted whole walk is resumed at its place. Its first part may have changed meanwhile and is read again.

Records that failed in earlier runs are requested one by one (`retries`). Nothing is deleted unless a walk or an
identifier listing proved that it saw everything, and no filter is trusted without a check. `state` contains the state
of the run, `cursor` the state that the next run needs.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from rowen.connectors.base import Known, is_unread
from rowen.connectors.catalog import changes, completeness
from rowen.connectors.catalog.completeness import IdentifierCheck
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import IdentifierListing, Listing
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

_REFUSED = "The catalog cannot be queried by date: {}"
# A generator of observations; when it yields another part, that part is read next.
Part = AsyncGenerator["Observation | Part"]
log = logging.getLogger(__name__)


class Refresh:
    """One run over a catalog, as a stream of observations."""

    def __init__(self, listing: Listing, known: Known, options: CatalogOptions, *, now: Callable[[], datetime]) -> None:
        self._run = RunState.begin(listing, known, options, now=now)
        self._stored: Any = known.cursor

    async def pull(self) -> AsyncGenerator[Observation]:
        """Yield the observations of a resumed walk, of the changes, or of a whole walk."""
        run = self._run
        modified = moment(run.cursor.modified)
        # Only a whole walk shows records that cannot be requested individually, and edits without a new date.
        is_due = run.cursor.is_due(run.now(), run.options.reconcile_days)
        parts: list[Part]
        if run.cursor.place is not None:
            parts = [self._resume()]
        elif modified is None or not run.listing.dated or is_due or is_walk_wanted(run):
            parts = [self._walk_whole()]
        elif await changes.may_use_filter(run, modified):
            parts = [self._walk_changes(modified)]
        else:
            parts = [self._walk_without_filter()]
        try:
            while parts:
                step = await anext(parts[-1], None)
                if step is None:
                    parts.pop()
                elif isinstance(step, AsyncGenerator):
                    parts.append(step)
                else:
                    namesakes = Namesakes(run.shown.shared, run.shown.dropped)
                    if isinstance(step, Complete | Incomplete) and namesakes:
                        yield namesakes
                    yield step
        finally:
            for part in reversed(parts):
                await part.aclose()

    # Whole walks

    async def _walk_whole(self) -> Part:
        """Walk the whole catalog, beginning with its first record."""
        run = self._run
        run.begin_anew()
        cursor, known = run.cursor, run.known
        is_settled = cursor.place is None and run.are_failures_explained()
        if is_settled and cursor.tokens is not None and cursor.items != known.count:
            # Items with a pending deletion are no longer in the document, and do not mean that it has changed.
            leaving = 0
            async for batch in known.everything():
                leaving += sum(item.is_leaving for item in batch)
            is_settled = cursor.items == known.count - leaving
        walk = Walk.begin(run, tokens=cursor.tokens if is_settled else None)
        yield self._read(walk)
        if not run.listing.not_modified:
            yield self._conclude(walk, resumed=False)
            return
        # The document has not changed: all items are unchanged, and the same records fail.
        failed = [Failed(*failure) for failure in cursor.failed or ()]
        keys = {key(failure.url) for failure in failed}
        for failure in failed:
            yield failure
        leaving = 0
        async for batch in known.everything():
            for item in batch:
                leaving += item.is_leaving
                if not item.is_leaving and (not keys or key(item.url) not in keys):
                    yield Unchanged(item.url)
        yield Complete(expected=known.count - leaving)

    async def _walk_without_filter(self) -> Part:
        """Walk the catalog whole, because its changes cannot be requested."""
        error = self._run.cursor.refused
        yield FellBack(_REFUSED.format(error) if error else changes.IGNORED)
        yield self._walk_whole()

    async def _resume(self) -> Part:
        """Read the rest of an interrupted walk, then its first part again, which may have changed since."""
        run, place = self._run, self._run.cursor.place
        rest = Walk.begin(run, place=place)
        log.info("resumed an interrupted walk")
        try:
            async for observation in self._read(rest):
                yield observation
        except (SourceError, *UNREADABLE) as problem:
            # An error other than `SourceError` means that the place was written by another version, or is damaged.
            if rest.received:
                raise
            if isinstance(problem, FetchError | TooMuchError) and not run.cursor.stumbled:
                # A busy catalog can be resumed at this place by the next run; if it fails there again, the walk begins
                # anew.
                yield Checkpoint(replace(run.cursor, stumbled=True).to_json())
                raise
            log.warning("could not resume an interrupted walk, which begins anew: %r", problem)
            yield self._walk_whole()
            return
        if run.endless:
            yield Incomplete(run.endless)
            return
        before = Walk.begin(run)
        yield self._read(before, until=place)
        if before.place is not None:
            # This walk ended where the other part began. A walk to the end of the listing needs no other part.
            before.join(rest)
        if run.clock is not None and run.listing.dated and run.cursor.filters is not False:
            # In a listing by date, an edit during this run moves a record from one part into the other.
            moved = Walk.begin(run, since=run.clock - timedelta(hours=run.options.overlap_h))
            yield self._read_changes(moved, counting=False)
            if moved.unfiltered or moved.disobeyed:
                changes.distrust_filter(run, moved.unfiltered)
        before.doubt = before.doubt or run.endless
        yield self._conclude(before, resumed=True)

    async def _conclude(self, walk: Walk, *, resumed: bool) -> Part:
        """Look for missing records if necessary, then report the result of a whole walk."""
        run = self._run
        short = await completeness.shortfall_of(run, walk)
        if completeness.is_second_look_wanted(run, walk, short):
            before = len(run.seen)
            again = walk if run.listing.identifiers is not None else Walk.begin(run)
            yield self._read_missed(again)
            short = await completeness.shortfall_of(run, again)
            if again is not walk:
                # The second walk is a proof if it is complete, or shows the same records as the first walk.
                is_whole = again.declared is None or again.distinct >= again.declared
                if not is_whole and not before == again.distinct == len(run.seen):
                    counts = f"two walks show {before} and {again.distinct}, not all the same"
                    again.doubt = again.doubt or f"The catalog declares {again.declared} records, but {counts}."
            walk = again
        if why := completeness.doubt(run, walk, short):
            if resumed and walk.restarted:
                # The source ignores the place: the next run begins anew instead of resuming there.
                yield Checkpoint(replace(run.left(), walked=None).to_json())
            yield Incomplete(why)
            return
        if why := await completeness.misses(run, walk, short):
            # If the next run, which is another walk, has the same shortfall, the declared count is considered wrong.
            yield Checkpoint(replace(run.left(), walked=None, short=short).to_json())
            yield Incomplete(why)
            return
        unreceived = run.shown.unreceived
        if unreceived and unreceived.keys() <= run.quarantined:
            # These records may fail permanently, so deletions do not wait for them.
            yield ask_for_missing(run)
        why = await completeness.unreceived(run)
        if not why and (why_unidentified := await completeness.mistakable(run)):
            # The next run is another walk; if it meets the same unidentified records, they are assumed to be no items.
            known = run.shown.unidentified.stored()
            yield Checkpoint(replace(run.left(), walked=None, unidentified=known).to_json())
            yield Incomplete(why_unidentified, some_failed=True)
            return
        # The quarantined unidentified records, some of which this walk no longer met.
        places = run.unread | {failed.url for failed in run.known.failed if why and is_unread(failed.url)}
        for url in sorted(places):
            if url not in run.seen:
                yield Gone(url)
        await changes.probe_filter(run, walk.declared)
        if why:
            # Another walk would prove no more: the next runs read the changes, and request these records again.
            kept, proved = run.shown.kept + await completeness.lacking(run), True
        else:
            # If there are more records than declared, some were deleted during the walk, which only another walk can
            # show, or the declared count is always too low.
            kept, proved = run.shown.kept, short >= 0 or short == run.cursor.short
            run.cursor = replace(run.cursor, short=short or None)
        cursor = run.settled(walk.declared, kept=kept, proved=proved)
        yield Checkpoint((await changes.add_overlap(run, cursor)).to_json())
        if why:
            yield Incomplete(why, some_failed=True)
        else:
            yield Complete(expected=None if resumed else run.shown.kept + run.shown.lost)

    async def _read_missed(self, walk: Walk) -> Part:
        """Look for missed records: by the identifier listing if there is one, else by a second walk."""
        run = self._run
        if run.listing.identifiers is None:
            yield self._read(walk, resumable=False)
            return
        check = IdentifierCheck(run, run.listing.identifiers)
        yield check.compare(proves=False)
        yield check.read_missing()
        walk.shrank = walk.restarted = False
        walk.declared, walk.received, walk.doubt = check.declared, check.received, run.endless or check.doubt()

    # Changes

    async def _walk_changes(self, modified: datetime) -> Part:
        """Read the records modified since the cursor, then check by the count whether other records are missing."""
        run = self._run
        start = await changes.choose_since(run, modified)
        walk = Walk.begin(run, since=start.since)
        yield self._read_changes(walk, counting=True)
        if run.endless:
            yield Incomplete(run.endless)
        elif walk.unfiltered:
            changes.distrust_filter(run, walk.unfiltered)
            yield self._walk_without_filter()
        elif run.replaced:
            log.info("many records are new, but the catalog is no larger: it was walked whole")
            yield self._walk_whole()
        elif walk.disobeyed or not (start.is_short or await changes.is_filter_applied(run, walk)):
            changes.distrust_filter(run)
            yield self._walk_without_filter()
        elif (
            walk.doubt
            or walk.repeated
            or walk.distinct < (walk.declared or 0) - (run.cursor.short or 0)
            or walk.unreceived > len(run.holes)
        ):
            yield FellBack(walk.doubt or "The list of what was modified is not whole.")
            yield self._walk_whole()
        else:
            changes.trust_filter(run)
            retries = Retries(run)
            yield retries.rows()
            if retries.walk_wanted:
                yield FellBack(retries.walk_wanted)
            yield self._walk_whole() if retries.walk_wanted else self._compare_counts(start)

    async def _compare_counts(self, start: changes.Since) -> Part:
        """Compare the declared count with the expected count, because deletions do not appear among changes."""
        run = self._run
        declared = None if run.listing.tells_deletions else await run.listing.count()
        if declared == 0 and run.known.count:
            yield Incomplete(f"The catalog declares nothing, although {run.known.count} items are stored.")
        elif declared is None and run.cursor.surplus is not None and not run.listing.tells_deletions:
            # Without a count, only a walk finds the deletions since the last run.
            yield FellBack("The catalog no longer declares how many records it has.")
            yield self._walk_whole()
        elif declared is not None and declared != run.expected:
            log.info("the count is not what was expected")
            listing = run.listing.identifiers
            yield self._walk_whole() if listing is None else self._check_identifiers(listing, start)
        else:
            # The count is as expected, so the records that failed again still exist.
            for failed in run.failed_again:
                yield failed
            if declared is not None or run.listing.tells_deletions:
                yield Proved()
            if (cursor := (await changes.add_overlap(run, run.moved(), start)).to_json()) != self._stored:
                yield Checkpoint(cursor)

    async def _check_identifiers(self, listing: IdentifierListing, start: changes.Since) -> Part:
        """After the changes were read, report deleted and unchanged items by means of the identifiers."""
        run = self._run
        check = IdentifierCheck(run, listing)
        yield check.compare(proves=True)
        if run.endless:
            yield Checkpoint(run.left().to_json())
            yield Incomplete(run.endless)
            return
        retries = Retries(run)
        yield retries.places(all_of_them=True)
        if why := retries.walk_wanted or await check.needs_walk():
            yield FellBack(why)
            yield self._walk_whole()
            return
        yield check.read_missing()
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
        yield Checkpoint((await changes.add_overlap(run, cursor, start)).to_json())
        yield Complete(expected=check.kept)

    # Pages

    async def _read(
        self, walk: Walk, *, until: Any = None, resumable: bool = True, counting: bool = False
    ) -> AsyncGenerator[Observation]:
        """Read the records of a walk, with a checkpoint after each page except the last.

        `until` is the place at which an interrupted walk was resumed: reading ends there. If the catalog has an
        identifier listing, such a walk also ends at a page without new records.
        """
        run = self._run
        async with aclosing(walk.rows()) as pages:
            async for rows, again in pages:
                new = await run.take(rows, counting=counting)
                if counting and await changes.are_items_replaced(run, new, len(rows)):
                    run.replaced = True
                    return
                if run.cursor.tokens is not None:
                    # Some records will be stored before the last page is read: the tokens no longer match the stored
                    # records.
                    run.cursor = replace(run.cursor, tokens=None, failed=None)
                    yield Checkpoint(run.cursor.to_json())
                for row in (*rows, *again):
                    if not row.named:
                        run.note_unidentified(row)
                    yield row.observed
                run.endless = run.excess(walk.received, walk.declared)
                if run.endless:
                    walk.doubt = run.endless
                    # If the next run resumed here, it would read as many records again.
                    yield Checkpoint(run.left().to_json())
                    return
                run.clock = run.clock or run.now()
                run.newest = max(filter(None, (run.newest, walk.newest)), default=None)
                if resumable and walk.place is not None and not walk.disobeyed:
                    cursor = None if counting else run.interrupted(walk.place)
                    if counting and run.listing.rising and walk.ascending:
                        # A list of changes is not resumed; but if the oldest records come first, the stored date can
                        # advance.
                        cursor = changes.drop_overlap_count(run.moved())
                    if cursor is not None:
                        self._stored = cursor.to_json()
                        yield Checkpoint(self._stored)
                if until is not None and walk.declared is not None:
                    is_end = run.listing.identifiers is not None and walk.received > 0 and not rows
                    if walk.place == until or is_end:
                        return

    async def _read_changes(self, walk: Walk, *, counting: bool) -> AsyncGenerator[Observation]:
        """Read the records of a list of changes; set `walk.unfiltered` if the filter no longer works."""
        try:
            async for observation in self._read(walk, resumable=counting, counting=counting):
                yield observation
        except SourceError as problem:
            await changes.blame_filter(self._run, walk, problem)
        else:
            # Some connectors detect the refusal themselves, and report it as the doubt of an empty first page.
            walk.unfiltered = None if walk.received or walk.unreceived else walk.doubt
