"""Budgets and purses: each limit counts what it names, and what is spent within a purse counts in both."""

import asyncio

import pytest

from rowen.enrich.ledger import Budgets, Purse, charged_to, current_charge, current_purse, paid_from
from rowen.errors import BudgetExceededError
from rowen.model.models import Charge, SpentUsd

SPENT = SpentUsd(by_run=1, for_source=2, by_day=3, tokens_by_run=10, tokens_for_source=20, tokens_by_day=30)


@pytest.mark.parametrize(
    ("name", "least", "scope"),
    [
        ("run_usd", 1.5, "run"),
        ("source_usd", 2.5, "source"),
        ("day_usd", 3.5, "day"),
        ("run_tokens", 15, "run"),
        ("source_tokens", 25, "source"),
        ("day_tokens", 35, "day"),
    ],
)
def test_each_budget_counts_what_it_names_and_a_call_may_use_it_up(name: str, least: float, scope: str) -> None:
    charge = Charge(run_id=1, source_id=2)

    Budgets(**{name: least}).check("api", SPENT, charge, 0.5, 5)

    with pytest.raises(BudgetExceededError) as caught:
        Budgets(**{name: least - 0.25}).check("api", SPENT, charge, 0.5, 5)
    assert caught.value.scope == scope


@pytest.mark.parametrize("limits", [{"call_usd": 0.5}, {"call_tokens": 5}])
def test_one_call_may_use_up_what_a_call_may_cost_and_no_more(limits: dict[str, float]) -> None:
    budgets = Budgets(**limits)  # type: ignore[arg-type]

    budgets.check_call("api", 0.5, 5)

    with pytest.raises(BudgetExceededError) as caught:
        budgets.check_call("api", 0.6, 6)
    assert caught.value.scope == "call"


def test_a_call_of_nobody_is_bound_by_the_day_alone() -> None:
    Budgets(run_usd=0, source_usd=0).check("api", SPENT, Charge(), 1.0)

    with pytest.raises(BudgetExceededError, match="one day"):
        Budgets(day_usd=3).check("api", SPENT, Charge(), 1.0)


@pytest.mark.parametrize("limits", [{"usd": 1.0}, {"tokens": 100}])
def test_what_is_spent_within_a_purse_counts_in_both(limits: dict[str, float]) -> None:
    outer = Purse(**limits)  # type: ignore[arg-type]
    inner, other = Purse(within=outer), Purse(within=outer)

    inner.reserve("api", 0.6, 60)
    with pytest.raises(BudgetExceededError, match="this run"):
        other.reserve("api", 0.5, 50)
    assert (other.spent_usd, other.spent_tokens) == (0, 0)

    inner.settle(-0.6, -60)
    inner.settle(0.2, 20)
    inner.count(1.5)
    other.reserve("api", 0.5, 50)

    assert (outer.spent_usd, outer.spent_tokens) == (pytest.approx(0.7), 70)
    assert (outer.calls, outer.seconds, other.calls) == (1, 1.5, 0)


def test_a_purse_within_one_that_counts_money_needs_prices() -> None:
    assert Purse(within=Purse(usd=1)).needs_price
    assert not Purse(within=Purse(tokens=1)).needs_price


async def test_a_purse_and_a_charge_hold_inside_their_block_and_for_tasks_that_it_starts() -> None:
    purse = Purse()

    async def inside() -> tuple[Purse | None, Charge]:
        return current_purse(), current_charge()

    with charged_to(run_id=1), paid_from(purse):
        with paid_from(Purse()), charged_to(run_id=2):
            pass
        task = asyncio.create_task(inside())
        assert await inside() == (purse, Charge(run_id=1))

    assert await task == (purse, Charge(run_id=1))
    assert await inside() == (None, Charge())
