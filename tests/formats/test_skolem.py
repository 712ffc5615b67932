"""Blank nodes get the same skolem IRIs in every reading of a page."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.formats.rdf.graph import Blank, Iri, Literal, Node, Term
from rowen.formats.rdf.rdfa import RdfaTriple, read_rdfa
from rowen.formats.rdf.statements import GENID, kept_statements, skolemize

A, NAME, PART = Iri("http://ex.org/a"), Iri("http://ex.org/name"), Iri("http://ex.org/part")
PAGE = "https://ex.org/meetings/1"


def triples_of(html: str) -> set[RdfaTriple]:
    return set(skolemize(read_rdfa(f"<body>{html}</body>", PAGE), PAGE))


def person(name: str, more: str = "") -> str:
    return (
        f'<div about="/meeting" rel="schema:attendee"><p typeof="schema:Person">'
        f'<b property="schema:name">{name}</b>{more}</p></div>'
    )


def test_a_node_keeps_its_iri_when_others_come_before_it() -> None:
    one, more = triples_of(person("Ada")), triples_of(f"<p>News</p>{person('Bob')}{person('Ada')}")

    assert len(one) == 3
    assert one < more
    assert all(not isinstance(term, Blank) for triple in more for term in triple)


def test_a_node_about_which_something_else_is_stated_is_another_node() -> None:
    before = triples_of(person("Ada"))
    after = triples_of(person("Ada", '<i property="schema:email">a@ex.org</i>'))

    assert before.isdisjoint(after)
    assert len(after) == 4


def test_equal_nodes_stay_as_many_as_there_are() -> None:
    assert len({value for _, name, value in triples_of(person("Ada") * 3) if "attendee" in name}) == 3


def test_the_iri_names_the_site_of_the_page_and_another_page_gives_another_one() -> None:
    triple = (A, PART, Blank("_:x"))
    [(_, _, here)] = skolemize([triple], PAGE)
    [(_, _, there)] = skolemize([triple], PAGE + "2")

    assert str(here).startswith(f"https://ex.org{GENID}")
    assert here != there


def test_all_that_a_page_states_about_blank_nodes_is_kept() -> None:
    html = (
        '<div about="/a"><ol><li property="ex:list" inlist="">1</li><li property="ex:list" inlist="">2</li></ol></div>'
    )
    made = kept_statements(read_rdfa(f'<body prefix="ex: http://ex.org/">{html}</body>', PAGE), PAGE)

    assert sum("rdf-syntax-ns#first" in line for line in made.lines) == 2
    assert sum("rdf-syntax-ns#rest" in line for line in made.lines) == 2
    assert not made.dropped


@pytest.mark.parametrize("size", [1, 2, 5])
def test_nodes_in_a_cycle_get_iris_too(size: int) -> None:
    circle: list[RdfaTriple] = [(Blank(f"_:{n}"), PART, Blank(f"_:{(n + 1) % size}")) for n in range(size)]

    assert len({subject for subject, *_ in skolemize(circle, PAGE)}) == size


def test_a_list_of_ten_thousand_nodes_is_named_in_linear_time() -> None:
    triples: list[RdfaTriple] = [(Blank(f"_:{n}"), PART, Blank(f"_:{n + 1}")) for n in range(10_000)]

    assert len({subject for subject, *_ in skolemize(triples, PAGE)}) == 10_000


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int | None, Iri, int | str]]:
    """Triples between numbered blank nodes (None: a node with a name); a node refers to later ones only."""
    size = draw(st.integers(1, 6))
    triples: list[tuple[int | None, Iri, int | str]] = []
    for node in range(size):
        values = st.one_of(st.sampled_from(["x", "y"]), st.integers(node + 1, size))
        triples += [(node, NAME, value) for value in draw(st.lists(values, max_size=3))]
        triples += [(None, PART, node)] if draw(st.booleans()) else []
    return triples


@given(graphs(), st.integers(0, 1000))
def test_neither_labels_nor_the_order_of_statements_decide_an_iri(
    graph: list[tuple[int | None, Iri, int | str]], seed: int
) -> None:
    def labelled(order: Random) -> list[RdfaTriple]:
        labels = order.sample(range(100), 10)

        def node(number: int | None) -> Node:
            return A if number is None else Blank(f"_:b{labels[number]}")

        def term(value: int | str) -> Term:
            return Literal(value) if isinstance(value, str) else node(value)

        triples = [(node(subject), predicate, term(value)) for subject, predicate, value in dict.fromkeys(graph)]
        order.shuffle(triples)
        return triples

    first, second = (skolemize(labelled(Random(one)), PAGE) for one in (seed, seed + 1))

    assert set(first) == set(second)
    assert len(set(first)) == len(set(graph))
