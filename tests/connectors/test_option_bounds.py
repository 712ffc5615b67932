"""No option takes a number that the database, the clock or JSON cannot hold."""

import pytest

from rowen.connectors import registry
from rowen.errors import UsageError

NUMBERS = [
    (kind, name)
    for kind in registry.kinds()
    for name, option in registry.connector(kind).Options.model_fields.items()
    if {"int", "float"} & set(str(option.annotation).replace("<class '", "").replace("'>", "").split(" | "))
]


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
def test_a_number_beyond_all_bounds_is_refused(kind: str, name: str) -> None:
    for value in (10**18, 10**400, "1e18", 1e308, float("inf"), float("nan")):
        with pytest.raises(UsageError, match=name):
            registry.check_options(kind, {name: value})


def test_a_pause_has_a_day_at_most() -> None:
    assert len(NUMBERS) > 60
    with pytest.raises(UsageError, match="'delay_s' of kind 'web' can be 86,400 at most"):
        registry.check_options("web", {"delay_s": 86_401})
    assert registry.check_options("web", {"delay_s": 86_400}).model_dump()["delay_s"] == 86_400


LISTS = [
    (kind, name)
    for kind in registry.kinds()
    for name, option in registry.connector(kind).Options.model_fields.items()
    if "tuple" in str(option.annotation) or "list" in str(option.annotation)
]


@pytest.mark.parametrize(("kind", "name"), LISTS)
def test_a_list_has_a_length_at_most_whatever_it_lists(kind: str, name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' of kind '{kind}' can have 2,000 values at most"):
        registry.check_options(kind, {name: [f"*.{number}" for number in range(2_001)]})
