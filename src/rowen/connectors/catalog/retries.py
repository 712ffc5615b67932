"""Retry failed records: a list of changes does not show them, so they are requested one by one.

Every run retries them, so that one clean run reads what has recovered. Two rules limit the cost.

A record that has failed for long is retried at longer intervals, a twentieth of the time that it has failed: what
recovers is late by no more than that. If one of them can be read again, something was repaired, and
all others are retried as well.

No more than a hundred are retried at a time, the one that was tried longest ago first. If some have recovered
and there are still more than that, the catalog is walked whole, which costs less. The reconciliation reads all others.

A record that could not be identified has no URL. Its place in the listing is requested instead: one request
as long as the place fails. Once the place can be read, the catalog is walked, which tells what is there. Where a kind
has no places, only a walk tells. Every run walks in the first hour; later a run walks when the record has waited for as
long as it had failed.
"""

import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from rowen.connectors.base import FailedBefore, is_unread
from rowen.connectors.catalog.listing import Row
from rowen.connectors.catalog.portal_client import MOST_UNREAD, NOT_THERE, TooMuchError
from rowen.connectors.catalog.records import settled
from rowen.connectors.catalog.state import RunState, mark_of
from rowen.errors import FetchError, SourceError
from rowen.model.items import Failed, Observation
from rowen.model.text import UNREADABLE

__all__ = ["MOST_ASKED", "Retries", "ask_for", "ask_for_missing", "is_walk_wanted"]

MOST_ASKED = 100
"""Requests: a whole walk over 10,000 records costs as many where a page has a hundred of them, as in most kinds."""

_YOUNG = timedelta(days=1)  # most outages are over by then, and this morning's failures should not wait
# Of the time that it has failed: in a month of daily runs a record costs 26 requests, in a year about 100, of which the
# reconciliations are half. With a tenth it is half as many, and what recovers is late by twice as long.
_WAIT_SHARE = 0.05
# A walk costs hundreds of requests. Waiting for as long as a record has failed makes eight walks of the week between
# two reconciliations; with a twentieth they would be a hundred. Most moments of trouble are over within the hour.
_WALK_SHARE, _WALK_YOUNG = 1.0, timedelta(hours=1)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Retries:
    """The retries of one run. `walk_wanted` is the reason why only a whole walk shows the failed records."""

    run: RunState
    walk_wanted: str | None = None
    _has_recovered: bool = False
    _is_over: bool = False

    async def rows(self) -> AsyncGenerator[Observation]:
        """Yield failed records that can be read again; add the others to `failed_again` until they prove to exist."""
        async for failed in self.places():
            yield failed
        if self.walk_wanted or self._is_over:
            return
        waiting = [one for one in self.run.known.failed if not is_unread(one.url) and one.url not in self.run.seen]
        async for observation in self._ask((await self._due(waiting))[:MOST_ASKED]):
            yield observation
        left = [one.url for one in waiting if one.url not in self.run.seen]
        if not left or not self._has_recovered or self._is_over:
            return
        if len(left) > MOST_ASKED:
            self.walk_wanted = f"Records that had failed can be read again, and {len(left)} others may be."
            return
        async for observation in self._ask(left):
            yield observation

    async def places(self, *, all_of_them: bool = False) -> AsyncGenerator[Observation]:
        """Yield records that still cannot be identified; those that are due, or all of them."""
        run = self.run
        for one in run.known.failed:
            if not is_unread(one.url) or one.url in run.seen or not (all_of_them or _is_due(run, one)):
                continue
            place = run.holes.get(one.url)
            if place is None and not all_of_them:
                continue
            why = "The record still cannot be received."
            try:
                still = None if place is None else await run.listing.retry(place)
            except SourceError as problem:
                if isinstance(problem, NOT_THERE) and not all_of_them:
                    log.info("the source is too busy to retry failed records: %s", problem)
                    self._is_over = True
                    return
                still, why = place, str(problem)
            except UNREADABLE as problem:
                # The position was written by another version, or is damaged.
                log.warning("dropped a place that cannot be read: %r", problem)
                still = None
            if still is None:
                self.walk_wanted = "A record that could not be identified may be readable now."
                return
            run.holes[one.url] = still
            run.seen.add(one.url)
            run.unread.add(one.url)
            yield Failed(one.url, why)

    async def _due(self, waiting: Sequence[FailedBefore]) -> list[str]:
        """Return the records that have waited long enough, or without which the count would be wrong."""
        run = self.run
        later = {one.url for one in waiting if not _is_due(run, one)}
        counted = {url for url in later if run.listing.tells_deletions or mark_of(url) in run.passed}
        stored = await run.known.look_up([*later - counted]) if later - counted else {}
        return [one.url for one in waiting if one.url not in counted and one.url not in stored]

    async def _ask(self, urls: Iterable[str]) -> AsyncGenerator[Observation]:
        for url in urls:
            try:
                row = await ask_for(self.run, url)
            except SourceError as problem:
                log.info("the source is too busy to retry failed records: %s", problem)
                self._is_over = True
                return
            if row is None:
                self.walk_wanted = f"{url} could not be read before, and cannot be asked for by itself."
                self._is_over = True
                return
            if not isinstance(seen := row.observed, Failed):
                self._has_recovered = True
                yield seen
                continue
            self.run.failed_again.append(seen)
            if self.run.unanswered >= MOST_UNREAD:
                log.info("the catalog does not answer for single records: the others are left to the next run")
                self._is_over = True
                return


