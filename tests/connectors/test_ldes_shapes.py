"""What of a page belongs to a member, by what SHACL shapes say, case by case (TREE, Shape Topologies)."""

from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from rowen.connectors.ldes import LdesOptions
from rowen.connectors.ldes.page import PageAnswer, StreamBody, read_entry, read_page, read_shape
from rowen.errors import SourceError
from rowen.settings import Settings
from tests.portals.follower import Follower
from tests.portals.ldes import PREFIXES, Event, LdesSite, Leaf

PAGE = "https://farm.example/page"
STREAM = f"{PREFIXES}<https://farm.example/ldes> tree:view <> ; tree:member ex:a ; tree:shape ex:S . "


def read(shape: str, statements: str) -> PageAnswer:
    document = StreamBody(f"{STREAM}{shape} {statements}".encode(), PAGE, "application/trig", None)
    return read_page(document, PAGE, read_entry(document, PAGE, {}).stream, {}, None, False)


def shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {shortened(name): shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shortened(part) for part in value]
    return value.replace("http://ex.example/", "ex:")


class Extracted(NamedTuple):
    """A shape, what the page says, and what of it stands in the tree of the member `ex:a`."""

    shape: str
    statements: str
    tree: dict[str, Any]


def b(**statements: Any) -> dict[str, Any]:
    return {"@id": "ex:b", **{f"ex:{name}": value for name, value in statements.items()}}


