"""Pages that go on by themselves: the server tells of news, ends the stream with the run, and lets go of who left."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import aiohttp
import pytest

from rowen import Rowen
from rowen.interfaces.web import live
from rowen.operations import runs
from tests.conftest import ScratchDatabase
from tests.web.world import served, sites

PLAIN = {"sitemap": False, "llms": False}
# A loaded machine takes ten times as long as a quiet one.
LIMIT_S = 30.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "POLL_S", 0.01)


@contextmanager
def held_up() -> Iterator[tuple[dict[str, Any], asyncio.Event]]:
    """The sites, whose documentation answers at one page no more; and an event that says that a run has come there."""
    arrived, loop = asyncio.Event(), asyncio.get_running_loop()

    async def slow(request: object) -> object:
        loop.call_soon_threadsafe(arrived.set)
        await asyncio.sleep(LIMIT_S)
        raise AssertionError("nobody waits for so long")

    with sites() as there:
        there["docs"].alter("/p9", handler=slow)
        yield there, arrived


@asynccontextmanager
async def reading(rowen: Rowen) -> AsyncIterator[None]:
    """A run of the documentation that goes on until the end."""
    with held_up() as (there, arrived):
        await rowen.sources.add(there["docs"].url + "/", name="docs", options=PLAIN)
        syncing = asyncio.create_task(rowen.sync("docs"))
        await asyncio.wait_for(arrived.wait(), LIMIT_S)
        try:
            yield
        finally:
            rowen.stop()
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(syncing, LIMIT_S)


async def told(answer: aiohttp.ClientResponse) -> list[str]:
    """All events of a stream until its end."""
    text = (await asyncio.wait_for(answer.read(), LIMIT_S)).decode()
    return re.findall(r"^(?:event|data): (.*)$", text, re.MULTILINE)


def address(page: str) -> str:
    found = re.search(r'data-live="([^"]+)"', page)
    assert found
    return found[1]


async def test_a_live_run_is_shown_as_it_goes_on_and_tells_its_watchers_when_it_is_stopped(
    database: ScratchDatabase,
) -> None:
    async with database.open() as rowen, served(rowen) as interface:
        async with reading(rowen):
            page = await interface.get("/runs/1")
            front = await interface.get("/")
            async with interface.session.get(interface.url + address(page.text)) as watched:
                stopped = await interface.post("/runs/1/cancel")
                rowen.stop()
                events = await told(watched)
        after = await interface.get("/runs/1")

    assert "<progress" in page.text
    assert address(front.text).startswith("/live?seen=")
    assert watched.headers["Content-Type"].startswith("text/event-stream")
    assert (stopped.status, events[-2:]) == (303, ["end", "end"])
    assert events.count("news") >= 1
    assert "data-live" not in after.text
    assert "cancelled" in after.text


async def test_the_watcher_of_a_finished_run_receives_only_its_end(lived_in: ScratchDatabase) -> None:
    async with lived_in.open() as rowen, served(rowen) as interface:
        mark = live.glance_at_run(await rowen.runs.get(1)).mark
        events = {}
        for seen in (mark, "other"):
            async with interface.session.get(f"{interface.url}/runs/1/live?seen={seen}") as answer:
                events[seen] = await told(answer)
        unknown = await interface.get("/runs/999/live")

    assert events == {mark: ["end", "end"], "other": ["news", "end", "end"]}
    assert (unknown.status, unknown.json()["code"]) == (404, "not_found")


async def test_a_job_that_waits_tells_its_watchers_when_it_has_become_a_run(database: ScratchDatabase) -> None:
    with sites() as there:
        async with database.open() as rowen, served(rowen) as interface:
            await rowen.sources.add(there["shop"].url + "/", name="shop", options=PLAIN)
            job = await interface.post("/sources/shop/sync")
            page = await interface.get(job.headers["Location"])
            async with interface.session.get(interface.url + address(page.text)) as watched:
                await asyncio.wait_for(rowen.queue.work(until_idle=True), LIMIT_S)
                events = await told(watched)

    assert events[-3:] == ["news", "end", "end"]


@pytest.mark.parametrize("leaves", ["the reader", "the server"])
async def test_a_stream_ends_when_its_tab_is_closed_or_the_server_closes(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, leaves: str
) -> None:
    ended = asyncio.Event()
    watching = live._news

    async def noticed(*asked: Any) -> AsyncIterator[bytes]:
        try:
            async for one in watching(*asked):
                yield one
        finally:
            ended.set()

    monkeypatch.setattr(live, "_news", noticed)
    async with database.open() as rowen, served(rowen) as interface:
        watched = await interface.session.get(f"{interface.url}/live")
        first = await asyncio.wait_for(watched.content.readline(), LIMIT_S)
        before = ended.is_set()
        if leaves == "the reader":
            watched.close()
        else:
            interface.closing.set()
        await asyncio.wait_for(ended.wait(), LIMIT_S)
        watched.close()

    assert (first, before) == (b": watching\n", False)


async def test_many_watchers_of_runs_and_jobs_share_one_query(database: ScratchDatabase, statements: list[str]) -> None:
    database.execute("insert into source (name, kind, url) values ('docs', 'web', 'https://example.org/')")
    database.execute(
        "insert into run (source_id, mode, lease_until) select id, 'full', now() + interval '1 h' from source"
    )
    async with database.open() as rowen, served(rowen) as interface:
        streams = [await interface.session.get(f"{interface.url}{path}") for path in ("/live", *["/runs/1/live"] * 20)]
        for stream in streams:
            assert await asyncio.wait_for(stream.content.readline(), LIMIT_S) == b": watching\n"
        statements.clear()
        async with asyncio.timeout(LIMIT_S):
            while len(polls(statements, "order by run.id desc")) < 10:
                await asyncio.sleep(0.01)
        counted = len(polls(statements, "run.id = any")), len(polls(statements, "run.id ="))
        for stream in streams:
            stream.close()

    assert 9 <= counted[0] <= 11
    assert counted[1] == counted[0]


def polls(statements: list[str], part: str) -> list[str]:
    return [statement for statement in statements if part in statement]


async def test_no_query_runs_without_watchers(database: ScratchDatabase, statements: list[str]) -> None:
    async with database.open() as rowen, served(rowen) as interface:
        async with interface.session.get(f"{interface.url}/live") as watched:
            await asyncio.wait_for(watched.content.readline(), LIMIT_S)
        async with asyncio.timeout(LIMIT_S):
            while rowen.runs.watches._watched or not rowen.runs.watches._polling.done():  # type: ignore[union-attr]
                await asyncio.sleep(0.01)
        statements.clear()
        await asyncio.sleep(0.05)

    assert statements == []


async def test_a_run_that_is_forgotten_ends_its_streams(database: ScratchDatabase) -> None:
    database.execute("insert into source (name, kind, url) values ('docs', 'web', 'https://example.org/')")
    database.execute(
        "insert into run (source_id, mode, lease_until) select id, 'full', now() + interval '1 h' from source"
    )
    async with (
        database.open() as rowen,
        served(rowen) as interface,
        interface.session.get(f"{interface.url}/runs/1/live") as watched,
    ):
        await asyncio.wait_for(watched.content.readline(), LIMIT_S)
        database.execute("delete from run")
        events = await told(watched)

    assert events[-2:] == ["end", "end"]
