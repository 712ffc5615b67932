"""Facts of some items of a source: a schema may be meant for the pages at certain addresses only."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from rowen import Complete, Fetched, Rowen
from rowen.errors import UsageError
from tests.conftest import ScratchDatabase
from tests.harvest.shop import LAMP, market, stock
from tests.portals.language_model import Model
from tests.portals.scripted import Scripted, page, shows
from tests.store.interleaving import Moment, OtherProcess


async def lamps(r: Rowen) -> list[str]:
    return [one.url.rpartition("/")[2] for one in await r.extraction.list("lamp")]


async def test_only_pages_at_the_named_addresses_are_extracted_estimated_and_waited_for(
    database: ScratchDatabase,
) -> None:
    with market(4) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop, only_urls=["*/1", "*/4*"])
            run = await r.sync("shop")
            shop.sell(2, price=99)
            shop.sell(4, price=99)
            assert (await lamps(r), run.stats.extraction_calls, model.calls) == (["1", "4"], 2, 2)
            [held] = await r.extraction.list_attached("shop")
            assert (held.only_urls, held.pending, held.state) == (("*/1", "*/4*"), 0, "current")

            await r.sync("shop")
            [estimate] = await r.extraction.extract_source("shop", everything=True, dry_run=True, force=True)
            assert (model.calls, estimate.looked_at, estimate.calls) == (3, 2, 2)


async def test_another_pattern_costs_only_new_pages_and_ends_facts_of_excluded_ones(
    database: ScratchDatabase,
) -> None:
    with market(3) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop, only_urls=["*/1", "*/2"])
            await r.sync("shop")
            await r.extraction.attach("shop", "lamp@1", only_urls=["*/2", "*/3"])
            [narrowed] = await r.extraction.extract_source("shop")
            assert (await lamps(r), model.calls) == (["2", "3"], 3)
            assert (narrowed.looked_at, narrowed.created, narrowed.removed) == (2, 1, 1)

            await r.extraction.attach("shop", "lamp@1", only_urls=["*"])
            [widened] = await r.extraction.extract_source("shop")
            assert (await lamps(r), model.calls, widened.looked_at) == (["1", "2", "3"], 3, 1)
            assert [one.number for one in await r.extraction.history(f"{shop.url}/1", "lamp")] == [1, 2]

            await r.extraction.attach("shop", "lamp@1", conditions=["price<5"])
            assert (await r.extraction.extract_source("shop"))[0].looked_at == 0


async def test_a_pattern_is_literal_except_for_its_stars(database: ScratchDatabase) -> None:
    with market(2) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop, only_urls=["%/1", "_", "\\", "*/lamps/*"])
            await r.sync("shop")
            assert model.calls == 0
            await r.extraction.attach("shop", "lamp@1", only_urls=["/2"])
            await r.extraction.extract_source("shop")
            assert await lamps(r) == ["2"]
            for wrong in ("", " ", "a\0b", "x" * 501):
                with pytest.raises(UsageError, match="no pattern for URLs"):
                    await r.extraction.attach("shop", "lamp@1", only_urls=[wrong])


async def test_items_that_are_chosen_at_any_moment_of_a_pass_are_extracted(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    shows(*(Fetched(page(f"{n}", f"Name: Lamp {n}")) for n in range(3)), Complete())

    async def choose_all(other: Rowen) -> None:
        await other.extraction.attach("one", "lamp@1", only_urls=[])

    with closing(Model("openai")) as model:
        async with database.open(**model.settings, trust_database=True) as r:
            await r.sources.add("scripted:one", name="one")
            await r.schemas.add("lamp@1.0.0", LAMP)
            await r.sync("one")
            with OtherProcess(database, lock_timeout_ms=200) as process:
                number, moment = 1, Moment(0, bool)
                while number <= moment.count or not moment.count:
                    await r.extraction.attach("one", "lamp@1", only_urls=["*/0"])
                    moment = Moment(number, lambda: process.call(choose_all))
                    await moment.during(r.extraction.extract_source("one"))
                    await r.extraction.extract_source("one")
                    current = database.query("select count(*) from extraction_check where state = 'current'")
                    [carried] = await r.extraction.list_attached("one")
                    assert not moment.acted or (current, carried.pending) == ([(3,)], 0), f"moment {number}"
                    number += 1
    assert number > 20
