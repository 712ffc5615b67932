"""The rate at which items change, learned from checks, and the staleness of a copy.

Changes are modelled as a Poisson process with an unknown rate, and the knowledge about the rate as a gamma
distribution. A check that finds a change stands for one or more changes since the check before. The same curve
describes a whole source, whose items change at gamma-distributed rates: few often, most hardly ever.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, expm1, lgamma, log, log1p, sqrt
from typing import NamedTuple

_DAY_S = 86_400.0
# Below this share of the span, the exact formulas lose their digits to cancellation; the first term of their series is
# right to a part in ten thousand.
_SMALL = 1e-4
# Checks that are a minute late after an hour and a half are on time.
_CLOSE = 1.01
# A check counts half after a quarter: a rebuilt source changes at another rate. Half of that would forget a monthly
# publisher between two issues.
_HALF_LIFE_S = 90 * _DAY_S
# One check counts as much as this many items that change independently. Pages of a site change together, at releases:
# if each of 10,000 counted, one release would outweigh a year.
_SPEAKERS = 20.0
# From an item in thirty years to one in ten minutes, each rate a third more than the one before.
_RATES = tuple(exp(log(1e-9) + number * 0.3) for number in range(49))
# From sources in which a few items make all the changes to those whose items are all alike.
_SHAPES = (0.1, 0.3, 1.0, 3.0, 10.0)
# More items than this count as this many: releases change them together.
_HISTORIES = 200.0
# The prior: a month and a half between two changes, give or take a factor of ten. A page of the Kubernetes
# documentation changes once in fourteen months, one of the news every few days. A few checks outweigh it.
_USUAL_RATE = 1 / (45 * _DAY_S)
_SPREAD = log(10)


@dataclass(frozen=True, slots=True)
class ChangeRate:
    """A gamma distribution of the rate of changes, as if `shape` changes had been seen in `span_s` seconds."""

    shape: float
    span_s: float

    @property
    def per_day(self) -> float:
        """The expected number of changes in a day."""
        return self.shape / self.span_s * _DAY_S

    def stale(self, elapsed_s: float) -> float:
        """Return the probability of a change since a check so long ago; for a source, the share of stale items."""
        return -expm1(-self.shape * log1p(max(0.0, elapsed_s) / self.span_s))

    def mean_stale(self, interval_s: float) -> float:
        """Return the share of the time for which a copy is stale that is checked after every interval."""
        return 1.0 - self._fresh_s(interval_s) / interval_s

    def gain_s(self, interval_s: float) -> float:
        """Return by how many seconds one more check shortens the stale time, with a check after every interval.

        Check the item with the highest gain for each request, until the requests are used up: no other use of them
        makes the copies fresher.
        """
        if interval_s < _SMALL * self.span_s:
            return self.shape / self.span_s * interval_s**2 / 2
        return max(0.0, self._fresh_s(interval_s) - interval_s * (1.0 - self.stale(interval_s)))

    def interval_s(self, worth_s: float, *, shortest_s: float, longest_s: float) -> float:
        """Return after how long a check gains `worth_s`, to a hundredth; the longest interval if none does."""
        if self.gain_s(longest_s) < worth_s:
            return longest_s
        # No sooner: most can be gained if each change is the first one.
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
        """Return the estimate after a check with changes: a gamma distribution with the posterior's moments."""
        shape, span, later = self.shape, self.span_s, self.span_s + elapsed_s
        if elapsed_s < _SMALL * span:
            return ChangeRate(shape + 1, span + elapsed_s / 2)
        some = self.stale(elapsed_s)
        mean = shape * (1 / span - (1 - some) / later) / some
        square = shape * (shape + 1) * (1 / span**2 - (1 - some) / later**2) / some
        spread = square - mean**2
        return ChangeRate(mean**2 / spread, mean / spread)

    def dated(self, age_s: float) -> "ChangeRate":
        """Return the distribution after a check that found the time of the last change: nothing has changed since."""
        return ChangeRate(self.shape + 1, self.span_s + age_s)

    def counted(self, changes: int, elapsed_s: float) -> "ChangeRate":
        """Return the distribution after a check that found the number of changes."""
        return ChangeRate(self.shape + changes, self.span_s + elapsed_s)

    def faded(self, elapsed_s: float, prior: "ChangeRate") -> "ChangeRate":
        """Return the distribution after a time without checks: in a quarter, it moves half of the way to the prior."""
        left = _fading(elapsed_s)
        return ChangeRate(
            prior.shape + (self.shape - prior.shape) * left, prior.span_s + (self.span_s - prior.span_s) * left
        )

    def _fresh_s(self, interval_s: float) -> float:
        """Return the part of an interval for which a copy is expected to be fresh."""
        grown = log1p(interval_s / self.span_s)
        rest = 1.0 - self.shape
        return self.span_s * (expm1(rest * grown) / rest if abs(rest) > 1e-9 else grown)


class SourceLook(NamedTuple):
    """The result of checking a whole source: how many of its items changed since the check before."""

    elapsed_s: float
    items: int
    changed: int
    age_s: float = 0.0

    @property
    def weight(self) -> float:
        """The weight of the check, as a number of items that were each checked today."""
        return min(self.items, _SPEAKERS) * _fading(self.age_s)


# The share of items that were modified in the last day equals the result of a check after a day.
_AGES_S = (_DAY_S, 7 * _DAY_S, 30 * _DAY_S, 180 * _DAY_S)


def looks_from_ages(ages_s: Sequence[float]) -> list[SourceLook]:
    """Return checks that are equivalent to the items' own modification dates, for a source that was checked once."""
    if not ages_s:
        return []
    return [SourceLook(span_s, len(ages_s), sum(age < span_s for age in ages_s)) for span_s in _AGES_S]


def learned(looks: Iterable[SourceLook]) -> ChangeRate:
    """Return how often the items of a source change, as the mean of the posterior over a grid of curves.

    It has the expected shape, and at the usual interval between checks the expected share of changed items.
    """
    known = [look for look in looks if look.items and look.elapsed_s > 0]
    logs = list(_prior())
    for look in known:
        weight, changed = look.weight, min(1.0, look.changed / look.items)
        for number, curve in enumerate(_curves()):
            grown = curve.shape * log1p(look.elapsed_s / curve.span_s)
            logs[number] += weight * (changed * log(-expm1(-grown)) - (1 - changed) * grown)
    weighted = list(zip(_shares(logs), _curves(), strict=True))
    # The interval with the most evidence; a day without any.
    total = sum(look.weight for look in known)
    usual_s = exp(sum(look.weight * log(look.elapsed_s) for look in known) / total) if total else _DAY_S
    shape = exp(sum(weight * log(curve.shape) for weight, curve in weighted))
    share = sum(weight * curve.stale(usual_s) for weight, curve in weighted)
    return ChangeRate(shape, usual_s / expm1(-log1p(-share) / shape))


def population(histories: Iterable[tuple[int, float]]) -> ChangeRate:
    """Return the distribution of the rates of items, from the changes and the observed seconds of each.

    It is the prior of an item: if all items change alike, one change does not make an item volatile.
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
    """Return weights with a sum of one from their logarithms."""
    most = max(logs)
    weights = [exp(weight - most) for weight in logs]
    total = sum(weights)
    return [weight / total for weight in weights]


def _fading(age_s: float) -> float:
    return float(0.5 ** (age_s / _HALF_LIFE_S))
