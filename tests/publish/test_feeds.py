"""Atom and JSON Feed: what readers of feeds see of the change log."""

import json
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from rowen import Complete, Fetched, NotFoundError
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def _harvest(r: Any, *documents: Any, name: str = "one") -> None:
    shows(*map(Fetched, documents), Complete())
    await r.sync(f"scripted:{name}")


async def test_a_feed_shows_the_newest_changes_first_with_what_differs(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page(1, "Nine perches for nine hens."), page(2))
        await _harvest(r, page(1, "Ten perches for nine hens."), page(2))

        atom = ET.fromstring((await r.feeds.feed("atom")).body)
        told = json.loads((await r.feeds.feed("json")).body)

    entries = atom.findall(f"{ATOM}entry")
    assert [entry.findtext(f"{ATOM}title") for entry in entries] == ["Page 1", "Page 2", "Page 1"]
    assert entries[0].findtext(f"{ATOM}id") == "http://127.0.0.1:8400/changes/3"
    assert "<del>Nine</del> perches" in (entries[0].findtext(f"{ATOM}content") or "")
    assert [item["_rowen"]["number"] for item in told["items"]] == [3, 2, 1]
    assert "<ins>Ten</ins> perches" in told["items"][0]["content_html"]


async def test_a_line_that_is_no_longer_true_is_told_without_its_text(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page(1, "Nine perches."))
        await _harvest(r, page(1, "Ten perches."))

        told = json.loads((await r.feeds.feed("json")).body)

    assert "perches" not in told["items"][-1]["content_html"]


async def test_a_feed_of_some_kinds_or_of_a_field_has_only_those_and_says_so(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page(1, "Nine perches."), page(2))
        await _harvest(r, page(1, "Ten perches."))

        created = json.loads((await r.feeds.feed("json", kinds=["created"], limit=1)).body)
        both = json.loads((await r.feeds.feed("json", kinds=["updated", "deleted"])).body)
        none = json.loads((await r.feeds.feed("json", field="price", source="one")).body)

    assert [item["_rowen"]["kind"] for item in created["items"]] == ["created"]
    assert created["title"] == "Changes (created)"
    assert created["next_url"] == "http://127.0.0.1:8400/feeds/json?kind=created&before=2"
    assert {item["_rowen"]["kind"] for item in both["items"]} == {"updated", "deleted"}
    assert (none["title"], none["items"]) == ("Changes of price in one", [])


async def test_older_pages_follow_without_a_gap(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, *(page(n) for n in range(25)))

        numbers: list[int] = []
        before: int | None = None
        while True:
            told = json.loads((await r.feeds.feed("json", before=before, limit=10)).body)
            numbers += [item["_rowen"]["number"] for item in told["items"]]
            if "next_url" not in told:
                break
            before = int(told["next_url"].rpartition("=")[2])

    assert numbers == list(range(25, 0, -1))


async def test_a_feed_can_be_that_of_a_source_or_of_words(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page(1, "Barley in spring."), page(2, "Hay in summer."))
        await _harvest(r, page(3, "Barley in autumn."), name="two")

        names = (await r.sources.list())[0].name, (await r.sources.list())[1].name
        of_source = json.loads((await r.feeds.feed("json", source=names[1])).body)
        of_words = json.loads((await r.feeds.feed("json", query="barley")).body)
        with pytest.raises(NotFoundError):
            await r.feeds.feed("json", source="nothere")

    assert [item["title"] for item in of_source["items"]] == ["Page 3"]
    assert [item["title"] for item in of_words["items"]] == ["Page 3", "Page 1"]
    assert of_words["title"] == "Changes that match “barley”"


async def test_the_same_log_gives_the_same_validator(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page(1))
        first = [(await r.feeds.feed(form)).etag for form in ("atom", "json")]
        again = [(await r.feeds.feed(form)).etag for form in ("atom", "json")]
        await _harvest(r, page(1), page(2))

        assert first == again
        assert (await r.feeds.feed("atom")).etag not in first


HOSTILE = "</title><script>alert(1)</script>\x0b\x00 ]]> & \ufffe"


async def test_hostile_titles_and_texts_stay_text(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page(1, f"{HOSTILE} one", title=HOSTILE), page("2?a=\"'<b>", title="t"))
        await _harvest(r, page(1, f"{HOSTILE} two", title=HOSTILE), page("2?a=\"'<b>", title="t"))

        atom = ET.fromstring((await r.feeds.feed("atom")).body)
        told = json.loads((await r.feeds.feed("json")).body)

    assert not list(atom.iter(f"{ATOM}script"))
    contents = [entry.findtext(f"{ATOM}content") or "" for entry in atom.findall(f"{ATOM}entry")]
    assert all("<script" not in content for content in contents)
    assert all("<script" not in item["content_html"] for item in told["items"])
    assert any("&lt;script&gt;" in content for content in contents)


async def test_facts_that_differ_are_told_field_by_field(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page(1))
        diff = '[{"op": "changed", "path": "/price", "before": 3, "after": 4}]'
        database.execute(f"update change set kind = 'extracted', schema = 'product@1.0.0', diff = '{diff}'")

        told = json.loads((await r.feeds.feed("json")).body)["items"][0]

    assert "/price: 3 → 4" in told["content_html"]
    assert (told["_rowen"]["schema"], told["_rowen"]["diff"][0]["after"]) == ("product@1.0.0", 4)


async def test_a_client_of_server_sent_events_goes_on_where_it_was(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page(1), page(2), page(3))

        events = r.feeds.events(last_event_id="1")
        assert (await anext(events)).startswith(b":")
        told = await anext(events)
        await events.aclose()

    assert [line for line in told.decode().splitlines() if line.startswith("id:")] == ["id: 2", "id: 3"]
    first = json.loads(told.decode().splitlines()[2].removeprefix("data: "))
    assert (first["number"], first["kind"], first["title"]) == (2, "created", "Page 2")
