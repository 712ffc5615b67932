"""Pages of other sites: what they embed or fetch is refused, and what their links lead to starts nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rowen.operations.exports import Exports
from tests.conftest import ScratchDatabase
from tests.server.interfaces import interface
from tests.server.test_serving import served

LIMIT_S = 30.0
LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
EMBEDDED = [
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
]
OURS = [
    {},
    {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
]
PAGES = ["/", "/search?q=hay", "/sources", "/tokens", "/add", "/api/v1/search?q=hay", "/feeds/atom"]
EXPORTS = [
    "/api/v1/exports/items.jsonl",
    "/api/v1/exports/jsonl",
    "/api/v1/exports/extractions/jsonl",
    "/api/v1/sources/docs/statements/dump",
]


@pytest.mark.parametrize("headers", EMBEDDED)
async def test_requests_that_other_sites_embed_or_fetch_are_refused(
    database: ScratchDatabase, headers: dict[str, str]
) -> None:
    async with interface(database) as it:
        answers = [await it.http.get(path, headers=headers) for path in [*PAGES, *EXPORTS, "/live"]]

    assert {answer.status_code for answer in answers} == {403}


async def test_a_link_of_another_site_to_a_page_can_be_followed(database: ScratchDatabase) -> None:
    async with interface(database) as it:
        statuses = {path: (await it.http.get(path, headers=LINK)).status_code for path in PAGES}

    assert statuses == dict.fromkeys(PAGES, 200)


async def test_a_link_of_another_site_starts_no_export(database: ScratchDatabase, statements: list[str]) -> None:
    database.execute("insert into source (name, kind, url) values ('docs', 'web', 'https://example.org/')")
    async with interface(database) as it:
        statements.clear()
        followed = [await it.http.get(path, headers=LINK) for path in EXPORTS]
        asked = list(statements)
        typed = [(await it.http.get(path, headers=headers)).status_code for headers in OURS for path in EXPORTS]

    assert {answer.status_code for answer in followed} == {403}
    assert followed[0].json()["detail"] == "The request comes from a page of another site. Nothing was done."
    assert asked == []
    assert set(typed) == {200}


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, list[str]]]:
    """A server that closes each connection, and a list that gets a line for each."""
    seen: list[str] = []

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append("asked")
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", seen


async def test_a_link_of_another_site_causes_no_request_to_a_source(database: ScratchDatabase) -> None:
    async with listening() as (url, seen), interface(database) as it:
        page = await it.http.get("/add", params={"address": url}, headers=LINK)
        twin = await it.http.get("/add.json", params={"address": url}, headers=LINK)
        before = len(seen)
        await it.http.get("/add", params={"address": url}, headers=OURS[1])
        after = len(seen)

    assert (page.status_code, twin.status_code) == (200, 200)
    assert f'value="{url}"' in page.text
    assert "A link of another site led here" in page.text
    assert before == 0
    assert after > 0


async def test_pages_of_origins_that_were_named_may_read_with_a_token(database: ScratchDatabase) -> None:
    headers = {**EMBEDDED[3], "Origin": "https://app.example"}
    async with interface(database, cors_origins="https://app.example") as it:
        token = await it.token("read")
        with_token = await it.http.get("/api/v1/sources", headers={**headers, **token})
        without = await it.http.get("/api/v1/sources", headers=headers)
        foreign = await it.http.get("/api/v1/sources", headers={**headers, **token, "Origin": "https://evil.example"})

    assert (with_token.status_code, without.status_code, foreign.status_code) == (200, 403, 403)


async def test_this_machine_may_ask_for_so_many_exports_in_a_minute_as_a_token_may(database: ScratchDatabase) -> None:
    async with interface(database, requests_per_minute=2) as it:
        exports = [await it.http.get(EXPORTS[0]) for _ in range(3)]
        previews = await it.http.get("/add?address=x.example")
        questions = [(await it.http.get("/api/v1/me")).status_code for _ in range(5)]

    assert [answer.status_code for answer in exports] == [200, 200, 429]
    assert int(exports[2].headers["retry-after"]) > 1
    assert "More than 2 requests in a minute" in previews.text
    assert questions == [200] * 5


async def test_links_of_other_sites_count_as_requests_of_this_machine(database: ScratchDatabase) -> None:
    async with interface(database, requests_per_minute=2) as it:
        statuses = [(await it.http.get("/search?q=hay", headers=LINK)).status_code for _ in range(3)]
        ours = [(await it.http.get("/search?q=hay", headers=OURS[1])).status_code for _ in range(3)]

    assert (statuses, ours) == ([200, 200, 429], [200, 200, 200])


@pytest.mark.parametrize(
    ("settings", "status", "code"),
    [({"exports_per_caller": 1}, 429, "too_many_requests"), ({"exports_at_once": 1}, 503, "overloaded")],
)
async def test_an_export_is_counted_until_its_last_byte_is_read(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int], status: int, code: str
) -> None:
    async def endless(*_: object, **__: object) -> AsyncIterator[bytes]:
        yield b"{}\n"
        await asyncio.sleep(LIMIT_S)

    exporting = Exports.stream
    monkeypatch.setattr(Exports, "stream", endless)
    async with database.open(port=0, **settings) as rowen, served(rowen) as (http, _):
        async with http.stream("GET", EXPORTS[0]) as first:
            refused = await http.get(EXPORTS[0])
            question = await http.get("/api/v1/sources")
        monkeypatch.setattr(Exports, "stream", exporting)
        async with asyncio.timeout(LIMIT_S):
            while (again := await http.get(EXPORTS[0])).status_code != 200:
                pass

    assert first.status_code == 200
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert refused.headers["retry-after"] == "5"
    assert (question.status_code, again.status_code) == (200, 200)
