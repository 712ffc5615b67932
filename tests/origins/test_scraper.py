"""Pages become data by a schema: the steps of one extraction, where models are asked, workers, and pace by host."""

import asyncio
import json
from contextlib import closing, suppress
from hashlib import sha256

import psycopg
import pytest
from aiohttp import web

from rowen.errors import CircuitOpenError
from rowen.jobs.tasks import ActiveJob
from rowen.jobs.worker import TASKS
from rowen.model.hashes import canonical_json
from rowen.net.circuits import Breaker, CircuitLimits
from tests.cli.conftest import Cli, cli  # noqa: F401 (a fixture)
from tests.conftest import ScratchDatabase
from tests.harvest.shop import LAMP, market, stock
from tests.jobs.conftest import Opened, yard  # noqa: F401 (a fixture)
from tests.net.world import FakeTime
from tests.portals.language_model import Model
from tests.portals.site import Page, Site


async def test_a_page_becomes_markdown_then_data_and_both_hashes_are_kept(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            await r.sync("shop")
            entry = await r.get(f"{shop.url}/1")
            [facts] = await r.extraction.list("lamp")

    [question] = model.questions
    assert "Lamp 1" in question.page
    assert "<p" not in question.page
    assert "Price: 10" in entry.text
    assert facts.data == {"name": "Lamp 1", "price": 10.0, "colour": "red"}
    assert (facts.url, facts.schema.partition("@")[0], facts.model) == (f"{shop.url}/1", "lamp", "openai:double")
    [(content, data)] = database.query(
        "select item.content_hash, data_hash from extraction join item on item.key = extraction.key"
    )
    assert bytes(data) == sha256(canonical_json({"name": "Lamp 1", "price": 10, "colour": "red"})).digest()
    assert len(bytes(content)) == 32


async def test_facts_are_found_by_address_and_schema_through_an_index(database: ScratchDatabase) -> None:
    columns = dict(
        database.query("select column_name, data_type from information_schema.columns where table_name = 'extraction'")
    )
    indexes = [one for (one,) in database.query("select indexdef from pg_indexes where tablename = 'extraction'")]

    assert columns.keys() >= {"url", "name", "data", "content_hash", "data_hash", "model", "at"}
    assert columns["id"] == "bigint"
    assert any("(key, name)" in one for one in indexes)


async def test_each_worker_asks_the_model_at_the_address_of_its_own_settings_and_a_job_names_its_model(
    yard: Opened,  # noqa: F811
) -> None:
    with market(2) as (shop, first), closing(Model()) as second:
        async with yard(**first.settings) as y:
            await stock(y.r, shop)
            await y.r.extraction.detach("shop", "lamp")
            await y.r.sync("shop")
            await y.r.extraction.attach("shop", "lamp@1")
            y.tasks.update(TASKS)
            await y.r.queue.enqueue_extraction("shop", model="other", limit=1)
            await y.work(extract=1)
        asked_first = [question.body["model"] for question in first.questions]
        async with yard(**second.settings) as y:
            y.tasks.update(TASKS)
            await y.r.queue.enqueue_extraction("shop")
            await y.work(extract=1)
            facts = await y.r.extraction.list("lamp")

    assert asked_first == ["other"]
    assert (first.calls, [question.body["model"] for question in second.questions]) == (1, ["double"])
    assert sorted(one.model or "" for one in facts) == ["openai:double", "openai:other"]


async def test_a_site_that_asks_to_wait_holds_up_no_other(database: ScratchDatabase) -> None:
    waits = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def busy(_: web.Request) -> web.Response:
        loop.call_soon_threadsafe(waits.set)
        return web.Response(status=429, headers={"Retry-After": "100"})

    with closing(Site()) as slow, closing(Site()) as quick:
        slow.pages["/"] = Page(handler=busy)
        quick.grow(13)
        async with database.open(fetch_tries=3) as r:
            for name, site in (("slow", slow), ("quick", quick)):
                url = site.url.replace("127.0.0.1", "localhost") if name == "slow" else site.url
                await r.sources.add(f"{url}/", name=name, options={"sitemap": False, "llms": False, "robots": False})
            waiting = asyncio.create_task(r.sync("slow"))
            async with asyncio.timeout(60):
                await waits.wait()
                run = await r.sync("quick")
            still_waits = not waiting.done()
            r.stop()
            with suppress(Exception):
                await asyncio.wait_for(waiting, 60)

    assert (run.status, run.stats.created) == ("completed", 13)
    assert still_waits
    assert len(slow.asked()) == 1


def test_one_page_is_extracted_without_keeping_anything_of_it(
    cli: Cli,  # noqa: F811
    database: ScratchDatabase,
) -> None:
    with market(1) as (shop, model):
        local = {**model.environment, "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0"}
        (cli.folder / "lamp.json").write_text(json.dumps(LAMP))
        cli("schema", "add", "lamp.json", "--as", "lamp@1.0.0")
        done = cli("extract", f"{shop.url}/1", "--schema", "lamp@1", **local)

    assert json.loads(done.out) == {"name": "Lamp 1", "price": 10, "colour": "red"}
    kept = database.query(
        "select (select count(*) from source), (select count(*) from item), (select count(*) from extraction)"
    )
    assert kept == [(0, 0, 0)]


@pytest.mark.parametrize("fault", ["timeout", "markup"])
async def test_a_page_in_trouble_is_tried_again_and_one_that_cannot_be_read_fails_alone(
    database: ScratchDatabase, fault: str
) -> None:
    with market(2) as (shop, model):
        if fault == "timeout":
            good = shop.pages["/1"]
            shop.pages["/1"] = Page(b"Oops.", status=503)
        else:
            shop.pages["/1"] = Page(b"\x00\x01\x02" * 100, headers={"Content-Type": "application/pdf"})
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            first = await r.sync("shop")
            if fault == "timeout":
                shop.pages["/1"] = good
            second = await r.sync("shop")

    assert (first.stats.failed, first.stats.created) == (1, 1)
    healed = fault == "timeout"
    assert (second.stats.created, second.stats.failed) == ((1, 0) if healed else (0, 1))
    assert model.calls == (2 if healed else 1)


async def test_a_job_tells_its_state_its_tries_its_worker_and_when_it_begins_again(
    yard: Opened,  # noqa: F811
) -> None:
    answers, loop = asyncio.Event(), asyncio.get_running_loop()

    async def slow(_: web.Request) -> web.Response:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answers.wait(), loop))
        return web.Response(status=503)

    async with yard(job_retry_s=1000) as y:
        with closing(Site()) as site:
            await y.r.sources.add(
                f"{site.url}/", name="site", options={"sitemap": False, "llms": False, "robots": False}
            )
            site.pages["/"] = Page(handler=slow)
            y.tasks.update(TASKS)
            job = (await y.r.queue.enqueue("site")).id
            async with y.working(sync=1):
                running = await y.until_state(job, "running")
                [worker] = await y.r.queue.list_workers()
                answers.set()
                await y.until(lambda: bool(y.ends))
        told = await y.r.queue.get(job)
        listed = [await y.r.queue.list(**how) for how in ({"state": "waiting"}, {"source": "site"}, {"state": "done"})]

    assert (running.tries, running.worker) == (1, f"{worker.host}:{worker.pid}")
    assert (told.state, told.tries, told.error_code is not None) == ("waiting", 1, True)
    assert told.starts_at is not None
    assert told.started_at is not None
    assert told.starts_at > told.started_at
    assert [[one.id for one in jobs] for jobs in listed] == [[job], [job], []]


