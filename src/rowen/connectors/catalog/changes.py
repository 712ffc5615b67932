"""Read the changes of a catalog: choose their start date, and check that the source applies the modified filter.

An index may show a record some time after the record's modification date. Changes are therefore read from some time
before the newest stored date: this period is the overlap. Where a job stamps all records at once, the overlap contains
all records, and reading it in every run would be wasted. So the records of the overlap are counted first. An equal
count proves that no record has entered the overlap. It does not prove that no record of the overlap was edited. But an
edit stamps the record with the source's present time, which is not before the newest date, and records with that date
or a later one are read in any case. Once the source's clock has passed the newest date, no record can be added at that
date, and that date is not read again either.

One case remains: a record of the overlap is edited, its edit is stamped before the newest date, and the edit is
indexed after our request. By definition of the overlap such an edit shows within the overlap's length. After that time
the overlap is read once more, and only then is the overlap settled.

A request with a date may fail. If the source answers the same request without a date, the filter is the cause, and the
catalog is walked whole. Otherwise the source is the cause, and the run fails. A filter that failed or was ignored is
not used until a trial at the beginning of a later run succeeds (`CatalogCursor.is_trial_due`).
"""

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from rowen.connectors.catalog.cursor import CatalogCursor, Overlap, age_days, stamp
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import FAR_FUTURE, FAR_PAST
from rowen.connectors.catalog.portal_client import SourceBusyError, TooMuchError
from rowen.connectors.catalog.state import RunState
from rowen.connectors.catalog.walk import Walk
from rowen.errors import FetchError, SourceError

log = logging.getLogger(__name__)
# The page size of most kinds: reading an overlap of this size costs one request, as counting it does.
_CROWD = 100
# Some indexes stop counting here: a count that is a multiple of this number may stand for any larger count.
_CLAMP = 10_000


class Since(NamedTuple):
    """The date to read changes from; `is_short` is set if the count made reading the overlap unnecessary."""

    since: datetime
    is_short: bool = False


async def choose_since(run: RunState, modified: datetime) -> Since:
    """Return the date to read changes from; `modified` is the newest stored date."""
    overlap = run.cursor.overlap
    begin = moment(overlap.since) if overlap else None
    if overlap is None or begin is None:
        return Since(modified - run.recent.length)
    begin = min(begin, modified - run.recent.length) if not overlap.settled else begin
    if (
        overlap.count is None
        or (not overlap.settled and _has_passed(run, overlap.at))
        or await count_since(run, begin) != overlap.count
    ):
        return Since(begin)
    return Since(modified + run.listing.resolution if overlap.is_over else modified, is_short=True)


async def add_overlap(run: RunState, cursor: CatalogCursor, start: Since | None = None) -> CatalogCursor:
    """Return the cursor with the overlap for the next run; `start` is None after a whole walk."""
    modified, before = moment(cursor.modified), run.cursor.overlap
    if modified is None or cursor.filters is False or not run.listing.counts_changes:
        return replace(cursor, overlap=None)
    is_same = cursor.modified == run.cursor.modified
    is_over = run.clock is not None and run.clock > modified + run.listing.resolution
    begin = stamp(modified - run.recent.length)
    if start and start.is_short and before:
        if is_same:
            # This run read the records with the newest date, perhaps for the last time.
            return replace(cursor, overlap=replace(before, is_over=before.is_over or is_over))
        # An overlap that is not settled must be read again, even if it is no longer near the newest date.
        begin = begin if before.settled else before.since
        at = stamp(run.now()) if before.settled else before.at
    else:
        if run.recent.since(modified - run.recent.length) <= _CROWD:
            return replace(cursor, overlap=None)
        at = before.at if before and is_same else stamp(run.now())
    count = await count_since(run, moment(begin) or modified)
    settled = not (start and start.is_short) and is_same and bool(before) and _has_passed(run, at)
    cursor = replace(cursor, overlap=Overlap(begin, count, at, is_over=is_over, settled=settled))
    return cursor if count and count % _CLAMP else drop_overlap_count(cursor)


def drop_overlap_count(cursor: CatalogCursor) -> CatalogCursor:
    """Return the cursor without the count of its overlap, so that the next run reads the overlap."""
    before = cursor.overlap
    unread = replace(before, count=None, is_over=False) if before and not before.settled else None
    return replace(cursor, overlap=unread)


def _has_passed(run: RunState, at: str) -> bool:
    return timedelta(days=min(age_days(at, run.now()), 1e6)) >= run.recent.length


