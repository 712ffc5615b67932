"""The rate at which items change, estimated from checks, and the staleness of a copy.

Changes are modelled as a Poisson process with an unknown rate; the rate has a gamma distribution. A check that finds a
change proves at least one change since the previous check. The same distribution describes a source, whose items
change at different rates: a few often, most hardly ever.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, expm1, lgamma, log, log1p, sqrt
from typing import NamedTuple

_DAY_S = 86_400.0
# Below this share of the span, the exact formulas lose precision by cancellation; the first term of their series is
# accurate to a part in ten thousand.
_SMALL = 1e-4
# A tolerance of a minute after an interval of an hour and a half.
_CLOSE = 1.01
# The weight of a check is halved after a quarter, since a rebuilt source changes at another rate. A half-life of half a
# quarter would forget a monthly publisher between two issues.
_HALF_LIFE_S = 90 * _DAY_S
# The weight of one check is limited to this number of items that change independently. Pages of a site change together,
# at releases: if each of 10,000 pages counted, one release would outweigh a year.
_SPEAKERS = 20.0
# The grid of rates: from a change in thirty years to one in ten minutes, each rate a third higher than the previous
# one.
_RATES = tuple(exp(log(1e-9) + number * 0.3) for number in range(49))
# From sources in which a few items make all changes to sources whose items all change at the same rate.
_SHAPES = (0.1, 0.3, 1.0, 3.0, 10.0)
# A larger number of items has the same weight as this number, since releases change many items together.
_HISTORIES = 200.0
# The prior: a month and a half between two changes, within a factor of ten. A page of the Kubernetes documentation
# changes once in fourteen months, a news page every few days. A few checks outweigh the prior.
_USUAL_RATE = 1 / (45 * _DAY_S)
_SPREAD = log(10)


@dataclass(frozen=True, slots=True)
class ChangeRate:
    """A gamma distribution of the rate of changes, equivalent to `shape` observed changes in `span_s` seconds."""

    shape: float
    span_s: float

    @property
    def per_day(self) -> float:
        """The expected number of changes in a day."""
        return self.shape / self.span_s * _DAY_S

    def stale(self, elapsed_s: float) -> float:
        """Return the probability of a change since a check; for a source, the expected share of stale items."""
        return -expm1(-self.shape * log1p(max(0.0, elapsed_s) / self.span_s))

    def mean_stale(self, interval_s: float) -> float:
        """Return the share of the time in which a copy is stale, if it is checked once in every interval."""
        return 1.0 - self._fresh_s(interval_s) / interval_s

    def gain_s(self, interval_s: float) -> float:
        """Return the seconds of staleness that one more check avoids, if a copy is checked once in every interval.

        To make the copies as fresh as possible, spend each request on the item with the highest gain.
        """
        if interval_s < _SMALL * self.span_s:
            return self.shape / self.span_s * interval_s**2 / 2
        return max(0.0, self._fresh_s(interval_s) - interval_s * (1.0 - self.stale(interval_s)))

    def interval_s(self, worth_s: float, *, shortest_s: float, longest_s: float) -> float:
        """Return the interval after which a check gains `worth_s`, to 1 %; `longest_s` if no interval gains as much."""
        if self.gain_s(longest_s) < worth_s:
            return longest_s
        # A lower bound of the result: the gain is highest if each change is the first one since the check.
        low = high = min(longest_s, max(shortest_s, sqrt(2 * worth_s * self.span_s / self.shape)))
        step = _CLOSE
        while self.gain_s(high) < worth_s:
            low, high, step = high, min(longest_s, high * step), step**2
        while high > low * _CLOSE:
            middle = sqrt(low * high)
            low, high = (middle, high) if self.gain_s(middle) < worth_s else (low, middle)
        return high

    def unchanged(self, elapsed_s: float) -> "ChangeRate":
        """Return the distribution after a check that found no change."""
        return ChangeRate(self.shape, self.span_s + elapsed_s)

    def changed(self, elapsed_s: float) -> "ChangeRate":
        """Return the estimate after a check that found changes: a gamma distribution with the posterior's moments."""
        shape, span, later = self.shape, self.span_s, self.span_s + elapsed_s
        if elapsed_s < _SMALL * span:
            return ChangeRate(shape + 1, span + elapsed_s / 2)
        some = self.stale(elapsed_s)
        mean = shape * (1 / span - (1 - some) / later) / some
        square = shape * (shape + 1) * (1 / span**2 - (1 - some) / later**2) / some
        spread = square - mean**2
        return ChangeRate(mean**2 / spread, mean / spread)

    def dated(self, age_s: float) -> "ChangeRate":
        """Return the distribution after a check that found the time of the last change, `age_s` ago."""
        return ChangeRate(self.shape + 1, self.span_s + age_s)

    def counted(self, changes: int, elapsed_s: float) -> "ChangeRate":
        """Return the distribution after a check that found the exact number of changes."""
        return ChangeRate(self.shape + changes, self.span_s + elapsed_s)

    def faded(self, elapsed_s: float, prior: "ChangeRate") -> "ChangeRate":
        """Return the distribution after a time without checks: each quarter moves it half of the way to the prior."""
        left = _fading(elapsed_s)
        return ChangeRate(
            prior.shape + (self.shape - prior.shape) * left, prior.span_s + (self.span_s - prior.span_s) * left
        )

    def _fresh_s(self, interval_s: float) -> float:
        """Return the number of seconds for which a copy is expected to be fresh within an interval."""
        grown = log1p(interval_s / self.span_s)
        rest = 1.0 - self.shape
        return self.span_s * (expm1(rest * grown) / rest if abs(rest) > 1e-9 else grown)


