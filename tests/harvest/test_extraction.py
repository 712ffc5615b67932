"""Facts of a source: a model is asked only when there is something new to read, and only real changes are told."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rowen.errors import NotFoundError, StoreUnavailableError, UsageError
from rowen.harvest import extraction
from rowen.operations.facts import fact
from rowen.store import extraction as extraction_store
from tests.conftest import ScratchDatabase
from tests.harvest.shop import LAMP, market, stock
from tests.portals.language_model import cut_off, fenced, says, status
from tests.portals.scripted import Scripted


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def facts(r: Any) -> dict[str, Any]:
    return {one.url.rpartition("/")[2]: one.data for one in await r.extraction.list("lamp")}


async def test_items_are_extracted_with_the_sync_and_not_again_while_nothing_changes(database: ScratchDatabase) -> None:
    with market() as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            first = await r.sync("shop")
            second = await r.sync("shop")
            again = await r.extraction.extract_source("shop", everything=True)

            assert await facts(r) == {
                str(n): {"name": f"Lamp {n}", "price": 10.0 * n, "colour": "red"} for n in range(1, 4)
            }
    assert (first.stats.extracted, first.stats.extraction_calls, model.calls) == (3, 3, 3)
    assert first.stats.extraction_tokens > 0
    assert (second.stats.extracted, second.stats.extraction_calls) == (0, 0)
    assert (again[0].same, again[0].calls, again[0].avoided_reused) == (3, 0, 3)
    assert database.query("select count(*) from extraction") == [(3,)]


async def test_one_changed_page_costs_one_call_and_boilerplate_none(database: ScratchDatabase) -> None:
    with market() as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            await r.sync("shop")
            shop.sell(2, price=15)
            for number in (1, 3):
                shop.sell(number, price=10 * number, boilerplate="Now with another menu")
            await r.sync("shop")

            history = await r.extraction.history(f"{shop.url}/2", "lamp")
            by_field = await r.items.compare_fields(f"{shop.url}/2", schema="lamp")
            lines = [line for line in await r.changes() if line.kind == "extracted"]
    assert model.calls == 4
    assert [one.number for one in history] == [1, 2]
    assert [change.to_json() for change in history[1].diff] == [
        {"op": "changed", "path": "/price", "before": 20.0, "after": 15.0}
    ]
    assert (by_field.of, by_field.fields) == ("lamp@1.0.0", history[1].diff)
    assert len(lines) == 4
    assert (lines[-1].schema, lines[-1].diff) == ("lamp@1.0.0", [history[1].diff[0].to_json()])


async def test_other_words_with_the_same_facts_are_a_check_and_no_version(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            await r.sync("shop")
            shop.pages["/1"] = shop.pages["/1"].__class__(
                shop.pages["/1"].body.replace(b"</main>", b"<p>Hi.</p></main>")
            )
            run = await r.sync("shop")
            [version] = await r.extraction.history(f"{shop.url}/1", "lamp")
    assert (model.calls, run.stats.extractions_same, run.stats.extracted) == (2, 1, 0)
    assert (version.number, version.checks) == (1, 1)


async def test_a_page_with_a_former_text_is_not_paid_again(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            for price in (10, 12, 10):
                shop.sell(1, price=price)
                run = await r.sync("shop")
            history = await r.extraction.history(f"{shop.url}/1", "lamp")
            costs = await r.status.costs()
    assert model.calls == 2
    assert [one.data["price"] for one in history] == [10, 12, 10]
    assert run.stats.extraction_calls_avoided == 1
    [line] = costs.lines
    assert (line.source, line.subject, line.calls, line.avoided) == ("shop", "lamp", 2, 1)
    assert costs.avoided_usd > 0


async def test_the_facts_of_a_deleted_page_are_deleted(database: ScratchDatabase) -> None:
    with market(3) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            await r.sync("shop")
            del shop.pages["/3"]
            await r.sync("shop")

            assert sorted(await facts(r)) == ["1", "2"]
            assert not (await r.extraction.history(f"{shop.url}/3", "lamp"))[0].current
            shop.sell(3, price=30)
            await r.sync("shop")
            assert sorted(await facts(r)) == ["1", "2", "3"]
    assert model.calls == 3


async def test_a_schema_that_comes_later_is_for_all_items_and_a_new_version_keeps_the_history(
    database: ScratchDatabase,
) -> None:
    with market(2) as (shop, model):
        async with database.open(**model.settings) as r:
            await r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
            await r.sync("shop")
            await r.schemas.add("lamp@1.0.0", LAMP)
            [report] = await r.extraction.extract_source("shop", "lamp@1.0.0")
            assert (report.created, model.calls) == (2, 2)

            wider = {**LAMP, "properties": {**LAMP["properties"], "watts": {"type": ["integer", "null"]}}}  # type: ignore[dict-item]
            await r.schemas.add("lamp@1.1.0", wider)
            await r.extraction.extract_source("shop", "lamp@1.1.0")
            history = await r.extraction.history(f"{shop.url}/1", "lamp")

            [carried] = await r.extraction.list_attached("shop")
    assert [one.schema for one in history] == ["lamp@1.0.0", "lamp@1.1.0"]
    assert [change.path for change in history[1].diff] == ["/watts"]
    assert (carried.schema, carried.state, carried.current) == ("lamp@1.1.0", "current", 2)


async def test_a_bad_page_costs_that_page_and_is_retried_when_it_changes(database: ScratchDatabase) -> None:
    with market(3) as (shop, model):
        model.moods.extend([cut_off(), fenced()])
        async with database.open(**model.settings, llm_concurrency=1) as r:
            await stock(r, shop)
            run = await r.sync("shop")
            [carried] = await r.extraction.list_attached("shop")
            calls = model.calls
            await r.sync("shop")
            assert (run.stats.extracted, run.stats.extractions_failed, carried.failed) == (2, 1, 1)
            assert (carried.state, model.calls) == ("current", calls)

            for number in range(1, 4):
                shop.sell(number, price=99, colour="blue")
            await r.sync("shop")
            assert len(await facts(r)) == 3


async def test_a_provider_that_is_down_lets_the_rest_wait_and_nothing_is_paid_twice(database: ScratchDatabase) -> None:
    with market(3) as (shop, model):
        model.moods.extend([lambda asked, said: said, status(503)])
        async with database.open(**model.settings, llm_concurrency=1) as r:
            await stock(r, shop)
            run = await r.sync("shop")
            [waiting] = await r.extraction.list_attached("shop")
            assert (run.stats.extracted, run.stats.extractions_pending, waiting.state) == (1, 2, "waiting")

            [report] = await r.extraction.extract_source("shop")
            [after] = await r.extraction.list_attached("shop")
    assert (report.created, report.pending, after.state) == (2, 0, "current")
    assert model.calls == 4


@pytest.mark.parametrize("budget", [{"budget_usd": 0.06}, {"budget_tokens": 16_000}])
async def test_a_budget_lets_the_rest_wait_with_a_clear_state(
    database: ScratchDatabase, budget: dict[str, Any]
) -> None:
    with market(3) as (shop, model):
        async with database.open(**model.settings, llm_concurrency=1) as r:
            await r.schemas.add("lamp@1.0.0", LAMP)
            await r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
            await r.sync("shop")
            [none] = await r.extraction.extract_source("shop", "lamp@1", budget_tokens=10)
            assert (model.calls, none.pending) == (0, 3)
            assert none.waits_for is not None
            assert "budget" in none.waits_for

            [some] = await r.extraction.extract_source("shop", **budget)
            [left] = await r.extraction.extract_source("shop")
    assert some.created + left.created == 3
    assert some.created >= 1
    assert model.calls == 3


async def test_a_daily_budget_holds_also_across_passes(database: ScratchDatabase) -> None:
    with market(3) as (shop, model):
        async with database.open(**model.settings, llm_concurrency=1, budget_day_usd=0.0335) as r:
            await stock(r, shop)
            await r.sync("shop")
            [report] = await r.extraction.extract_source("shop")
            [carried] = await r.extraction.list_attached("shop")
    assert model.calls == 1
    assert (report.created, report.pending, carried.state) == (0, 2, "waiting")


async def test_a_dry_run_estimates_the_price_without_a_request(database: ScratchDatabase) -> None:
    with market(3) as (shop, model):
        async with database.open(**model.settings) as r:
            await r.schemas.add("lamp@1.0.0", LAMP)
            await r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
            await r.sync("shop")
            [report] = await r.extraction.extract_source("shop", "lamp@1", dry_run=True)

            assert await r.extraction.list_attached() == []
    assert (report.calls, model.calls) == (3, 0)
    assert report.usd is not None
    assert report.usd > 0
    assert database.query("select count(*) from extraction_check") == [(0,)]


async def test_without_a_model_the_rest_waits_and_the_missing_setting_is_named(database: ScratchDatabase) -> None:
    with market(2) as (shop, _):
        async with database.open() as r:
            await stock(r, shop)
            run = await r.sync("shop")
            [carried] = await r.extraction.list_attached("shop")
    assert (run.status, run.stats.extractions_pending) == ("completed", 2)
    assert carried.waits_for is not None
    assert "ROWEN_LLM" in carried.waits_for


async def test_conditions_are_reported_when_they_become_true_but_not_at_first(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop, conditions=["price < 9", "colour = blue"])
            for price, colour in ((8, "red"), (10, "red"), (7, "red"), (6, "blue")):
                shop.sell(1, price=price, colour=colour)
                await r.sync("shop")
            told = [(line.title, line.schema) for line in await r.changes() if line.kind == "matched"]
            with pytest.raises(UsageError, match="no field"):
                await r.extraction.attach("shop", "lamp", conditions=["weight > 3"])
    assert told == [("Lamp 1: price < 9", "lamp@1.0.0"), ("Lamp 1: colour = blue", "lamp@1.0.0")]


async def test_facts_are_searched_and_listed_by_conditions(database: ScratchDatabase) -> None:
    with market(3) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            await r.sync("shop")

            assert [hit.title for hit in await r.search("lamp", where=["price<15"])] == ["Lamp 1"]
            assert {hit.title for hit in await r.search("lamp", where=["price>=20", "colour=RED"])} == {
                "Lamp 2",
                "Lamp 3",
            }
            assert not await r.search("lamp", where=["name ~ unicorn"])
            page = await r.extraction.list("lamp", limit=1)
            rest = await r.extraction.list("lamp", limit=5, after=page.next)
            assert [one.data["price"] for one in [*page, *rest]] == [10, 20, 30]
            assert [one.data["price"] for one in await r.extraction.list(where=["price>25"])] == [30]
            with pytest.raises(UsageError):
                await r.search("lamp", where=["price <"])


async def test_an_ungrounded_answer_is_reported_removed_or_refused(database: ScratchDatabase) -> None:
    invented = says('{"name": "Lamp 1", "price": 4711, "colour": "red"}')
    with market(1) as (shop, model):
        model.always = invented
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            url = f"{shop.url}/1"
            warned = await r.extract(url, "lamp@1")
            dropped = await r.extract(url, "lamp@1", grounding="null")
            with pytest.raises(Exception, match="that are not in the page"):
                await r.extract(url, "lamp@1", grounding="fail")
    assert warned.ungrounded == ("/price",)
    assert "/price" in warned.remarks[0]
    assert dropped.data["price"] is None
    name = next(one for one in warned.evidence if one.path == "/name")
    assert (name.found, name.quote) == ("exact", "Lamp 1")
    assert model.calls == 1


async def test_an_answer_with_letters_that_cannot_be_stored_costs_no_other_item(database: ScratchDatabase) -> None:
    with market(2) as (shop, model):
        model.moods.append(says(r'{"name": "Lamp\u0000 \ud800one", "price": 10, "colour": null}'))
        model.moods.append(says('{"name": "Lamp", "price": 1e999, "colour": null}'))
        async with database.open(**model.settings, llm_concurrency=1) as r:
            await stock(r, shop)
            run = await r.sync("shop")
            found = {one["name"] for one in (await facts(r)).values()}
    # The number that is none was told to the model, which then said the right one.
    assert (run.stats.extracted, run.stats.extractions_failed, model.calls) == (2, 0, 3)
    assert "Lamp one" in found


async def test_a_source_without_a_schema_is_reported_with_a_hint(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            await r.sources.add(f"{shop.url}/", name="shop")
            with pytest.raises(NotFoundError, match="has no schema"):
                await r.extraction.extract_source("shop")


async def test_more_sources_than_the_pool_has_connections_are_extracted_side_by_side(database: ScratchDatabase) -> None:
    async with database.open(side_by_side=1) as r:
        await r.schemas.add("lamp@1.0.0", LAMP)
        names = [f"source{number}" for number in range(r._engine.database.connections.pooled + 2)]
        for name in names:
            await r.sources.add(f"scripted:{name}", name=name)
            await r.extraction.attach(name, "lamp@1")
        # Each would hold a connection that the others need.
        async with asyncio.timeout(60):
            reports = await asyncio.gather(*(r.extraction.extract_source(name) for name in names))

    assert [(report.source, report.pending) for [report] in reports] == [(name, 0) for name in names]


async def test_a_pass_that_stops_in_its_second_batch_goes_on_there(
    database: ScratchDatabase, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "BATCH", 2)
    with market(7) as (shop, model):
        model.moods.extend([*(lambda asked, said: said for _ in range(3)), status(503)])
        async with database.open(**model.settings, llm_concurrency=1) as r:
            await stock(r, shop)
            first = await r.sync("shop")
            [(begun,)] = database.query("select extracted_to from source_schema")
            statements.clear()
            [rest] = await r.extraction.extract_source("shop")

            assert len(await facts(r)) == 7
    [(last, upto)] = database.query(
        "select max(number) filter (where kind = 'created'), (select extracted_to from source_schema) from change"
    )
    assert (first.stats.extracted, first.stats.extractions_pending) == (3, 4)
    assert (rest.created, rest.pending, model.calls) == (4, 0, 8)
    assert 0 < begun < last <= upto
    assert sum("int8send" in statement for statement in statements) == 1


async def test_facts_carry_the_content_hash_of_the_text_that_was_read_also_if_it_changes_meanwhile(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = extraction_store.save

    async def save_late(*what: Any, **more: Any) -> Any:
        database.execute("update item set content_hash = 'another'::bytea")
        return await save(*what, **more)

    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            await r.sync("shop")
            [(first,)] = database.query("select encode(content_hash, 'hex') from item")
            shop.sell(1, price=99)
            monkeypatch.setattr(extraction_store, "save", save_late)
            await r.sync("shop")
            history = await r.extraction.history(f"{shop.url}/1", "lamp")
            updated = [
                one
                for (one,) in database.query("select encode(content_hash, 'hex') from change where kind = 'updated'")
            ]
            database.execute("update extraction set content_hash = null where number = 1")
            [in_force] = await r.extraction.list("lamp")
            [early, _] = await r.extraction.history(f"{shop.url}/1", "lamp")

    assert [one.content_hash for one in history] == [first, *updated]
    assert (len(updated), updated == [first]) == (1, False)
    assert (fact(in_force)["content_hash"], early.content_hash) == (updated[0], None)


async def test_an_error_of_the_store_ends_the_questions_that_are_under_way(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = extraction_store.save

    async def lost(*what: Any, **more: Any) -> Any:
        raise StoreUnavailableError("The database went away.")

    with market(12) as (shop, model):
        async with database.open(**model.settings, llm_concurrency=4) as r:
            await r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
            await r.sync("shop")
            await r.schemas.add("lamp@1.0.0", LAMP)
            await r.extraction.attach("shop", "lamp@1")
            monkeypatch.setattr(extraction_store, "save", lost)
            model.latency_s = 0.2
            with pytest.raises(StoreUnavailableError):
                await r.extraction.extract_source("shop", everything=True)
            left = [task for task in asyncio.all_tasks() if "ExtractionPass" in repr(task)]
            asked = model.calls
            monkeypatch.setattr(extraction_store, "save", save)
            model.latency_s = 0

            assert left == []
            # Four at a time; those that waited behind them may have begun while the first answer was being stored.
            assert 0 < asked <= 8
            assert (await r.extraction.extract_source("shop"))[0].failed == 0
            assert len(await facts(r)) == 12
