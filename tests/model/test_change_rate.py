"""How often something changes: what looks teach, and how stale a copy grows."""

from math import exp, log

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rowen.model.freshness import ChangeRate, SourceLook, learned, looks_from_ages, population

HOUR_S, DAY_S = 3_600.0, 86_400.0

rates = st.builds(
    ChangeRate,
    st.floats(0.05, 500),
    st.floats(log(HOUR_S), log(1000 * DAY_S)).map(exp),
)
spans = st.floats(log(60), log(365 * DAY_S)).map(exp)
looks = st.builds(
    lambda elapsed_s, items, share, age_s: SourceLook(elapsed_s, items, int(items * share), age_s),
    spans,
    st.integers(1, 100_000),
    st.floats(0, 1),
    st.floats(0, 1000 * DAY_S),
)


def moments(rate: ChangeRate, elapsed_s: float) -> tuple[float, float]:
    """Mean and variance of the rate after a change was found, by summing up over a fine grid."""
    low, high = log(1e-6 / rate.span_s), log((rate.shape + 40) * 4 / rate.span_s)
    grid = [exp(low + (high - low) * number / 4_000) for number in range(4_001)]
    logs = [rate.shape * log(one) - one * rate.span_s + log(1 - exp(-one * elapsed_s)) for one in grid]
    most = max(logs)
    weights = [exp(one - most) for one in logs]
    mean = sum(w * one for w, one in zip(weights, grid, strict=True)) / sum(weights)
    square = sum(w * one**2 for w, one in zip(weights, grid, strict=True)) / sum(weights)
    return mean, square - mean**2


