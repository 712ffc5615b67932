"""Facts without a model: a page's own markup, rules, and rules that are learned once and mended when they break."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rowen.errors import BudgetExceededError, NotFoundError, RefusedError, UsageError
from tests.conftest import ScratchDatabase
from tests.harvest.shop import LAMP, market, stock
from tests.portals.site import Page


async def test_markup_that_satisfies_the_schema_costs_no_token(database: ScratchDatabase) -> None:
    with market(2) as (shop, model):
        for number in (1, 2):
            shop.sell_with_markup(number, price=10 * number)
        async with database.open(**model.settings) as r:
            await stock(r, shop, "product@1")
            run = await r.sync("shop")
            shop.sell_with_markup(2, price=18)
            second = await r.sync("shop")

            [_, version] = await r.extraction.history(f"{shop.url}/2", "product")
    assert model.calls == 0
    assert (run.stats.extracted, run.stats.extraction_calls_avoided) == (2, 2)
    assert (second.stats.extracted, version.origin) == (1, "structured")
    assert [(change.path, change.after) for change in version.diff] == [("/price", 18)]
    assert version.data["currency"] == "EUR"


async def test_markup_that_changes_beside_the_fields_changes_nothing(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        shop.sell_with_markup(1, price=10)
        async with database.open(**model.settings) as r:
            await stock(r, shop, "product@1")
            await r.sync("shop")
            body = shop.pages["/1"].body
            shop.pages["/1"] = Page(body.replace(b'"interactionCount": 70', b'"interactionCount": 71'))
            assert shop.pages["/1"].body != body
            run = await r.sync("shop")
    assert (run.stats.unchanged, run.stats.amended, run.stats.extracted) == (1, 0, 0)


async def test_markup_that_is_not_enough_is_a_hint(database: ScratchDatabase) -> None:
    markup = '<script type="application/ld+json">{"@type": "Product", "name": "Lamp 1", "sku": "L-1"}</script>'
    with market(1) as (shop, model):
        shop.sell(1, price=12, head=markup)
        async with database.open(**model.settings) as r:
            found = await r.extract(f"{shop.url}/1", LAMP)
            both = await r.extract(f"{shop.url}/1", {**LAMP, "required": ["name", "price"]})
    assert found.origin == "structured"
    assert both.origin == "model"
    assert '"name": "Lamp 1"' in model.questions[0].page


async def test_rules_read_fields_without_a_model_and_a_broken_rule_needs_one(database: ScratchDatabase) -> None:
    rules = {"name": "h1", "price": ".offer .amount | number", "colour": "//main/p[last()]"}
    with market(2) as (shop, model):
        async with database.open() as r:
            await stock(r, shop, rules=rules)
            run = await r.sync("shop")
            found = {one.url[-1]: one for one in await r.extraction.list("lamp")}
            shop.sell(2, price=21)
            await r.sync("shop")
            [_, later] = await r.extraction.history(f"{shop.url}/2", "lamp")
    assert run.stats.extracted == 2
    assert (found["1"].data["name"], found["1"].data["price"], found["1"].origin) == ("Lamp 1", 10, "rules")
    assert later.data["price"] == 21
    assert model.calls == 0


@pytest.mark.parametrize("rule", ["..[", "//[[", "", " | number"])
async def test_a_rule_that_is_none_is_refused(database: ScratchDatabase, rule: str) -> None:
    with market(1) as (shop, _):
        async with database.open() as r:
            await stock(r, shop)
            with pytest.raises(UsageError):
                await r.extraction.attach("shop", "lamp", rules={"price": rule})


async def test_a_watched_price_costs_one_call_and_then_none(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            await r.schemas.add("lamp@1.0.0", {**LAMP, "required": ["name", "price"]})
            await r.sources.add(
                f"{shop.url}/1", name="watch", options={"sitemap": False, "llms": False, "max_pages": 1}
            )
            await r.extraction.attach("watch", "lamp@1", learn=True, conditions=["price<9"])
            for price in (10, 11, 8, 12):
                shop.sell(1, price=price)
                await r.sync("watch")
            [carried] = await r.extraction.list_attached("watch")
            history = await r.extraction.history(f"{shop.url}/1", "lamp")
            told = [line.title for line in await r.changes() if line.kind == "matched"]
    assert model.calls == 1
    assert [one.data["price"] for one in history] == [10, 11, 8, 12]
    assert [one.origin for one in history] == ["model", "rules", "rules", "rules"]
    assert carried.rules["price"] == {"at": "span.amount | number", "by": "model"}
    assert told == ["Lamp 1: price < 9"]


async def test_a_rule_that_stops_matching_is_learned_again(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            await r.schemas.add("lamp@1.0.0", {**LAMP, "required": ["name", "price"]})
            await r.sources.add(
                f"{shop.url}/1", name="watch", options={"sitemap": False, "llms": False, "max_pages": 1}
            )
            await r.extraction.attach("watch", "lamp@1", learn=True)
            for price in (10, 11):
                shop.sell(1, price=price)
                await r.sync("watch")
            redesigned = (
                shop.pages["/1"].body.replace(b"span class=amount", b"b class=money").replace(b"</span>", b"</b>")
            )
            for price in (b"13", b"14"):
                shop.pages["/1"] = Page(redesigned.replace(b">11<", b">" + price + b"<"))
                await r.sync("watch")
            [carried] = await r.extraction.list_attached("watch")
            history = await r.extraction.history(f"{shop.url}/1", "lamp")
    assert [one.data["price"] for one in history] == [10, 11, 13, 14]
    assert [one.origin for one in history] == ["model", "rules", "model", "rules"]
    assert model.calls == 2
    assert carried.rules["price"]["at"] == "b.money | number"


class Lamp(BaseModel):
    name: str
    price: float | None = None


async def test_a_page_becomes_a_pydantic_model_and_the_answer_is_cached(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        url = f"{shop.url}/1"
        async with database.open(**model.settings) as r:
            tokens, usd = await r.extraction.estimate(url, Lamp)
            assert model.calls == 0
            first = await r.extract(url, Lamp)
            again = await r.extract(url, Lamp)
            forced = await r.extract(url, Lamp, force=True)
            with pytest.raises(BudgetExceededError):
                await r.extract(url, Lamp, force=True, budget_tokens=5)
    assert first.data == again.data == Lamp(name="Lamp 1", price=10)
    assert (first.calls, again.calls, again.reused, forced.calls) == (1, 0, True, 1)
    assert model.calls == 2
    assert tokens > 100
    assert usd
    assert database.query("select count(*) from extraction") == [(0,)]


async def test_a_file_is_read_like_a_page_and_a_missing_one_is_an_error(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    (tmp_path / "lamp.md").write_text("# A lamp\n\nName: Aurora\n\nPrice: 3\n")
    with market(1) as (shop, model):
        shop.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /secret", headers={"Content-Type": "text/plain"})
        async with database.open(**model.settings) as r:
            found = await r.extract(str(tmp_path / "lamp.md"), LAMP)
            for address, error in (
                (f"{shop.url}/none", NotFoundError),
                (f"{shop.url}/secret", RefusedError),
                (str(tmp_path / "none.md"), NotFoundError),
            ):
                with pytest.raises(error):
                    await r.extract(address, LAMP)
    assert found.data["name"] == "Aurora"


async def test_the_record_of_a_dataset_is_its_markup(database: ScratchDatabase, kinds: Any) -> None:
    from rowen import Complete, Document, Fetched
    from rowen.model.datasets import DATASET
    from tests.portals.scripted import Scripted, shows

    record = {"title": "Trees", "publisher": "City", "license": "CC0", "tags": ["trees", "green"]}
    document = Document("https://data.example/trees", "Trees", "All trees.", record=record, media_type=DATASET)
    kinds(Scripted)
    shows(Fetched(document), Complete())
    async with database.open() as r:
        await r.sources.add("scripted:one", name="portal")
        await r.extraction.attach("portal", "dataset@1")
        await r.sync("portal")
        [found] = await r.extraction.list("dataset")
    assert (found.data["publisher"], found.data["licence"], found.origin) == ("City", "CC0", "structured")
