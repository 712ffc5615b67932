"""Retry failed records individually, because a list of changes does not contain them.

Every run retries them, so that one complete run reads all recovered records. Two rules limit the cost.

First, a record that has failed for a long time is retried at longer intervals: a twentieth of the time that it has
failed, which bounds the delay. If one of the retried records can be read again, its source was repaired, and all
others are retried as well.

Second, at most a hundred records are retried at a time, beginning with the record that was tried longest ago. If some
have recovered and more than a hundred remain, the catalog is walked whole, which costs less. The reconciliation reads
all others.

A record that could not be identified has no URL, so its place in the listing is requested instead: one request as long
as the place fails. Once the place can be read, the catalog is walked to read the record. If a kind has no places, only
a walk can read the record. In the first hour of the failure every run is a walk; afterwards a run is a walk if the
record has waited as long as it had failed.
"""

import logging
from collections.abc import AsyncGenerator, Iterable
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

# Requests: a whole walk over 10,000 records costs as many with pages of a hundred records, as in most kinds.
MOST_ASKED = 100
_YOUNG = timedelta(days=1)  # most outages are over by then, and this morning's failures should not wait
# Share of the time that a record has failed: with daily runs it costs 26 requests in a month and about 100 in a year,
# half of them in reconciliations. With a tenth, it costs half as many, and a recovery is noticed twice as late.
_WAIT_SHARE = 0.05
# A walk costs hundreds of requests. Waiting as long as a record has failed means eight walks in the week between two
# reconciliations; with a twentieth there would be a hundred. Most short outages end within the hour.
_WALK_SHARE, _WALK_YOUNG = 1.0, timedelta(hours=1)
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Retries:
    """The retries of one run; `walk_wanted` is the reason why a whole walk is needed, None if it is not."""

    run: RunState
    walk_wanted: str | None = None
    _has_recovered: bool = False
    _is_over: bool = False

    async def rows(self) -> AsyncGenerator[Observation]:
        """Yield failed records that can be read again; add the others to the run's `failed_again`."""
        async for failed in self.places():
            yield failed
        if self.walk_wanted or self._is_over:
            return
        run = self.run
        waiting = [each for each in run.known.failed if not is_unread(each.url) and each.url not in run.seen]
        # Retry the records that have waited long enough, or without which the count would be wrong.
        later = {failure.url for failure in waiting if not _is_due(run, failure)}
        counted = {url for url in later if run.listing.tells_deletions or mark_of(url) in run.passed}
        stored = await run.known.look_up([*later - counted]) if later - counted else {}
        due = [failure.url for failure in waiting if failure.url not in counted and failure.url not in stored]
        async for observation in self._ask(due[:MOST_ASKED]):
            yield observation
        left = [failure.url for failure in waiting if failure.url not in run.seen]
        if not left or not self._has_recovered or self._is_over:
            return
        if len(left) > MOST_ASKED:
            self.walk_wanted = f"Records that had failed can be read again, and {len(left)} others may be."
            return
        async for observation in self._ask(left):
            yield observation

    async def places(self, *, all_of_them: bool = False) -> AsyncGenerator[Observation]:
        """Yield the records that still cannot be identified; retry only due records unless `all_of_them` is set."""
        run = self.run
        for failure in run.known.failed:
            if not is_unread(failure.url) or failure.url in run.seen or not (all_of_them or _is_due(run, failure)):
                continue
            place = run.holes.get(failure.url)
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
                # The place was written by another version, or is damaged.
                log.warning("dropped a place that cannot be read: %r", problem)
                still = None
            if still is None:
                self.walk_wanted = "A record that could not be identified may be readable now."
                return
            run.holes[failure.url] = still
            run.seen.add(failure.url)
            run.unread.add(failure.url)
            yield Failed(failure.url, why)

    async def _ask(self, urls: Iterable[str]) -> AsyncGenerator[Observation]:
        for url in urls:
            try:
                row = await ask_for(self.run, url)
            except SourceError as problem:
                log.info("the source is too busy to retry failed records: %s", problem)
                self._is_over = True
                return
            if row is None:
                self.walk_wanted = f"{url} could not be read before, and cannot be requested alone."
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
    """Request and count one record; return None if it cannot be requested individually.

    A record that could not be received is returned as a failed row. Raises an error that the record did not cause: the
    source is unreachable or too busy.
    """
    row = await _request(run, url)
    return None if row is None else await _take(run, url, row)


async def _request(run: RunState, url: str) -> Row | None:
    try:
        row = await run.listing.read_record(url, run.handles.get(url))
        run.unanswered = 0
    except SourceError as problem:
        if isinstance(problem, NOT_THERE):
            raise
        row = Row(Failed(url, str(problem), problem.hint))
        run.unanswered = run.unanswered + 1 if isinstance(problem, TooMuchError | FetchError) else 0
    return row


async def _take(run: RunState, url: str, row: Row) -> Row:
    """Parse and count a record that was requested individually."""
    [row] = await settled([row], run.known)
    run.seen.add(url)
    await run.take([row], counting=True)
    return row


async def ask_for_missing(run: RunState) -> AsyncGenerator[Observation]:
    """Request missing stored items one by one, because an unidentified record may be one of them.

    Items that the source does not have are added to the run's `absent`. If more than `MOST_ASKED` items are missing,
    or the source does not answer, the remaining items stay unexplained.
    """
    missing: list[str] = []
    async for batch in run.known.everything():
        missing += [item.url for item in batch if item.url not in run.seen]
        if len(missing) > MOST_ASKED:
            return
    for url in missing:
        try:
            row = await _request(run, url)
        except SourceError as problem:
            log.info("the source is too busy to request missing items: %s", problem)
            return
        if row is None:
            return
        if row.absent:
            run.shown.absent.add(url)
        else:
            yield (await _take(run, url, row)).observed
        if run.unanswered >= MOST_UNREAD:
            return


def _is_due(run: RunState, failure: FailedBefore, young: timedelta = _YOUNG, share: float = _WAIT_SHARE) -> bool:
    """Return whether a failed record has waited for the required share of its failing time."""
    failing = failure.last_at - failure.first_at
    return failing < young or run.now() - failure.last_at >= failing * share


def is_walk_wanted(run: RunState) -> bool:
    """Return whether a whole walk is due because a failed record has no place."""
    hidden = (each for each in run.known.failed if is_unread(each.url) and each.url not in run.holes)
    return any(_is_due(run, failure, _WALK_YOUNG, _WALK_SHARE) for failure in hidden)
