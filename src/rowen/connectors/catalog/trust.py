"""Is it true: whether a catalog obeys the question for what was modified, and whether new records are really new."""

import logging
from dataclasses import replace

from rowen.connectors.catalog.cursor import stamp
from rowen.connectors.catalog.listing import FAR_FUTURE, FAR_PAST
from rowen.connectors.catalog.progress import Progress
from rowen.connectors.catalog.walk import Walk

__all__ = ["distrusted", "is_replaced", "probe", "was_obeyed"]

# Most of the dated records must be newer than the far past: counts move while we ask, so not all of them.
_PROBE_SHARE = 0.9
# Fewer new records than this are no sign of new identifiers for everything; looking twice costs one count.
_LEAST_NEW = 3
# If half of a page is new, something else than the usual growth happened; a quarter would count on every busy portal.
_NEW_SHARE = 0.5

log = logging.getLogger(__name__)


async def was_obeyed(run: Progress, walk: Walk) -> bool:
    """Whether the filter was obeyed: the newest record we hold should always be among what it lets through."""
    if walk.newest or walk.disobeyed:
        return not walk.disobeyed
    return run.known.count == 0 or bool(await run.listing.count(FAR_PAST))


def distrusted(run: Progress) -> None:
    """Remember that the filter is ignored."""
    run.cursor = replace(run.cursor, filters=False, probed=stamp(run.now()))


async def probe(run: Progress, declared: int | None) -> None:
    """Try the filter: all dated records are newer than the far past, none than the far future."""
    cursor = run.cursor
    if not (run.listing.dated and run.newest):
        return
    if not cursor.should_probe(run.now(), run.options.reconcile_days):
        return
    if not declared:
        # Nothing to compare with: a catalog that once ignored the filter gets another chance.
        run.cursor = replace(cursor, filters=None, probed=None)
        return
    past = await run.listing.count(FAR_PAST)
    future = await run.listing.count(FAR_FUTURE) if past is not None else None
    obeys = None
    if past is not None and future is not None:
        obeys = past >= run.dated * _PROBE_SHARE and future < declared
    if obeys is False:
        log.warning("the catalog ignores the modified filter: every run will walk it whole")
    run.cursor = replace(cursor, filters=obeys, probed=stamp(run.now()))


async def is_replaced(run: Progress, new: int, rows: int) -> bool:
    """Whether something went where so much came: then these may be our items under other identifiers."""
    if run.listing.tells_deletions or new < _LEAST_NEW or new < _NEW_SHARE * rows:
        return False
    declared = await run.listing.count()
    return declared is not None and declared < run.expected
