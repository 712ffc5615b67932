"""What changed: from when on a catalog is asked for what was modified.

Changes are asked for from some time before the newest date that was stored, since an index may show a record only
after it was stamped: the overlap. Where a job stamps all records at once, the overlap holds everything, and reading it
in every run would be for nothing. So its records are counted first. An equal count proves that no record has entered
the overlap. It does not prove that none was edited within it; but an edit stamps the record with the source's present
time, which is not before the newest date: what is dated at that date or later is read in any case. At that very date
nothing can be added once the source's clock has passed it, and then it is left out as well.

What remains is a record that was in the overlap already, and whose edit was stamped before the newest date but indexed
after we had looked. By definition of the overlap such an edit shows within its length: as soon as that time has
passed, the overlap is read whole once more, and only then is it settled.
"""

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from rowen.connectors.catalog.cursor import CatalogCursor, Overlap, age_days, stamp
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import FAR_FUTURE, FAR_PAST
from rowen.connectors.catalog.portal_client import SourceBusyError, TooMuchError
from rowen.connectors.catalog.progress import Progress
from rowen.connectors.catalog.walk import Walk
from rowen.errors import FetchError, SourceError

__all__ = [
    "IGNORED",
    "Since",
    "blame",
    "count_since",
    "distrusted",
    "is_replaced",
    "is_usable",
    "probe",
    "since_when",
    "trusted",
    "uncounted",
    "was_obeyed",
    "with_overlap",
]

log = logging.getLogger(__name__)

# A page of most kinds: reading so many costs one request, which is what counting them costs.
_CROWD = 100
# Some indexes count no further: a count that is a multiple of it may stand for any larger one, and proves nothing.
_CLAMP = 10_000


class Since(NamedTuple):
    """From when on to ask; `is_short` tells that the overlap was counted and need not be read."""

    since: datetime
    is_short: bool = False


async def since_when(run: Progress, modified: datetime) -> Since:
    """What to ask for, given the newest date that was stored."""
    overlap = run.cursor.overlap
    begin = moment(overlap.since) if overlap else None
    if overlap is None or begin is None:
        return Since(modified - _length(run))
    begin = min(begin, modified - _length(run)) if not overlap.settled else begin
    if overlap.count is None or _is_due(run, overlap) or await count_since(run, begin) != overlap.count:
        return Since(begin)
    return Since(modified + run.listing.resolution if overlap.is_over else modified, is_short=True)


async def with_overlap(run: Progress, cursor: CatalogCursor, asked: Since | None = None) -> CatalogCursor:
    """The cursor with what the next run has to know about the overlap; `asked` is None after a whole walk."""
    modified, held = moment(cursor.modified), run.cursor.overlap
    if modified is None or cursor.filters is False or not run.listing.counts_changes:
        return replace(cursor, overlap=None)
    is_same = cursor.modified == run.cursor.modified
    is_over = run.clock is not None and run.clock > modified + run.listing.resolution
    if asked and asked.is_short and held:
        if is_same:
            # What is dated at the newest date was read by this run, perhaps for the last time.
            return replace(cursor, overlap=replace(held, is_over=held.is_over or is_over))
        # What is not settled yet has to be read again, also where it is no longer near the newest date.
        begin = stamp(modified - _length(run)) if held.settled else held.since
        at = stamp(run.now()) if held.settled else held.at
    else:
        if run.recent.since(modified - _length(run)) <= _CROWD:
            return replace(cursor, overlap=None)
        begin = stamp(modified - _length(run))
        at = held.at if held and is_same else stamp(run.now())
    count = await count_since(run, moment(begin) or modified)
    settled = not (asked and asked.is_short) and is_same and bool(held) and _has_passed(run, at)
    overlap = Overlap(begin, count, at, is_over=is_over, settled=settled)
    return replace(cursor, overlap=overlap) if count and count % _CLAMP else uncounted(replace(cursor, overlap=overlap))


def uncounted(cursor: CatalogCursor) -> CatalogCursor:
    """The cursor where the overlap is not, or no longer, what was counted: it is to be read."""
    held = cursor.overlap
    unread = replace(held, count=None, is_over=False) if held and not held.settled else None
    return replace(cursor, overlap=unread)


def _length(run: Progress) -> timedelta:
    return timedelta(hours=run.options.overlap_h)


def _is_due(run: Progress, overlap: Overlap) -> bool:
    return not overlap.settled and _has_passed(run, overlap.at)


