"""A council that announces its publications: followed on the web page, harvested as jobs, handed on to an endpoint."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import ScratchDatabase
from tests.portals.council import CouncilSite, Paper
from tests.portals.ldes import LdesSite
from tests.portals.triple_store import TripleStore
from tests.web.world import served

GRAPH = "http://example.org/graphs/public"
FOREIGN = '<http://data.example/id/foreign> <http://data.example/says> "It is not ours."'


@pytest.fixture
def council() -> Iterator[CouncilSite]:
    with closing(CouncilSite()) as site:
        yield site


@pytest.fixture
def endpoint() -> Iterator[TripleStore]:
    with closing(TripleStore()) as store:
        yield store


async def test_an_endpoint_is_told_to_delete_what_a_page_no_longer_states_and_keeps_what_others_put_there(
    database: ScratchDatabase, council: CouncilSite, endpoint: TripleStore
) -> None:
    endpoint.store.update(f"INSERT DATA {{ GRAPH <{GRAPH}> {{ {FOREIGN} }} }}")
    council.publish("/a", Paper("Cameras"))
    council.publish("/b", Paper("Library", "agenda"))
    async with database.open() as r:
        await r.sources.add(council.feed, name="feed")
        await r.sources.add(council.documents, name="papers", options={"revisit": 0})
        for name in ("feed", "papers"):
            await r.sync(name)
        await r.rdf.push("papers", endpoint.endpoint, graph=GRAPH)
        endpoint.updates.clear()
        council.publish("/a", Paper("Cameras, amended"))
        council.withdraw("/b")
        for name in ("feed", "papers"):
            await r.sync(name, accept_deletions=True)
        await r.rdf.push("papers", endpoint.endpoint, graph=GRAPH)

    told = "\n".join(endpoint.updates)
    assert (told.count('"Cameras"@nl'), told.count('"Library"@nl'), told.count('"Cameras, amended"@nl')) == (1, 1, 1)
    assert told.index("DELETE DATA") < told.index('"Library"@nl')
    assert told.index("INSERT DATA") < told.index('"Cameras, amended"@nl')
    held = "\n".join(sorted(endpoint.statements()))
    assert ("Cameras, amended" in held, "Library" in held, "It is not ours." in held) == (True, False, True)
    assert endpoint.graphs() == {GRAPH}


async def test_each_entry_point_is_kept_apart_from_the_others_also_where_they_announce_the_same(
    database: ScratchDatabase, council: CouncilSite, tmp_path: Path
) -> None:
    with closing(CouncilSite()) as other:
        council.publish("/a", Paper("Cameras"))
        other.publish("/b", Paper("Library"))
        for site in (council, other):
            site.publish("/common", Paper("Budget", about="http://data.example/id/common"))
        async with database.open() as r:
            for name, site in (("one", council), ("two", other)):
                await r.sources.add(site.feed, name=f"{name}-feed")
                await r.sources.add(site.documents, name=name)
                await r.sync(f"{name}-feed")
                await r.sync(name)
            for name in ("one", "two"):
                await r.rdf.dump(name, tmp_path / f"{name}.nq")
            removed = await r.sources.remove("one")
            left = await r.rdf.summary("two")

    one, two = ((tmp_path / f"{name}.nq").read_text() for name in ("one", "two"))
    assert ("Cameras" in one, "Library" in one, "Budget" in one) == (True, False, True)
    assert ("Cameras" in two, "Library" in two, "Budget" in two) == (False, True, True)
    assert (removed, left.pages) == (2, {"decision list": 2})


async def test_entry_points_are_added_watched_paused_and_removed_on_the_web_page(database: ScratchDatabase) -> None:
    with closing(LdesSite()) as feed:
        feed.chain([feed.event("a")], [feed.event("b")])
        async with database.open() as r, served(r) as interface:
            added = await interface.post("/add", address=feed.address, name="council", kind="ldes")
            async with asyncio.timeout(60):
                await r.queue.work(until_idle=True)
            followed = (await interface.get("/following.json")).text
            told = await interface.get("/sources/council")
            await interface.post("/sources/council/edit", name="council", cron="0 3 * * *")
            scheduled = (await r.sources.get("council")).schedule
            await interface.post("/sources/council/pause")
            paused = await r.sources.get("council")
            followed_when_paused = (await interface.get("/following.json")).text
            removed = await interface.post("/sources/council/remove")
            left = await r.sources.list()

    assert (added.status, removed.status, list(left)) == (303, 303, [])
    assert (paused.state, scheduled) == ("paused", "cron 0 3 * * *")
    assert [feed["state"] for feed in json.loads(followed_when_paused)["feeds"]] == ["paused"]
    [following] = json.loads(followed)["feeds"]
    assert (following["source"], following["state"], following["members"]) == ("council", "following", 2)
    assert following["last_new_at"]
    assert "council" in told.text
