"""Hostile RDFa: neither depth nor repetition costs more than the size of a page allows, and its text is kept."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from rowen.content.readers import read
from rowen.errors import ItemError
from rowen.model.items import Raw
from tests.hostile.clock import costs_at_most, grows

SIZES = (20_000, 40_000, 80_000)


def _many(piece: str) -> Callable[[int], str]:
    return lambda size: piece * (size // len(piece))


PAGES: dict[str, Callable[[int], str]] = {
    "nodes within nodes": _many('<div typeof="v:a">'),
    "properties within properties": _many('<b property="dc:a">'),
    "properties around a long text": lambda size: '<b property="dc:a">' * (size // 40) + "x" * (size // 2),
    "markup within markup": _many('<b property="dc:a" datatype="rdf:HTML">'),
    "prefixes of prefixes": _many('<b prefix="a: b c: d">'),
    "a huge prefix attribute": lambda size: f'<b prefix="{"a: b " * (size // 5)}">',
    "many prefixes, then a few for each element": lambda size: (
        f'<div prefix="{"".join(f"p{n}: b " for n in range(size // 16))}">' + '<b prefix="x: y">' * (size // 34)
    ),
    "a prefix of many letters, used often": lambda size: (
        f'<div prefix="p: http://{"x" * (size // 2)}">' + f'<b property="{"p:a " * (size // 8)}">y</b>'
    ),
    "a long base, used often": lambda size: (
        f'<base href="http://x.org/{"y" * (size // 2)}/">' + "<a href=z>" * (size // 20)
    ),
    "many relations of many": lambda size: f'<div rel="{"dc:a " * (size // 10)}">' + "<b about=x></b>" * (size // 30),
    "lists within lists": _many('<b inlist rel="dc:a" about=x>'),
    "a list of many": _many('<b inlist property="dc:a">x</b>'),
    "many languages": _many("<b lang=a-b-c>"),
    "dates that are none": _many('<b property="dc:a" datatype="xsd:date">1/1/1/1/1/1</b>'),
    "spaces in names": _many('<b about="   x   y" property="dc:a">z</b>'),
    "unclosed attributes": _many('<b about="'),
}


def _read(html: str) -> None:
    with suppress(ItemError):
        read(Raw("https://example.org/a", html.encode(), media_type="text/html", statements="all"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_twice_as_long_costs_twice_as_much(name: str) -> None:
    def work(size: int) -> Callable[[], object]:
        html = PAGES[name](size)
        return lambda: _read(html)

    assert (wrong := grows(work, SIZES)) is None, wrong


def test_ten_thousand_levels_are_read_without_recursion() -> None:
    html = '<div about="x" property="dc:title">' * 10_000

    with costs_at_most(2.0):
        document = read(Raw("https://example.org/a", html.encode(), media_type="text/html", statements="all"))

    assert document.record["rdfa"].keys() & {"statements", "dropped"}


def test_statements_out_of_proportion_are_left_out_and_the_text_of_the_page_is_kept() -> None:
    values = '<i about="x"></i>' * 3_000
    html = f'<h1>Cameras</h1><div rel="{" ".join(f"dc:n{n}" for n in range(3_000))}">{values}</div>'

    with costs_at_most(2.0):
        document = read(Raw("https://example.org/a", html.encode(), media_type="text/html", statements="all"))

    assert document.title == "Cameras"
    assert "50 times as long" in document.record["rdfa"]["unread"]
