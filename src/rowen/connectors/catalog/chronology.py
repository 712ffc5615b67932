"""Walk a listing in the order of dates, so that no result limit ends the walk and no deletion shifts its positions.

Each page is requested from the last date of the previous page, and should begin with the last record of that page. If
it does not, records of the same second were added or removed, and that second is read again. An edited record moves to
the end of the listing, where the walk meets it again. If a source ignores the filter or the order, or refuses the
request, the walk continues by offset.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rowen.connectors.catalog.listing import ListingPage, Row, UnparsedRecord
from rowen.errors import SourceError
from rowen.model.items import Failed, Fetched

_MOST_TIES = 50  # half of a page; if more records share a second, an edit of one of them causes a walk
_CLOSED = "The catalog shows no more than {} records at once."
log = logging.getLogger(__name__)


class DatedQuestion(NamedTuple):
    """A request for records, oldest first, without the first `skip`; `after` is their earliest date, None for all."""

    after: datetime | None
    skip: int


class DatedAnswer(NamedTuple):
    """An answer to a `DatedQuestion`: `declared` is the number of matching records.

    `more` is set if more records follow. `doubt` is the reason why this answer, and so the whole walk, proves nothing.
    `full` is set if the answer has as many records as were requested: then the count alone does not prove that no more
    records follow.
    """

    rows: list[Row]
    declared: int | None
    clock: datetime | None
    more: bool
    doubt: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class _Spot:
    """The position of a walk; `since` and `after` are times in whole seconds.

    `ties` counts the records of the second `after` that precede the next record; `undated` counts the preceding
    records without a date. `last` is the record with which the next answer should begin. `shuffles` is set if the
    order of records within the second changes, so that consecutive pages need not overlap. A source that is not
    `ordered` is walked by offset.
    """

    since: int | None = None
    after: int | None = None
    ties: int = 0
    undated: int = 0
    seen: int = 0
    declared: int | None = None
    last: str | None = None
    shuffles: bool = False
    ordered: bool = True

    def question(self, *, undated_kept: bool) -> DatedQuestion:
        """Return the request for this position."""
        if not self.ordered:
            return DatedQuestion(_moment(self.since), self.seen)
        keeps = undated_kept or self.after is None
        before = self.ties + (self.undated if keeps else 0)
        return DatedQuestion(_moment(self.after), before - 1 if self.last and before else before)

    def moved(self, answer: DatedAnswer, *, wide: bool) -> "_Spot":
        """Return the next position; if `answer` is not `wide`, the next answer need not begin with the same record."""
        dates = [_second(row.modified) for row in answer.rows if row.modified is not None]
        seen = self.seen + len(answer.rows)
        if not self.ordered:
            return replace(self, seen=seen)
        if dates != sorted(dates) or (dates and self.after is not None and dates[0] < self.after):
            # The records of this answer may have come before: they are not counted, and the walk continues by offset.
            return replace(self, seen=seen if self.after == self.since else self.seen, ordered=False, last=None)
        after = dates[-1] if dates else self.after
        is_same = after == self.after
        seconds = [None if row.modified is None else _second(row.modified) for row in answer.rows]
        tail = answer.rows if is_same else answer.rows[seconds.index(after) :]
        undated = sum(map(_is_undated, answer.rows))
        ties = len(tail) - sum(map(_is_undated, tail)) + (self.ties if is_same else 0)
        shuffles = self.shuffles and is_same
        return replace(
            self,
            after=after,
            ties=ties,
            undated=self.undated + undated,
            seen=seen,
            last=answer.rows[-1].url if wide and answer.rows and not shuffles else None,
            shuffles=shuffles,
        )


async def chronology(
    ask: Callable[[DatedQuestion], Awaitable[DatedAnswer]],
    *,
    window: int,
    undated_kept: bool,
    confirmed: bool = False,
    since: datetime | None = None,
    place: Any = None,
) -> AsyncGenerator[ListingPage]:
    """Yield the pages of a listing; `window` is the largest number of records that a request may skip.

    `undated_kept` is set if every answer includes the records without a date. `confirmed` is set if only an empty page
    ends the listing, whatever count the source declares. A `confirmed` listing must set `undated_kept`, since its
    undated records are never read by offset.
    """
    if confirmed and not undated_kept:
        raise ValueError("A confirmed listing must have undated records in every answer (`undated_kept`).")
    begin = _second(since) if since else None
    spot = _Spot(**place) if place else _Spot(since=begin, after=begin)
    while True:
        question = spot.question(undated_kept=undated_kept)
        try:
            answer = await ask(question)
        except SourceError as problem:
            if question.after is None or spot.since is not None or spot.seen >= window:
                raise
            log.info("the catalog cannot be asked from a date on, and is walked by number: %s", problem)
            spot = replace(spot, ordered=False, last=None)
            continue
        if spot.last is not None and spot.ordered and [row.url for row in answer.rows[:1]] != [spot.last]:
            # The answer does not begin with the last record of the previous answer: read this second again without this
            # check.
            spot = replace(spot, ties=0, undated=0, last=None, shuffles=True)
            continue
        wide = len(answer.rows) > 1
        if spot.last is not None and spot.ordered:
            if not wide and (answer.more or answer.full):
                spot = replace(spot, last=None)
                continue
            answer = answer._replace(rows=answer.rows[1:])
            question = question._replace(skip=question.skip + 1)
        declared = answer.declared if spot.seen == 0 or not spot.ordered else None
        spot = replace(spot, declared=spot.declared if spot.declared is not None else answer.declared)
        moved = spot.moved(answer, wide=wide)
        more = answer.more or answer.full or confirmed
        following: _Spot | None = moved
        if not (more and answer.rows):
            # At the end, records without a date may remain, which are read by offset.
            is_rest = moved.since is None and moved.ordered and answer.rows and moved.seen < (moved.declared or 0)
            following = replace(moved, ordered=False, last=None) if is_rest else None
        closed = following is not None and following.question(undated_kept=undated_kept).skip >= window
        ends_by_count = spot.since is not None and not (answer.more or answer.full)
        yield ListingPage(
            _placed(answer.rows, question, since=begin),
            place=asdict(following) if following and not (closed or ends_by_count) else None,
            declared=declared,
            clock=answer.clock,
            doubt=answer.doubt or (_CLOSED.format(window) if closed else None),
            ends_by_count=ends_by_count,
        )
        if following is None or closed:
            return
        spot = following


def question_at(place: Any) -> DatedQuestion:
    """Return the request whose first record is at a place."""
    return DatedQuestion(_moment(place["after"]), place["skip"])


async def retried(place: Any, ask: Callable[[DatedQuestion, int], Awaitable[DatedAnswer]]) -> Any | None:
    """Request an unidentified record again, as `Listing.retry` does; `ask` takes the number of records to request.

    The preceding records of the same second are requested as well. If one of them was edited, it moved to the end of
    the listing, and the unidentified record is now before its stored place.
    """
    skip = place["skip"]
    begin = max(0, skip - _MOST_TIES)
    answer = await ask(DatedQuestion(_moment(place["after"]), begin), skip - begin + 1)
    return place if sum(not row.named for row in answer.rows) >= place["unnamed"] else None


def _placed(rows: list[Row], question: DatedQuestion, *, since: int | None) -> list[Row]:
    """Return the rows with places for unidentified records: the last date, and the distance from it.

    The first record of a list of changes has no preceding record, so its URL is the same for every date.
    """
    if all(row.named for row in rows):
        return rows
    placed: list[Row] = []
    after, skip, unnamed = _second(question.after) if question.after else None, question.skip, 0
    for row in rows:
        unnamed += not row.named
        if since is not None and (after, skip) == (since, 0) and isinstance(row.seen, Failed) and not row.received:
            row = row._replace(seen=replace(row.seen, url=f"{row.url.rpartition('/unread/')[0]}/unread/modified"))
        placed.append(row if row.named else row._replace(place={"after": after, "skip": skip, "unnamed": unnamed}))
        at = _second(row.modified) if row.modified is not None else None
        if at is not None and (after is None or at > after):
            after, skip, unnamed = at, 1, 0 if row.named else 1
        else:
            skip += 1
    return placed


def _is_undated(row: Row) -> bool:
    """Return whether a record has no date; False for a record that cannot be read, since it may have a date."""
    return row.modified is None and isinstance(row.seen, Fetched | UnparsedRecord)


def _second(at: datetime) -> int:
    return int(at.timestamp() // 1)


def _moment(second: int | None) -> datetime | None:
    return None if second is None else datetime.fromtimestamp(second, UTC)
