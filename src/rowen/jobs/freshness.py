"""Where requests are worth most: a budget of them, spent so that the copies are as fresh as it can make them.

Every look has a price: the seconds for which items would otherwise be stale that each of its requests saves. All looks
are made at the same price, so that no request would save more elsewhere. The price is the lowest at which the requests
of a day are not exceeded.


`every auto`: each run teaches how often a source changes, and so when it is worth another look.

A source whose looks cost many requests, one for each page, is not walked each time: pages that were seen to change are
looked at between two walks. All is decided by one price, what a request must save (`jobs/freshness.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from math import exp, log
from typing import Any

from rowen.connectors.registry import connector, kinds
from rowen.model.dates import http_date, iso_moment
from rowen.model.freshness import ChangeRate, SourceLook, learned, looks_from_ages, population
from rowen.model.runs import Run
from rowen.model.schedules import Schedule
from rowen.model.sources import Source
from rowen.settings import Settings
from rowen.store import schedules as store_schedules
from rowen.store.database import Connection
from rowen.store.schedules import ChangedPage, PastCheck, SourceFreshness, VolatilePage

__all__ = [
    "LEAST_GAIN_S",
    "Allocation",
    "Demand",
    "Outlook",
    "allocate",
    "learn",
    "next_look_s",
    "outlook",
    "polling_s",
    "task_for",
    "worth_looking",
]

_DAY_S = 86_400.0
LEAST_GAIN_S = 600.0
"""What a request must save to be made at all, however many are left: ten minutes for which one item is stale.

