"""What is kept of statements: repaired where it is clear what was meant, left out otherwise, and counted by reason."""

from uuid import UUID

import pytest

from rowen.formats.rdf.graph import Blank, Iri, Literal
from rowen.formats.rdf.rdfa import XSD
from rowen.formats.rdf.statements import Statements, kept_statements
from rowen.model.rdf import compared

A, P = Iri("http://ex.org/a"), Iri("http://ex.org/p")
PAGE = "http://ex.org/page"
ADDED = ("mu.semte.ch", "wasDerivedFrom")


def kept(value: Iri | Blank | Literal) -> tuple[list[str], Statements]:
    made = kept_statements([(A, P, value)], PAGE)
    own = [line.removeprefix("<http://ex.org/a> <http://ex.org/p> ") for line in made.lines]
    return [line for line in own if not any(word in line for word in ADDED)], made


def of_type(text: str, name: str) -> Literal:
    return Literal(text, None, f"{XSD}{name}")


@pytest.mark.parametrize(
    ("written", "name", "stored"),
    [
        ("2019-03-12", "date", "2019-03-12"),
        ("2019-3-2", "date", "2019-03-02"),
        ("2/3/2019", "date", "2019-03-02"),
        ("02.03.2019", "date", "2019-03-02"),
        ("2019-03-12T23:30:00-02:00", "date", "2019-03-13"),
        ("2019-03-12T14:00:00+02:00", "dateTime", "2019-03-12T14:00:00+02:00"),
        ("2019-03-12T14:00:00.000Z", "dateTime", "2019-03-12T14:00:00.000Z"),
        ("2019-03-12T14:00", "dateTime", "2019-03-12T14:00:00Z"),
        ("2019-3-2 9:05", "dateTime", "2019-03-02T09:05:00Z"),
        ("12/03/2019 14h30", "dateTime", "2019-03-12T14:30:00Z"),
        ("2019-03-12 14:00 +0200", "dateTime", "2019-03-12T12:00:00Z"),
        ("2019-03-12", "dateTime", "2019-03-12T00:00:00Z"),
        (" TRUE ", "boolean", "true"),
        (" 12 ", "integer", "12"),
    ],
)
def test_a_value_is_written_as_its_type_wants_it(written: str, name: str, stored: str) -> None:
    lines, made = kept(of_type(written, name))

    assert lines == [f'"{stored}"^^<{XSD}{name}>']
    assert sum(made.repaired.values()) == (written.strip() != stored)
    assert not made.dropped


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (of_type("2019-02-30", "date"), "date"),
        (of_type("soon", "date"), "date"),
        (of_type("2019-13-01T00:00:00Z", "dateTime"), "date"),
        (of_type("2019-03-12 and later", "dateTime"), "date"),
        (of_type("many", "integer"), "value"),
        (of_type("perhaps", "boolean"), "value"),
        (Literal("  \n"), "empty"),
        (Iri("no iri at all"), "iri"),
        (Iri("http://[bad"), "iri"),
    ],
)
def test_what_cannot_be_meant_is_left_out_and_counted(value: Iri | Blank | Literal, reason: str) -> None:
    lines, made = kept(value)

    assert (lines, dict(made.dropped)) == ([], {reason: 1})
    assert made.lines == [], "a resource of which nothing is stated gets no UUID either"


def test_a_language_is_repaired_or_left_out_and_the_text_stays() -> None:
    good, _ = kept(Literal("Hooi", "nl-BE"))
    mended, made = kept(Literal("Hooi", "nl_BE"))
    bare, unmade = kept(Literal("Hooi", "Dutch!"))

    assert (good, mended, bare) == (['"Hooi"@nl-be'], ['"Hooi"@nl-be'], ['"Hooi"'])
    assert (made.repaired["language"], unmade.repaired["language"]) == (1, 1)


def test_letters_that_no_iri_may_have_are_encoded() -> None:
    lines, made = kept(Iri(" http://ex.org/a b|c "))

    assert (lines, made.repaired["iri"]) == (["<http://ex.org/a%20b%7Cc>"], 1)


def test_other_datatypes_are_kept_as_they_are() -> None:
    lines, made = kept(Literal("POINT(1 2)", None, "http://www.opengis.net/ont/geosparql#wktLiteral"))

    assert lines == ['"POINT(1 2)"^^<http://www.opengis.net/ont/geosparql#wktLiteral>']
    assert not +made.repaired


def test_each_resource_has_a_stable_uuid_and_its_page_and_a_uuid_of_its_own_holds() -> None:
    mu = Iri("http://mu.semte.ch/vocabularies/core/uuid")
    one = kept_statements([(A, P, Literal("x"))], PAGE).lines
    elsewhere = kept_statements([(A, P, Literal("y"))], "http://ex.org/other").lines
    own = kept_statements([(A, mu, Literal("mine"))], PAGE).lines

    [uuid] = [line.split('"')[1] for line in one if mu in line]
    assert UUID(uuid).version == 5
    assert [line.split('"')[1] for line in elsewhere if mu in line] == [uuid]
    assert [line.split('"')[1] for line in own if mu in line] == ["mine"]
    assert f"<{A}> <http://www.w3.org/ns/prov#wasDerivedFrom> <{PAGE}>" in one


def test_the_same_statements_in_any_order_are_the_same_lines() -> None:
    triples = [(A, P, Literal(word)) for word in ("c", "a", "b", "a")]

    assert kept_statements(triples, PAGE).lines == kept_statements(triples[::-1], PAGE).lines


def test_two_states_are_compared_by_what_came_went_and_stayed() -> None:
    assert compared(["a", "b"], ["b", "c"]) == (["c"], ["a"], 1)
    assert not compared(["a"], ["a"])
