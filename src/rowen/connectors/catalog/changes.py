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

from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from rowen.connectors.catalog.cursor import CatalogCursor, Overlap, age_days, stamp
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.progress import Progress
from rowen.connectors.catalog.trust import count_since

__all__ = ["Since", "since_when", "uncounted", "with_overlap"]

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
