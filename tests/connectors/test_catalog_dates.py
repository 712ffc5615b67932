"""Dates in every form that catalogs write them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.connectors.catalog.dates import iso, moment


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2023-01-29T11:15:29.195900", "2023-01-29T11:15:29.195900Z"),
        ("2019-06-27 12:41:27", "2019-06-27T12:41:27Z"),
        ("2020-05-28T15:48:54.000Z", "2020-05-28T15:48:54Z"),
        ("2020-01-01T00:00:00+0100", "2019-12-31T23:00:00Z"),
        ("2020-01-01T00:00:00 +02", "2019-12-31T22:00:00Z"),
        ("2020-1-5 7:05", "2020-01-05T07:05:00Z"),
        ("Tue, 01 Jan 2019 10:00:00 GMT", "2019-01-01T10:00:00Z"),
        ("2014-10-03", "2014-10-03"),
        ("2014/10/03", "2014-10-03"),
        ("31.12.2020", "2020-12-31"),
        ("12/31/2020 10:00", "2020-12-31"),
        ("20200131", "2020-01-31"),
        ("20200131235959", "2020-01-31T23:59:59Z"),
        ("2019-05", "2019-05"),
        ("2019", "2019"),
        (1_580_000_000_000, "2020-01-26T00:53:20Z"),
        (1_580_000_000, "2020-01-26T00:53:20Z"),
        ("1580000000000", "2020-01-26T00:53:20Z"),
        (946_684_800_000, "2000-01-01T00:00:00Z"),
        (2020, "2020"),
        (2020.0, "2020"),
        (202_012, "2020-12"),
        ("202012", "2020-12"),
        (20_201_231, "2020-12-31"),
        ("202012311200", "2020-12-31T12:00:00Z"),
        (20_201_231_120_059, "2020-12-31T12:00:59Z"),
        ("20201231T120000Z", "2020-12-31T12:00:00Z"),
        ("20201231T1200+0100", "2020-12-31T11:00:00Z"),
        ("Dec 31, 2020", "2020-12-31"),
        ("31 Dec 2020", "2020-12-31"),
        ("May 31st, 2020", "2020-05-31"),
        ("31 December 2020", "2020-12-31"),
        ("December 2020", "2020-12"),
        ("31. Dezember 2020", "2020-12-31"),
        ("1er février 2020", "2020-02-01"),
        ("31 de diciembre de 2020", "2020-12-31"),
        ("luglio 2020", "2020-07"),
    ],
)
def test_a_date_is_read_as_exactly_as_it_was_written(written: object, meant: str) -> None:
    assert iso(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "0001-01-01T00:00:00",
        "0001-01-01",
        "2020-02-31",
        "2020-02-31T10:00:00",
        "2020-13-01T10:00:00",
        "02/03/2020",
        "R/P1D",
        "202013",
        "9999",
        "20201331T120000Z",
        "31 February 2020",
        "1-31 December 2020",
        "since December 2020",
        "May 0020",
        "last spring",
        "",
        "    ",
        "9999-12-31T23:59:59-05:00",
        "2020" * 100,
        True,
        None,
        float("nan"),
        float("inf"),
        1e300,
        [],
        {},
        b"2020-01-01",
    ],
)
def test_what_is_no_date_is_none(written: object) -> None:
    assert iso(written) is None
    assert moment(written) is None


def test_a_time_without_a_zone_is_utc() -> None:
    assert moment("2020-01-01T10:00:00") == datetime(2020, 1, 1, 10, tzinfo=UTC)
    assert moment("2020-01-01") == datetime(2020, 1, 1, tzinfo=UTC)
    assert moment("2020") is None


@given(st.text(alphabet="0123456789-/.:TZ+ RPD") | st.text() | st.integers() | st.floats())
def test_nothing_that_a_portal_may_write_breaks_the_reading(written: object) -> None:
    found = iso(written)

    assert found is None or iso(found) == found


EARLIEST, LATEST = (datetime(year, 1, 2, tzinfo=UTC).replace(tzinfo=None) for year in (1000, 9998))


@given(st.datetimes(EARLIEST, LATEST, timezones=st.timezones()))
def test_a_moment_survives_in_any_zone(at: datetime) -> None:
    assert moment(at.isoformat()) == at.astimezone(UTC)