async def ask_for(run: RunState, url: str) -> Row | None:
    """Request and count one record; return None if that is impossible. A record that cannot be received is a failure.

    Raises what is no fault of the record: the source is not there, or too busy.
    """
    row = await _answer_for(run, url)
    return None if row is None else await _taken(run, url, row)


async def _answer_for(run: RunState, url: str) -> Row | None:
    try:
        row = await run.listing.record(url, run.handles.get(url))
        run.unanswered = 0
    except SourceError as problem:
        if isinstance(problem, NOT_THERE):
            raise
        row = Row(Failed(url, str(problem), problem.hint))
        run.unanswered = run.unanswered + 1 if isinstance(problem, TooMuchError | FetchError) else 0
    return row


async def _taken(run: RunState, url: str, row: Row) -> Row:
    """Parse and count a record that was requested alone."""
    [row] = await settled([row], run.known)
    run.seen.add(url)
    await run.take([row], counting=True)
    return row


async def ask_for_missing(run: RunState) -> AsyncGenerator[Observation]:
    """Request the stored items that did not come one by one: an unidentified record may be one of them.

    What the source has no record of is noted in the run's `absent`. Where more than `MOST_ASKED` are missing, or the
    source does not answer, the rest stays unexplained.
    """
    missing: list[str] = []
    async for batch in run.known.everything():
        missing += [item.url for item in batch if item.url not in run.seen]
        if len(missing) > MOST_ASKED:
            return
    for url in missing:
        try:
            row = await _answer_for(run, url)
        except SourceError as problem:
            log.info("the source is too busy to request missing items: %s", problem)
            return
        if row is None:
            return
        if row.absent:
            run.shown.absent.add(url)
        else:
            yield (await _taken(run, url, row)).observed
        if run.unanswered >= MOST_UNREAD:
            return


def _is_due(run: RunState, one: FailedBefore) -> bool:
    failing = one.last_at - one.first_at
    return failing < _YOUNG or run.now() - one.last_at >= failing * _WAIT_SHARE


def is_walk_wanted(run: RunState) -> bool:
    """Return whether a failed record has no place, so that only a whole walk shows it."""
    for one in run.known.failed:
        if is_unread(one.url) and one.url not in run.holes:
            failing = one.last_at - one.first_at
            if failing < _WALK_YOUNG or run.now() - one.last_at >= failing * _WALK_SHARE:
                return True
    return False
