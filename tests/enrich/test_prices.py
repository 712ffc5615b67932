"""What tokens cost: the user's word first, then what providers list, else unknown."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from rowen.enrich.llm.base import ModelTools, make
from rowen.enrich.provider import configured_price, known_price
from rowen.errors import ConfigurationError
from rowen.model.models import Price
from rowen.settings import load
from tests.net.world import settings

HOME = "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("url", "model", "price"),
    [
        (HOME, "gpt-4o-mini", (0.15, 0.6)),
        (HOME, "gpt-4o-mini-2024-07-18", (0.15, 0.6)),
        ("https://api.anthropic.com/v1", "claude-haiku-4-5-20251001", (1.0, 5.0)),
        ("https://generativelanguage.googleapis.com/v1beta", "gemini-2.5-flash-lite", (0.1, 0.4)),
        (HOME, "text-embedding-3-small", (0.02, 0.0)),
        (HOME, "gpt-4o-mini-of-my-own", None),
        ("http://api.openai.com/v1", "gpt-4o-mini", None),
        ("https://api.openai.com.evil.example/v1", "gpt-4o-mini", None),
        ("http://127.0.0.1:8080/v1", "gpt-4o-mini", None),
    ],
)
def test_a_price_is_known_only_of_a_provider_s_own_address(
    url: str, model: str, price: tuple[float, float] | None
) -> None:
    assert known_price(url, model) == price


def test_what_the_user_says_goes_first_and_may_differ_by_model() -> None:
    told = "1/4, small=0.1/0.4,free=0"

    assert configured_price(told, "small") == Price(0.1, 0.4)
    assert configured_price(told, "free") == Price(0.0, 0.0)
    assert configured_price(told, "other") == Price(1.0, 4.0)
    assert configured_price("small=1", "other") is None


async def _no_client() -> None:
    raise AssertionError("nothing is asked")


@pytest.mark.parametrize(("told", "price"), [(None, (0.15, 0.6)), ("gpt-4o-mini=9/9", (9, 9)), ("x=9", (0.15, 0.6))])
def test_a_model_has_the_price_of_the_settings_or_else_of_the_table(
    told: str | None, price: tuple[float, float]
) -> None:
    made = settings(llm="openai", llm_model="gpt-4o-mini", llm_price=told)

    assert make(ModelTools(_no_client, made)).price == price  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["cheap", "1/", "a=b", "1/2/3", "-1"])
def test_what_is_no_price_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="llm_price"):
        load(llm_price=wrong, home=Path())


def test_the_table_says_where_it_is_from_and_has_nothing_but_figures() -> None:
    table = json.loads((files("rowen.enrich") / "data" / "prices.json").read_text("utf-8"))

    assert table["from"].startswith("genai-prices ")
    assert sum(map(len, table["hosts"].values())) > 300
    assert all(0 <= figure < 10_000 for host in table["hosts"].values() for both in host.values() for figure in both)
