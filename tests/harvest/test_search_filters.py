"""Which items may answer."""

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowen import Complete, Document, Fetched, NotFoundError, Rowen
from rowen.model.search import Condition, Filters
from rowen.store.search.search import condition
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows


class Other(Scripted):
    """A second kind."""

    kind = "other"

    @classmethod
    def recognise(cls, address: str) -> str | None:
        return address if address.startswith("other:") else None


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)
    kinds(Other)


async def harvest(r: Rowen, *documents: Document, address: str = "scripted:one") -> None:
    shows(*(Fetched(document) for document in documents), Complete())
    await r.sync(address)


async def found(r: Rowen, **narrowing: Any) -> set[str]:
    return {hit.url.partition("example.org/")[2] for hit in await r.search("apple", **narrowing)}


async def test_by_kind_of_source(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "apple"))
        await harvest(r, page(2, "apple"), address="other:two")

        assert await found(r, kinds=["other"]) == {"2"}
        assert await found(r, kinds=["other", "scripted"]) == {"1", "2"}
        with pytest.raises(NotFoundError, match="of the kind 'web'"):
            await found(r, kinds=["web"])


async def test_by_tag_in_any_case(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "apple", tags=("Fruit", "red")), page(2, "apple", tags=("computer",)))

        assert await found(r, tags=["fruit"]) == {"1"}
        assert await found(r, tags=["RED", "computer"]) == {"1", "2"}


async def test_by_language_with_or_without_region(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(
            r, page(1, "apple", language="pt-BR"), page(2, "apple", language="pt"), page(3, "apple", language="en")
        )

        assert await found(r, languages=["pt"]) == {"1", "2"}
        assert await found(r, languages=["pt-br"]) == {"1"}


async def test_by_publisher(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(
            r,
            page(1, "apple", record={"publisher": "Ministry of Orchards"}),
            page(2, "apple", record={"publisher": "City"}),
            page(3, "apple"),
        )

        assert await found(r, publisher="orchards") == {"1"}


async def test_by_the_date_of_the_catalog_or_else_of_the_harvest(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(
            r,
            page(1, "apple", record={"modified": "2020-05-01T10:00:00Z"}),
            page(2, "apple", record={"modified": "2024-05-01"}),
            page(3, "apple", record={"modified": "last summer"}),
            page(4, "apple"),
        )
        yesterday = datetime.now(UTC) - timedelta(days=1)

        assert await found(r, since=datetime(2024, 1, 1, tzinfo=UTC)) == {"2", "3", "4"}
        assert await found(r, until=datetime(2024, 1, 1, tzinfo=UTC)) == {"1"}
        assert await found(r, since=yesterday) == {"3", "4"}


async def test_by_path_on_any_host_or_by_the_beginning_of_the_url(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page("docs/a", "apple"), page("blog/docs/b", "apple"))

        assert await found(r, path="/docs/") == {"docs/a"}
        assert await found(r, path="https://example.org/blog") == {"blog/docs/b"}
        assert await found(r, path="https://elsewhere.org/") == set()


async def test_filters_narrow_together(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "apple", tags=("a",), language="de"), page(2, "apple", tags=("a",), language="en"))

        assert await found(r, tags=["a"], languages=["de"], kinds=["scripted"], sources=["one"]) == {"1"}


async def test_a_filter_is_data_and_no_statement(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "apple"))

        assert await found(r, tags=["'); drop table item; --"], path="%s{where}", publisher="' or true --") == set()
        assert await found(r) == {"1"}


def test_each_filter_has_a_condition() -> None:
    given = {
        "source_ids": [1],
        "tags": ["hay"],
        "languages": ["de"],
        "record_kinds": ["dataset"],
        "publisher": "City",
        "since": datetime(2026, 1, 1, tzinfo=UTC),
        "until": datetime(2026, 1, 1, tzinfo=UTC),
        "path": "/guide/",
        "without_item": 1,
        "where": Condition.parse_all(["/price>1"]),
    }

    assert set(given) == {field.name for field in dataclasses.fields(Filters)}
    for name, value in given.items():
        sql, parameters = condition(Filters(**{name: value}))
        assert (bool(sql), bool(parameters)) == (True, True), name
    assert condition(Filters()) == ("", {})
    assert condition(Filters(source_ids=()))[0]


async def test_a_filter_with_one_value_may_be_a_string(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "apple", tags=("fruit",), language="de"), page(2, "apple", tags=("f",)))

        assert await found(r, tags="fruit") == {"1"}
        assert await found(r, languages="de") == {"1"}
        assert await found(r, kinds="scripted") == {"1", "2"}