def _has_passed(run: Progress, at: str) -> bool:
    return timedelta(days=min(age_days(at, run.now()), 1e6)) >= _length(run)


IGNORED = "The catalog ignores the modified filter."

# Most of the dated records must be newer than the far past: counts move while we ask, so not all of them.
_PROBE_SHARE = 0.9
# Fewer new records than this are no sign of new identifiers for everything; looking twice costs one count.
_LEAST_NEW = 3
# If half of a page is new, something else than the usual growth happened; a quarter would count on every busy portal.
_NEW_SHARE = 0.5

_LONGEST_ERROR = 500  # it stands in each cursor, and in what each run says


async def was_obeyed(run: Progress, walk: Walk) -> bool:
    """Whether the filter was obeyed: the newest record we hold should always be among what it lets through."""
    if walk.newest or walk.disobeyed:
        return not walk.disobeyed
    return run.known.count == 0 or bool(await count_since(run, FAR_PAST))


async def count_since(run: Progress, since: datetime) -> int | None:
    """How many records were modified since; None if the catalog does not answer that."""
    try:
        return await run.listing.count(since)
    except SourceError as problem:
        log.info("the catalog does not count what was modified: %s", problem)
        return None


async def blame(run: Progress, walk: Walk, problem: SourceError) -> None:
    """Note in the walk that the filter is to blame for an error; raises the error if it is not.

    One question without the filter decides. A list of changes that failed in its middle shows that the filter worked:
    where the catalog was slow or away, the next run resumes the list there.
    """
    if walk.received and isinstance(problem, FetchError | SourceBusyError | TooMuchError):
        raise problem
    try:
        await run.listing.count()
    except SourceError as another:
        log.info("the catalog answers no question without the filter either: %s", another)
        raise problem from None
    walk.unfiltered = str(problem)


def distrusted(run: Progress, error: str | None = None) -> None:
    """Remember that the filter is ignored, or which error it causes."""
    log.warning("the modified filter does not work: %s", error or "the catalog ignores it")
    run.cursor = replace(
        run.cursor,
        filters=False,
        probed=stamp(run.now()),
        trials=(run.cursor.trials or 0) + 1,
        waited=None,
        refused=error[:_LONGEST_ERROR] if error else None,
    )


def trusted(run: Progress) -> None:
    """Remember that the filter works again."""
    if run.cursor.filters is False:
        log.info("the modified filter works again")
        run.cursor = replace(run.cursor, filters=True, probed=stamp(run.now()), trials=None, waited=None, refused=None)


async def is_usable(run: Progress, modified: datetime) -> bool:
    """Whether a filter that did not work may be used: it is tried by one request, if a trial is due.

    What it then answers is checked like any list of changes. A filter that was ignored is asked for the far future, of
    which an obedient one shows next to nothing; one that failed is asked as it would be used.
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
        distrusted(run, str(problem))
        return False
    if not cursor.refused and count is not None and count >= max(run.expected, 1):
        distrusted(run)
        return False
    return True


async def probe(run: Progress, declared: int | None) -> None:
    """Try the filter: all dated records are newer than the far past, none than the far future."""
    cursor = run.cursor
    if not (run.listing.dated and run.newest):
        return
    if not cursor.should_probe(run.now(), run.options.reconcile_days):
        return
    if not declared:
        # Nothing to compare with: a catalog that once ignored the filter gets another chance.
        run.cursor = replace(cursor, filters=None, probed=None, trials=None, waited=None, refused=None)
        return
    try:
        past = await run.listing.count(FAR_PAST)
        future = await run.listing.count(FAR_FUTURE) if past is not None else None
    except SourceError as problem:
        # The portal may reject only this date: the next run sends the filter as usual and finds out.
        log.warning("whether the catalog minds the modified filter could not be found out: %s", problem)
        return
    obeys = None
    if past is not None and future is not None:
        obeys = past >= run.dated * _PROBE_SHARE and future < declared
    if obeys is False:
        distrusted(run)
    else:
        at = stamp(run.now())
        run.cursor = replace(cursor, filters=obeys, probed=at, trials=None, waited=None, refused=None)


async def is_replaced(run: Progress, new: int, rows: int) -> bool:
    """Whether something went where so much came: then these may be our items under other identifiers."""
    if run.listing.tells_deletions or new < _LEAST_NEW or new < _NEW_SHARE * rows:
        return False
    declared = await run.listing.count()
    return declared is not None and declared < run.expected