class SourceLook(NamedTuple):
    """The result of one check of a whole source: the number of items that changed since the previous check."""

    elapsed_s: float
    items: int
    changed: int
    age_s: float = 0.0

    @property
    def weight(self) -> float:
        """The weight of the check, as an equivalent number of items that were checked individually today."""
        return min(self.items, _SPEAKERS) * _fading(self.age_s)


# The share of items that were modified in the last day is equivalent to the result of a check after one day.
_AGES_S = (_DAY_S, 7 * _DAY_S, 30 * _DAY_S, 180 * _DAY_S)


def looks_from_ages(ages_s: Sequence[float]) -> list[SourceLook]:
    """Return checks that are equivalent to the items' modification dates; used for a source with only one check."""
    if not ages_s:
        return []
    return [SourceLook(span_s, len(ages_s), sum(age < span_s for age in ages_s)) for span_s in _AGES_S]


def learned(looks: Iterable[SourceLook]) -> ChangeRate:
    """Return the rate at which the items of a source change: the posterior mean over a grid of distributions.

    The result has the mean shape, and the mean share of changed items at the usual interval between checks.
    """
    known = [look for look in looks if look.items and look.elapsed_s > 0]
    logs = list(_prior())
    for look in known:
        weight, changed = look.weight, min(1.0, look.changed / look.items)
        for number, curve in enumerate(_curves()):
            grown = curve.shape * log1p(look.elapsed_s / curve.span_s)
            logs[number] += weight * (changed * log(-expm1(-grown)) - (1 - changed) * grown)
    weighted = list(zip(_shares(logs), _curves(), strict=True))
    # The interval between checks with the most evidence; one day if there is no evidence.
    total = sum(look.weight for look in known)
    usual_s = exp(sum(look.weight * log(look.elapsed_s) for look in known) / total) if total else _DAY_S
    shape = exp(sum(weight * log(curve.shape) for weight, curve in weighted))
    share = sum(weight * curve.stale(usual_s) for weight, curve in weighted)
    return ChangeRate(shape, usual_s / expm1(-log1p(-share) / shape))


def population(histories: Iterable[tuple[int, float]]) -> ChangeRate:
    """Return the distribution of the rates of items; `histories` has the changes and the observed seconds of each item.

    The result is the prior of an item: if all items change alike, one change does not make an item volatile.
    """
    counts = Counter((changes, round(span_s / _DAY_S)) for changes, span_s in histories)
    weight = min(1.0, _HISTORIES / max(1, counts.total()))
    logs = list(_prior())
    for (changes, days), times in counts.items():
        for number, curve in enumerate(_curves()):
            shape, span_s = curve.shape, curve.span_s
            likelihood = lgamma(shape + changes) - lgamma(shape) - changes * log(span_s)
            likelihood -= (shape + changes) * log1p(days * _DAY_S / span_s)
            logs[number] += weight * times * likelihood
    weighted = list(zip(_shares(logs), _curves(), strict=True))
    return ChangeRate(
        exp(sum(share * log(curve.shape) for share, curve in weighted)),
        exp(sum(share * log(curve.span_s) for share, curve in weighted)),
    )


@cache
def _curves() -> tuple[ChangeRate, ...]:
    return tuple(ChangeRate(shape, shape / rate) for shape in _SHAPES for rate in _RATES)


@cache
def _prior() -> tuple[float, ...]:
    return tuple(-((log(rate / _USUAL_RATE) / _SPREAD) ** 2) / 2 for _ in _SHAPES for rate in _RATES)


def _shares(logs: Sequence[float]) -> list[float]:
    """Return weights from their logarithms, scaled to a sum of one."""
    most = max(logs)
    weights = [exp(weight - most) for weight in logs]
    total = sum(weights)
    return [weight / total for weight in weights]


def _fading(age_s: float) -> float:
    return float(0.5 ** (age_s / _HALF_LIFE_S))
