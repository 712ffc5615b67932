"""What is said of a node is written the same, in whichever order and under whichever labels it came."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.formats import UnreadableError
from rowen.formats.rdf.graph import Blank, Graph, Iri, Literal, Node, Term, short
from rowen.formats.rdf.syntax import Parsed, RdfBody, read_graph

NAMES = ("dct:a", "dct:b", "rdf:type")
ROOT = Iri("http://portal.example/root")

numbers = st.integers(0, 5)
values = st.one_of(numbers, st.sampled_from(["x", "y", "z"]), st.sampled_from([Iri("http://a"), Iri("http://b")]))
triples = st.lists(st.tuples(st.one_of(st.none(), numbers), st.sampled_from(NAMES), values), max_size=20)


def graph_of(said: list[tuple[int | None, str, object]], labels: list[str]) -> Graph:
    def node(value: object) -> Term:
        if isinstance(value, int):
            return Blank(f"_:{labels[value]}")
        return value if isinstance(value, Iri) else Literal(str(value))

    graph = Graph()
    for subject, name, value in said:
        named: Node = ROOT if subject is None else Blank(f"_:{labels[subject]}")
        graph.add(named, name, Iri("http://type") if name == "rdf:type" else node(value))
    return graph


@given(triples, st.randoms(use_true_random=False))
def test_neither_labels_nor_order_matter(said: list[tuple[int | None, str, object]], chance: Random) -> None:
    labels = list("abcdef")
    other, shuffled = chance.sample("uvwxyz", 6), chance.sample(said, len(said))

    try:
        written = graph_of(said, labels).written(ROOT)
    except ValueError:
        with pytest.raises(ValueError, match="too much"):
            graph_of(shuffled, other).written(ROOT)
        return
    assert graph_of(shuffled, other).written(ROOT) == written


def test_names_are_short_whatever_their_scheme() -> None:
    assert short("http://purl.org/dc/terms/title") == short("https://purl.org/dc/terms/title") == "dct:title"
    assert short("https://www.w3.org/ns/dcat#Dataset") == "dcat:Dataset"
    assert short("http://own.example/vocabulary#x") == "http://own.example/vocabulary#x"
    assert short("nonsense") == "nonsense"


def test_lists_are_written_as_lists_however_long() -> None:
    graph = Graph()
    graph.add(ROOT, "dct:creator", Blank("_:0"))
    for number in range(1000):
        graph.add(Blank(f"_:{number}"), "rdf:first", Literal(str(number)))
        graph.add(Blank(f"_:{number}"), "rdf:rest", Blank(f"_:{number + 1}"))

    assert graph.written(ROOT)["dct:creator"] == {"@list": [str(number) for number in range(1000)]}


GEONETWORK = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dct="http://purl.org/dc/terms/"
 xmlns:dcat="http://www.w3.org/ns/dcat#"><dcat:Catalog rdf:about="https://m.example/"><dcat:dataset>
 <dcat:Dataset rdf:about="https://m.example/a"><dct:title>A</dct:title>
 <dct:language rdf:resource="https://m.example/eng" xml:lang="en">English</dct:language>
 <dct:license rdf:resource="https://m.example/cc"><dct:L rdf:about="https://m.example/l"/></dct:license>{}
 </dcat:Dataset></dcat:dataset><dcat:dataset><dcat:Dataset rdf:about="https://m.example/b"><dct:title>B</dct:title>
 </dcat:Dataset></dcat:dataset></dcat:Catalog></rdf:RDF>"""


def of_xml(text: str) -> Parsed:
    return read_graph(RdfBody(text.encode(), "https://m.example/catalog.rdf"), option="rdfxml", most_triples=1000)


def test_a_property_with_an_address_and_a_text_says_both() -> None:
    parsed = of_xml(GEONETWORK.format(""))

    graph, a = parsed.graph, Iri("https://m.example/a")
    assert graph.values(a, "dct:language") == [Iri("https://m.example/eng"), Literal("English", "en", "rdf:langString")]
    assert {*graph.values(a, "dct:license")} == {Iri("https://m.example/cc"), Iri("https://m.example/l")}
    assert graph.values(Iri("https://m.example/b"), "dct:title") == [Literal("B")]
    assert parsed.broken == ()


def test_a_node_that_cannot_be_mended_costs_itself() -> None:
    parsed = of_xml(GEONETWORK.format('<dct:x rdf:resource="c" rdf:nodeID="d"/>'))

    graph = parsed.graph
    assert graph.values(Iri("https://m.example/b"), "dct:title") == [Literal("B")]
    assert {*graph.values(Iri("https://m.example/"), "dcat:dataset")} >= {Iri("https://m.example/b")}
    assert [one.node for one in parsed.broken] == [Iri("https://m.example/a")]


def test_what_is_no_xml_is_no_rdf() -> None:
    with pytest.raises(UnreadableError):
        of_xml(GEONETWORK.format("<dct:x>"))
