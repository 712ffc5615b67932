"""Conditions on fields: what they mean, and what is none."""

from typing import Any

import pytest

from rowen.errors import UsageError
from rowen.model.search import Condition

DATA = {"price": 20.0, "name": "Aurora lamp", "tags": ["red", "brass"], "offer": {"price": 3}, "gone": None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price<100", True),
        ("price >= 20", True),
        ("price > 20", False),
        ("price != 20", False),
        ("name = AURORA LAMP", True),
        ("name ~ lamp", True),
        ("tags = brass", True),
        ("offer/price == 3", True),
        ("tags/0 = red", True),
        ("price", True),
        ("gone", False),
        ("gone != 3", False),
        ("missing < 3", False),
    ],
)
def test_a_condition_is_compared_as_its_field_is(text: str, expected: bool) -> None:
    assert Condition.parse(text).holds(DATA) is expected
    assert Condition.parse(str(Condition.parse(text))) == Condition.parse(text)


@pytest.mark.parametrize("text", ["", "<3", "price <", "a b < 3", "x" * 600, "; drop table item"])
def test_what_is_none_is_refused(text: Any) -> None:
    with pytest.raises(UsageError):
        Condition.parse(text)