A page that changes once a day is then looked at every 3 hours, one that changes once a year every 2 days. At a quarter
of it both would be asked twice as often, and be stale for 3 % of the time, not 6 %, and for 0.15 %, not 0.3 %."""
# No price is higher: a request that saves a thousand years.
_MOST_GAIN_S = 1e12
# The budget need not be met to the last request, nor the price to the last second.
_CLOSE_ENOUGH = 0.99
_SAME_PRICE = 1e-3


@dataclass(frozen=True, slots=True)
class Demand:
    """What a look at something would do: so many items are fresh again, for so many requests, within two intervals.

    One may stand for a `number` of others like it.
    """

    rate: ChangeRate
    items: float
    requests: float
    shortest_s: float
    longest_s: float
    number: float = 1.0

    def interval_s(self, price_s: float) -> float:
        """After how long a look is worth its price."""
        worth_s = price_s * self.requests / max(self.items, 1.0)
        return self.rate.interval_s(worth_s, shortest_s=self.shortest_s, longest_s=self.longest_s)

    def per_day(self, price_s: float) -> float:
        """The requests of a day at a price."""
        return self.number * self.requests * _DAY_S / self.interval_s(price_s)


@dataclass(frozen=True, slots=True)
class Allocation:
    """The price of a look. `stretch` is 1, or how many times longer than the longest intervals are to be.

    They are stretched only where a budget is not even enough for them: late is better than never, and all are equally
    late.
    """

    price_s: float = LEAST_GAIN_S
    stretch: float = 1.0

    def interval_s(self, demand: Demand) -> float:
        """After how long something is to be looked at again."""
        return demand.interval_s(self.price_s) * self.stretch


def allocate(demands: Iterable[Demand], *, requests_per_day: float, least_gain_s: float = LEAST_GAIN_S) -> Allocation:
    """The price at which all demands together fit into a budget."""
    wanted = list(demands)

    def spent(price_s: float) -> float:
        return sum(demand.per_day(price_s) for demand in wanted)

    return _cheapest(spent, requests_per_day, least_gain_s)


def _cheapest(spent: Callable[[float], float], limit: float, least_gain_s: float) -> Allocation:
    """The lowest price at which no more is spent in a day than the limit; what is spent falls with the price."""
    most = spent(least_gain_s)
    if most <= limit:
        return Allocation(least_gain_s)
    least = spent(_MOST_GAIN_S)
    if least > limit:
        return Allocation(_MOST_GAIN_S, least / limit)
    low, high = (log(least_gain_s), log(most / limit)), (log(_MOST_GAIN_S), log(least / limit))
    while high[0] - low[0] > _SAME_PRICE and high[1] < log(_CLOSE_ENOUGH):
        found = _between(low, high)
        over = log(spent(exp(found)) / limit)
        low, high = ((found, over), high) if over > 0 else (low, (found, over))
    return Allocation(exp(high[0]))


def _between(low: tuple[float, float], high: tuple[float, float]) -> float:
    """Where a line from one to the other is zero, but well between them: half of the way, where it is nearly flat."""
    (start, over), (end, under) = low, high
    share = over / (over - under) if over - under > 1e-9 else 0.5
    return start + (end - start) * min(0.9, max(0.1, share))


# As many looks as a curve is learned from: the older ones say little, and each costs a tenth of a millisecond.
_LOOKS = 40
# Where there were fewer looks, the dates that items tell help out; after these the looks know better.
_FEW_LOOKS = 5
# Enough for shares to a few percent, and for what is usual among pages.
_ENOUGH_ITEMS = 500
# Of the last costs of a look; one that fell back to a whole walk is no rule.
_COSTS = 5
# Whoever has many sources need not reckon with all of them after each run; a quarter of an hour changes no price.
_PRICE_KEPT_S = 900.0
# Pages that the price is reckoned with: a sample tells what all of them would cost.
_SAMPLE = 2_000
# Below that a walk costs less than it would to learn which pages are worth a look.
_LARGE_REQUESTS = 50
# A look at so many pages takes an hour at the usual pace. What is left is still worth it next time.
_MOST_PAGES = 3_000
# A date that a server gives to everything that it has just made tells nothing.
_JUST_MADE_S = 60.0
# What a stream may ask for. More often than every ten seconds is a matter of push: a poll takes a job and a request for
# each page that may change. A week is the longest that something may change unseen.
_POLLING_S = (10, 604_800)
# The jitter of a schedule may make a look due earlier by a tenth.
_DUE_SHARE = 0.85


async def learn(c: Connection, source: Source, run: Run, *, looked: Sequence[int] = ()) -> None:
    """Take in what a run has found; `looked` are the pages that it looked at, if it was no walk."""
    if run.status != "completed":
        return
    before = await store_schedules.freshness(c, source.id)
    if before is not None and _has_volatile_pages(source, before):
        await _learn_pages(c, source, run, before, looked)
    past = await store_schedules.past_checks(c, source.id, limit=_LOOKS + 1)
    if past and (before is None or before.looked_at < past[0].at):
        await store_schedules.store_freshness(c, source.id, await _known(c, source, past))


async def _learn_pages(c: Connection, source: Source, run: Run, before: SourceFreshness, looked: Sequence[int]) -> None:
    changed = await store_schedules.changed_pages(c, source.id, run.id, since=run.started_at)
    prior = population(await store_schedules.histories(c, source.id, limit=_ENOUGH_ITEMS)) if changed else before.rate
    rates = {page.item_id: _taught(page, prior, before.looked_at, run.started_at) for page in changed}
    await store_schedules.store_page_rates(c, source.id, run.started_at, list(rates.items()))
    await store_schedules.note_unchanged(c, run.started_at, [item_id for item_id in looked if item_id not in rates])


def _has_volatile_pages(source: Source, known: SourceFreshness) -> bool:
    """Whether single pages are looked at: on large sites, where no listing tells what changed."""
    is_auto = source.schedule is not None and Schedule.parse(source.schedule).is_auto
    # A kind that can look at single items has a method for it.
    return is_auto and known.requests >= _LARGE_REQUESTS and source.kind == "web" and hasattr(connector("web"), "look")


def _taught(page: ChangedPage, prior: ChangeRate, walked_at: datetime, now: datetime) -> ChangeRate:
    """What is known of a page after a look that found it changed."""
    known_from = page.looked_at or page.created_at
    seen_at = max(known_from, walked_at)
    rate = page.rate.faded(_between_s(known_from, now), prior) if page.rate else prior
    rate = rate.unchanged(_between_s(known_from, seen_at))
    modified = http_date(page.last_modified)
    if modified is not None and seen_at < modified and _between_s(modified, now) > _JUST_MADE_S:
        return rate.dated(_between_s(modified, now))
    return rate.changed(max(1.0, _between_s(seen_at, now)))


async def _known(c: Connection, source: Source, past: Sequence[PastCheck]) -> SourceFreshness:
    """What the last looks at a source tell; the first one found everything new, and tells what there is."""
    newest = past[0].at
    looks = [
        SourceLook(_between_s(older.at, look.at), look.items, look.changed, _between_s(look.at, newest))
        for look, older in pairwise(past)
    ]
    if len(looks) < _FEW_LOOKS:
        dates = map(iso_moment, await store_schedules.modified_dates(c, source.id, limit=_ENOUGH_ITEMS))
        looks += looks_from_ages([_between_s(date, newest) for date in dates if date is not None])
    costs = [_cost(look) for look in past if not look.is_full] or [_cost(look) for look in past]
    return SourceFreshness(newest, learned(looks), past[0].items, _median(costs[:_COSTS]))


def _median(costs: Sequence[float]) -> float:
    """The one in the middle. Every run ends here, and the standard library's takes 5 ms to import."""
    ordered = sorted(costs)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _cost(look: PastCheck) -> float:
    """What a look costs. A second of work counts as a request, which takes as long: a large folder is not free."""
    return max(1.0, look.requests, look.seconds)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of a source that is looked at as often as it changes: as a whole, and of its volatile pages."""

    known: SourceFreshness
    pages: Sequence[VolatilePage]
    schedule: Schedule
    price: Allocation

    @property
    def walk_s(self) -> float:
        """After how long it is to be looked at as a whole."""
        known = self.known
        return self.price.interval_s(_demand(known.rate, known.items - len(self.pages), known.requests, self.schedule))

    def next_look_s(self, now: datetime) -> float:
        """In how many seconds it is worth looking again, at the whole or at some pages."""
        walk_s, shortest_s = self.walk_s, float(self.schedule.between[0])
        passed_s = _between_s(self.known.looked_at, now)
        # After a walk that did not come to its end the next one is not due at once.
        waits = [walk_s - passed_s if passed_s < walk_s else walk_s]
        for page in self.pages:
            page_s = page.rate.interval_s(self.price.price_s, shortest_s=shortest_s, longest_s=max(shortest_s, walk_s))
            if page_s < walk_s:
                waits.append(page_s - _between_s(page.looked_at, now))
        return max(shortest_s, min(waits))

    def is_walk_due(self, now: datetime) -> bool:
        """Whether the whole is to be looked at."""
        return _between_s(self.known.looked_at, now) >= _DUE_SHARE * self.walk_s

    def worth_looking(self, now: datetime) -> list[VolatilePage]:
        """The pages that are worth a look now, those that gain most by it first."""
        shortest_s = float(self.schedule.between[0])
        ages = [(_between_s(page.looked_at, now), page) for page in self.pages]
        # What would be due before the next look can begin is looked at with the rest.
        gains = [(page.rate.gain_s(age_s + shortest_s / 2), page) for age_s, page in ages if age_s >= shortest_s / 2]
        worth = [(gain_s, page) for gain_s, page in gains if gain_s >= self.price.price_s]
        return [page for _, page in sorted(worth, key=lambda pair: (-pair[0], pair[1].item_id))]


async def outlook(c: Connection, settings: Settings, source_id: int, schedule: Schedule) -> Outlook | None:
    """What is known of a source; None if it was never seen whole."""
    known = await store_schedules.freshness(c, source_id)
    if known is None:
        return None
    pages = await store_schedules.volatile_pages(c, source_id, limit=_MOST_PAGES)
    return Outlook(known, pages, schedule, await _price(c, settings))


async def next_look_s(c: Connection, settings: Settings, source_id: int, schedule: str | None) -> float | None:
    """In how many seconds a source is worth another look; None if its schedule decides, or nothing is known yet.

    A stream that says how often it wants to be asked knows better than what was learned. It is asked so often as well
    if it has no schedule.
    """
    parsed = Schedule.parse(schedule) if schedule else None
    if parsed is not None and not parsed.is_auto:
        return None
    asked_s = await polling_s(c, source_id, parsed)
    if asked_s is not None or parsed is None:
        return asked_s
    found = await outlook(c, settings, source_id, parsed)
    return None if found is None else found.next_look_s(await store_schedules.database_time(c))


async def polling_s(c: Connection, source_id: int, schedule: Schedule | None = None) -> float | None:
    """How often a source itself wants to be asked, within the limits that somebody set."""
    kind, cursor = await store_schedules.kind_and_cursor(c, source_id)
    told = getattr(connector(kind), "polling_s", None) if kind in kinds() else None
    wanted_s: float | None = told(cursor) if told is not None else None
    if wanted_s is None:
        return None
    shortest_s, longest_s = schedule.limits if schedule is not None and schedule.limits else _POLLING_S
    return min(max(wanted_s, float(shortest_s)), float(longest_s))


async def worth_looking(c: Connection, settings: Settings, source: Source) -> list[VolatilePage]:
    """The pages of a source that are worth a look now; none if it is to be looked at as a whole."""
    parsed = Schedule.parse(source.schedule) if source.schedule else None
    found = await outlook(c, settings, source.id, parsed) if parsed and parsed.is_auto else None
    return found.worth_looking(await store_schedules.database_time(c)) if found else []


async def task_for(c: Connection, settings: Settings, source_id: int, schedule: str | None) -> dict[str, Any] | float:
    """How the sync of a source that is due is to be done, or how many seconds it has to wait.

    It waits while the requests of a day are used up, or where nothing is worth a look after all.
    """
    parsed = Schedule.parse(schedule) if schedule else None
    found = await outlook(c, settings, source_id, parsed) if parsed and parsed.is_auto else None
    if found is None or await polling_s(c, source_id, parsed) is not None:
        return {}
    if await store_schedules.requests_of_day(c) >= settings.refresh_requests_per_day:
        return float(found.schedule.between[0])
    now = await store_schedules.database_time(c)
    if found.is_walk_due(now):
        return {}
    return {"revisit": True} if found.worth_looking(now) else found.next_look_s(now)


def _demand(rate: ChangeRate, items: float, requests: float, schedule: Schedule, number: float = 1.0) -> Demand:
    from rowen.jobs.freshness import Demand

    shortest_s, longest_s = map(float, schedule.between)
    return Demand(rate, max(1.0, items), requests, shortest_s, longest_s, number)


async def _price(c: Connection, settings: Settings) -> Allocation:
    """What a request must save, so that those of a day are enough for all sources; reckoned now and then."""
    from rowen.jobs.freshness import Allocation, allocate

    held = await store_schedules.price(c, younger_than_s=_PRICE_KEPT_S)
    if held is not None:
        return Allocation(*held)
    found = allocate(await _demands(c), requests_per_day=settings.refresh_requests_per_day)
    await store_schedules.store_price(c, found.price_s, found.stretch)
    return found


async def _demands(c: Connection) -> list[Demand]:
    """What all looks would cost: at whole sources, and at single pages of large sites."""
    sources = await store_schedules.auto_sources(c)
    schedules = {source.id: Schedule.parse(source.schedule) for source in sources}
    whole = [_demand(one.rate, one.items - one.volatile, one.requests, schedules[one.id]) for one in sources]
    number, sample = await store_schedules.volatile_sample(c, limit=_SAMPLE)
    each = number / max(1, len(sample))
    return whole + [_demand(rate, 1, 1, schedules[of], each) for of, rate in sample if of in schedules]


def _between_s(earlier: datetime, later: datetime) -> float:
    return max(0.0, (later - earlier).total_seconds())
