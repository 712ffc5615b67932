"""A client that read an item hears when it changes, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock

import pytest
from mcp import MCPError
from mcp.client.subscriptions import ResourceUpdated

from rowen.errors import StoreUnavailableError
from rowen.interfaces.mcp.addresses import item_uri, source_uri
from rowen.interfaces.mcp.watching import ChangeWatch
from tests.mcp.conftest import HAY, asking, small_library

# A bound against hanging, not a measure of speed.
LONG_S = 20


async def changed(rowen: Any, hay: str) -> None:
    small_library(hay)
    await rowen.sync("field")


async def test_a_client_is_told_that_an_item_which_it_read_has_changed(library):
    uri, other = item_uri("https://example.org/hay"), item_uri("https://example.org/goats")
    # The same page by another spelling of its address.
    spelt = "rowen://items/HTTPS%3A%2F%2FEXAMPLE.org%2Fhay"
    async with library() as rowen, asking(rowen) as assistant, asyncio.timeout(LONG_S):
        read = await assistant.call_tool("fetch", {"id": "https://example.org/hay"})
        async with assistant.listen(resource_subscriptions=[uri, other, spelt, source_uri("field")]) as events:
            await changed(rowen, HAY.replace("three", "four"))
            told = {(await anext(events)).uri for _ in range(3)}
            await changed(rowen, HAY)
            again = await anext(events)

    assert read.structured_content["uri"] == uri
    assert told == {uri, spelt, source_uri("field")}
    assert isinstance(again, ResourceUpdated)


async def test_one_stream_tells_of_so_many_resources_and_no_more(library):
    uris = [item_uri(f"https://example.org/{number}") for number in range(1_001)]
    async with library() as rowen, asking(rowen) as assistant, asyncio.timeout(LONG_S):
        with pytest.raises(MCPError, match="1,000 resources at most"):
            async with assistant.listen(resource_subscriptions=uris):
                pass
        async with assistant.listen(resource_subscriptions=[item_uri("https://example.org/hay"), *uris[2:]]) as events:
            await changed(rowen, HAY.replace("three", "four"))
            told = await anext(events)

    assert told.uri == item_uri("https://example.org/hay")


async def test_the_log_is_read_only_while_somebody_watches(library, database):
    listening = "select count(*) from pg_stat_activity where query ilike 'listen%' and datname = current_database()"
    async with library() as rowen, asking(rowen) as assistant, asyncio.timeout(LONG_S):
        before = database.query(listening)
        async with assistant.listen(resource_subscriptions=[item_uri("https://example.org/hay")]) as events:
            await changed(rowen, HAY.replace("three", "five"))
            await anext(events)
            during = database.query(listening)
        while database.query(listening) != before:
            await asyncio.sleep(0.01)

    assert before == [(0,)]
    assert during == [(1,)]


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_client_of_the_earlier_protocol_subscribes_and_unsubscribes(library):
    uri = item_uri("https://example.org/hay")
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async with (
        library() as rowen,
        asyncio.timeout(LONG_S),
        asking(rowen, mode="legacy", messages=heard.put) as assistant,
    ):
        assert assistant.server_capabilities.resources.subscribe
        await assistant.subscribe_resource(uri)
        await assistant.subscribe_resource(uri)
        await changed(rowen, HAY.replace("three", "six"))
        first = await heard.get()
        await assistant.unsubscribe_resource(uri)
        await changed(rowen, HAY)
        await assistant.list_tools()
        with pytest.raises(MCPError) as refused:
            await assistant.subscribe_resource("rowen://barns/3")

    assert str(first.params.uri) == uri
    assert heard.empty()
    assert "is no resource" in str(refused.value)


async def test_resources_are_kept_until_their_source_is_looked_at_again(library):
    uri = item_uri("https://example.org/hay")
    async with library() as rowen, asking(rowen) as assistant:
        unplanned = await assistant.read_resource(uri)
        await rowen.sources.edit("field", every="2h")
        planned = await assistant.read_resource(uri, cache_mode="bypass")
        source = await assistant.read_resource(source_uri("field"))
        everything = await assistant.read_resource("rowen://sources")
        listed = await assistant.list_resources()
        templates = await assistant.list_resource_templates()
        diff = await assistant.read_resource("rowen://diffs/https%3A%2F%2Fexample.org%2Fhay?older=0&newer=1")
        with pytest.raises(MCPError) as gone:
            await assistant.read_resource(item_uri("https://example.org/nowhere"))

    assert unplanned.ttl_ms == 60_000
    assert 3_600_000 < planned.ttl_ms <= 3 * 3_600_000
    assert [str(one.uri) for one in listed.resources] == ["rowen://sources", "rowen://sources/field"]
    assert [one.name for one in templates.resource_templates] == ["source", "item", "diff"]
    assert "**field**" in source.contents[0].text
    assert "**field**" in everything.contents[0].text
    assert "+Hay dries for three days" in diff.contents[0].text
    assert "Nothing is held of" in str(gone.value)


async def test_what_changed_while_the_log_could_not_be_read_is_told_once_it_is_read_again(library):
    uri, other = item_uri("https://example.org/hay"), item_uri("https://example.org/goats")
    told: asyncio.Queue[str] = asyncio.Queue()

    async with library() as rowen, asyncio.timeout(LONG_S):
        watch = ChangeWatch(AsyncMock(side_effect=[_Broken(rowen), rowen]))
        watch._bus.subscribe(lambda event: told.put_nowait(event.uri))
        with watch._watching([uri]):
            await watch._ready()
            await asyncio.wait({watch._reader})
            await changed(rowen, HAY.replace("three", "six"))
            with watch._watching([other]):
                await watch._ready()
                first = await told.get()
        await watch.close()

    assert first == uri


class _Broken:
    """The Python API where the database goes away for long as soon as the log is followed."""

    def __init__(self, rowen: Any) -> None:
        self.changes = self
        self.last_number = rowen.changes.last_number

    async def follow(self, **_: Any) -> AsyncIterator[Any]:
        raise StoreUnavailableError("The server is gone.")
        yield
