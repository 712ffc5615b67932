"""An application profile decides which statements are kept: each constraint by itself, and what is refused."""

import pytest

from rowen.formats.rdf.profile import profile_in
from rowen.formats.rdf.statements import Conformance, judge

PREFIXES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix ex: <http://ex.org/> .
"""
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
XSD = "http://www.w3.org/2001/XMLSchema#"


def shape(constraint: str, more: str = "") -> str:
    target = f"ex:S a sh:NodeShape ; sh:targetClass ex:Paper ; {more}"
    return f"{PREFIXES} {target} sh:property [ sh:path ex:p ; {constraint} ] ."


def paper(*values: str, name: str = "a") -> list[str]:
    return [f"<{name}> {TYPE} <http://ex.org/Paper>", *(f"<{name}> <http://ex.org/p> {value}" for value in values)]


def judged(turtle: str, lines: list[str], *, drop: bool = True) -> Conformance:
    return judge(lines, profile_in(turtle), always=("http://ex.org/uuid",), drop=drop)


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        ("sh:datatype xsd:date", f'"2026-01-02"^^<{XSD}date>', '"2026-01-02"'),
        ("sh:datatype xsd:string", '"plain"', '"in words"@nl'),
        ("sh:datatype rdf:langString", '"in words"@nl', '"a \\"quoted\\" one"'),
        ("sh:datatype xsd:string", '"plain"', "<http://ex.org/b>"),
        ("sh:nodeKind sh:IRI", "<http://ex.org/b>", '"b"'),
        ("sh:nodeKind sh:Literal", '"b"', "<http://ex.org/b>"),
        ("sh:nodeKind sh:BlankNodeOrIRI", "<http://ex.org/b>", '"b"@nl'),
        ("sh:nodeKind sh:BlankNode", "<http://ex.org/.well-known/genid/1>", "<http://ex.org/b>"),
        ("sh:nodeKind sh:IRI", "<http://ex.org/b>", "<http://ex.org/.well-known/genid/1>"),
        ('sh:pattern "^[a-z]+$"', '"abc"', '"ABC"'),
        ('sh:pattern "^[a-z]+$" ; sh:flags "i"', '"ABC"', '"12"'),
        ('sh:pattern "^http://ex.org/"', "<http://ex.org/b>", "<http://other.org/b>"),
        (r'sh:pattern "^a\\nb$"', '"a\\nb"', '"a\\\\nb"'),
        ('sh:in ( ex:one "two"@nl 3 )', "<http://ex.org/one>", '"two"'),
        ('sh:in ( ex:one "two"@nl 3 )', f'"3"^^<{XSD}integer>', '"3"'),
    ],
)
def test_a_value_that_does_not_conform_is_left_out_and_counted(constraint: str, good: str, bad: str) -> None:
    lines = paper(good, bad)

    found = judged(shape(constraint), lines)

    [reason] = found.dropped
    assert found.lines == set(lines[:2])
    assert found.dropped[reason] == 1
    assert reason in constraint


def test_a_class_is_wanted_of_resources_whose_type_the_page_states() -> None:
    of_body, of_dog = f"<b> {TYPE} <http://ex.org/Body>", f"<c> {TYPE} <http://ex.org/Dog>"
    lines = [*paper("<b>", "<c>", "<elsewhere>", '"d"'), of_body, of_dog]

    found = judged(shape("sh:class ex:Body"), lines)

    assert set(lines) - found.lines == {lines[2], lines[4]}
    assert found.dropped == {"class": 2}


def test_of_too_many_values_none_is_kept_and_a_resource_that_lacks_one_is_left_out_whole() -> None:
    title = '<a> <http://ex.org/title> "A"'
    many, few = paper('"1"', '"2"', '"3"'), [*paper('"1"'), title]

    most = judged(shape("sh:maxCount 2"), [*many, title])
    least = judged(shape("sh:minCount 2"), [*few, *paper('"1"', '"2"', name="b")])

    assert (most.lines, most.dropped) == ({many[0], title}, {"maxCount": 3})
    assert (least.lines, least.dropped) == (set(paper('"1"', '"2"', name="b")), {"minCount": 3})


def test_what_was_left_out_does_not_count_as_there() -> None:
    lines = paper('"words"@nl')

    found = judged(shape("sh:minCount 1 ; sh:datatype xsd:date"), lines)

    assert (found.lines, found.dropped) == (set(), {"datatype": 1, "minCount": 1})


def test_a_closed_shape_allows_its_own_properties_and_those_that_it_ignores() -> None:
    kept = [*paper('"1"'), '<a> <http://ex.org/note> "n"', '<a> <http://ex.org/uuid> "u"']
    strange, of_others = '<a> <http://ex.org/q> "q"', '<b> <http://ex.org/q> "q"'

    found = judged(shape("", "sh:closed true ; sh:ignoredProperties ( ex:note ) ;"), [*kept, strange, of_others])

    assert (found.lines, found.dropped) == ({*kept, of_others}, {"closed": 1})


@pytest.mark.parametrize(
    ("constraint", "more", "drop"),
    [
        ("sh:nodeKind sh:IRI", "", False),
        ("sh:nodeKind sh:IRI ; sh:severity sh:Warning", "", True),
        ("sh:nodeKind sh:IRI", "sh:severity sh:Info ;", True),
    ],
)
def test_what_is_only_reported_stays(constraint: str, more: str, drop: bool) -> None:
    lines = paper('"1"', '"2"')

    found = judged(shape(constraint, more), lines, drop=drop)

    assert (found.lines, found.dropped, found.reported) == (set(lines), {}, {"nodeKind": 2})


@pytest.mark.parametrize("more", ["sh:deactivated true", "sh:message 'No.'@en ; sh:order 1 ; ex:own 'word'"])
def test_what_decides_nothing_decides_nothing(more: str) -> None:
    found = judged(shape(f"sh:minCount 0 ; {more}"), paper('"1"'))

    assert (len(found.lines), found.dropped) == (2, {})


@pytest.mark.parametrize(
    ("turtle", "words"),
    [
        (shape("sh:minLength 3"), "sh:minLength of a shape without a name is not supported"),
        (shape("sh:or ( [ sh:minCount 1 ] )"), "sh:or"),
        (shape("", "sh:sparql [] ;"), "sh:sparql of <http://ex.org/S> is not supported"),
        (shape("sh:minCount 'some'"), "sh:minCount of a shape without a name is not a number"),
        (shape("sh:minCount 1, 2"), "more than one sh:minCount"),
        (shape('sh:pattern "(a)\\\\1"'), "cannot be matched in linear time"),
        (shape('sh:pattern "(?=a)"'), "cannot be matched in linear time"),
        (shape("sh:nodeKind ex:IRI"), "one of IRI"),
        (f"{PREFIXES} ex:S sh:targetClass ex:P ; sh:property [ sh:path ( ex:a ex:b ) ] .", "not a property"),
        (f"{PREFIXES} ex:S sh:targetClass ex:P ; sh:property [ sh:minCount 1 ] .", "no sh:path"),
        (f"{PREFIXES} ex:S sh:targetSubjectsOf ex:p .", "sh:targetSubjectsOf"),
        (f"{PREFIXES} ex:S a sh:NodeShape .", "no shape has a class"),
        ("this is no Turtle", "not valid Turtle"),
        ("", "no shape has a class"),
        ("# " + "x" * 1_000_000, "characters"),
    ],
)
def test_what_is_not_understood_is_refused_and_named(turtle: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        profile_in(turtle)


def test_a_class_that_is_a_shape_is_its_own_target() -> None:
    turtle = f"""{PREFIXES} ex:Paper a sh:NodeShape, <http://www.w3.org/2000/01/rdf-schema#Class> ;
        sh:property [ sh:path ex:p ; sh:maxCount 0 ] ."""

    assert judged(turtle, paper('"1"')).dropped == {"maxCount": 1}
