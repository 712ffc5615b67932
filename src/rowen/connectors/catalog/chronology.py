"""Walking a listing in the order of its dates: no window ends it, and no deletion shifts it under our feet.

Each page is asked for by the last date that was seen, and begins with the last record that was: if it does not, records
of that same second have gone or come, and the second is read anew. An edited record moves to the end, where it is met
again. A source that does not mind the question or the order, or refuses the question, is walked by number instead.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rowen.connectors.catalog.listing import ListingPage, Row, UnparsedRecord
from rowen.errors import SourceError
from rowen.model.items import Failed, Fetched

__all__ = ["DatedAnswer", "DatedQuestion", "chronology", "question_at", "retried"]

_MOST_TIES = 50  # half of a page; where more records share a second, an edit of one of them costs a walk
_CLOSED = "The catalog shows no more than {} records at once."


log = logging.getLogger(__name__)


class DatedQuestion(NamedTuple):
    """Records dated at or after a second, or all of them, oldest first; so many are to be skipped."""

    after: datetime | None
    skip: int


class DatedAnswer(NamedTuple):
    """What a source answers: `declared` is how many there are to this question, `more` that this was not the end.

    `doubt` is why this answer, and so the whole walk, proves nothing. `full` tells that as many rows came as were asked
    for: the count alone does not prove that these were the last.
    """

    rows: list[Row]
    declared: int | None
    clock: datetime | None
    more: bool
    doubt: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class _Spot:
    """How far a walk has come. `since` and `after` are seconds.

    `ties` and `undated` are records that stand before the next one, `last` is the record that should come again. In a
    second whose records `shuffle` nothing is joined any more; a source that is not `ordered` is asked by number.
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
        """What to ask for here."""
        if not self.ordered:
            return DatedQuestion(_moment(self.since), self.seen)
        keeps = undated_kept or self.after is None
        before = self.ties + (self.undated if keeps else 0)
        return DatedQuestion(_moment(self.after), before - 1 if self.last and before else before)

    def joined(self, answer: DatedAnswer) -> bool:
        """Whether an answer begins where the one before ended."""
        return self.last is None or not self.ordered or (bool(answer.rows) and answer.rows[0].url == self.last)

    def again(self) -> "_Spot":
        """The second of this spot from its beginning; when that does not help, without looking at the joint."""
        return replace(self, ties=0, undated=0, last=None, shuffles=True)

    def moved(self, answer: DatedAnswer, *, wide: bool) -> "_Spot":
        """Where to go on after an answer; one that is not `wide` has no room for a joint."""
        dates = [_second(row.modified) for row in answer.rows if row.modified is not None]
        seen = self.seen + len(answer.rows)
        if not self.ordered:
            return replace(self, seen=seen)
        if dates != sorted(dates) or (dates and self.after is not None and dates[0] < self.after):
            # What this answer holds may have come before: it is not counted, and its place is asked for by number.
            return replace(self, seen=seen if self.after == self.since else self.seen, ordered=False, last=None)
        after = dates[-1] if dates else self.after
        kept = after == self.after
        tail = answer.rows if kept else answer.rows[_first_of(answer.rows, after) :]
        undated = sum(map(_is_undated, answer.rows))
        ties = len(tail) - sum(map(_is_undated, tail)) + (self.ties if kept else 0)
        shuffles = self.shuffles and kept
        return replace(
            self,
            after=after,
            ties=ties,
            undated=self.undated + undated,
            seen=seen,
            last=answer.rows[-1].url if wide and answer.rows and not shuffles else None,
            shuffles=shuffles,
        )

    def rest(self, answer: DatedAnswer) -> "_Spot | None":
        """Where to look for what the order did not show, at its end: records without a date."""
        if self.since is not None or not self.ordered or not answer.rows or self.seen >= (self.declared or 0):
            return None
        return replace(self, ordered=False, last=None)


async def chronology(
    ask: Callable[[DatedQuestion], Awaitable[DatedAnswer]],
    *,
    window: int,
    undated_kept: bool,
    confirmed: bool = False,
    since: datetime | None = None,
    place: Any = None,
) -> AsyncGenerator[ListingPage]:
    """The pages of a listing; `window` is how many records a source lets us skip.

    `undated_kept` tells that records without a date are among the answers to every question; `confirmed`, that only
    an empty page ends a listing, whatever count is declared.
    """
    begin = _second(since) if since else None
    spot = _Spot(**place) if place else _Spot(since=begin, after=begin)
    while True:
        asked = spot.question(undated_kept=undated_kept)
        try:
            answer = await ask(asked)
        except SourceError as problem:
            if asked.after is None or spot.since is not None or spot.seen >= window:
                raise
            log.info("the catalog cannot be asked from a date on, and is walked by number: %s", problem)
            spot = replace(spot, ordered=False, last=None)
            continue
        if not spot.joined(answer):
            spot = spot.again()
            continue
        wide = len(answer.rows) > 1
        if spot.last is not None and spot.ordered:
            if not wide and (answer.more or answer.full):
                spot = replace(spot, last=None)
                continue
            answer = answer._replace(rows=answer.rows[1:])
            asked = asked._replace(skip=asked.skip + 1)
        declared = answer.declared if spot.seen == 0 or not spot.ordered else None
        spot = replace(spot, declared=spot.declared if spot.declared is not None else answer.declared)
        moved = spot.moved(answer, wide=wide)
        more = answer.more or answer.full or confirmed
        following = moved if more and answer.rows else moved.rest(answer)
        closed = following is not None and following.question(undated_kept=undated_kept).skip >= window
        ends_by_count = spot.since is not None and not (answer.more or answer.full)
        yield ListingPage(
            _placed(answer.rows, asked, since=begin),
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
    """The question whose first answer is the record at a place."""
    return DatedQuestion(_moment(place["after"]), place["skip"])


async def retried(place: Any, ask: Callable[[DatedQuestion, int], Awaitable[DatedAnswer]]) -> Any | None:
    """Ask again for a record that could not be identified, as `Listing.retry` does; `ask` takes a number of rows.

    The records of its second that came before it are asked for as well. Edited ones move to the end of the listing, and
    the place would then be that of a later record.
    """
    skip = place["skip"]
    begin = max(0, skip - _MOST_TIES)
    answer = await ask(DatedQuestion(_moment(place["after"]), begin), skip - begin + 1)
    return place if sum(not row.named for row in answer.rows) >= place["unnamed"] else None


def _placed(rows: list[Row], asked: DatedQuestion, *, since: int | None) -> list[Row]:
    """The rows, those that are not named with their places: how many lie between the last date and them.

    The first of what was modified has no record before it, and one name whatever was asked for.
    """
    if all(row.named for row in rows):
        return rows
    placed: list[Row] = []
    after, skip, unnamed = _second(asked.after) if asked.after else None, asked.skip, 0
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
    """Whether a record has no date; of one that cannot be read nobody knows, and it stands where it stands."""
    return row.modified is None and isinstance(row.seen, Fetched | UnparsedRecord)


def _first_of(rows: list[Row], second: int | None) -> int:
    return next(at for at, row in enumerate(rows) if row.modified is not None and _second(row.modified) == second)


def _second(at: datetime) -> int:
    return int(at.timestamp() // 1)


def _moment(second: int | None) -> datetime | None:
    return None if second is None else datetime.fromtimestamp(second, UTC)
