"""A reader of the change log by number misses no change, at whichever moment another client commits it."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from mcp.shared.subscriptions import ResourceUpdated
from pyoxigraph import NamedNode, RdfFormat, Store

from rowen import Complete, Fetched, Rowen
from rowen.interfaces.mcp.addresses import item_uri
from rowen.interfaces.mcp.watching import ChangeWatch
from rowen.jobs import webhooks
from rowen.publish import event_stream
from rowen.store import changes, push
from tests.conftest import ScratchDatabase
from tests.harvest.shop import LAMP
from tests.portals.language_model import Model
from tests.portals.scripted import Scripted, page, shows
from tests.portals.triple_store import TripleStore
from tests.publish.test_webhooks import SECRET, Receiver
from tests.store.interleaving import Moment, OtherClient

PATIENCE_S = 20  # against hanging: a change that is lost is waited for


@dataclass(slots=True)
class Reader:
    """A consumer: `read` continues from its position, `received` are the addresses of received items."""

    read: Callable[[], Awaitable[None]]
    received: set[str] = field(default_factory=set)


@dataclass(slots=True)
class World:
    """The context of the consumers."""

    database: ScratchDatabase
    r: Rowen
    other: OtherClient
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    model: Model

    @property
    def engine(self) -> Any:
        """The parts below the Python API."""
        return self.r._engine


Consumer: TypeAlias = Callable[[World], "AsyncIterator[Reader]"]


async def webhook(w: World, **wants: Any) -> AsyncIterator[Reader]:
    with closing(Receiver()) as receiver:
        await w.r.webhooks.add("team", f"{receiver.url}/hook", secret="env:HOOK_SECRET", **wants)

        async def read() -> None:
            await w.r.webhooks.deliver("team")
            reader.received.update(published["data"]["url"] for published in receiver.heard)

        reader = Reader(read)
        yield reader


async def webhook_with_a_filter(w: World) -> AsyncIterator[Reader]:
    [source] = await w.r.sources.list()
    async for reader in webhook(w, sources=[source.name], kinds=["created"], query="barley"):
        yield reader


async def webhook_in_small_batches(w: World) -> AsyncIterator[Reader]:
    w.monkeypatch.setattr(webhooks, "_BATCH", 2)
    async for reader in webhook(w):
        yield reader


async def notice(w: World) -> AsyncIterator[Reader]:
    async def published(c: Any, numbers: list[int]) -> list[int]:
        return numbers

    async def send(address: str, numbers: list[int], **_: Any) -> None:
        rows = w.database.query("select url from change where number = any(%s)", numbers)
        reader.received.update(url for (url,) in rows)

    async def read() -> None:
        await w.r.webhooks.deliver("people")

    w.monkeypatch.setattr(webhooks.changes, "published", published)
    w.monkeypatch.setattr(webhooks, "notice", lambda numbers: (numbers,))
    w.monkeypatch.setattr(webhooks, "send", send)
    w.monkeypatch.setenv("PEOPLE", "json://nowhere")
    await w.r.webhooks.add_notice("people", "env:PEOPLE")
    reader = Reader(read)
    yield reader


async def saved_search(w: World) -> AsyncIterator[Reader]:
    await w.r.searches.save("barley", "barley")

    async def read() -> None:
        reader.received.update(one.url for one in await w.r.searches.news("barley", limit=10_000))

    reader = Reader(read)
    yield reader


async def rdf_endpoint(w: World) -> AsyncIterator[Reader]:
    [source] = await w.r.sources.list()
    with closing(TripleStore()) as endpoint:

        async def read() -> None:
            await w.r.rdf.push(source.name, endpoint.endpoint)
            reader.received.update(quad.subject.value for quad in endpoint.store)

        reader = Reader(read)
        yield reader


async def statement_deltas(w: World) -> AsyncIterator[Reader]:
    [source] = await w.r.sources.list()

    async def read() -> None:
        await w.r.rdf.write_deltas(source.name, w.folder / "deltas")
        for file in (w.folder / "deltas").iterdir():
            reader.received.update(part for part in file.read_text().split('"') if "/late/" in part)

    reader = Reader(read)
    yield reader


async def announced(w: World) -> AsyncIterator[Reader]:
    place = [0]

    async def read() -> None:
        async with w.engine.database.connection() as c:
            async for batch in push.announced_after(c, 1, after=place[0]):
                reader.received.update(one.name for one in batch)
                place[0] = batch[-1].number

    reader = Reader(read)
    yield reader


async def extraction(w: World) -> AsyncIterator[Reader]:
    [source] = await w.r.sources.list()
    await w.r.schemas.add("lamp@1.0.0", LAMP)
    await w.r.extraction.attach(source.name, "lamp@1")

    async def read() -> None:
        await w.r.extraction.extract_source(source.name)
        rows = w.database.query("select item.url from extraction_check join item using (source_id, key)")
        reader.received.update(url for (url,) in rows)

    reader = Reader(read)
    yield reader


async def pages_of_changes(w: World) -> AsyncIterator[Reader]:
    place = [await w.r.changes.last_number()]

    async def read() -> None:
        after = None
        while True:
            found = await w.r.changes(since=place[0], limit=1, after=after)
            reader.received.update(one.url for one in found)
            after = found.next
            if after is None:
                place[0] = max([place[0], *(one.number for one in found)])
                return

    reader = Reader(read)
    yield reader


async def follower(w: World, **of: Any) -> AsyncIterator[Reader]:
    stream = w.r.changes.follow(since=await w.r.changes.last_number(), **of)

    async def read() -> None:
        while not reader.received.issuperset(w.other.stored):
            reader.received.add((await anext(stream)).url)

    reader = Reader(read)
    yield reader
    await stream.aclose()


async def follower_of_a_source(w: World) -> AsyncIterator[Reader]:
    [source] = await w.r.sources.list()
    async for reader in follower(w, source=source.name):
        yield reader


async def server_sent_events(w: World) -> AsyncIterator[Reader]:
    """A client that reconnects each time, with the last number that it received."""
    seen = [str(await w.r.changes.last_number())]

    async def read() -> None:
        stream: AsyncGenerator[bytes] = w.r.feeds.events(last_event_id=seen[0])
        async for part in stream:
            for line in part.decode().splitlines():
                if line.startswith("id: "):
                    seen[0] = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    reader.received.add(json.loads(line.removeprefix("data: "))["url"])
            if reader.received.issuperset(w.other.stored):
                break
        await stream.aclose()

    reader = Reader(read)
    yield reader


async def mcp_subscription(w: World) -> AsyncIterator[Reader]:
    async def opened() -> Rowen:
        return w.r

    watch = ChangeWatch(opened)
    uris = {
        item_uri(f"https://example.org/late/{number}"): f"https://example.org/late/{number}" for number in range(999)
    }
    news = asyncio.Event()

    def hear(event: Any) -> None:
        if isinstance(event, ResourceUpdated):
            reader.received.add(uris[event.uri])
            news.set()

    async def read() -> None:
        with watch._watching(uris):
            await watch._ready()
            w.other.store()
            while not reader.received.issuperset(w.other.stored):
                news.clear()
                await news.wait()

    stop = watch._bus.subscribe(hear)
    reader = Reader(read)
    with watch._watching(["rowen://sources/one"]):
        await watch._ready()
        yield reader
    stop()
    await watch.close()


async def linked_data_event_stream(w: World) -> AsyncIterator[Reader]:
    """A client that never requests an immutable page again."""
    w.monkeypatch.setattr(event_stream, "PAGE_LINES", 4)
    w.monkeypatch.setattr(event_stream, "BLOCK_LINES", 8)
    done: set[str] = set()

    async def read() -> None:
        waiting = [""]
        while waiting:
            node = waiting.pop()
            if node in done:
                continue
            answer = await w.r.feeds.event_stream(node)
            if answer.immutable:
                done.add(node)
            graph = Store()
            graph.load(answer.body, format=RdfFormat.TURTLE)
            for quad in graph.quads_for_pattern(None, NamedNode("https://w3id.org/tree#node"), None):
                waiting.append(quad.object.value.partition("/ldes/")[2])
            of = NamedNode("http://purl.org/dc/terms/isVersionOf")
            reader.received.update(quad.object.value for quad in graph.quads_for_pattern(None, of, None))

    reader = Reader(read)
    yield reader


async def feed(w: World) -> AsyncIterator[Reader]:
    async def read() -> None:
        body = json.loads((await w.r.feeds.feed("json")).body)
        reader.received.update(one["url"] for one in body["items"])

    reader = Reader(read)
    yield reader


async def item_counts(w: World) -> AsyncIterator[Reader]:
    """Counts follow the log: an item that is not counted was missed."""
    [before] = await w.r.sources.overview()

    async def read() -> None:
        [now] = await w.r.sources.overview()
        reader.received = set(w.other.stored[: now.items - before.items])

    reader = Reader(read)
    yield reader


CONSUMERS: list[Consumer] = [
    webhook,
    webhook_with_a_filter,
    webhook_in_small_batches,
    notice,
    saved_search,
    rdf_endpoint,
    statement_deltas,
    announced,
    extraction,
    pages_of_changes,
    follower,
    follower_of_a_source,
    server_sent_events,
    mcp_subscription,
    linked_data_event_stream,
    feed,
    item_counts,
]


# Who may name the log in SQL. Each one that reads it after a number has a line above.
STATEMENTS_OVER_THE_LOG = {
    "changes": "`read_after`, `next_range`, and pages of published changes: `linked_data_event_stream`, `feed`",
    "exports": "one snapshot, which is repeatable",
    "extraction": "the last number of a source",
    "push": "lines and position in one statement: `announced`",
    "rdf": "numbers of the lines that were just logged, under the lock of the log; whether an endpoint has work",
    "saved": "ranges of `changes.next_range`: `saved_search`",
    "schedules": "how often something changed",
    "schemas": "ranges of `changes.next_range`: `extraction`, and the last number of a source",
    "status": "counts and position in one snapshot or statement: `item_counts`",
    "webhooks": "`changes.read_after`, and whether anything is to be told: `webhook`",
}


def test_the_log_is_read_after_a_number_only_by_consumers_of_this_list() -> None:
    """A new consumer reads by `changes.read_after` or `changes.next_range`, and joins `CONSUMERS`."""
    store = Path(changes.__file__).parent
    reads = re.compile(r"\b(from|join) change\b(?! of)")
    found = {path.stem for path in store.rglob("*.py") if reads.search(path.read_text())}

    assert found == STATEMENTS_OVER_THE_LOG.keys()


@pytest.fixture
def model() -> Iterator[Model]:
    with closing(Model("openai")) as model:
        yield model


@pytest.mark.parametrize("consumer", CONSUMERS, ids=lambda one: one.__name__)
async def test_a_change_that_is_committed_at_any_moment_of_a_consumer_reaches_it(
    database: ScratchDatabase,
    kinds: Callable[[Any], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: Model,
    consumer: Consumer,
) -> None:
    kinds(Scripted)
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    shows(
        Fetched(
            page(
                "first", "Barley. Name: Lamp 1", record={"rdfa": {"type": "item", "statements": ["<a:b> <a:c> <a:d>"]}}
            )
        ),
        Complete(),
    )
    async with database.open(**model.settings, trust_database=True) as r:
        await r.sources.add("scripted:one", name="one")
        await r.sync("one")
        with OtherClient(database) as other:
            world = World(database, r, other, tmp_path, monkeypatch, model)
            async with asynccontextmanager(consumer)(world) as reader:
                await _at_each_moment(reader, other)


async def _at_each_moment(reader: Reader, other: OtherClient) -> None:
    number, is_over = 1, False
    async with asyncio.timeout(PATIENCE_S):
        await reader.read()
    while not is_over:
        # Something to read, so that the consumer does all that it can do.
        assert other.store()
        moment = Moment(number, other.store)
        async with asyncio.timeout(PATIENCE_S):
            await moment.during(reader.read())
            await reader.read()
        missing = set(other.stored) - reader.received
        assert not missing, f"{sorted(missing)} of {len(other.stored)}, committed at moment {number}"
        is_over, number = not moment.acted, number + 1
    assert number > 3
