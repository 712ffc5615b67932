"""One Rowen publishes its change log as an event stream, another one follows it: their indexes agree."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from aiohttp import web

from rowen import Complete, Document, Fetched, Observation, Rowen, RowenError
from rowen.publish import event_stream
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows
from tests.seeds import drawn

ROUNDS = 5


@dataclass
class Loopback:
    """The functions of the service behind a server; it fails when told to, and counts what it is asked."""

    url: str = ""
    publisher: Rowen | None = None
    harm_after: int | None = None
    harm: Callable[[], web.Response | None] = lambda: None
    asked: int = 0
    not_modified: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        assert self.publisher is not None
        self.asked += 1
        if self.asked == self.harm_after and (broken := self.harm()) is not None:
            return broken
        told = await self.publisher.feeds.event_stream(request.path.removeprefix("/ldes").lstrip("/"))
        headers = {"ETag": told.etag, "Content-Type": told.media_type}
        if request.headers.get("If-None-Match") == told.etag:
            self.not_modified += 1
            return web.Response(status=304, headers=headers)
        return web.Response(body=told.body, headers=headers)


@asynccontextmanager
async def loopback() -> AsyncIterator[Loopback]:
    served = Loopback()
    app = web.Application()
    app.router.add_get("/{path:.*}", served.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield served
    finally:
        await runner.cleanup()


@pytest.fixture(autouse=True)
def _small(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(Scripted)
    monkeypatch.setattr(event_stream, "PAGE_LINES", 4)
    monkeypatch.setattr(event_stream, "BLOCK_LINES", 12)


def said(database: ScratchDatabase) -> dict[str, tuple[str, str]]:
    return {url: (title, text) for url, title, text in database.query("select url, title, text from item")}


def copied(database: ScratchDatabase) -> dict[str, tuple[str, str]]:
    """What the follower holds, as the publisher said it."""
    rows = database.query("select url, title, record->'rdf'->>'schema:text' from item")
    return {url: (title, text) for url, title, text in rows}


def edited(chance: Random, held: dict[int, Document]) -> None:
    """Some pages change, come and go."""
    for number in chance.sample(range(15), 5):
        if chance.random() < 0.3:
            held.pop(number, None)
        else:
            held[number] = page(number, f"Text {chance.randrange(5)}.", tags=("hay",) * chance.randrange(1))


def breaking_off(observations: list[Observation], after: int) -> Iterator[Observation]:
    yield from observations[:after]
    raise RuntimeError("the connection is gone")


async def edit(r: Rowen, chance: Random, held: dict[int, Document]) -> None:
    """A run of the publisher, which may break off; what it stored by then is in its log."""
    edited(chance, held)
    seen: list[Observation] = [*map(Fetched, held.values()), Complete()]
    if chance.random() < 0.3:
        Scripted.script = lambda known: breaking_off(seen, chance.randrange(len(seen)))
    else:
        shows(*seen)
    with suppress(RowenError, RuntimeError):
        await r.sync("scripted:one", accept_deletions=True)


def kill(database: ScratchDatabase) -> None:
    database.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )


async def follow(database: ScratchDatabase, served: Loopback, chance: Random) -> None:
    """A run of the follower that goes wrong: the server fails, the task is cancelled, or the database goes away."""
    how = chance.randrange(3)
    async with database.open() as r:
        run = asyncio.ensure_future(r.sync("copy", accept_deletions=True))

        def harm() -> web.Response | None:
            if how == 0:
                return web.Response(status=500)
            if how == 1:
                run.cancel()
            else:
                kill(database)
            return None

        served.harm, served.harm_after = harm, served.asked + 1 + chance.randrange(4)
        with suppress(RowenError, asyncio.CancelledError):
            await run
        served.harm_after = None


@pytest.mark.parametrize("example", range(1))
async def test_the_copy_of_a_stream_is_the_index_whatever_went_wrong_on_both_sides(
    new_database: Callable[[], ScratchDatabase], example: int
) -> None:
    chance, ours, theirs = Random(drawn(f"round trip {example}")), new_database(), new_database()
    held: dict[int, Document] = {}
    async with loopback() as served, ours.open(public_url=served.url) as publisher:
        served.publisher = publisher
        edited(chance, held)
        shows(*map(Fetched, held.values()), Complete())
        await publisher.sync("scripted:one")
        async with theirs.open() as r:
            await r.sources.add(f"ldes:{served.url}/ldes", name="copy", options={"delay_s": 0})
        for _ in range(ROUNDS):
            await edit(publisher, chance, held)
            if chance.random() < 0.7:
                await follow(theirs, served, chance)
        async with theirs.open() as r:
            caught_up = await r.sync("copy", accept_deletions=True)
            asked, not_modified = served.asked, served.not_modified
            idle = await r.sync("copy")

    assert caught_up.status == "completed", caught_up.error
    assert copied(theirs) == said(ours)
    assert (idle.status, idle.stats.rows_written) == ("completed", 0)
    assert served.asked - asked == served.not_modified - not_modified <= 4
