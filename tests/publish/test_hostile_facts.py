"""Whatever a record says, it is published, and so are all others: in catalogs, feeds, exports and messages."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from rowen import Complete, Document, Fetched
from rowen.model.changes import PublishedChange
from rowen.model.datasets import DATASET
from rowen.publish import catalog, feeds
from tests.conftest import ScratchDatabase
from tests.hostile.twisting import VALUES
from tests.portals.scripted import Scripted, shows
from tests.publish.test_webhooks import SECRET, Receiver
from tests.server.interfaces import Interface, interface

FACTS = (
    *("identifier", "publisher", "licence", "languages", "issued", "modified", "spatial", "temporal", "landing_page"),
    *("record_kind", "resources", "columns", "source", "title", "other"),
)
EXPORTS = ("items.jsonl", "jsonl", "json", "csv", "parquet", "sqlite")


def values() -> Iterator[Any]:
    """All hostile values that a record can hold; others are refused with the record, before it is stored."""
    for value in VALUES.values():
        if not value.json.startswith(("[[[", '{"a":{')) and len(value.json) != 5_000:
            yield json.loads(value.json)
    yield from (10**4_000, -(10**400), float("nan"), float("inf"))


def documents(changed: str = "") -> Iterator[Document]:
    """Datasets that have a hostile value in each of their facts, and a good one before and after them."""
    yield Document("https://example.org/first", f"First {changed}", "Hay.", media_type=DATASET)
    for number, value in enumerate(values()):
        resource = dict.fromkeys(("url", "name", "size_bytes", "format", "media_type", "description", "columns"), value)
        column = dict.fromkeys(("name", "label", "type"), value)
        for part, record in enumerate([dict.fromkeys(FACTS, value), {"resources": [resource], "columns": [column]}]):
            url, said = f"https://example.org/{number}/{part}", f"Hay {changed} {number}"
            yield Document(url, said, said, media_type=DATASET, record={**record, "changed": changed})
        if isinstance(value, str):
            where = f"https://example.org/{number}/text"
            yield Document(where, value, value + changed, media_type=DATASET, language=value, tags=(value,))
    yield Document("https://example.org/last", f"Last {changed}", "Hay.", media_type=DATASET)


async def pages(it: Interface, path: str, following: str) -> list[str]:
    """The texts of a page and of all pages after it."""
    texts: list[str] = []
    while path:
        answer = await it.http.get(path)
        assert answer.status_code == 200, (path, answer.text[:500])
        texts.append(answer.text)
        found = re.search(following, answer.text)
        place = urlsplit(found[1].replace("&amp;", "&")) if found else None
        path = f"{place.path}?{place.query}" if place else ""
    return texts


async def test_hostile_facts_are_published_and_so_are_all_others(
    database: ScratchDatabase, kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    kinds(Scripted)
    receiver = Receiver()
    async with interface(database, requests_per_minute=10**9, trust_database=True) as it:
        await it.rowen.webhooks.add("team", f"{receiver.url}/hook", secret="env:HOOK_SECRET")
        for changed in ("", "again"):
            shows(*map(Fetched, documents(changed)), Complete())
            await it.rowen.sources.add("scripted:a", name="docs") if not changed else None
            run = await it.rowen.sync("docs")
        held = len(list(documents()))
        told = await it.rowen.webhooks.deliver("team")
        turtle = await pages(it, "/catalog/dcat", r"hydra[^ ]*next>? <([^>]*)>")
        listed = (await it.http.get("/catalog/data.json")).json()["dataset"]
        atom = await pages(it, "/feeds/atom", r'rel="next" href="([^"]*)"')
        feed = await pages(it, "/feeds/json", r'"next_url": "([^"]*)"')
        exports = {form: await it.http.get(f"/api/v1/exports/{form}") for form in EXPORTS}
        stream = await it.http.get("/sources/docs/ldes/pages/0")
    receiver.close()

    assert (run.status, run.stats.failed, run.stats.updated) == ("completed", 0, held)
    assert told == len(receiver.heard) == 2 * held
    assert len(listed) == held
    assert sum(text.count("a dcat:Dataset ") + text.count("ns#Dataset>") for text in turtle) >= held - 3
    assert sum(text.count("<entry>") for text in atom) == sum(text.count('"date_published"') for text in feed)
    assert sum(text.count("<entry>") for text in atom) >= 2 * held
    assert {form: answer.status_code for form, answer in exports.items()} == dict.fromkeys(EXPORTS, 200)
    assert exports["items.jsonl"].text.count("\n") == held
    assert stream.status_code == 200
    for text in (exports["jsonl"].content, exports["csv"].content):
        assert b"example.org/first" in text
        assert b"example.org/last" in text


async def test_an_error_that_nobody_expected_leaves_one_item_out_of_a_catalog_or_a_feed(
    database: ScratchDatabase, kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumbling(make: Callable[..., Any], url_of: Callable[..., str]) -> Callable[..., Any]:
        def made(*arguments: Any) -> Any:
            if url_of(*arguments).endswith("/2"):
                raise OverflowError("int too large to convert to float")
            return make(*arguments)

        return made

    def of_change(head: Any, published: PublishedChange) -> str:
        return published.change.url

    kinds(Scripted)
    shows(*(Fetched(Document(f"https://example.org/{n}", f"Hay {n}", "Hay.", media_type=DATASET)) for n in range(4)))
    async with interface(database) as it:
        await it.rowen.sources.add("scripted:a", name="docs")
        await it.rowen.sync("docs")
        for name in ("_dataset", "_json_dataset"):
            monkeypatch.setattr(catalog, name, stumbling(getattr(catalog, name), lambda listed: listed.url))
        for name in ("_entry", "_item"):
            monkeypatch.setattr(feeds, name, stumbling(getattr(feeds, name), of_change))
        paths = ("/catalog/dcat", "/catalog/data.json", "/feeds/atom", "/feeds/json")
        answers = {path: await it.http.get(path) for path in paths}

    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(paths, 200)
    for answer in answers.values():
        assert [n for n in range(4) if f"Hay {n}" in answer.text] == [0, 1, 3]