IGNORED = "The catalog ignores the modified filter."
# Share of the dated records that must be newer than the far past: below 1, because counts change between requests.
_PROBE_SHARE = 0.9
# Fewer new records than this do not suggest that all identifiers changed; the check costs one count request.
_LEAST_NEW = 3
# If half of a page is new, this is more than usual growth; a quarter would trigger the check on every busy portal.
_NEW_SHARE = 0.5
_LONGEST_ERROR = 500  # characters; the error is stored in each cursor and reported by each run


async def is_filter_applied(run: RunState, walk: Walk) -> bool:
    """Return whether the source applied the filter: a working filter returns the newest stored record."""
    if walk.newest or walk.disobeyed:
        return not walk.disobeyed
    return run.known.count == 0 or bool(await count_since(run, FAR_PAST))


async def count_since(run: RunState, since: datetime) -> int | None:
    """Return the number of records modified since a date; None if the catalog does not return a count."""
    try:
        return await run.listing.count(since)
    except SourceError as problem:
        log.info("the catalog does not count what was modified: %s", problem)
        return None


async def blame_filter(run: RunState, walk: Walk, problem: SourceError) -> None:
    """Store in the walk that the filter caused `problem`; raise `problem` if it had another cause.

    One request without the filter decides. If a list of changes failed after its first records, the filter works: if
    the catalog was slow or unreachable, the next run reads the list again.
    """
    if walk.received and isinstance(problem, FetchError | SourceBusyError | TooMuchError):
        raise problem
    try:
        await run.listing.count()
    except SourceError as another:
        log.info("the catalog answers no question without the filter either: %s", another)
        raise problem from None
    walk.unfiltered = str(problem)


def distrust_filter(run: RunState, error: str | None = None) -> None:
    """Store in the cursor that the filter does not work; without an `error`, the source ignores it."""
    log.warning("the modified filter does not work: %s", error or "the catalog ignores it")
    run.cursor = replace(
        run.cursor,
        filters=False,
        probed=stamp(run.now()),
        trials=(run.cursor.trials or 0) + 1,
        waited=None,
        refused=error[:_LONGEST_ERROR] if error else None,
    )


def trust_filter(run: RunState) -> None:
    """Store in the cursor that the filter works again."""
    if run.cursor.filters is False:
        log.info("the modified filter works again")
        run.cursor = replace(run.cursor, filters=True, probed=stamp(run.now()), trials=None, waited=None, refused=None)


async def may_use_filter(run: RunState, modified: datetime) -> bool:
    """Return whether the filter may be used; test a filter that did not work by one request if a trial is due.

    The changes are checked as usual afterwards. A filter that was ignored is tested with a date in the far future, for
    which a working filter returns almost no records. A filter that failed is tested with the date `modified`.
    """
    cursor = run.cursor
    if cursor.filters is not False:
        return True
    if not cursor.is_trial_due(run.now()):
        run.cursor = replace(cursor, waited=(cursor.waited or 0) + 1)
        return False
    try:
        count = await run.listing.count(modified if cursor.refused else FAR_FUTURE)
    except SourceError as problem:
        distrust_filter(run, str(problem))
        return False
    if not cursor.refused and count is not None and count >= max(run.expected, 1):
        distrust_filter(run)
        return False
    return True


async def probe_filter(run: RunState, declared: int | None) -> None:
    """Probe the filter: all dated records are newer than the far past, and none is newer than the far future."""
    cursor = run.cursor
    if not (run.listing.dated and run.newest):
        return
    if not cursor.should_probe(run.now(), run.options.reconcile_days):
        return
    if not declared:
        # Without a declared count the filter cannot be probed, so its stored state is reset.
        run.cursor = replace(cursor, filters=None, probed=None, trials=None, waited=None, refused=None)
        return
    try:
        past = await run.listing.count(FAR_PAST)
        future = await run.listing.count(FAR_FUTURE) if past is not None else None
    except SourceError as problem:
        # The portal may reject only this date: the next run uses the filter as usual and detects an error.
        log.warning("could not check whether the catalog applies the modified filter: %s", problem)
        return
    obeys = None
    if past is not None and future is not None:
        obeys = past >= run.shown.dated * _PROBE_SHARE and future < declared
    if obeys is False:
        distrust_filter(run)
    else:
        at = stamp(run.now())
        run.cursor = replace(cursor, filters=obeys, probed=at, trials=None, waited=None, refused=None)


async def are_items_replaced(run: RunState, new: int, rows: int) -> bool:
    """Return whether many new records may be known items under new identifiers, because other records vanished."""
    if run.listing.tells_deletions or new < _LEAST_NEW or new < _NEW_SHARE * rows:
        return False
    declared = await run.listing.count()
    return declared is not None and declared < run.expected
