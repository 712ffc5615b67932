"""Marks: what makes two listings the same dataset, and what does not."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.connectors.catalog.dataset import Dataset
from rowen.model.datasets import DATASET, Families, TwinItem, as_array, marks, marks_of, named_hosts, original
from rowen.model.items import Document

UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
HEX = UUID.replace("-", "")
LONG = "The water level of every well in the county, measured on each Monday."


def marked(url: str = "https://a.example/1", text: str = "", **record: Any) -> set[int]:
    document = Document(url, "Wells", text, record=record, media_type=DATASET)
    found = marks(document)
    assert found is not None
    return set(found)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two records in two portals share a mark."""
    return bool(marked("https://a.example/x/1", **one) & marked("https://b.example/y/2", **other))


def in_extras(key: str, value: str) -> dict[str, Any]:
    return {"identifier": "local", "source": {"extras": [{"key": key, "value": value}]}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"identifier": UUID}, {"identifier": UUID.upper()}),
        ({"identifier": UUID}, {"identifier": "{" + UUID + "}"}),
        ({"identifier": UUID}, {"identifier": f"urn:uuid:{UUID}"}),
        ({"identifier": UUID}, {"identifier": f"{UUID}@canton-of-hay"}),
        ({"identifier": UUID}, in_extras("guid", UUID)),
        ({"identifier": UUID}, in_extras("uri", f"https://a.example/dataset/{UUID}")),
        ({"identifier": "doi:10.5281/ZENODO.7"}, {"identifier": "https://doi.org/10.5281/zenodo.7"}),
        ({"identifier": "10.5281/zenodo.7"}, {"source": {"sci:doi": "10.5281/zenodo.7"}}),
        ({"identifier": "URN:x-wells:7"}, {"source": {"dct:identifier": ["urn:x-wells:7"]}}),
        ({"identifier": "oai:zenodo.org:7"}, {"source": {"identifier": {"@value": "oai:zenodo.org:7"}}}),
        ({"identifier": "http://City.example/data/7"}, in_extras("identifier", "https://city.example/data/7/")),
        (
            {"identifier": "https://city.example/cat#7"},
            {"source": {"http://purl.org/dc/terms/identifier": [{"@value": "http://city.example/cat#7"}]}},
        ),
        ({"landing_page": "https://city.example/wells"}, {"landing_page": "http://city.example/wells"}),
        ({"landing_page": "https://doi.org/10.5281/zenodo.7"}, {"identifier": "doi:10.5281/zenodo.7"}),
        ({"landing_page": "https://b.example/y/2"}, {}),
        ({"identifier": "https://www.arcgis.com/home/item.html?id=" + HEX}, {"identifier": HEX}),
        ({"identifier": f"https://www.arcgis.com/home/item.html?id={HEX}&sublayer=3"}, {"identifier": f"{HEX}_3"}),
        (
            {"identifier": "https://city.example/api/views/ab12-cd34"},
            {"source": {"uri": "http://city.example/d/ab12-cd34"}},
        ),
        ({"text": LONG}, {"text": LONG}),
    ],
)
def test_the_same_dataset_is_recognised(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"identifier": "wells"}, {"identifier": "wells"}),
        ({"identifier": "7"}, in_extras("guid", "7")),
        ({"identifier": "0" * 8 + "-0000-0000-0000-" + "0" * 12}, {"identifier": "0" * 32}),
        ({"identifier": "urn:issn:1234-5678"}, {"identifier": "urn:issn:1234-5678"}),
        ({"identifier": "https://city.example/"}, {"identifier": "http://city.example"}),
        ({"landing_page": "https://city.example"}, {"landing_page": "https://city.example/"}),
        ({"identifier": "https://city.example/cat#7"}, {"identifier": "https://city.example/cat#8"}),
        ({"identifier": "https://city.example/A"}, {"identifier": "https://city.example/a"}),
        ({"identifier": f"{HEX}_3"}, {"identifier": f"{HEX}_4"}),
        ({"identifier": f"{HEX}_3"}, {"identifier": HEX}),
        ({"identifier": "https://city.example/d/2019-2020"}, {"identifier": "https://city.example/resource/2019-2020"}),
        ({"text": "Wells."}, {"text": "Wells."}),
        ({"text": LONG}, {"text": LONG.lower()}),
        (in_extras("harvest_source_id", UUID), in_extras("harvest_source_id", UUID)),
    ],
)
def test_what_only_means_something_in_its_portal_tells_nothing(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert not same(one, other)


def test_only_datasets_have_marks() -> None:
    assert marks(Document("https://a.example/", "A page", LONG, media_type="text/html")) is None
    assert Dataset("https://a.example/1", "1", "Wells").document().media_type == DATASET


def test_marks_do_not_depend_on_the_order_of_a_record() -> None:
    source = {f"n{n}:identifier": f"urn:x:{n}" for n in range(40)}
    backwards = dict(reversed(source.items()))

    assert marked(source=source) == marked(source=backwards)
    assert len(marked(source=source)) <= 12


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["identifier", "extras", "source", "key", "value", "@id", "uri", "landing_page"]), inner
            )
        ),
    )
)
def test_no_record_is_too_odd(value: Any) -> None:
    record = value if isinstance(value, dict) else {"source": value}

    found = marks_of(record, url="https://a.example/1", text="", content_hash=b"")

    assert all(0 < abs(mark) < 2**63 for mark in found)
    assert as_array(found).startswith("{")
    assert named_hosts(record) is not None


def test_a_strong_mark_joins_and_a_mark_that_one_source_has_often_does_not() -> None:
    families = Families()
    families.join(1, [(10, 1), (20, 2)])
    families.join(2, [(20, 2), (30, 3)])
    families.join(3, [(n, 4) for n in range(40, 44)] + [(10, 1)])

    assert list(families) == [[10, 20, 30]]


def test_a_weak_mark_joins_only_what_each_source_has_once() -> None:
    families = Families()
    families.join(-1, [(10, 1), (20, 2)])
    families.join(-2, [(30, 1), (31, 1), (40, 2)])

    assert list(families) == [[10, 20]]


def test_what_one_source_has_twice_is_no_group() -> None:
    families = Families()
    families.join(1, [(10, 1), (11, 1)])

    assert list(families) == []


def listing(number: int, host: str, *names: str, issued: str = "", day: int = 1) -> TwinItem:
    created = datetime(2024, 1, day, tzinfo=UTC)
    return TwinItem(number, host, f"https://{host}/{number}", "Wells", b"", host, issued, created, frozenset(names))


def test_the_original_is_the_one_that_the_copies_point_to() -> None:
    city = listing(3, "city.example", "city.example", issued="2020-05-05", day=3)
    region = listing(2, "region.example", "city.example", "region.example", issued="2019-01-01", day=2)
    nation = listing(1, "nation.example", "region.example", issued="2018-01-01", day=1)

    assert original([nation, region, city]) is city
    assert original([region, nation]) is region


def test_if_nobody_points_the_first_issued_is_the_original_and_then_the_first_that_was_met() -> None:
    early = listing(2, "a.example", issued="2019-01-01", day=5)
    late = listing(1, "b.example", issued="2020-01-01", day=1)
    undated = listing(3, "c.example", day=1)
    met_later = listing(4, "d.example", day=2)

    assert original([late, undated, early]) is early
    assert original([met_later, undated]) is undated


def test_two_that_point_to_each_other_are_settled_by_their_dates() -> None:
    one = listing(1, "a.example", "b.example", issued="2021-01-01")
    other = listing(2, "b.example", "a.example", issued="2020-01-01")

    assert original([one, other]) is other
