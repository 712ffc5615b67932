"""The change log as an event stream: who copies it has the index, and full pages never change."""

from collections.abc import Callable
from typing import Any

import pytest
from pyoxigraph import NamedNode, RdfFormat, Store

from rowen import Complete, Fetched, NotFoundError, UsageError
from rowen.publish import event_stream
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

TREE, LDES, DCT = "https://w3id.org/tree#", "https://w3id.org/ldes#", "http://purl.org/dc/terms/"
AS = "https://www.w3.org/ns/activitystreams#"
BASE = "http://127.0.0.1:8400"


@pytest.fixture(autouse=True)
def _small(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(Scripted)
    monkeypatch.setattr(event_stream, "PAGE_LINES", 4)
    monkeypatch.setattr(event_stream, "BLOCK_LINES", 8)


def _graph(body: bytes) -> Store:
    store = Store()
    store.load(body, format=RdfFormat.TURTLE)
    return store


def _objects(store: Store, name: str, subject: Any = None) -> list[str]:
    return [quad.object.value for quad in store.quads_for_pattern(subject, NamedNode(name), None)]


async def _copied(r: Any, **of: Any) -> dict[str, tuple[str, str]]:
    """What a client holds that has read the whole stream: the newest version of each item."""
    versions: dict[str, tuple[int, str, str, str]] = {}
    waiting, seen = [""], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        graph = _graph((await r.feeds.event_stream(node, **of)).body)
        waiting += [one.partition("/ldes/")[2] for one in _objects(graph, f"{TREE}node")]
        for member in _objects(graph, f"{TREE}member"):
            at = NamedNode(member)
            (item,) = _objects(graph, f"{DCT}isVersionOf", at)
            number = int(_objects(graph, "urn:rowen:vocabulary:number", at)[0])
            kind = _objects(graph, "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", at)[0]
            title = (_objects(graph, f"{DCT}title", at) or [""])[0]
            text = (_objects(graph, "http://schema.org/text", at) or [""])[0]
            if number >= versions.get(item, (0,))[0]:
                versions[item] = (number, kind, title, text)
    return {item: (title, text) for item, (_, kind, title, text) in versions.items() if kind != f"{AS}Delete"}


async def _harvest(r: Any, *documents: Any, name: str = "one") -> None:
    shows(*map(Fetched, documents), Complete())
    await r.sync(f"scripted:{name}", accept_deletions=True)


async def test_who_copies_the_stream_has_the_index(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, *(page(n, f"Text {n}.") for n in range(11)))
        await _harvest(r, *(page(n, f"Text {n}{'!' * (n % 2)}") for n in range(9)))
        await _harvest(r, *(page(n, f"Text {n}.") for n in (0, 2, 3, 10)))

        copied = await _copied(r)
        held = {f"https://example.org/{n}": (f"Page {n}", f"Text {n}.") for n in (0, 2, 3, 10)}

    assert copied == held


async def test_a_full_page_says_that_it_never_changes_and_does_not_gain_members(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, *(page(n) for n in range(5)))
        full, tail = await r.feeds.event_stream("pages/0"), await r.feeds.event_stream("pages/1")
        await _harvest(r, *(page(n) for n in range(7)))

        assert full.immutable
        assert not tail.immutable
        assert b"immutable" in full.body
        assert (await r.feeds.event_stream("pages/0")).etag == full.etag
        assert (await r.feeds.event_stream("pages/1")).etag != tail.etag


async def test_a_page_that_did_not_change_has_its_validator(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, *(page(n) for n in range(9)))

        for node in ("", "blocks/0", "pages/0", "pages/2"):
            assert (await r.feeds.event_stream(node)).etag == (await r.feeds.event_stream(node)).etag


async def test_relations_tell_from_when_to_when_so_that_pages_can_be_left_out(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, *(page(n) for n in range(10)))

        root, block = _graph((await r.feeds.event_stream()).body), _graph((await r.feeds.event_stream("blocks/0")).body)

    assert sorted(set(_objects(root, f"{TREE}node"))) == [f"{BASE}/ldes/blocks/0", f"{BASE}/ldes/blocks/1"]
    assert sorted(set(_objects(block, f"{TREE}node"))) == [f"{BASE}/ldes/pages/0", f"{BASE}/ldes/pages/1"]
    kinds = _objects(block, "http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
    assert kinds.count(f"{TREE}LessThanOrEqualToRelation") == 4
    assert kinds.count(f"{TREE}GreaterThanOrEqualToRelation") == 4
    assert _objects(root, f"{LDES}versionAmount") == ["1"]


async def test_an_item_of_two_sources_is_deleted_only_when_both_have_lost_it(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page(1, "Both."), page(2))
        await _harvest(r, page(1, "Both."), page(3), name="two")
        await _harvest(r, page(2))

        names = [source.name for source in await r.sources.list()]
        assert "https://example.org/1" in await _copied(r)
        assert "https://example.org/1" not in await _copied(r, source=names[0])
        assert "https://example.org/1" in await _copied(r, source=names[1])


async def test_times_never_fall_as_numbers_rise(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page(1))
        database.execute("update change set at = now() + interval '1 hour'")
        await _harvest(r, page(1), page(2))

        first, second = await r.changes()

    assert second.at >= first.at


async def test_pages_that_are_none_are_refused(database: ScratchDatabase) -> None:
    async with database.open() as r:
        assert (await r.feeds.event_stream("pages/0")).body
        with pytest.raises(NotFoundError):
            await r.feeds.event_stream("pages/7")
        for node in ("pages/-1", "pages/", "books/1", "pages/1/2", "pages/" + "9" * 30):
            with pytest.raises(UsageError):
                await r.feeds.event_stream(node)


async def test_addresses_that_are_no_iris_and_hostile_texts_can_be_told(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, page('a b<c>"{d}', 'Quotes """ and \\ and <x>.\n\ttab', title="T\u2028 é"))

        copied = await _copied(r)

    assert [title for title, _ in copied.values()] == ["T é"]