@pytest.mark.parametrize("shape", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("elapsed_days", [0.5, 10.0, 300.0])
def test_what_a_change_teaches_has_the_moments_of_the_exact_posterior(shape: float, elapsed_days: float) -> None:
    before = ChangeRate(shape, 10 * DAY_S)

    after = before.changed(elapsed_days * DAY_S)

    mean, variance = moments(before, elapsed_days * DAY_S)
    assert after.shape / after.span_s == pytest.approx(mean, rel=1e-3)
    assert after.shape / after.span_s**2 == pytest.approx(variance, rel=1e-2)


def test_a_page_that_has_changed_at_every_look_changes_more_often_than_it_was_looked_at() -> None:
    seen = ChangeRate(0.5, DAY_S)
    for _ in range(50):
        seen = seen.changed(DAY_S)

    assert seen.per_day > 2


def test_looks_that_find_a_change_every_other_day_tell_of_more_than_one_in_two_days() -> None:
    seen = ChangeRate(0.5, DAY_S)
    for day in range(400):
        seen = seen.changed(DAY_S) if day % 2 else seen.unchanged(DAY_S)

    # A day without a change has a probability of one half: the rate is log 2.
    assert seen.per_day == pytest.approx(log(2), rel=0.05)


def test_dates_and_counts_are_exact() -> None:
    nothing = ChangeRate(1e-6, 1e-6)

    dated = nothing.dated(2 * DAY_S).dated(2 * DAY_S).unchanged(2 * DAY_S)
    counted = nothing.counted(6, 3 * DAY_S)

    assert dated.per_day == pytest.approx(1 / 3, rel=1e-3)
    assert counted.per_day == pytest.approx(2, rel=1e-3)


@given(rates, spans)
def test_a_change_raises_what_is_expected_and_none_lowers_it(rate: ChangeRate, elapsed_s: float) -> None:
    assert rate.unchanged(elapsed_s).per_day <= rate.per_day <= rate.changed(elapsed_s).per_day * (1 + 1e-9)


@given(rates, spans, spans)
def test_staleness_and_gain_grow_with_time(rate: ChangeRate, one_s: float, other_s: float) -> None:
    sooner, later = sorted([one_s, other_s])

    assert 0 <= rate.stale(sooner) <= rate.stale(later) <= 1
    assert -1e-9 <= rate.mean_stale(later) <= rate.stale(later) + 1e-9
    assert 0 <= rate.gain_s(sooner) <= rate.gain_s(later) * (1 + 1e-3) + 1e-6


@given(rates, spans, st.floats(1.2, 30))
def test_the_gain_is_what_another_look_saves(rate: ChangeRate, interval_s: float, factor: float) -> None:
    """The derivative of the time of being stale, by the number of looks."""
    # Numbers of a size at which the difference still has digits.
    assume(rate.stale(interval_s) > 1e-3)
    step = 1e-4
    wider = rate.mean_stale(interval_s * (1 + step)) - rate.mean_stale(interval_s * (1 - step))
    fewer = 1 / (interval_s * (1 - step)) - 1 / (interval_s * (1 + step))

    assert rate.gain_s(interval_s) == pytest.approx(wider / fewer, rel=0.02, abs=1e-3 * interval_s)


@given(rates, st.floats(0.1, 1e8), spans, st.floats(1, 1000))
def test_an_interval_is_within_its_limits_and_worth_it(
    rate: ChangeRate, worth_s: float, shortest_s: float, times: float
) -> None:
    longest_s = shortest_s * times

    found = rate.interval_s(worth_s, shortest_s=shortest_s, longest_s=longest_s)

    assert shortest_s <= found <= longest_s * (1 + 1e-9)
    assert found == pytest.approx(longest_s) or rate.gain_s(found) >= worth_s * (1 - 1e-9)
    assert rate.interval_s(2 * worth_s, shortest_s=shortest_s, longest_s=longest_s) >= found * 0.99


@given(st.lists(looks, max_size=5))
def test_whatever_was_seen_gives_a_curve(seen: list[SourceLook]) -> None:
    found = learned(seen)

    assert found.shape > 0
    assert found.span_s > 0
    assert 0 < found.stale(DAY_S) <= 1


@given(st.integers(1, 10_000), st.floats(0, 1), st.floats(0, 1), spans, st.integers(1, 20))
def test_more_changes_at_the_same_interval_mean_more_staleness(
    items: int, one: float, other: float, elapsed_s: float, times: int
) -> None:
    few, many = (
        learned([SourceLook(elapsed_s, items, int(share * items))] * times).stale(elapsed_s)
        for share in sorted([one, other])
    )

    assert few <= many + 1e-9


def test_a_source_is_learned_at_the_interval_at_which_it_was_looked_at() -> None:
    daily = learned([SourceLook(DAY_S, 200, 10, number * DAY_S) for number in range(30)])
    never = learned([SourceLook(DAY_S, 200, 0, number * DAY_S) for number in range(30)])

    assert daily.stale(DAY_S) == pytest.approx(0.05, rel=0.1)
    assert never.stale(DAY_S) < 0.002


def test_a_few_pages_that_make_all_the_changes_are_told_from_many_that_make_a_few() -> None:
    # As many have changed after an hour as after a month: the rest never does.
    few = learned([SourceLook(span_s, 100, 5) for span_s in (HOUR_S, 6 * HOUR_S, DAY_S, 30 * DAY_S)] * 5)
    alike = learned([SourceLook(HOUR_S, 100, 5)] * 20)

    assert few.stale(60 * DAY_S) < 0.4
    assert alike.stale(60 * DAY_S) > 0.7


def test_what_was_learned_long_ago_counts_for_less() -> None:
    calm = [SourceLook(DAY_S, 100, 0, number * DAY_S) for number in range(20)]
    wild = [SourceLook(DAY_S, 100, 50, (400 + number) * DAY_S) for number in range(20)]

    assert (
        learned(calm + wild).stale(DAY_S)
        < learned([*calm, *(look._replace(age_s=0.0) for look in wild)]).stale(DAY_S) / 2
    )


def test_dates_of_items_teach_before_there_was_a_second_look() -> None:
    fresh, old = [DAY_S * (number % 30) / 10 for number in range(300)], [900 * DAY_S] * 300

    assert learned(looks_from_ages(fresh)).per_day == pytest.approx(0.4, rel=0.2)
    assert learned(looks_from_ages(old)).per_day < learned([]).per_day / 5
    assert looks_from_ages([]) == []


def test_what_was_learned_of_a_page_fades() -> None:
    prior = ChangeRate(0.5, 10 * DAY_S)
    busy = prior.counted(100, 50 * DAY_S)

    assert busy.faded(0, prior) == busy
    assert prior.per_day < busy.faded(900 * DAY_S, prior).per_day < busy.per_day


def test_where_all_items_change_alike_one_change_makes_none_volatile() -> None:
    # As many changes in both: spread over all pages, or all of them of a tenth.
    alike = population([(3, 300 * DAY_S)] * 200)
    unlike = population([(30, 300 * DAY_S)] * 20 + [(0, 300 * DAY_S)] * 180)

    assert alike.per_day == pytest.approx(0.01, rel=0.3)
    assert alike.changed(DAY_S).per_day < 2 * alike.per_day
    assert unlike.shape < 0.3
    assert unlike.changed(DAY_S).per_day > 4 * unlike.per_day


@given(st.lists(st.tuples(st.integers(0, 1000), spans), max_size=10))
def test_whatever_items_did_gives_a_distribution(histories: list[tuple[int, float]]) -> None:
    found = population(histories)

    assert 0.05 < found.shape < 20
    assert 0 < found.per_day < 1e6
