"""Whatever goes wrong with one item costs that item: the others are extracted, embedded and told of."""

import json
import operator
from typing import Any

import pytest

from rowen.content import readers
from rowen.enrich.extract.grounding import GroundingText
from rowen.errors import ItemError
from rowen.harvest import page_facts
from rowen.harvest.parse_pool import Workers
from rowen.model.items import Raw
from tests.conftest import ScratchDatabase
from tests.harvest.shop import market, stock
from tests.portals.language_model import AskedModel, Said

HUGE = "9" * 400
NUMBERS = [HUGE, "9" * 5_000, "1e400", "-1e999", "NaN", "Infinity", f"1{'0' * 310}.5"]


async def outcomes(r: Any, database: ScratchDatabase) -> tuple[set[str], list[tuple[Any, ...]]]:
    """The lamps of which there are facts, and what is noted of the others."""
    facts = {one.url.rpartition("/")[2] for one in await r.extraction.list("lamp")}
    failed = database.query("select error_code, error from extraction_check where state = 'failed'")
    return facts, failed


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:6])
@pytest.mark.parametrize("place", ["json-ld", "microdata", "framework"])
async def test_a_number_of_any_size_in_the_markup_of_a_page_costs_no_other_page(
    database: ScratchDatabase, number: str, place: str
) -> None:
    markup = {
        "json-ld": '<script type="application/ld+json">{"@type": "Product", "name": "Lamp 2", "price": NUMBER,'
        ' "offers": {"price": NUMBER}}</script>',
        "microdata": '<div itemscope itemtype="https://schema.org/Product"><meta itemprop=name content="Lamp 2">'
        '<meta itemprop=price content="NUMBER"></div>',
        "framework": '<script id="__NEXT_DATA__" type="application/json">{"p": {"name": "Lamp 2", "price": NUMBER}}'
        "</script>",
    }
    with market() as (shop, model):
        shop.sell(2, price=20, head=markup[place].replace("NUMBER", number))
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            run = await r.sync("shop")
            found, failed = await outcomes(r, database)

    assert run.status == "completed"
    assert (found, failed) == ({"1", "2", "3"}, [])


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:6])
async def test_a_number_of_any_size_in_an_answer_costs_that_page(database: ScratchDatabase, number: str) -> None:
    def boasts(asked: AskedModel, said: Said) -> Said:
        told = json.loads(said.text or "{}")
        return Said(f'{{"name": "Lamp 2", "price": {number}}}') if told["name"] == "Lamp 2" else said

    with market() as (shop, model):
        model.always = boasts
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            run = await r.sync("shop")
            found, failed = await outcomes(r, database)

    assert run.status == "completed"
    assert found == {"1", "3"}
    assert [code for code, _ in failed] == ["answer_invalid"]


async def test_an_unexpected_error_costs_one_page_and_is_reported(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    find = GroundingText.find

    def stumble(self: GroundingText, path: str, value: Any) -> Any:
        if value == "Lamp 2":
            raise OverflowError("int too large to convert to float")
        return find(self, path, value)

    with market() as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            monkeypatch.setattr(GroundingText, "find", stumble)
            run = await r.sync("shop")
            found, failed = await outcomes(r, database)

    assert (run.status, run.stats.extractions_failed) == ("completed", 1)
    assert found == {"1", "3"}
    [(code, error)] = failed
    assert code == "item"
    assert error.endswith("/2 could not be handled: OverflowError: int too large to convert to float")
    assert "one item failed with an unexpected error" in caplog.text


async def test_facts_that_the_database_refuses_cost_that_page(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_nul = page_facts._grounded

    def spoiled(found: Any, *rest: Any) -> Any:
        if found.data["name"] == "Lamp 2":
            found.data["colour"] = "\x00"
        return without_nul(found, *rest)

    with market() as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            monkeypatch.setattr(page_facts, "_grounded", spoiled)
            await r.sync("shop")
            found, failed = await outcomes(r, database)

    assert found == {"1", "3"}
    assert [code for code, _ in failed] == ["store_rejected"]


@pytest.mark.parametrize("usage", [10**30, -1, 1.5, "many", None, [], True])
@pytest.mark.parametrize("kind", ["anthropic", "gemini", "ollama", "openai"])
async def test_an_invalid_token_count_costs_no_page(database: ScratchDatabase, kind: str, usage: Any) -> None:
    def counts(asked: AskedModel, said: Said) -> Said:
        said.usage = (usage, usage)
        return said

    with market(1, kind) as (shop, model):
        model.always = counts
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            run = await r.sync("shop")
            found, failed = await outcomes(r, database)

    assert run.status == "completed"
    assert (found, failed) == ({"1"}, [])
    assert database.query("select count(*) from provider_call where tokens_sent between 1 and 100000") == [(1,)]


async def test_a_page_that_makes_a_reader_fail_costs_that_page(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_well = readers.read

    def stumble(raw: Raw) -> Any:
        if raw.url.endswith("/2"):
            raise OverflowError("int too large to convert to float")
        return read_well(raw)

    monkeypatch.setattr(readers, "read", stumble)
    with market() as (shop, _):
        async with database.open(workers=0) as r:
            await r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
            run = await r.sync("shop")
            failed = await r.items.quarantine("shop")

    assert (run.stats.created, run.stats.failed) == (2, 1)
    assert [url[-2:] for (url,) in database.query("select url from item order by url")] == ["/1", "/3"]
    assert "OverflowError" in str(failed)


async def test_an_error_in_a_worker_process_is_reported_and_the_process_continues() -> None:
    workers, large = Workers(1), ["x" * 200_000]
    try:
        with pytest.raises(ItemError, match="IndexError"):
            await workers.call(operator.getitem, large, 1)
        assert await workers.call(operator.getitem, large, 0) == large[0]
    finally:
        await workers.close()
