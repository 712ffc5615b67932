"""What an assistant may do where it is allowed to, and what it may not even then."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from tests.mcp.conftest import asking, text_of
from tests.portals.site import Page, Site, html

LAMP = (
    '<script type="application/ld+json">{"@context": "https://schema.org", "@type": "Product", "name": "Barn lamp",'
    ' "sku": "L-1", "offers": {"@type": "Offer", "price": "19.50", "priceCurrency": "EUR"}}</script>'
)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    made.put("/", "Barn", "Hay is kept in the barn.", links=("/lamp",))
    made.pages["/lamp"] = Page(html("Barn lamp", "A lamp for 19.50 EUR.", head=LAMP))
    yield made
    made.close()


async def test_a_source_is_added_read_searched_and_removed(database, site):
    async with database.open() as rowen, asking(rowen, allow_writes=True) as assistant:
        added = await assistant.call_tool("add_source", {"address": f"{site.url}/", "name": "barn", "every": "1d"})
        synced = await assistant.call_tool("sync_source", {"name": "barn"})
        found = await assistant.call_tool("search", {"query": "hay barn"})
        mistaken = await assistant.call_tool("remove_source", {"name": "barn", "items": 7})
        removed = await assistant.call_tool("remove_source", {"name": "barn", "items": 2})
        left = await rowen.sources.list()

    assert added.structured_content["source"]["next_check_at"]
    assert (synced.structured_content["status"], synced.structured_content["created"]) == ("completed", 2)
    assert f"{site.url}/" in text_of(found)
    assert (mistaken.is_error, "holds 2 items, not 7" in text_of(mistaken)) == (True, True)
    assert removed.structured_content == {"source": "barn", "removed": 2}
    assert left == []


async def test_a_long_sync_goes_on_after_the_answer_and_a_worker_is_left_to_its_work(database, site, monkeypatch):
    async with database.open() as rowen, asking(rowen, allow_writes=True) as assistant:
        await rowen.sources.add(f"{site.url}/", name="barn")
        began = await assistant.call_tool("sync_source", {"name": "barn", "wait_s": 0})
        async with asyncio.timeout(20):
            while (await rowen.sources.get("barn")).items < 2:
                await asyncio.sleep(0.01)
        working = asyncio.ensure_future(rowen.queue.work())
        async with asyncio.timeout(20):
            while not await rowen.queue.list_workers():
                await asyncio.sleep(0.01)
        queued = await assistant.call_tool("sync_source", {"name": "barn"})
        rowen.stop()
        await working

    assert began.structured_content["status"] == "running"
    assert queued.structured_content["status"] == "queued"
    assert queued.structured_content["job"]


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("/etc", {}),
        ("file:///etc/hosts", {}),
        ("git+file:///srv/repository", {}),
        ("https://example.org/", {"headers": {"X-Key": "env:ROWEN_PUSH_KEY"}}),
        ("https://example.org/", {"headers": {"X-Key": "file:/etc/hosts"}}),
    ],
)
async def test_nothing_of_this_machine_is_added_or_sent(database, address, options):
    async with database.open() as rowen, asking(rowen, allow_writes=True) as assistant:
        answer = await assistant.call_tool("add_source", {"address": address, "name": "x", "options": options})
        left = await rowen.sources.list()

    assert (answer.is_error, answer.structured_content["code"]) == (True, "refused")
    assert left == []


async def test_a_folder_is_added_where_that_was_allowed(database, tmp_path):
    (tmp_path / "hay.md").write_text("Hay is dry.")
    async with database.open() as rowen, asking(rowen, allow_writes=True, local_files=True) as assistant:
        added = await assistant.call_tool("add_source", {"address": str(tmp_path), "name": "folder"})
        extracted = await assistant.call_tool("extract", {"url": str(tmp_path / "none.md"), "schema": "product"})
        secret = {"address": "https://example.org/", "options": {"headers": {"X-Key": "env:ROWEN_PUSH_KEY"}}}
        sent = await assistant.call_tool("add_source", secret)

    assert added.structured_content["source"]["kind"] == "files"
    assert (sent.is_error, sent.structured_content["code"]) == (True, "refused")
    assert extracted.is_error


async def test_facts_are_read_from_a_page_now_and_kept_ones_with_their_history(database, site):
    async with database.open() as rowen, asking(rowen, allow_writes=True) as assistant:
        now = await assistant.call_tool("extract", {"url": f"{site.url}/lamp", "schema": "product"})
        local = await assistant.call_tool("extract", {"url": "/etc/hosts", "schema": "product"})
        await rowen.sources.add(f"{site.url}/", name="barn")
        await rowen.extraction.attach("barn", "product", only_urls=["*/lamp"])
        await rowen.sync("barn")
        site.pages["/lamp"] = Page(html("Barn lamp", "For 24.50 EUR.", head=LAMP.replace("19.50", "24.50")))
        await rowen.sync("barn")
        kept = await assistant.call_tool("get_extraction", {"schema": "product", "id": f"{site.url}/lamp"})
        dear = await assistant.call_tool("get_extraction", {"schema": "product", "where": ["price>20"]})
        cheap = await assistant.call_tool("get_extraction", {"schema": "product", "where": ["price<20"]})

    assert now.structured_content["data"]["price"] == 19.5
    assert now.structured_content["origin"] == "structured"
    assert local.structured_content["code"] == "refused"
    versions = kept.structured_content["extractions"]
    assert [(one["version"], one["data"]["price"]) for one in versions] == [(2, 24.5), (1, 19.5)]
    assert {"op": "changed", "path": "/price", "before": 19.5, "after": 24.5} in versions[0]["changes"]
    assert len(dear.structured_content["extractions"]) == 1
    assert cheap.structured_content["extractions"] == []
    assert f"<{site.url}/lamp> · barn · product@" in text_of(kept)


async def test_a_sync_that_is_refused_after_the_answer_is_one_line_of_the_log(database, site, caplog):
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    caplog.set_level("INFO", "rowen.interfaces.mcp")
    async with database.open() as rowen, asking(rowen, allow_writes=True) as assistant:
        await rowen.sources.add(f"{site.url}/", name="barn")
        for _ in range(2):
            await assistant.call_tool("sync_source", {"name": "barn", "wait_s": 0})
        async with asyncio.timeout(20):
            while (await rowen.sources.get("barn")).items < 2 or not caplog.records:
                await asyncio.sleep(0.01)
    gc.collect()

    [line] = [one for one in caplog.records if one.name == "rowen.interfaces.mcp.tool"]
    assert "barn" in line.getMessage()
    assert line.exc_info is None
    assert unheard == []
