"""Plan automatic schedules (`every auto`): learn from runs how often sources change, and when a check is worth it.

A check has a price: the staleness, in item-seconds, that each of its requests avoids. All checks are made at the same
price, the lowest at which the daily budget of requests suffices, so that no request would avoid more staleness
elsewhere. A large site without a change listing is not walked each time: pages that have changed before are checked
between two walks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

_DAY_S = 86_400.0
LEAST_GAIN_S = 600.0
"""The staleness that a request must avoid, whatever the budget: ten minutes of one stale item.

A page that changes daily is then checked every 3 hours, a page that changes yearly every 2 days. At a quarter both
would be checked twice as often, and be stale for 3 % instead of 6 %, and 0.15 % instead of 0.3 %, of the time."""
# The highest price: a request that avoids a thousand years of staleness.
_MOST_GAIN_S = 1e12
# The precision of the budget and of the price.
_CLOSE_ENOUGH = 0.99
_SAME_PRICE = 1e-3


@dataclass(frozen=True, slots=True)
class Demand:
    """The effect and cost of a check and the bounds of its interval; it stands for `number` similar checks."""

    rate: ChangeRate
    items: float
    requests: float
    shortest_s: float
    longest_s: float
    number: float = 1.0

    def interval_s(self, price_s: float) -> float:
        """Return the interval at which a check is worth its price."""
        worth_s = price_s * self.requests / max(self.items, 1.0)
        return self.rate.interval_s(worth_s, shortest_s=self.shortest_s, longest_s=self.longest_s)

    def per_day(self, price_s: float) -> float:
        """Return the number of requests per day at a price."""
        return self.number * self.requests * _DAY_S / self.interval_s(price_s)


@dataclass(frozen=True, slots=True)
class Allocation:
    """The price of a check, and the factor by which all intervals are stretched.

    Intervals are stretched only if the budget does not suffice for the longest intervals, so that all checks are
    equally late.
    """

    price_s: float = LEAST_GAIN_S
    stretch: float = 1.0

    def interval_s(self, demand: Demand) -> float:
        """Return the interval between checks."""
        return demand.interval_s(self.price_s) * self.stretch


def allocate(demands: Iterable[Demand], *, requests_per_day: float, least_gain_s: float = LEAST_GAIN_S) -> Allocation:
    """Return the lowest price at which all demands together fit into the daily budget."""
    wanted, limit = list(demands), requests_per_day

    def spent(price_s: float) -> float:
        return sum(demand.per_day(price_s) for demand in wanted)

    most = spent(least_gain_s)
    if most <= limit:
        return Allocation(least_gain_s)
    least = spent(_MOST_GAIN_S)
    if least > limit:
        return Allocation(_MOST_GAIN_S, least / limit)
    # Regula falsi on logarithms: spending falls with the price. A step stays well inside the bracket, and is half of it
    # where the line is nearly flat.
    low, high = (log(least_gain_s), log(most / limit)), (log(_MOST_GAIN_S), log(least / limit))
    while high[0] - low[0] > _SAME_PRICE and high[1] < log(_CLOSE_ENOUGH):
        (start, above), (end, below) = low, high
        share = above / (above - below) if above - below > 1e-9 else 0.5
        price = start + (end - start) * min(0.9, max(0.1, share))
        over = log(spent(exp(price)) / limit)
        low, high = ((price, over), high) if over > 0 else (low, (price, over))
    return Allocation(exp(high[0]))


# The number of checks to learn from: older checks say little, and each costs a tenth of a millisecond.
_CHECKS = 40
# With fewer checks, the modification dates of items are used as well.
_FEW_CHECKS = 5
# Enough for shares within a few percent, and for the distribution among pages.
_ENOUGH_ITEMS = 500
# The number of last costs to take the median of; a fallback to a whole walk is an exception.
_COSTS = 5
# How long a price is cached: with many sources it need not be computed after each run.
_PRICE_KEPT_S = 900.0
# The size of the sample of pages by which the price is computed.
_SAMPLE = 2_000
# Below this number of requests, a walk costs less than learning which pages are worth a check.
_LARGE_REQUESTS = 50
# Checking this many pages takes an hour at the usual rate; the other pages are checked the next time.
_MOST_PAGES = 3_000
# A modification date as recent as the response may have been generated with it, and proves nothing.
_JUST_MADE_S = 60.0
# The bounds of the polling interval that a stream may announce. Below ten seconds push is better: a poll takes a job
# and a request for each page that may change. A week is the longest acceptable staleness.
_POLLING_S = (10, 604_800)
# The jitter of a schedule may make a check due a tenth earlier.
_DUE_SHARE = 0.85


async def learn(c: Connection, source: Source, run: Run, *, checked: Sequence[int] = ()) -> None:
    """Update change rates from a run; `checked` are the ids of the pages that it checked, empty if it was a walk."""
    if run.status != "completed":
        return
    before = await store_schedules.freshness(c, source.id)
    is_auto = source.schedule is not None and Schedule.parse(source.schedule).is_auto
    is_large_site = source.kind == "web" and before is not None and before.requests >= _LARGE_REQUESTS
    # A kind that can check single items has the method `look`.
    if before is not None and is_auto and is_large_site and hasattr(connector("web"), "look"):
        changed = await store_schedules.changed_pages(c, source.id, run.id, since=run.started_at)
        prior = before.rate
        if changed:
            prior = population(await store_schedules.histories(c, source.id, limit=_ENOUGH_ITEMS))
        rates = {page.item_id: _updated_rate(page, prior, before.looked_at, run.started_at) for page in changed}
        await store_schedules.store_page_rates(c, source.id, run.started_at, list(rates.items()))
        await store_schedules.note_unchanged(
            c, run.started_at, [item_id for item_id in checked if item_id not in rates]
        )
    past = await store_schedules.past_checks(c, source.id, limit=_CHECKS + 1)
    if past and (before is None or before.looked_at < past[0].at):
        await store_schedules.store_freshness(c, source.id, await _learned(c, source, past))


def _updated_rate(page: ChangedPage, prior: ChangeRate, walked_at: datetime, now: datetime) -> ChangeRate:
    """Return the change rate of a page after a check that found it changed."""
    unchanged_from = page.looked_at or page.created_at
    seen_at = max(unchanged_from, walked_at)
    rate = page.rate.faded(_between_s(unchanged_from, now), prior) if page.rate else prior
    rate = rate.unchanged(_between_s(unchanged_from, seen_at))
    modified = http_date(page.last_modified)
    if modified is not None and seen_at < modified and _between_s(modified, now) > _JUST_MADE_S:
        return rate.dated(_between_s(modified, now))
    return rate.changed(max(1.0, _between_s(seen_at, now)))


async def _learned(c: Connection, source: Source, past: Sequence[PastCheck]) -> SourceFreshness:
    """Return the freshness of a source from its last checks; the first check is not counted, since all was new."""
    newest = past[0].at
    checks = [
        SourceLook(_between_s(older.at, check.at), check.items, check.changed, _between_s(check.at, newest))
        for check, older in pairwise(past)
    ]
    if len(checks) < _FEW_CHECKS:
        dates = map(iso_moment, await store_schedules.modified_dates(c, source.id, limit=_ENOUGH_ITEMS))
        checks += looks_from_ages([_between_s(date, newest) for date in dates if date is not None])
    cheap = [check for check in past if not check.is_full] or past
    # The costs are in requests; a second of work counts as one request, so that large folders are not free.
    costs = sorted(max(1.0, check.requests, check.seconds) for check in cheap[:_COSTS])
    # Importing `statistics` takes 5 ms, and every run ends here.
    median = (costs[(len(costs) - 1) // 2] + costs[len(costs) // 2]) / 2
    return SourceFreshness(newest, learned(checks), past[0].items, median)


@dataclass(frozen=True, slots=True)
class Outlook:
    """The freshness of a source with an automatic schedule, and of its volatile pages."""

    freshness: SourceFreshness
    pages: Sequence[VolatilePage]
    schedule: Schedule
    price: Allocation

    @property
    def walk_s(self) -> float:
        """The interval between walks."""
        freshness = self.freshness
        items = freshness.items - len(self.pages)
        return self.price.interval_s(_demand(freshness.rate, items, freshness.requests, self.schedule))

    def next_check_s(self, now: datetime) -> float:
        """Return the seconds until a check of the whole source or of some pages is worth it."""
        walk_s, shortest_s = self.walk_s, float(self.schedule.between[0])
        elapsed_s = _between_s(self.freshness.looked_at, now)
        # After an interrupted walk the next walk is not due at once.
        waits = [walk_s - elapsed_s if elapsed_s < walk_s else walk_s]
        for page in self.pages:
            page_s = page.rate.interval_s(self.price.price_s, shortest_s=shortest_s, longest_s=max(shortest_s, walk_s))
            if page_s < walk_s:
                waits.append(page_s - _between_s(page.looked_at, now))
        return max(shortest_s, min(waits))

    def is_walk_due(self, now: datetime) -> bool:
        """Return whether a walk is due."""
        return _between_s(self.freshness.looked_at, now) >= _DUE_SHARE * self.walk_s

    def worth_checking(self, now: datetime) -> list[VolatilePage]:
        """Return the pages that are worth a check now, the pages with the highest gain first."""
        shortest_s = float(self.schedule.between[0])
        ages = [(_between_s(page.looked_at, now), page) for page in self.pages]
        # Pages that become due before the next check can start are checked as well.
        gains = [(page.rate.gain_s(age_s + shortest_s / 2), page) for age_s, page in ages if age_s >= shortest_s / 2]
        worth = [(gain_s, page) for gain_s, page in gains if gain_s >= self.price.price_s]
        return [page for _, page in sorted(worth, key=lambda pair: (-pair[0], pair[1].item_id))]


async def outlook(c: Connection, settings: Settings, source_id: int, schedule: Schedule | None) -> Outlook | None:
    """Return the outlook of a source; None without an automatic schedule or before its first whole check."""
    if schedule is None or not schedule.is_auto:
        return None
    freshness = await store_schedules.freshness(c, source_id)
    if freshness is None:
        return None
    pages = await store_schedules.volatile_pages(c, source_id, limit=_MOST_PAGES)
    return Outlook(freshness, pages, schedule, await _price(c, settings))


async def next_check_s(c: Connection, settings: Settings, source_id: int, schedule: str | None) -> float | None:
    """Return the seconds until the next check is worth it; None if the schedule decides or nothing is known yet.

    The polling interval that a stream announces takes precedence, and is also used for streams without a schedule.
    """
    parsed = Schedule.parse(schedule) if schedule else None
    if parsed is not None and not parsed.is_auto:
        return None
    announced_s = await polling_s(c, source_id, parsed)
    if announced_s is not None or parsed is None:
        return announced_s
    source_outlook = await outlook(c, settings, source_id, parsed)
    return None if source_outlook is None else source_outlook.next_check_s(await store_schedules.database_time(c))


async def polling_s(c: Connection, source_id: int, schedule: Schedule | None = None) -> float | None:
    """Return the polling interval that a source announces, within the limits of its schedule; None without one."""
    kind, cursor = await store_schedules.kind_and_cursor(c, source_id)
    method = getattr(connector(kind), "polling_s", None) if kind in kinds() else None
    announced_s: float | None = method(cursor) if method is not None else None
    if announced_s is None:
        return None
    shortest_s, longest_s = schedule.limits if schedule is not None and schedule.limits else _POLLING_S
    return min(max(announced_s, float(shortest_s)), float(longest_s))


async def worth_checking(c: Connection, settings: Settings, source: Source) -> list[VolatilePage]:
    """Return the pages of a source that are worth a check now; empty for sources without an outlook."""
    parsed = Schedule.parse(source.schedule) if source.schedule else None
    source_outlook = await outlook(c, settings, source.id, parsed)
    return source_outlook.worth_checking(await store_schedules.database_time(c)) if source_outlook else []


async def task_for(c: Connection, settings: Settings, source_id: int, schedule: str | None) -> dict[str, Any] | float:
    """Return the arguments of a due source's sync, or the seconds until the next attempt if it must wait.

    The source waits while the daily requests are used up, or if no check is worth it after all.
    """
    parsed = Schedule.parse(schedule) if schedule else None
    source_outlook = await outlook(c, settings, source_id, parsed)
    if source_outlook is None or await polling_s(c, source_id, parsed) is not None:
        return {}
    if await store_schedules.requests_of_day(c) >= settings.refresh_requests_per_day:
        return float(source_outlook.schedule.between[0])
    now = await store_schedules.database_time(c)
    if source_outlook.is_walk_due(now):
        return {}
    return {"revisit": True} if source_outlook.worth_checking(now) else source_outlook.next_check_s(now)


def _demand(rate: ChangeRate, items: float, requests: float, schedule: Schedule, number: float = 1.0) -> Demand:
    shortest_s, longest_s = map(float, schedule.between)
    return Demand(rate, max(1.0, items), requests, shortest_s, longest_s, number)


async def _price(c: Connection, settings: Settings) -> Allocation:
    """Return the price at which the daily requests suffice for all sources, cached or newly computed."""
    cached = await store_schedules.price(c, younger_than_s=_PRICE_KEPT_S)
    if cached is not None:
        return Allocation(*cached)
    sources = await store_schedules.auto_sources(c)
    schedules = {source.id: Schedule.parse(source.schedule) for source in sources}
    demands = [
        _demand(source.rate, source.items - source.volatile, source.requests, schedules[source.id])
        for source in sources
    ]
    number, sample = await store_schedules.volatile_sample(c, limit=_SAMPLE)
    weight = number / max(1, len(sample))
    demands += [_demand(rate, 1, 1, schedules[of], weight) for of, rate in sample if of in schedules]
    price = allocate(demands, requests_per_day=settings.refresh_requests_per_day)
    await store_schedules.store_price(c, price.price_s, price.stretch)
    return price


def _between_s(earlier: datetime, later: datetime) -> float:
    return max(0.0, (later - earlier).total_seconds())
