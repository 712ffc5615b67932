"""What the markup of a page says for programs: which fields are kept, and in which shape."""

import json
from typing import Any

import pytest
from turbohtml import parse

from rowen.content.structured import facts_in
from rowen.model.items import FactsWanted

PRICE = FactsWanted(("name", "price"))


def nodes(markup: str, wanted: FactsWanted = PRICE) -> Any:
    return facts_in(parse(f"<html><body>{markup}</body></html>"), wanted).get("nodes", [])


def json_ld(value: Any) -> str:
    return f'<script type="application/ld+json">{json.dumps(value)}</script>'


def next_data(value: Any) -> str:
    return f'<script id="__NEXT_DATA__" type="application/json">{json.dumps(value)}</script>'


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = {"offers": value}
    return value


@pytest.mark.parametrize(
    "value",
    [
        {"@type": "Product", "name": "Lamp", "visits": 7},
        [{"@type": "Product", "name": "Lamp", "visits": 7}],
        {"@graph": [{"@type": "Product", "name": "Lamp", "visits": 7}, {"@type": "Person", "visits": 7}]},
    ],
)
def test_json_ld_keeps_its_types_and_the_wanted_fields_only(value: Any) -> None:
    assert nodes(json_ld(value)) == [{"@type": "Product", "name": "Lamp"}]


def test_wanted_fields_of_inner_objects_and_lists_are_kept() -> None:
    offers = [{"@type": "Offer", "price": 3, "seen": 1}, {"seen": 2}]

    assert nodes(json_ld({"name": "Lamp", "offers": offers})) == [
        {"name": "Lamp", "offers": [{"@type": "Offer", "price": 3}]}
    ]


def test_what_is_nested_deeper_than_any_product_is_left_out() -> None:
    assert nodes(json_ld(nested({"price": 3}, 11))) == [nested({"price": 3}, 11)]
    assert nodes(json_ld(nested({"price": 3}, 12))) == []


def test_the_same_node_is_kept_once() -> None:
    assert nodes(json_ld({"name": "Lamp"}) * 2) == [{"name": "Lamp"}]


def test_no_more_than_twenty_nodes_and_50000_characters_are_kept() -> None:
    many = [{"name": f"Lamp {number}"} for number in range(30)]
    large = [{"name": f"{number}{'x' * 20_000}"} for number in range(3)]

    assert nodes(json_ld(many)) == many[:20]
    assert nodes(json_ld(large)) == large[:2]


def test_microdata_has_the_shape_of_json_ld() -> None:
    markup = """<div itemscope itemtype="https://schema.org/Product"><b itemprop="name">Lamp</b>
      <i itemprop="visits">7</i><i itemprop="name">Light</i>
      <p itemprop="offers" itemscope itemtype="https://schema.org/Offer"><b itemprop="price">3</b></p></div>"""

    assert nodes(markup) == [
        {"@type": "Product", "name": ["Lamp", "Light"], "offers": {"@type": "Offer", "price": "3"}}
    ]


def test_the_first_one_of_each_meta_property_is_kept_where_it_is_wanted() -> None:
    properties = [("product:price", 3), ("product:price", 4), ("og:name", "Lamp"), ("fb:price", 5), ("og:image", "x")]
    markup = "".join(f'<meta property="{name}" content="{value}">' for name, value in properties)

    assert nodes(markup, FactsWanted(("productprice", "ogname"))) == [{"product:price": "3", "og:name": "Lamp"}]


@pytest.mark.parametrize(
    "markup",
    [
        "<table><tr><th>Name:</th><td>Lamp</td></tr><tr><th>Price</th><td>3</td></tr></table>",
        "<dl><dt>Name:</dt><dd>Lamp</dd><dt>Price</dt><dd>3</dd></dl>",
    ],
)
def test_a_table_whose_first_column_names_fields_is_one_object(markup: str) -> None:
    assert nodes(markup) == [{"Name": "Lamp", "Price": "3"}]


def test_a_table_whose_head_names_fields_is_a_list_of_objects() -> None:
    markup = "<table><tr><th>Name<th>Price<th>Seen</tr><tr><td>A<td>1<td>x</tr><tr><td>B<td>2<td>y</tr></table>"

    assert nodes(markup) == [{"rows": [{"Name": "A", "Price": "1"}, {"Name": "B", "Price": "2"}]}]


@pytest.mark.parametrize(
    "markup",
    [
        "<table><tr><th>Name</th><td>Lamp</td></tr><tr><th>Seen</th><td>3</td></tr></table>",
        "<table><tr><th>Name<th>Price</tr></table>",
        "<dl><dt>Name</dt><dt>Price</dt><dd>Lamp</dd></dl>",
        "<dl><dt>Name</dt><dd>Lamp</dd></dl>",
    ],
)
def test_a_table_with_fewer_than_two_fields_or_without_values_is_left_out(markup: str) -> None:
    assert nodes(markup) == []


def test_the_data_of_a_framework_is_searched_for_objects_with_two_wanted_fields() -> None:
    lamp = {"name": "Lamp", "price": 3, "seen": 7}
    data = {"props": {"items": [lamp, {"name": "Only a name"}], "name": {"price": 1}}}

    assert nodes(next_data(data)) == [{"name": "Lamp", "price": 3}]


@pytest.mark.parametrize("script", ["{", "[" * 100_000, '{"name": 1}', json.dumps(nested({"name": 1, "price": 2}, 13))])
def test_broken_or_too_deep_data_of_a_framework_is_left_out(script: str) -> None:
    assert nodes(f'<script id="__NEXT_DATA__">{script}</script>') == []


def test_nothing_is_kept_where_nothing_is_wanted() -> None:
    assert facts_in(parse(json_ld({"name": "Lamp"})), FactsWanted()) == {}


def test_rules_find_fields_beside_the_nodes() -> None:
    page = parse(f"<h1>Lamp</h1>{json_ld({'name': 'Light'})}")

    found = facts_in(page, FactsWanted(("name",), (("lamp.title", "h1"),)))

    assert found["nodes"] == [{"name": "Light"}]
    assert "Lamp" in json.dumps(found["fields"])
