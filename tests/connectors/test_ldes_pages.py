"""Single pages of event streams: members, relations, and what a stream says of itself, case by case."""

from typing import Any, NamedTuple

import pytest

from rowen.connectors.ldes.members import StreamMember
from rowen.connectors.ldes.page import PageAnswer, StreamBody, read_entry, read_page
from rowen.connectors.ldes.rdf import interval_of, moment_of
from rowen.errors import SourceError
from tests.portals.ldes import PREFIXES

PAGE = "https://farm.example/page?n=1"
HEAD = PREFIXES + "<https://farm.example/ldes> tree:view <> ; ldes:timestampPath prov:generatedAtTime ; tree:member "
AT = '"2024-01-01T00:00:00Z"^^xsd:dateTime'


def read(turtle: str, *, by_object: bool = True) -> PageAnswer:
    document = StreamBody(turtle.encode(), PAGE, "application/trig", None)
    entry = read_entry(document, PAGE, {})
    return read_page(document, PAGE, entry.stream, {}, None, by_object)


def only(turtle: str) -> StreamMember:
    [member] = read(turtle).members
    return member


class Extracted(NamedTuple):
    """A page, and what is said of its one member in the tree of its record."""

    turtle: str
    tree: dict[str, Any]


TREES = {
    "its triples and those of its blank nodes": Extracted(
        "ex:a . ex:a dct:title 'A' ; ex:b [ ex:c [ ex:d 1 ] ] . ex:other dct:title 'B' .",
        {"dct:title": "A", "ex:b": {"ex:c": {"ex:d": {"@type": "xsd:integer", "@value": "1"}}}},
    ),
    "the graph of its name": Extracted(
        "ex:a . ex:a { ex:a dct:title 'A' . ex:x ex:y ex:z } ex:b { ex:b dct:title 'B' }",
        {"@graph": [{"@id": "ex:a", "dct:title": "A"}, {"@id": "ex:x", "ex:y": {"@id": "ex:z"}}]},
    ),
    "blank nodes in a circle": Extracted(
        "ex:a . ex:a ex:b _:one . _:one ex:c _:two . _:two ex:c _:one .", {"ex:b": {"ex:c": {"ex:c": {}}}}
    ),
    "literals without the language that their type asks for": Extracted(
        "ex:a . ex:a dct:title 'A'^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString> .", {"dct:title": "A"}
    ),
    "several values in an order of their own": Extracted("ex:a . ex:a dct:title 'B', 'A' .", {"dct:title": ["A", "B"]}),
}


def shortened(value: Any) -> Any:
    """A tree with the prefix of these tests."""
    if isinstance(value, dict):
        return {shortened(name): shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shortened(part) for part in value]
    return value.replace("http://ex.example/", "ex:")


@pytest.mark.parametrize("name", TREES)
def test_what_belongs_to_a_member(name: str) -> None:
    turtle, tree = TREES[name]

    assert shortened(only(HEAD + turtle).tree) == {"@id": "ex:a", **tree}


def test_a_member_that_the_page_does_not_hold_is_wanted() -> None:
    answer = read(HEAD + "ex:a, ex:b . ex:b dct:title 'B' .")

    assert answer.wanted == ["http://ex.example/a"]


def test_members_without_a_name_are_counted_and_left_out() -> None:
    answer = read(HEAD + "ex:a, [ dct:title 'B' ], 'text' . ex:a dct:title 'A' .")

    assert ([member.name for member in answer.members], answer.broken) == (["http://ex.example/a"], 2)


def test_a_time_may_be_at_the_end_of_a_path() -> None:
    path = "<https://farm.example/ldes> tree:view <> ; ldes:timestampPath ( ex:act prov:generatedAtTime ) ;"
    member = only(f"{PREFIXES}{path} tree:member ex:a . ex:a ex:act [ prov:generatedAtTime {AT} ] .")

    assert member.time is not None
    assert moment_of(member.time) == "2024-01-01T00:00:00Z"


def test_a_sequence_a_transaction_and_a_deletion_are_read() -> None:
    stream = (
        "<https://farm.example/ldes> tree:view <> ; ldes:sequencePath ex:n ; ldes:versionOfPath dct:isVersionOf ;"
        " ldes:transactionPath ex:in ; ldes:transactionFinalizedPath ex:last ; ldes:versionDeleteObject ex:Removal ;"
    )
    member = only(f"{PREFIXES}{stream} tree:member ex:a . ex:a a ex:Removal ; ex:n 7 ; ex:in ex:t ; ex:last true .")

    assert (member.sequence, member.transaction, member.is_final) == (7, "http://ex.example/t", True)
    assert member.deletes


