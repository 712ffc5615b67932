"""Options of catalogs are what pydantic would make of them, and are made without it where none is set."""

import pytest

from rowen.connectors import registry
from rowen.connectors.ckan.address import CkanOptions
from rowen.connectors.oai import OaiOptions
from rowen.connectors.sparql.listing import SparqlOptions
from rowen.errors import UsageError


def test_options_have_their_defaults_and_are_compared_by_value() -> None:
    assert (CkanOptions().page_size, CkanOptions().headers, CkanOptions().include_private) == (1000, {}, False)
    assert CkanOptions() == CkanOptions(page_size=1000) != CkanOptions(page_size=50)
    assert CkanOptions().headers is not CkanOptions().headers
    assert list(CkanOptions().model_dump()) == list(CkanOptions.model_fields)


def test_what_is_given_is_converted_as_pydantic_does() -> None:
    options = CkanOptions.model_validate({"page_size": "50", "aliases": ["https://a.example"], "delay_s": 1})

    assert (options.page_size, options.aliases, options.delay_s) == (50, ("https://a.example",), 1.0)
    assert options.model_dump(mode="json", exclude_defaults=True) == {
        "delay_s": 1.0,
        "aliases": ["https://a.example"],
        "page_size": 50,
    }
    assert OaiOptions(sets="a, b").sets == ("a", "b")


def test_options_do_not_change() -> None:
    with pytest.raises(AttributeError):
        CkanOptions().page_size = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("ckan", {"page_size": 0}, "'page_size'"),
        ("ckan", {"api_key": "secret"}, "'api_key'"),
        ("ckan", {"pagesize": 5}, "has no option 'pagesize'"),
        ("ckan", {"landing_page": "https://a.example/"}, "{id} or {name}"),
        ("sparql", {"graph": "no iri"}, "named by an IRI"),
        ("sparql", {"landing_page": "https://a.example/"}, "{id} or {name}"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(kind: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        registry.check_options(kind, options)


def test_options_of_a_kind_hold_those_of_all_catalogs_too() -> None:
    assert {"language", "headers", "page_size", "graph"} <= set(SparqlOptions.model_fields)
    assert SparqlOptions(graph="https://a.example/g").listing()["graph"] == "https://a.example/g"