LINKED = "ex:a ex:p ex:b . ex:b ex:q 'B' ; ex:r ex:c . ex:c ex:q 'C' ; ex:r ex:d . ex:d ex:q 'D' ; ex:r ex:b ."
CASES = {
    "a sequence brings the statements along it and no others": Extracted(
        "ex:S sh:property [ sh:path ( ex:p ex:q ) ] .", LINKED, {"ex:p": b(q="B")}
    ),
    "a sequence that ends before its end brings nothing": Extracted(
        "ex:S sh:property [ sh:path ( ex:p ex:q ex:q ) ] .", LINKED, {"ex:p": {"@id": "ex:b"}}
    ),
    "an alternative brings both": Extracted(
        "ex:S sh:property [ sh:path ( ex:p [ sh:alternativePath ( ex:q ex:r ) ] ) ] .",
        LINKED,
        {"ex:p": b(q="B", r={"@id": "ex:c"})},
    ),
    "zero or one brings what is there": Extracted(
        "ex:S sh:property [ sh:path ( ex:p [ sh:zeroOrOnePath ex:r ] ex:q ) ] .",
        LINKED,
        {"ex:p": b(q="B", r={"@id": "ex:c", "ex:q": "C"})},
    ),
    "zero or more brings a circle once": Extracted(
        "ex:S sh:property [ sh:path ( ex:p [ sh:zeroOrMorePath ex:r ] ex:q ) ] .",
        LINKED,
        {
            "ex:p": b(
                q="B", r={"@id": "ex:c", "ex:q": "C", "ex:r": {"@id": "ex:d", "ex:q": "D", "ex:r": {"@id": "ex:b"}}}
            )
        },
    ),
    "one or more leaves out the beginning": Extracted(
        "ex:S sh:property [ sh:path ( ex:p [ sh:oneOrMorePath ex:r ] ex:q ) ] .",
        "ex:a ex:p ex:b . ex:b ex:q 'B' ; ex:r ex:c . ex:c ex:q 'C' .",
        {"ex:p": b(r={"@id": "ex:c", "ex:q": "C"})},
    ),
    "an inverse brings who points to it": Extracted(
        "ex:S sh:property [ sh:path [ sh:inversePath ex:of ] ] .",
        "ex:a ex:p 'A' . ex:x ex:of ex:a ; ex:q 'X' .",
        {"ex:p": "A", "@reverse": {"ex:of": [{"@id": "ex:x"}]}},
    ),
    "an inverse with a shape brings what that says": Extracted(
        "ex:S sh:property [ sh:path [ sh:inversePath ex:of ] ; sh:node ex:T ] . ex:T a sh:NodeShape .",
        "ex:a ex:p 'A' . ex:x ex:of ex:a ; ex:q 'X' .",
        {"ex:p": "A", "@reverse": {"ex:of": [{"@id": "ex:x", "ex:of": {"@id": "ex:a"}, "ex:q": "X"}]}},
    ),
    "the inverse of an inverse is the way itself": Extracted(
        "ex:S sh:property [ sh:path [ sh:inversePath [ sh:inversePath ( ex:p ex:q ) ] ] ] .", LINKED, {"ex:p": b(q="B")}
    ),
    "the inverse of a sequence goes back along it": Extracted(
        "ex:S sh:property [ sh:path [ sh:inversePath ( ex:has ex:of ) ] ] .",
        "ex:a ex:p 'A' . ex:y ex:has ex:x . ex:x ex:of ex:a .",
        {"ex:p": "A", "@reverse": {"ex:of": [{"@id": "ex:x", "@reverse": {"ex:has": [{"@id": "ex:y"}]}}]}},
    ),
    "a closed shape has its properties alone, and those that it ignores": Extracted(
        "ex:S sh:closed true ; sh:ignoredProperties ( ex:i ) ; sh:property [ sh:path ex:p ] .",
        "ex:a ex:p 'A' ; ex:i 'I' ; ex:other 'O' .",
        {"ex:p": "A", "ex:i": "I"},
    ),
    "a closed shape has of blank nodes what it says": Extracted(
        "ex:S sh:closed true ; sh:property [ sh:path ( ex:p ex:q ) ] .",
        "ex:a ex:p [ ex:q 'Q' ; ex:r 'R' ] .",
        {"ex:p": {"ex:q": "Q"}},
    ),
    "an open shape has blank nodes whole": Extracted(
        "ex:S sh:property [ sh:path ( ex:p ex:q ) ] .",
        "ex:a ex:p [ ex:q 'Q' ; ex:r 'R' ] .",
        {"ex:p": {"ex:q": "Q", "ex:r": "R"}},
    ),
    "a node has its own shape, which may be closed": Extracted(
        "ex:S sh:property [ sh:path ex:p ; sh:node ex:T ] . ex:T sh:closed true ; sh:property [ sh:path ex:q ] .",
        LINKED,
        {"ex:p": b(q="B")},
    ),
    "a shape may lead back to itself": Extracted(
        "ex:S sh:property [ sh:path ex:p ; sh:node ex:T ] . ex:T sh:property [ sh:path ex:r ; sh:node ex:T ] .",
        LINKED,
        {
            "ex:p": b(
                q="B", r={"@id": "ex:c", "ex:q": "C", "ex:r": {"@id": "ex:d", "ex:q": "D", "ex:r": {"@id": "ex:b"}}}
            )
        },
    ),
    "all of a conjunction counts, also properties in it": Extracted(
        "ex:S sh:and ( [ sh:path ( ex:p ex:q ) ] [ sh:node ex:T ] ) . ex:T sh:property [ sh:path ( ex:p ex:r ) ] .",
        LINKED,
        {"ex:p": b(q="B", r={"@id": "ex:c"})},
    ),
    "of alternatives those count that fit": Extracted(
        "ex:S sh:xone ( [ sh:property [ sh:path ex:p ; sh:minCount 1 ; sh:node ex:T ] ]"
        " [ sh:property [ sh:path ex:none ; sh:minCount 1 ] , [ sh:path ( ex:p ex:r ex:q ) ] ] ) ."
        " ex:T sh:closed true ; sh:property [ sh:path ex:q ] .",
        LINKED,
        {"ex:p": b(q="B")},
    ),
    "alternatives may stand with the property": Extracted(
        "ex:S sh:property [ sh:path ex:p ; sh:or ( [ sh:node ex:T ] [ sh:datatype xsd:string ] ) ] ."
        " ex:T sh:property [ sh:path ex:q ; sh:minCount 1 ] .",
        LINKED,
        {"ex:p": b(q="B", r={"@id": "ex:c"})},
    ),
    "alternatives of types bring nothing": Extracted(
        "ex:S sh:property [ sh:path ex:p ; sh:or ( [ sh:datatype xsd:date ] [ sh:datatype xsd:string ] ) ] .",
        LINKED,
        {"ex:p": {"@id": "ex:b"}},
    ),
    "a property within a property is one of its values": Extracted(
        "ex:S sh:closed true ; sh:property [ sh:path ex:p ; sh:property [ sh:path ex:q ] ] .",
        LINKED,
        {"ex:p": b(q="B", r={"@id": "ex:c"})},
    ),
    "what is deactivated says nothing": Extracted(
        "ex:S sh:property [ sh:path ( ex:p ex:q ) ; sh:deactivated true ] .", LINKED, {"ex:p": {"@id": "ex:b"}}
    ),
    "statements of the member's own graph stand there alone": Extracted(
        "ex:S sh:property [ sh:path ( ex:p ex:q ) ] .",
        "ex:a { ex:a ex:p ex:b . ex:b ex:q 'B' } ex:other { ex:a ex:p ex:c }",
        {"@graph": [{"@id": "ex:a", "ex:p": {"@id": "ex:b"}}, {"@id": "ex:b", "ex:q": "B"}]},
    ),
    "a path that repeats paths ends": Extracted(
        "ex:S sh:property [ sh:path ( ex:p "
        + "[ sh:zeroOrMorePath ( ex:r [ sh:zeroOrMorePath " * 5
        + "ex:r"
        + " ] ) ]" * 5
        + " ex:none ) ] .",
        LINKED,
        {"ex:p": {"@id": "ex:b"}},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_belongs_to_a_member_by_its_shape(name: str) -> None:
    shape, statements, tree = CASES[name]

    answer = read(f"ex:S a sh:NodeShape . {shape}", statements)

    [member] = answer.members
    assert shortened(member.tree) == {"@id": "ex:a", **tree}
    assert answer.wanted == []


def test_nodes_that_point_to_a_member_are_in_its_text() -> None:
    [member] = read(*CASES["an inverse with a shape brings what that says"][:2]).members

    assert "- q: X" in member.text


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ("sh:property [ sh:path ex:p ; sh:minCount 1 ]", []),
        ("sh:property [ sh:path ( ex:p ex:q ) ; sh:minCount 1 ]", []),
        ("sh:property [ sh:path ( ex:p ex:none ) ; sh:minCount 1 ]", ["a"]),
        ("sh:property [ sh:path ( ex:p ex:none ) ; sh:minCount 0 ]", []),
        ("sh:or ( [ sh:path ex:none ; sh:minCount 1 ] [ sh:path ex:p ; sh:minCount 1 ] )", []),
        ("sh:or ( [ sh:path ex:none ; sh:minCount 1 ] [ sh:path ex:neither ; sh:minCount 1 ] )", ["a"]),
        ("sh:property [ sh:path ex:p ; sh:node [ sh:property [ sh:path ex:none ; sh:minCount 1 ] ] ]", ["b"]),
    ],
)
def test_what_lacks_something_that_its_shape_requires_is_wanted(shape: str, wanted: list[str]) -> None:
    answer = read(f"ex:S a sh:NodeShape ; {shape} .", LINKED)

    assert [url.removeprefix("http://ex.example/") for url in answer.wanted] == wanted


