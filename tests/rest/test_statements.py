"""Delta files over HTTP, as a consumer of the mu-semtech stack takes them, and endpoints that are told."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Fetched, Rowen, StatementReport
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows
from tests.server.interfaces import Interface, interface

FILES = "/api/v1/sources/papers/delta-files"
GRAPH = "http://example.org/graphs/public"


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def publish(r: Rowen, **titles: str) -> None:
    """Pages of these names state these titles, and all others are gone."""
    if not await r.sources.list():
        await r.sources.add("scripted:papers", name="papers")
    told = {
        name: f'<http://data.example/id/{title}> <http://data.example/title> "{title}"@nl'
        for name, title in titles.items()
    }
    pages = [page(name, record={"rdfa": {"type": "item", "statements": [line]}}) for name, line in told.items()]
    shows(*map(Fetched, pages), Complete())
    await r.sync("papers", accept_deletions=True)


class Consumer:
    """Keeps the time of the last file that it took, and puts all into one graph, whatever a file says."""

    def __init__(self, it: Interface) -> None:
        self.it = it
        self.since = "1970-01-01T00:00:00.000Z"
        self.taken: list[str] = []
        self.held: set[str] = set()

    async def poll(self) -> int:
        listing = await self.it.http.get(FILES, params={"since": self.since})
        files = listing.json()["data"]
        for file in sorted(files, key=lambda one: one["attributes"]["created"]):
            answer = await self.it.http.get(f"{FILES}/{file['id']}/download", params={"graph": GRAPH})
            for change in answer.json():
                self.held -= {_triple(one) for one in change["deletes"]}
                self.held |= {_triple(one) for one in change["inserts"]}
            self.since = file["attributes"]["created"]
            self.taken.append(file["id"])
        return len(files)


def _triple(quad: dict[str, Any]) -> str:
    assert quad["graph"] == {"type": "uri", "value": GRAPH}
    return json.dumps([quad["subject"], quad["predicate"], quad["object"]], sort_keys=True)


async def test_a_consumer_that_asks_since_its_last_file_holds_what_is_stated(database: ScratchDatabase) -> None:
    async with interface(database) as it:
        await publish(it.rowen, a="Shared", b="Shared", c="Library")
        consumer = Consumer(it)
        first = await consumer.poll()
        idle = await consumer.poll()
        await publish(it.rowen, a="Shared", b="Own")
        await publish(it.rowen, a="Shared", b="Own", c="Library")
        later = await consumer.poll()
        summary = await it.http.get("/api/v1/sources/papers/statements")

    titles = {json.loads(one)[2]["value"] for one in consumer.held}
    assert titles == {"Shared", "Own", "Library"}, "another page states what one no longer does"
    assert (first, idle, later, len(set(consumer.taken))) == (1, 0, 3, 4)
    assert (summary.json()["pages"], summary.json()["statements"]) == ({"item": 3}, 3)


async def test_a_file_never_changes_and_is_not_sent_twice(database: ScratchDatabase) -> None:
    async with interface(database) as it:
        await publish(it.rowen, a="Shared", b="Shared")
        await publish(it.rowen, b="Shared")
        *_, last = (await it.http.get(FILES)).json()["data"]
        address = f"{FILES}/{last['id']}/download?graph={GRAPH}"
        before = await it.http.get(address)
        await publish(it.rowen, c="Else")
        after = await it.http.get(address)
        again = await it.http.get(address, headers={"If-None-Match": before.headers["etag"]})
        own = await it.http.get(f"{FILES}/{last['id']}/download")
        strange = await it.http.get(f"{FILES}/99/download")
        wrong = await it.http.get(FILES, params={"since": "soon"})

    assert "immutable" in before.headers["cache-control"]
    assert before.json() == after.json() == [{"deletes": [], "inserts": []}], "what b states is not deleted from all"
    assert (again.status_code, again.content) == (304, b"")
    assert [one["subject"]["value"] for one in own.json()[0]["deletes"]] == ["http://data.example/id/Shared"]
    assert (strange.status_code, wrong.status_code) == (404, 400)


async def test_many_changes_that_are_stored_at_once_are_several_files_whose_times_rise(
    database: ScratchDatabase,
) -> None:
    async with interface(database) as it:
        await publish(it.rowen, **{f"p{number}": f"Title{number}" for number in range(250)})
        files = (await it.http.get(FILES)).json()["data"]
        consumer = Consumer(it)
        await consumer.poll()

    created = [file["attributes"]["created"] for file in files]
    assert (len(files), len(consumer.held)) == (3, 250)
    assert created == sorted(set(created))


async def test_an_endpoint_is_kept_by_who_may_name_secrets_and_shown_to_all_who_may_read(
    database: ScratchDatabase,
) -> None:
    told = {"endpoint": "https://store.example/sparql", "headers": {"Authorization": "Bearer env:STORE_KEY"}}
    where = "/api/v1/sources/papers/endpoints"
    async with interface(database, trusts_loopback=False) as it:
        await publish(it.rowen, a="Shared")
        reader, writer, admin = [await it.token(scope) for scope in ("read", "write", "admin")]
        refused = await it.http.post(where, json=told, headers=writer)
        kept = await it.http.post(where, json=told, headers=admin)
        clear = await it.http.post(where, json={**told, "headers": {"Authorization": "Bearer abc"}}, headers=admin)
        shown = await it.http.get(where, headers=reader)
        forbidden = await it.http.delete(where, params={"endpoint": told["endpoint"]}, headers=writer)
        gone = await it.http.delete(where, params={"endpoint": told["endpoint"]}, headers=admin)
        twice = await it.http.delete(where, params={"endpoint": told["endpoint"]}, headers=admin)

    assert (refused.status_code, kept.status_code, clear.status_code) == (403, 201, 400)
    [one] = shown.json()["items"]
    assert (one["state"], one["waiting"], one["headers"]) == ("active", 1, told["headers"])
    assert (forbidden.status_code, gone.status_code, twice.status_code) == (403, 204, 404)


async def test_a_dump_is_where_delta_files_lead_on_from_and_endpoints_that_are_kept_are_told_again(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, bool]] = []

    async def told(name: str, endpoint: str, *, graph: str | None, again: bool) -> StatementReport:
        sent.append((endpoint, again))
        return StatementReport(endpoint, 1, 1, 0, 1)

    async with interface(database) as it:
        await publish(it.rowen, a="Cameras")
        dump = await it.http.get("/api/v1/sources/papers/statements/dump", params={"graph": GRAPH})
        path = "/api/v1/sources/papers/endpoints"
        for endpoint in ("http://127.0.0.1:9/one", "http://127.0.0.1:9/two"):
            await it.http.post(path, json={"endpoint": endpoint})
        monkeypatch.setattr(it.rowen.rdf, "push", told)
        every = await it.http.post(f"{path}/push", json={"all": True})
        single = await it.http.post(f"{path}/push", json={"endpoint": "http://127.0.0.1:9/two"})
        foreign = await it.http.post(f"{path}/push", json={"endpoint": "http://127.0.0.1:9/three"})
        listed = await it.http.get("/api/v1/endpoints")

    line = f'<http://data.example/id/Cameras> <http://data.example/title> "Cameras"@nl <{GRAPH}> .\n'
    assert (dump.headers["content-type"], dump.text) == ("application/n-quads", line)
    assert int(dump.headers["x-last-change"]) > 0
    assert (every.status_code, single.status_code, foreign.status_code) == (200, 200, 404)
    assert [one["to"][-3:] for one in every.json()["items"]] == ["one", "two"]
    assert [(one[0][-3:], one[1]) for one in sent] == [("one", True), ("two", True), ("two", False)]
    assert {one["source"] for one in listed.json()["items"]} == {"papers"}
