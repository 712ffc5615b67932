"""Checks whether a catalog applies its filter by date, and whether new records are really new.

A question for what was modified (the filter) may also fail. If the catalog answers a question without it, the filter is
to blame, and the catalog is walked whole; otherwise the catalog is, and the run fails. A filter that failed or was
ignored is not used until a trial at the beginning of a later run succeeds (`CatalogCursor.is_trial_due`).
"""

import logging
from dataclasses import replace
from datetime import datetime

from rowen.connectors.catalog.cursor import stamp
from rowen.connectors.catalog.listing import FAR_FUTURE, FAR_PAST
from rowen.connectors.catalog.portal_client import SourceBusyError, TooMuchError
from rowen.connectors.catalog.progress import Progress
from rowen.connectors.catalog.walk import Walk
from rowen.errors import FetchError, SourceError

__all__ = [
    "IGNORED",
    "blame",
    "count_since",
    "distrusted",
    "is_replaced",
    "is_usable",
    "probe",
    "trusted",
    "was_obeyed",
]

IGNORED = "The catalog ignores the modified filter."

# Most of the dated records must be newer than the far past: counts move while we ask, so not all of them.
_PROBE_SHARE = 0.9
# Fewer new records than this are no sign of new identifiers for everything; looking twice costs one count.
_LEAST_NEW = 3
# If half of a page is new, something else than the usual growth happened; a quarter would count on every busy portal.
_NEW_SHARE = 0.5

_LONGEST_ERROR = 500  # it stands in each cursor, and in what each run says

log = logging.getLogger(__name__)


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