def test_a_shape_without_end_is_left_out_and_one_that_is_named_is_an_error() -> None:
    parts = "".join(f"[ sh:path ex:p{number} ] " for number in range(1000))
    nested = " ".join(f"[ sh:or ( {parts} ) ]" for _ in range(11))
    shape = f"ex:S a sh:NodeShape ; sh:and ( {nested} ) ."

    [member] = read(shape, "ex:a ex:p ex:b .").members

    assert shortened(member.tree) == {"@id": "ex:a", "ex:p": {"@id": "ex:b"}}
    with pytest.raises(SourceError, match="more than 10,000 parts"):
        read_shape(StreamBody(f"{PREFIXES}{shape}".encode(), PAGE, "text/turtle", None), PAGE, {})


def test_of_several_shapes_in_a_document_one_counts_that_is_no_part_of_another() -> None:
    part, whole = "ex:T a sh:NodeShape .", "ex:S a sh:NodeShape ; sh:property [ sh:path ex:p ; sh:node ex:T ] ."

    [first, other] = [
        read_shape(StreamBody(f"{PREFIXES}{shapes}".encode(), PAGE, "text/turtle", None), PAGE, {})
        for shapes in (f"{part} {whole}", f"{whole} {part}")
    ]

    assert first == other
    assert first["shapes"][""]["links"] == [["http://ex.example/p", "1"]]