@pytest.mark.parametrize(
    ("relation", "low", "high"),
    [
        ("a tree:GreaterThanOrEqualToRelation ; tree:value '2024-01-02T00:00:00Z'", "2024-01-02T00:00:00Z", None),
        ("a tree:GreaterThanRelation ; tree:value '2024-01-02T00:00:00Z'", "2024-01-02T00:00:00.000001Z", None),
        ("a tree:LessThanRelation ; tree:value '2024-01-02T00:00:00Z'", None, "2024-01-01T23:59:59.999999Z"),
        ("a tree:LessThanOrEqualToRelation ; tree:value '2024-01-02T00:00:00+02:00'", None, "2024-01-01T22:00:00Z"),
        ("a tree:EqualToRelation ; tree:value '2024-01-02Z'", "2024-01-02T00:00:00Z", "2024-01-02T23:59:59.999999Z"),
        ("a tree:InBetweenRelation ; tree:value '2024-02T'", None, None),
        (
            "a tree:InBetweenRelation ; tree:value '2024-01-02T09Z'",
            "2024-01-02T09:00:00Z",
            "2024-01-02T09:59:59.999999Z",
        ),
        ("a tree:GreaterThanOrEqualToRelation ; tree:value '2024-01-02T00:00:00'", "2024-01-01T10:00:00Z", None),
        ("a tree:PrefixRelation ; tree:value 'a'", None, None),
    ],
)
def test_a_relation_bounds_the_times_of_its_page(relation: str, low: str | None, high: str | None) -> None:
    answer = read(f"{HEAD} ex:a . <> tree:relation [ {relation} ; tree:path prov:generatedAtTime ; tree:node ex:p ] .")

    [bounded] = answer.relations
    assert [moment_of(at) if at is not None else None for at in (bounded.low, bounded.high)] == [low, high]


def test_several_relations_to_one_page_hold_together_and_other_paths_bound_nothing() -> None:
    def relation(kind: str, day: int, path: str) -> str:
        return (
            f"<> tree:relation [ a tree:{kind} ; tree:path {path} ; tree:value '2024-01-0{day}Z' ; tree:node ex:p ] ."
        )

    both = relation("GreaterThanRelation", 2, "prov:generatedAtTime") + relation(
        "LessThanRelation", 4, "prov:generatedAtTime"
    )
    [bounded] = read(f"{HEAD} ex:a . {both}").relations
    [other] = read(f"{HEAD} ex:a . {relation('LessThanRelation', 4, 'ex:size')}").relations

    assert bounded.low is not None
    assert bounded.high is not None
    assert (moment_of(bounded.low)[:10], moment_of(bounded.high)[:10], bounded.is_older) == (
        "2024-01-02",
        "2024-01-04",
        True,
    )
    assert (other.low, other.high, other.is_older) == (None, None, False)


def test_a_stream_declares_its_retention_and_polling() -> None:
    turtle = HEAD + "ex:a . <https://farm.example/ldes> ldes:pollingInterval 90 . <> ldes:immutable true ;"
    turtle += " tree:viewDescription [ ldes:retentionPolicy [ a ldes:LatestVersionSubset ] ] ."
    document = StreamBody(turtle.encode(), PAGE, "text/turtle", None)

    stream = read_entry(document, PAGE, {}).stream

    assert (stream.polling_s, stream.retention) == (90.0, ["LatestVersionSubset"])
    assert read(turtle).immutable


def test_http_and_https_name_the_same_page() -> None:
    turtle = f"{PREFIXES}<http://farm.example/ldes> tree:view <{PAGE.replace('https', 'http')}> ; tree:member ex:a ."

    document = StreamBody(turtle.encode(), PAGE, "text/turtle", None)

    assert read_entry(document, PAGE, {}).view is None


def test_a_broken_page_says_where_it_breaks() -> None:
    document = StreamBody(b"@prefix ex: <http://ex.example/>\nex:a ex:b ex:c .", PAGE, "text/turtle", None)

    with pytest.raises(SourceError, match=r"cannot be parsed as turtle.*line 2"):
        read_entry(document, PAGE, {})


@pytest.mark.parametrize("text", ["", "soon", "2024-13", "0000", "99999-01-01"])
def test_what_is_no_time_bounds_nothing(text: str) -> None:
    assert interval_of(text) is None
