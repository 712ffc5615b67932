"""Each class of failure, provoked by real servers: which are tried again, which end the job, which cost one item."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from rowen.jobs.queue import put_extraction
from rowen.jobs.worker import TASKS
from rowen.model.queue import Job
from tests.conftest import ScratchDatabase
from tests.harvest.shop import LAMP, market
from tests.jobs.conftest import Opened, Yard
from tests.logical import contents
from tests.portals.language_model import AskedModel, Model, Mood, Said, says, status
from tests.portals.site import Page

LAMPS = 4


@asynccontextmanager
async def waiting(yard: Opened, **settings: Any) -> AsyncIterator[tuple[Yard, Model, int]]:
    """A shop whose lamps were read, and a job that is to extract them."""
    with market(LAMPS) as (shop, model):
        async with yard(**{**model.settings, "cb_recovery_timeout_secs": 0.2, **settings}) as y:
            await y.r.schemas.add("lamp@1.0.0", LAMP)
            await y.r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
            await y.r.sync("shop")
            await y.r.extraction.attach("shop", "lamp@1")
            y.tasks.update(TASKS)
            source = await y.r.sources.get("shop")
            async with y.engine.database.transaction() as c:
                job = await put_extraction(c, y.engine.database, source.id)
            assert job is not None
            yield y, model, job


async def ended(y: Yard, job: int) -> Job:
    async def is_over() -> bool:
        return (await y.job(job)).state not in ("waiting", "running")

    async with y.working(extract=1):
        await y.until(is_over)
    return await y.job(job)


def refuses(with_status: int, message: str, **more: str) -> Mood:
    return lambda asked, said: web.json_response({"error": {"message": message, **more}}, status=with_status)


def says_html(asked: AskedModel, said: Said) -> web.Response:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


def well(asked: AskedModel, said: Said) -> Said:
    return said


def only_page(number: int, mood: Mood) -> Mood:
    """Behave so for one page, and well for the others."""
    return lambda asked, said: mood(asked, said) if f"Lamp {number}" in asked.page else said


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("env:SHOP_KEY", "does not accept the key in the environment variable SHOP_KEY"),
        ("sk-secret", "does not accept the key of ROWEN_LLM_KEY"),
        (None, "wants a key; none was sent"),
    ],
)
async def test_a_refused_key_ends_the_job_after_one_call_and_is_named(
    yard: Opened, monkeypatch: pytest.MonkeyPatch, code: int, key: str | None, words: str
) -> None:
    monkeypatch.setenv("SHOP_KEY", "sk-secret")
    async with waiting(yard, llm_key=key) as (y, model, job):
        model.always = status(code)
        failed = await ended(y, job)
        [carried] = await y.r.extraction.list_attached("shop")

    assert (failed.state, failed.tries, failed.error_code, model.calls) == ("failed", 1, "provider_key", 1)
    assert words in (failed.error or "")
    assert "sk-secret" not in (failed.error or "")
    assert (carried.state, carried.pending, carried.failed) == ("waiting", LAMPS, 0)


async def test_a_refused_page_fails_with_the_message_of_the_provider_and_other_pages_are_read(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with waiting(yard, llm_concurrency=1) as (y, model, job):
        # The first page shows how the model is to be asked; then no other way is tried for a page that is refused.
        model.moods.extend([well, refuses(400, "this page is not welcome")])
        done = await ended(y, job)
        [carried] = await y.r.extraction.list_attached("shop")
        errors = database.query("select error_code, error from extraction_check where state = 'failed'")

    assert (done.state, carried.state, carried.pending, carried.failed) == ("done", "current", 0, 1)
    assert model.calls == LAMPS
    [(code, words)] = errors
    assert code == "provider_refused"
    assert "this page is not welcome" in words


@pytest.mark.parametrize(
    "mood",
    [
        status(404),
        refuses(404, "The model `double` does not exist", code="model_not_found"),
        refuses(400, "double is not a valid model ID"),
        refuses(400, "Wrong.", param="model"),
        status(402),
        says_html,
    ],
)
async def test_a_wrong_address_or_model_ends_the_job_after_one_call(yard: Opened, mood: Mood) -> None:
    async with waiting(yard, llm_concurrency=1) as (y, model, job):
        model.always = mood
        failed = await ended(y, job)
        [carried] = await y.r.extraction.list_attached("shop")

    assert (failed.state, failed.tries, model.calls) == ("failed", 1, 1)
    assert (carried.state, carried.pending, carried.failed) == ("waiting", LAMPS, 0)


@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_waits_after_temporary_errors_count_no_attempt(yard: Opened, code: int) -> None:
    async with waiting(yard, cb_failure_threshold=2) as (y, model, job):
        model.moods.extend([status(code), status(code)])
        done = await ended(y, job)

    assert (done.state, done.tries) == ("done", 1)
    assert done.waits >= 1


async def test_a_job_waits_for_a_model_that_does_not_answer_in_time(yard: Opened) -> None:
    async with waiting(yard, llm_limit_s=0.3) as (y, model, job):
        model.latency_s = 5

        async def has_waited() -> bool:
            return bool((await y.job(job)).waits)

        async with y.working(extract=1):
            await y.until(has_waited)
            held = await y.job(job)
            model.latency_s = 0
            done = await y.until_state(job, "done")

    assert (held.error_code, held.tries, done.tries) == ("provider_down", 0, 1)


@pytest.mark.parametrize("how", ["reset", "half an answer", "nothing"])
async def test_a_job_waits_after_a_broken_connection(yard: Opened, how: str) -> None:
    asked = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        elif how == "half an answer":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, waiting(yard, llm_url=f"http://127.0.0.1:{port}/v1", cb_failure_threshold=2) as (y, _, job):
        await waits_for(y, job, lambda one: one.waits >= 2)
        held = await y.job(job)

    assert (held.error_code, held.tries) == ("provider_down", 0)
    assert asked >= 2


async def waits_for(y: Yard, job: int, condition: Callable[[Job], bool]) -> None:
    async def met() -> bool:
        return condition(await y.job(job))

    async with y.working(extract=1):
        await y.until(met)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "http://no-such-host.invalid/v1"])
async def test_a_job_waits_for_a_missing_host(yard: Opened, url: str) -> None:
    async with waiting(yard, llm_url=url) as (y, _, job):
        await waits_for(y, job, lambda one: one.waits >= 1)
        held = await y.job(job)

    assert (held.error_code, held.tries) == ("provider_down", 0)


async def test_an_encrypted_connection_that_cannot_be_trusted_ends_the_job(yard: Opened) -> None:
    with market(1) as (_, other):
        async with waiting(yard, llm_url=f"{other.url.replace('http', 'https')}/v1") as (y, _, job):
            failed = await ended(y, job)

    assert (failed.state, failed.tries) == ("failed", 1)
    assert "No encrypted connection" in (failed.error or "")


async def test_a_setting_that_is_missing_ends_the_job_without_a_call(yard: Opened) -> None:
    async with waiting(yard, llm_key="env:NO_SUCH_KEY") as (y, model, job):
        failed = await ended(y, job)

    assert (failed.state, failed.tries, failed.error_code, model.calls) == ("failed", 1, "configuration", 0)
    assert "NO_SUCH_KEY" in (failed.error or "")


async def test_an_answer_that_breaks_the_schema_costs_its_item(yard: Opened, database: ScratchDatabase) -> None:
    async with waiting(yard) as (y, model, job):
        model.always = only_page(2, says('{"price": "much"}'))
        done = await ended(y, job)
        [carried] = await y.r.extraction.list_attached("shop")
        failed = database.query("select error_code from extraction_check where state = 'failed'")

    assert (done.state, carried.state, carried.failed, failed) == ("done", "current", 1, [("answer_mismatch",)])


@pytest.mark.parametrize("code", [404, 410])
async def test_a_sync_with_a_missing_root_fails_at_once_and_keeps_stored_items(
    yard: Opened, database: ScratchDatabase, code: int
) -> None:
    with market(2) as (shop, _):
        async with yard() as y:
            y.tasks.update(TASKS)
            await y.r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
            await y.r.sync("shop")
            before = contents(database)
            shop.pages["/"] = Page(b"Gone.", status=code)
            shop.log.clear()
            job = (await y.r.queue.enqueue("shop")).id
            async with y.working(sync=1):
                failed = await y.until_state(job, "failed")

    assert (failed.tries, failed.waits, failed.error_code) == (1, 0, "source_gone")
    assert [one.path for one in shop.log].count("/") == 1
    assert len(before) == 2
    assert contents(database) == before


async def test_broken_markup_costs_nothing_and_an_unreadable_page_only_itself(
    yard: Opened, database: ScratchDatabase
) -> None:
    with market(2) as (shop, _):
        shop.pages["/1"] = Page(b"<html><title>Lamp 1<body><main><h1>Lamp 1</p></table><p>Still a lamp.<div", 200)
        shop.pages["/2"] = Page(b"%PDF-1.7 but no more", 200, headers={"Content-Type": "application/pdf"})
        async with yard() as y:
            y.tasks.update(TASKS)
            await y.r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
            job = (await y.r.queue.enqueue("shop")).id
            await y.work(sync=1)
            done = await y.job(job)

    assert (done.state, done.tries) == ("done", 1)
    assert [url.rpartition("/")[2] for (url,) in database.query("select url from item")] == ["1"]
    assert database.query("select count(*) from quarantine") == [(1,)]