@pytest.fixture
def feed() -> Iterator[LdesSite]:
    with closing(LdesSite()) as site:
        yield site


def follower(feed: LdesSite, folder: Path, shape: str) -> Follower:
    settings = Settings(home=folder, host_delay_s=0, allow_addresses=(ip_network("127.0.0.0/8"),), proxy=None)
    return Follower(f"{feed.url}/root", settings, {"shape": shape})


async def test_parts_of_parts_are_fetched_too(feed: LdesSite, tmp_path: Path) -> None:
    path = tmp_path / "shape.ttl"
    path.write_text(
        f"{PREFIXES} ex:S a sh:NodeShape ; sh:property [ sh:path ex:link ; sh:node ex:T ] ."
        " ex:T a sh:NodeShape ; sh:property [ sh:path ex:word ; sh:minCount 1 ] ,"
        " [ sh:path ex:link ; sh:node ex:T ] ."
    )
    feed.leaves["/root"] = Leaf([Event("a", 1, more=f"ex:link <{feed.url}/0> ;")])
    for number in range(3):
        part = f"{PREFIXES}<{feed.url}/{number}> ex:word 'word {number}' ; ex:link <{feed.url}/{number + 1}> ."
        feed.leaves[f"/{number}"] = Leaf(body=part.encode())

    [member] = await follower(feed, tmp_path, f"file:{path}").run()

    assert all(f"word {number}" in member.text for number in range(3))
    assert feed.asked() == ["/root", "/0", "/1", "/2", "/3"]


@pytest.mark.parametrize("form", ["file:{}", "file://{}"])
async def test_a_shape_may_be_a_file_and_another_one_is_not_mixed_with_it(
    feed: LdesSite, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "shape.ttl"
    path.write_text(f"{PREFIXES} ex:S a sh:NodeShape ; sh:closed true ; sh:property [ sh:path dct:title ] .")
    feed.leaves["/root"] = Leaf([Event("a", 1, "Barley")])
    follow = follower(feed, tmp_path, form.format(path))

    [member] = await follow.run()
    again = await follow.run()
    path.write_text(f"{PREFIXES} ex:S a sh:NodeShape .")

    assert member.record["rdf"] == {
        "@id": "http://ex.example/a",
        "dct:title": {"@value": "Barley", "@language": "en"},
    }
    assert again == []
    with pytest.raises(SourceError, match=r"is another one than .* Nothing was read"):
        await follow.run()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (None, "No such file"),
        (b"", "holds no SHACL shape"),
        (b"<a", "holds no SHACL shape that can be read"),
        (b"#" * (5 << 20), "more than 4,194,304 bytes"),
    ],
)
async def test_a_file_that_holds_no_shape_is_an_error_before_anything_is_requested(
    feed: LdesSite, tmp_path: Path, body: bytes | None, why: str
) -> None:
    path = tmp_path / "shape.ttl"
    if body is not None:
        path.write_bytes(body)

    with pytest.raises(SourceError, match=why):
        await follower(feed, tmp_path, f"file:{path}").run()

    assert feed.log == []


def test_the_path_of_a_shape_is_absolute() -> None:
    with pytest.raises(ValidationError, match="has to be absolute"):
        LdesOptions(shape="file:shape.ttl")