def test_after_429_the_pause_of_a_circuit_doubles_with_each_opening_up_to_five_minutes() -> None:
    time = FakeTime()
    breaker = Breaker("api", CircuitLimits(failure_threshold=1), clock=time.clock)
    pauses = []
    for _ in range(6):
        breaker.fail(breaker.admit(), rate_limited=True)
        with pytest.raises(CircuitOpenError) as refused:
            breaker.admit()
        pauses.append(refused.value.retry_in_s)
        time.at += pauses[-1]

    assert pauses == [60, 120, 240, 300, 300, 300]


def test_a_schema_that_nobody_has_is_named_with_how_to_see_those_that_there_are(
    cli: Cli,  # noqa: F811
    database: ScratchDatabase,
) -> None:
    missing = cli("extract", "https://shop.example/1", "--schema", "lamp@1", "--json")
    wrong = cli("schema", "show", "product@99")

    assert (missing.code, wrong.code) == (4, 4)
    assert "lamp" in missing.err
    assert "product" in wrong.err


async def test_a_claim_passes_over_a_job_that_somebody_else_has_locked(
    yard: Opened,  # noqa: F811
    database: ScratchDatabase,
) -> None:
    async with yard() as y:

        async def nothing(_: ActiveJob) -> None:
            return None

        y.task(nothing)
        locked, free = await y.put(), await y.put()
        with psycopg.connect(database.conninfo) as other:
            other.execute("select from rowen.procrastinate_jobs where id = %s for update", [locked])
            async with y.working(sync=1):
                await y.until_state(free, "done")
                passed_over = await y.job(locked)
                other.rollback()
                await y.until_state(locked, "done")

    assert passed_over.state == "waiting"
