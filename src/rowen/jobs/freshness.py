"""Where requests are worth most: a budget of them, spent so that the copies are as fresh as it can make them.

Every look has a price: the seconds for which items would otherwise be stale that each of its requests saves. All looks
are made at the same price, so that no request would save more elsewhere. The price is the lowest at which the requests
of a day are not exceeded.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import exp, log

from rowen.model.change_rate import ChangeRate

__all__ = ["LEAST_GAIN_S", "Allocation", "Demand", "allocate"]

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
