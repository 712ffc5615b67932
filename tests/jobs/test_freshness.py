"""Where requests are worth most: a budget is kept, nobody starves, and nothing better could be done with it."""

from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.jobs.freshness import LEAST_GAIN_S, Demand, allocate
from rowen.model.freshness import ChangeRate

DAY_S = 86_400.0

demands = st.builds(
    lambda shape, span_s, items, requests, shortest_s, times: Demand(
        ChangeRate(shape, span_s), items, requests, shortest_s, shortest_s * times
    ),
    st.floats(0.05, 100),
    st.floats(log(3600), log(1000 * DAY_S)).map(exp),
    st.integers(0, 100_000),
    st.integers(1, 10_000),
    st.sampled_from([900.0, 3600.0]),
    st.floats(1, 700),
)
budgets = st.floats(log(1), log(1e6)).map(exp)


def page(changes_per_day: float, **others: float) -> Demand:
    """A page whose rate is known well."""
    return Demand(ChangeRate(100, 100 / changes_per_day * DAY_S), 1, 1, 900.0, others.get("longest_s", 30 * DAY_S))


def stale(demand: Demand, interval_s: float) -> float:
    return demand.items * demand.rate.mean_stale(interval_s)


@given(st.lists(demands, min_size=1, max_size=8), budgets)
def test_a_budget_is_never_exceeded(wanted: list[Demand], budget: float) -> None:
    found = allocate(wanted, requests_per_day=budget)

    spent = sum(demand.requests * DAY_S / found.interval_s(demand) for demand in wanted)
    assert spent <= budget * (1 + 1e-6)


@given(st.lists(demands, min_size=1, max_size=8), budgets)
def test_no_source_starves_and_none_is_checked_too_often(wanted: list[Demand], budget: float) -> None:
    found = allocate(wanted, requests_per_day=budget)

    least = sum(demand.requests * DAY_S / demand.longest_s for demand in wanted)
    longest = max(1.0, least / budget) * (1 + 1e-6)
    fair = [one.shortest_s <= found.interval_s(one) <= one.longest_s * longest for one in wanted]
    assert set(fair) == {True}


@given(st.lists(demands, min_size=1, max_size=8), budgets, st.floats(1, 100))
def test_more_requests_make_no_interval_longer(wanted: list[Demand], budget: float, times: float) -> None:
    poor, rich = (allocate(wanted, requests_per_day=budget * factor) for factor in (1, times))

    assert {rich.interval_s(demand) <= poor.interval_s(demand) * 1.02 for demand in wanted} == {True}


def test_checks_without_need_are_not_made_even_with_budget_left() -> None:
    rich = allocate([page(1), page(1 / 365)], requests_per_day=1e9)

    assert rich.price_s == LEAST_GAIN_S
    assert rich.interval_s(page(1)) == pytest.approx(3 * 3600, rel=0.1)
    assert rich.interval_s(page(1 / 365)) == pytest.approx(2.2 * DAY_S, rel=0.1)


def test_requests_go_where_they_save_most() -> None:
    pages = [page(1 / 100), page(1 / 10), page(1), page(100)]

    found = allocate(pages, requests_per_day=2)
    slow, medium, quick, hopeless = (found.interval_s(one) for one in pages)

    assert slow > medium > quick
    # What has changed again before anybody could read it is worth less than what can be kept fresh.
    assert hopeless > quick


def test_no_exchange_of_requests_between_two_pages_would_do_better() -> None:
    pages = [page(1 / 30), page(1 / 3), page(2)]
    found = allocate(pages, requests_per_day=3)
    best = sum(stale(one, found.interval_s(one)) for one in pages)

    for giver in pages:
        for taker in pages:
            each = {id(one): 1 / found.interval_s(one) for one in pages}
            part = 0.1 * each[id(giver)]
            each[id(giver)] -= part
            each[id(taker)] += part
            assert sum(stale(one, 1 / each[id(one)]) for one in pages) >= best * (1 - 1e-3)


def test_items_weigh_and_requests_cost() -> None:
    rate = ChangeRate(1, 30 * DAY_S)
    listed = Demand(rate, 1000, 3, 900.0, 7 * DAY_S)
    walked = Demand(rate, 1000, 1000, 900.0, 7 * DAY_S)
    small = Demand(rate, 10, 3, 900.0, 7 * DAY_S)

    found = allocate([listed, walked, small], requests_per_day=500)

    assert found.interval_s(listed) < found.interval_s(small) < found.interval_s(walked)


def test_a_budget_that_is_not_enough_for_the_longest_intervals_makes_all_equally_late() -> None:
    pages = [page(1, longest_s=DAY_S), page(1 / 100, longest_s=2 * DAY_S)]

    found = allocate(pages, requests_per_day=0.75)

    assert found.stretch == pytest.approx(2)
    assert [found.interval_s(one) for one in pages] == pytest.approx([2 * DAY_S, 4 * DAY_S])


def test_a_demand_may_stand_for_many() -> None:
    one = page(1 / 7)
    crowd = Demand(one.rate, 1, 1, one.shortest_s, one.longest_s, number=50)

    assert allocate([crowd], requests_per_day=5).price_s == pytest.approx(
        allocate([one] * 50, requests_per_day=5).price_s
    )
